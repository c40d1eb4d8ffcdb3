/* SPDX-License-Identifier: MIT
 * The public writing calls against the files of the format's reference, and what they refuse. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "place.h"
#include "safetensors/safetensors.h"
#include "support.h"

#define DIR VECTORS "writer/"

static cJSON *cases; /* for all tests, made by main */

/* One golden: how it is made, and its bytes. */
static const cJSON *golden(int i, char **bytes, size_t *len)
{
    char path[256];
    const cJSON *c = cJSON_GetArrayItem(cases, i);
    snprintf(path, sizeof path, DIR "%s", cJSON_GetObjectItem(c, "file")->valuestring);
    *bytes = read_whole(path, len);
    return c;
}

static int shape_of(const cJSON *tensor, uint64_t *shape)
{
    const cJSON *dims = cJSON_GetObjectItem(tensor, "shape"), *d;
    int rank = 0;
    cJSON_ArrayForEach(d, dims) shape[rank++] = (uint64_t)d->valuedouble;
    return rank;
}

/* The rule of the index: byte j of tensor i is (37 i + 11 j) mod 256. */
static void fill(unsigned char *p, uint64_t n, const cJSON *tensor)
{
    unsigned i = (unsigned)cJSON_GetObjectItem(tensor, "fill")->valueint;
    for (uint64_t j = 0; j < n; j++)
        p[j] = (unsigned char)(37 * i + 11 * j);
}

static void add_metadata(fs_writer *w, const cJSON *c)
{
    const cJSON *d;
    cJSON_ArrayForEach(d, cJSON_GetObjectItem(c, "metadata"))
        ck_assert_int_eq(fs_set_metadata(w, d->string, d->valuestring), 0);
}

/* Adds tensor i of a case: of its own bytes, or around `bytes` if there are any. The reference of ours goes
 * at once. */
static void add_tensor(fs_writer *w, const cJSON *tensor, unsigned char *bytes)
{
    uint64_t shape[8], n;
    tm_dtype d;
    size_t len;
    char *name = text_of(cJSON_GetObjectItem(tensor, "name"), &len);
    int rank = shape_of(tensor, shape);
    ck_assert_int_eq(tm_dtype_from_name(cJSON_GetObjectItem(tensor, "dtype")->valuestring, &d), 0);
    ck_assert_int_eq(tm_nbytes(d, rank, shape, &n), 0);
    tm_tensor *t = bytes ? tm_tensor_wrap(d, rank, shape, bytes) : tm_tensor_new(d, rank, shape);
    ck_assert(t != NULL);
    fill(bytes ? bytes : tm_tensor_data(t), n, tensor);
    ck_assert_int_eq(fs_add_tensor_n(w, name, len, t), 0);
    tm_tensor_free(t);
    free(name);
}

START_TEST(golden_from_memory)
{
    size_t len;
    char *bytes;
    const cJSON *c = golden(_i, &bytes, &len), *t;
    fs_writer *w = fs_writer_new(place_path("out"));
    add_metadata(w, c);
    cJSON_ArrayForEach(t, cJSON_GetObjectItem(c, "tensors")) add_tensor(w, t, NULL);
    ck_assert_str_eq(place_list(), "");
    ck_assert_int_eq(fs_write(w), 0);
    ck_assert_str_eq(place_list(), "out ");
    place_expect("out", bytes, len);
    ck_assert_int_eq(fs_write(w), 0); /* once more is the same once more */
    place_expect("out", bytes, len);
    fs_writer_free(w);
    free(bytes);
}
END_TEST

START_TEST(golden_from_wrapped_memory_backwards)
{
    size_t len;
    char *bytes;
    const cJSON *c = golden(_i, &bytes, &len), *tensors = cJSON_GetObjectItem(c, "tensors");
    int n = cJSON_GetArraySize(tensors);
    unsigned char *data = malloc(((size_t)n + 1) * 4096);
    fs_writer *w = fs_writer_new(place_path("out"));
    for (int i = n; i-- > 0;)
        add_tensor(w, cJSON_GetArrayItem(tensors, i), data + i * 4096);
    add_metadata(w, c);
    ck_assert_int_eq(fs_write(w), 0);
    place_expect("out", bytes, len);
    fs_writer_free(w);
    free(data);
    free(bytes);
}
END_TEST

