/* SPDX-License-Identifier: MIT
 * Every function of the library's contract, used once by someone who has only read that. C11 and C++17. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <safetensors/safetensors.h>

static int failed;

#define EXPECT(truth)                                                                                        \
    do {                                                                                                     \
        if (!(truth)) {                                                                                      \
            printf("line %d: %s\n", __LINE__, #truth);                                                       \
            failed = 1;                                                                                      \
        }                                                                                                    \
    } while (0)

static const uint64_t shape[] = {2, 3};
static float numbers[] = {1, 2, 3, 4, 5, 6};

static void write_model(const char *path)
{
    fs_writer *w = fs_writer_new(path);
    tm_tensor *owned = tm_tensor_new(TM_F32, 2, shape);
    tm_tensor *scalar = tm_tensor_new(TM_BF16, 0, NULL);
    tm_tensor *wrapped = tm_tensor_wrap(TM_F32, 2, shape, numbers);
    EXPECT(w && owned && scalar && wrapped);
    EXPECT(((const float *)tm_tensor_data(owned))[5] == 0);
    memcpy(tm_tensor_data(owned), numbers, sizeof numbers);
    EXPECT(fs_add_tensor(w, "b", owned) == 0);
    EXPECT(fs_add_tensor(w, "a", wrapped) == 0);
    EXPECT(fs_add_tensor(w, "s", scalar) == 0);
    EXPECT(fs_add_tensor(w, "a", owned) == -EEXIST);
    EXPECT(fs_set_metadata(w, "format", "pt") == 0);
    tm_tensor_free(owned);
    tm_tensor_free(scalar);
    tm_tensor_free(wrapped);
    EXPECT(fs_write(w) == 0);
    fs_writer_free(w);
}

static void look(tm_tensor *t)
{
    EXPECT(t != NULL);
    if (!t)
        return;
    EXPECT(tm_tensor_dtype(t) == TM_F32);
    EXPECT(tm_tensor_rank(t) == 2);
    EXPECT(tm_tensor_shape(t)[0] == 2 && tm_tensor_shape(t)[1] == 3);
    EXPECT(tm_tensor_nbytes(t) == sizeof numbers);
    EXPECT(memcmp(tm_tensor_data(t), numbers, sizeof numbers) == 0);
    tm_tensor_free(t);
}

/* F32 before BF16, then by name: the order of the file. */
static void read_model(fs_file *f)
{
    EXPECT(f != NULL);
    if (!f)
        return;
    const char **names = fs_tensor_names(f);
    EXPECT(fs_num_tensors(f) == 3);
    EXPECT(strcmp(names[0], "a") == 0 && strcmp(names[1], "b") == 0 && strcmp(names[2], "s") == 0);
    tm_tensor *a = fs_get_tensor(f, "a");
    look(fs_get_tensor(f, "b"));
    errno = 0;
    EXPECT(fs_get_tensor(f, "c") == NULL && errno == ENOENT);
    fs_close(f);
    look(a);
}

int main(int argc, char **argv)
{
    char path[4096], missing[4096];
    tm_dtype d = TM_U8;
    if (argc != 2)
        return 2;
    snprintf(path, sizeof path, "%.4000s/model", argv[1]);
    snprintf(missing, sizeof missing, "%.4000s/missing", argv[1]);
    write_model(path);
    read_model(fs_open(path));
    read_model(fs_mmap(path));
    errno = 0;
    EXPECT(fs_open(missing) == NULL && errno == ENOENT);
    errno = 0;
    EXPECT(fs_mmap(missing) == NULL && errno == ENOENT);
#ifdef HAVE_PYTORCH
    errno = 0;
    EXPECT(fs_load_pytorch(missing) == NULL && errno == ENOENT);
#endif
    EXPECT(strcmp(tm_dtype_name(TM_BF16), "BF16") == 0);
    EXPECT(tm_dtype_from_name("F32", &d) == 0 && d == TM_F32);
    EXPECT(tm_dtype_from_name("f32", &d) == -EINVAL);
    if (!failed)
        puts("ok");
    return failed;
}