/* Adds all of f, which is then closed: the tensors outlive it. */
static void add_file(fs_writer *w, fs_file *f)
{
    ck_assert(f != NULL);
    for (int i = 0; i < fs_num_tensors(f); i++) {
        size_t len;
        const char *name = fs_tensor_name(f, i, &len);
        tm_tensor *t = fs_get_tensor_n(f, name, len);
        ck_assert(t != NULL);
        ck_assert_int_eq(fs_add_tensor_n(w, name, len, t), 0);
        tm_tensor_free(t);
    }
    for (int i = 0; i < fs_num_metadata(f); i++) {
        const char *key, *value;
        size_t key_len, value_len;
        fs_metadata_entry(f, i, &key, &key_len, &value, &value_len);
        ck_assert_int_eq(fs_set_metadata_e(w, key, key_len, value, value_len, NULL), 0);
    }
    fs_close(f);
}

static void copied(fs_file *(*open_file)(const char *), const char *from, const char *to)
{
    fs_writer *w = fs_writer_new(place_path(to));
    add_file(w, open_file(place_path(from)));
    ck_assert_int_eq(fs_write(w), 0);
    fs_writer_free(w);
}

START_TEST(golden_from_files)
{
    size_t len;
    char *bytes;
    golden(_i, &bytes, &len);
    place_put("in", bytes, len);
    copied(fs_mmap, "in", "mapped");
    place_expect("mapped", bytes, len);
    copied(fs_open, "in", "read");
    place_expect("read", bytes, len);
    copied(fs_mmap, "in", "in");
    place_expect("in", bytes, len);
    copied(fs_open, "in", "in");
    place_expect("in", bytes, len);
    ck_assert_str_eq(place_list(), "in mapped read ");
    free(bytes);
}
END_TEST

static const uint64_t four[] = {4};

/* A writer of one tensor "w" with those four bytes. */
static fs_writer *small(const char *path, const char *bytes)
{
    tm_tensor *t = tm_tensor_new(TM_U8, 1, four);
    fs_writer *w = fs_writer_new(path);
    memcpy(tm_tensor_data(t), bytes, 4);
    ck_assert_int_eq(fs_add_tensor(w, "w", t), 0);
    tm_tensor_free(t);
    return w;
}

/* What small() must write, made by hand: 53 bytes of JSON, 3 of padding. */
#define SMALL(bytes)                                                                                         \
    "\x38\0\0\0\0\0\0\0{\"w\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}   " bytes
#define SMALL_LEN (8 + 56 + 4)

START_TEST(replaced_while_mapped)
{
    fs_writer *w = small(place_path("m"), "new.");
    place_put("m", SMALL("old."), SMALL_LEN);
    fs_file *f = fs_mmap(place_path("m"));
    tm_tensor *t = fs_get_tensor(f, "w");
    ck_assert_int_eq(fs_write(w), 0);
    place_expect("m", SMALL("new."), SMALL_LEN);
    ck_assert_mem_eq(tm_tensor_data(t), "old.", 4);
    tm_tensor_free(t);
    fs_close(f);
    fs_writer_free(w);
}
END_TEST

static unsigned mode_of(const char *name)
{
    struct stat st;
    ck_assert_int_eq(lstat(place_path(name), &st), 0);
    return st.st_mode;
}

START_TEST(modes)
{
    fs_writer *w = small(place_path("m"), "abcd");
    umask(027);
    ck_assert_int_eq(fs_write(w), 0);
    ck_assert_uint_eq(mode_of("m"), S_IFREG | 0640);
    chmod(place_path("m"), 0606);
    umask(077);
    ck_assert_int_eq(fs_write(w), 0);
    ck_assert_uint_eq(mode_of("m"), S_IFREG | 0606);
    chmod(place_path("m"), 0400);
    ck_assert_int_eq(fs_write(w), 0);
    ck_assert_uint_eq(mode_of("m"), S_IFREG | 0400);
    fs_writer_free(w);
}
END_TEST

START_TEST(symlinks_are_replaced)
{
    fs_writer *w = small(place_path("link"), "abcd");
    place_put("file", "precious", 8);
    ck_assert_int_eq(symlink("file", place_path("link")), 0);
    ck_assert_int_eq(fs_write(w), 0);
    ck_assert(S_ISREG(mode_of("link")));
    place_expect("link", SMALL("abcd"), SMALL_LEN);
    place_expect("file", "precious", 8);
    unlink(place_path("link"));
    ck_assert_int_eq(symlink("nowhere", place_path("link")), 0);
    ck_assert_int_eq(fs_write(w), 0);
    ck_assert_str_eq(place_list(), "file link ");
    fs_writer_free(w);
}
END_TEST

START_TEST(last_value_of_a_key_stays)
{
    size_t len;
    char *bytes = read_whole(DIR "metadata_one.safetensors", &len);
    const cJSON *c, *t;
    fs_writer *w = fs_writer_new(place_path("out"));
    ck_assert_int_eq(fs_set_metadata(w, "format", "np"), 0);
    cJSON_ArrayForEach(c, cases)
    {
        if (strcmp(cJSON_GetObjectItem(c, "file")->valuestring, "metadata_one.safetensors") != 0)
            continue;
        cJSON_ArrayForEach(t, cJSON_GetObjectItem(c, "tensors")) add_tensor(w, t, NULL);
        add_metadata(w, c);
    }
    ck_assert_int_eq(fs_write(w), 0);
    place_expect("out", bytes, len);
    fs_writer_free(w);
    free(bytes);
}
END_TEST

/* Adding a tensor must fail so, with a message that names it; afterwards all works as if it had not been
 * tried. */
static void refused(const char *name, size_t len, tm_tensor *t, int err, const char *shown)
{
    fs_error e;
    fs_writer *w = small(place_path("m"), "abcd");
    ck_assert_int_eq(fs_add_tensor_e(w, name, len, t, &e), err);
    ck_assert_int_eq(e.code, err);
    ck_assert_str_eq(e.tensor, shown);
    ck_assert_msg(strstr(e.message, shown) != NULL, "%s", e.message);
    ck_assert_int_eq(fs_add_tensor_n(w, name, len, t), err);
    ck_assert_int_eq(fs_write_e(w, &e), 0);
    ck_assert_int_eq(e.code, 0);
    place_expect("m", SMALL("abcd"), SMALL_LEN);
    fs_writer_free(w);
    tm_tensor_free(t);
}

START_TEST(bad_names)
{
    refused("w", 1, tm_tensor_new(TM_F32, 0, NULL), -EEXIST, "w");
    refused("a\xFF.b", 4, tm_tensor_new(TM_F32, 0, NULL), -EINVAL, "a\\xff.b");
    refused("\xC0\xAF", 2, tm_tensor_new(TM_F32, 0, NULL), -EINVAL, "\\xc0\\xaf");
    refused("\xED\xA0\x80", 3, tm_tensor_new(TM_F32, 0, NULL), -EINVAL, "\\xed\\xa0\\x80");
    refused("__metadata__", 12, tm_tensor_new(TM_F32, 0, NULL), -EINVAL, "__metadata__");
}
END_TEST

START_TEST(bad_shapes)
{
    const uint64_t huge[] = {UINT64_C(1) << 40, UINT64_C(1) << 30}, bits[] = {UINT64_C(1) << 61}, odd[] = {3};
    const uint64_t late_zero[] = {UINT64_C(1) << 40, UINT64_C(1) << 40, 0};
    static const struct {
        tm_dtype d;
        int rank;
        int err;
    } bad[] = {{TM_F32, 2, EOVERFLOW},  {TM_U8, 1, EOVERFLOW},  {TM_F4, 1, EINVAL},
               {TM_F6_E2M3, 1, EINVAL}, {TM_F32, 3, EOVERFLOW}, {TM_F32, -1, EINVAL}};
    const uint64_t *const shape[] = {huge, bits, odd, odd, late_zero, odd};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char byte[8];
        errno = 0;
        ck_assert(tm_tensor_new(bad[i].d, bad[i].rank, shape[i]) == NULL);
        ck_assert_int_eq(errno, bad[i].err);
        errno = 0;
        ck_assert(tm_tensor_wrap(bad[i].d, bad[i].rank, shape[i], byte) == NULL);
        ck_assert_int_eq(errno, bad[i].err);
    }
    ck_assert(tm_tensor_wrap(TM_U8, 1, four, NULL) == NULL);
    ck_assert(tm_tensor_new((tm_dtype)TM_SAFETENSORS_CODES, 1, four) == NULL);
    refused("model.weight", 12, tm_tensor_new(TM_F32, 2, huge), -EINVAL, "model.weight");
}
END_TEST

START_TEST(bad_metadata)
{
    fs_error e;
    fs_writer *w = small(place_path("m"), "abcd");
    ck_assert_int_eq(fs_set_metadata(w, "k\xFF", "v"), -EINVAL);
    ck_assert_int_eq(fs_set_metadata(w, "k", "v\xFF"), -EINVAL);
    ck_assert_int_eq(fs_set_metadata_e(w, "\xFF", 1, "", 0, &e), -EINVAL);
    ck_assert_int_eq(e.code, -EINVAL);
    ck_assert_str_ne(e.message, "");
    ck_assert_int_eq(fs_write(w), 0);
    place_expect("m", SMALL("abcd"), SMALL_LEN);
    fs_writer_free(w);
}
END_TEST

/* {"__metadata__":{"k":"..."}} is 25 bytes and the value: 100,000,000 are allowed, and not one more. */
START_TEST(header_limit)
{
    const size_t most = 100000000 - 25;
    char *text = malloc(most + 1);
    fs_error e;
    fs_writer *w = fs_writer_new(place_path("m"));
    memset(text, 'x', most + 1);
    place_put("m", "old", 3);
    ck_assert_int_eq(fs_set_metadata_e(w, "k", 1, text, most + 1, NULL), 0);
    ck_assert_int_eq(fs_write_e(w, &e), -EFBIG);
    ck_assert_msg(strstr(e.message, "header") && strstr(e.message, "100000000"), "%s", e.message);
    place_expect("m", "old", 3);
    ck_assert_str_eq(place_list(), "m ");
    ck_assert_int_eq(fs_set_metadata_e(w, "k", 1, text, most, NULL), 0);
    ck_assert_int_eq(fs_write(w), 0);
    fs_file *f = fs_mmap(place_path("m"));
    ck_assert(f != NULL);
    ck_assert_uint_eq(strlen(fs_metadata(f, "k")), most);
    fs_close(f);
    fs_writer_free(w);
    free(text);
}
END_TEST

START_TEST(name_limit)
{
    size_t len = 100000001;
    char *name = malloc(len);
    tm_tensor *t = tm_tensor_new(TM_F32, 0, NULL);
    fs_error e;
    fs_writer *w = fs_writer_new(place_path("m"));
    memset(name, 'n', len);
    ck_assert_int_eq(fs_add_tensor_e(w, name, len, t, &e), -EFBIG);
    ck_assert_int_eq(e.code, -EFBIG);
    ck_assert(strncmp(e.tensor, "nnn", 3) == 0);
    tm_tensor_free(t);
    fs_writer_free(w);
    free(name);
}
END_TEST

/* Writing to path must fail so, say why, and leave the directory as it was. */
static void fails(const char *path, int err)
{
    fs_error e;
    char before[4096];
    fs_writer *w = small(path, "abcd");
    snprintf(before, sizeof before, "%s", place_list());
    ck_assert_int_eq(fs_write_e(w, &e), err);
    ck_assert_int_eq(e.code, err);
    ck_assert_msg(strstr(e.message, strerror(-err)) || err == -EINVAL, "%s", e.message);
    ck_assert_str_eq(place_list(), before);
    fs_writer_free(w);
}

START_TEST(bad_targets)
{
    char longer[300];
    memset(longer, 'n', sizeof longer - 1);
    longer[299] = 0;
    place_put("file", "precious", 8);
    ck_assert_int_eq(mkdir(place_path("dir"), 0755), 0);
    ck_assert_int_eq(mkfifo(place_path("pipe"), 0644), 0);
    ck_assert_int_eq(symlink("loop", place_path("loop")), 0);
    fails(place_path("missing/m"), -ENOENT);
    fails(place_path("file/m"), -ENOTDIR);
    fails(place_path("loop/m"), -ELOOP);
    fails(place_path("dir"), -EISDIR);
    fails(place_path("new/"), -EISDIR);
    fails(place_path("dir/"), -EISDIR);
    fails(place_path("dir/."), -EISDIR);
    fails(place_path("dir/.."), -EISDIR);
    fails("/", -EISDIR);
    fails("", -ENOENT);
    fails(place_path(longer), -ENAMETOOLONG);
    fails(place_path("pipe"), -EINVAL);
    ck_assert(S_ISFIFO(mode_of("pipe")));
    place_expect("file", "precious", 8);
}
END_TEST

/* A writer of one tensor "big" of a mebibyte. */
static fs_writer *big(const char *path)
{
    const uint64_t shape[] = {1 << 20};
    tm_tensor *t = tm_tensor_new(TM_U8, 1, shape);
    fs_writer *w = fs_writer_new(path);
    ck_assert_int_eq(fs_add_tensor(w, "big", t), 0);
    tm_tensor_free(t);
    return w;
}

static void big_fails(int err)
{
    fs_error e;
    fs_writer *w = big(place_path("m"));
    ck_assert_int_eq(fs_write_e(w, &e), err);
    ck_assert_int_eq(e.code, err);
    ck_assert_msg(strstr(e.message, strerror(-err)) != NULL, "%s", e.message);
    ck_assert_str_eq(place_list(), "m ");
    place_expect("m", "old", 3);
    fs_writer_free(w);
}

START_TEST(full_disk)
{
    if (!place_cover("size=128k"))
        return;
    place_put("m", "old", 3);
    big_fails(-ENOSPC);
}
END_TEST

START_TEST(file_size_limit)
{
    const struct rlimit limit = {65536, 65536};
    place_put("m", "old", 3);
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    big_fails(-EFBIG);
}
END_TEST

START_TEST(read_only_file_system)
{
    if (!place_cover("size=1m,ro"))
        return;
    fails(place_path("m"), -EROFS);
}
END_TEST

/* Permissions mean nothing to root: as nobody. */
START_TEST(read_only_directory)
{
    place_put("m", "old", 3);
    if (getuid() == 0) {
        ck_assert_int_eq(chown(place_path(""), 65534, 65534), 0);
        ck_assert_int_eq(setgid(65534) | setuid(65534), 0);
    }
    ck_assert_int_eq(chmod(place_path(""), 0555), 0);
    fails(place_path("m"), -EACCES);
    fails(place_path("new"), -EACCES);
    chmod(place_path(""), 0755);
}
END_TEST

START_TEST(source_that_changed)
{
    fs_error e;
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1000000000}};
    fs_writer *w = fs_writer_new(place_path("out"));
    place_put("in", SMALL("abcd"), SMALL_LEN);
    place_put("out", "old", 3);
    add_file(w, fs_mmap(place_path("in")));
    if (_i == 0)
        ck_assert_int_eq(truncate(place_path("in"), 20), 0);
    else
        ck_assert_int_eq(utimensat(AT_FDCWD, place_path("in"), times, 0), 0);
    ck_assert_int_eq(fs_write_e(w, &e), -EIO);
    ck_assert_int_eq(e.code, -EIO);
    ck_assert_str_eq(place_list(), "in out ");
    place_expect("out", "old", 3);
    fs_writer_free(w);
}
END_TEST

START_TEST(source_that_goes_on)
{
    fs_writer *w = fs_writer_new(place_path("out"));
    place_put("in", SMALL("abcd"), SMALL_LEN);
    add_file(w, fs_mmap(place_path("in")));
    ck_assert_int_eq(chmod(place_path("in"), 0), 0);
    ck_assert_int_eq(unlink(place_path("in")), 0);
    ck_assert_int_eq(fs_write(w), 0);
    place_expect("out", SMALL("abcd"), SMALL_LEN);
    fs_writer_free(w);
}
END_TEST

static void add(TCase *tc)
{
    int n = cJSON_GetArraySize(cases);
    tcase_add_checked_fixture(tc, place_make, place_remove);
    tcase_add_loop_test(tc, golden_from_memory, 0, n);
    tcase_add_loop_test(tc, golden_from_wrapped_memory_backwards, 0, n);
    tcase_add_loop_test(tc, golden_from_files, 0, n);
    tcase_add_test(tc, replaced_while_mapped);
    tcase_add_test(tc, modes);
    tcase_add_test(tc, symlinks_are_replaced);
    tcase_add_test(tc, last_value_of_a_key_stays);
    tcase_add_test(tc, bad_names);
    tcase_add_test(tc, bad_shapes);
    tcase_add_test(tc, bad_metadata);
    tcase_add_test(tc, header_limit);
    tcase_add_test(tc, name_limit);
    tcase_add_test(tc, bad_targets);
    tcase_add_test(tc, full_disk);
    tcase_add_test(tc, file_size_limit);
    tcase_add_test(tc, read_only_file_system);
    tcase_add_test(tc, read_only_directory);
    tcase_add_loop_test(tc, source_that_changed, 0, 2);
    tcase_add_test(tc, source_that_goes_on);
}

int main(void)
{
    cJSON *index = json_file(DIR "index.json");
    cases = cJSON_GetObjectItem(index, "cases");
    int status = cJSON_GetArraySize(cases) == 13 ? unit_run("writer", add) : 99;
    cJSON_Delete(index);
    return status;
}
