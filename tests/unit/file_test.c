/* SPDX-License-Identifier: MIT
 * The public reading calls. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "safetensors/safetensors.h"
#include "support.h"

/* Three tensors, one with a NUL in its name, not in the order of their bytes; 5 + 4 + 0 bytes. */
static const char header[] =
    "{\"__metadata__\":{\"format\":\"pt\",\"a\\u0000b\":\"c\\u0000d\",\"\":\"empty\"},"
    "\"last\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[5,9]},"
    "\"n\\u0000l\":{\"dtype\":\"I8\",\"shape\":[5,1],\"data_offsets\":[0,5]},"
    "\"\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[5,5]}}";
enum { HEADER = sizeof header - 1 };

static fs_file *(*const openers[])(const char *) = {fs_open, fs_mmap};

static fs_file *opened(int how)
{
    struct memfile f = memfile_model(header, HEADER, "helloworl", 9);
    fs_file *file = openers[how](f.path);
    ck_assert_ptr_nonnull(file);
    close(f.fd);
    return file;
}

START_TEST(listed)
{
    fs_file *f = opened(_i);
    size_t len;
    uint64_t off;
    ck_assert_int_eq(fs_num_tensors(f), 3);
    const char **names = fs_tensor_names(f);
    ck_assert_str_eq(names[0], "last");
    ck_assert_str_eq(names[1], "n");
    ck_assert_str_eq(names[2], "");
    ck_assert_ptr_null(names[3]);
    ck_assert_ptr_eq(fs_tensor_names(f), names);
    ck_assert_mem_eq(fs_tensor_name(f, 1, &len), "n\0l", 4);
    ck_assert_uint_eq(len, 3);
    ck_assert_str_eq(fs_tensor_name(f, 0, NULL), "last");
    ck_assert_ptr_null(fs_tensor_name(f, 3, &len));
    ck_assert_ptr_null(fs_tensor_name(f, -1, &len));
    ck_assert_int_eq(fs_tensor_offset(f, 0, &off), 0);
    ck_assert_uint_eq(off, 8 + HEADER + 5);
    ck_assert_int_eq(fs_tensor_offset(f, 1, &off), 0);
    ck_assert_uint_eq(off, 8 + HEADER);
    ck_assert_int_eq(fs_tensor_offset(f, 3, &off), -ENOENT);
    ck_assert_int_eq(fs_tensor_offset(f, -1, &off), -ENOENT);
    ck_assert_str_eq(fs_format(f), "safetensors");
    fs_close(f);
    fs_close(NULL);
}
END_TEST

START_TEST(metadata)
{
    fs_file *f = opened(_i);
    const char *k, *v;
    size_t klen, vlen;
    ck_assert_int_eq(fs_num_metadata(f), 3);
    ck_assert_str_eq(fs_metadata(f, "format"), "pt");
    ck_assert_str_eq(fs_metadata(f, ""), "empty");
    ck_assert_ptr_null(fs_metadata(f, "a")); /* not the key with a NUL */
    ck_assert_ptr_null(fs_metadata(f, "forma"));
    ck_assert_int_eq(fs_metadata_entry(f, 1, &k, &klen, &v, &vlen), 0);
    ck_assert_uint_eq(klen, 3);
    ck_assert_mem_eq(k, "a\0b", 4);
    ck_assert_uint_eq(vlen, 3);
    ck_assert_mem_eq(v, "c\0d", 4);
    ck_assert_int_eq(fs_metadata_entry(f, 0, NULL, NULL, NULL, NULL), 0);
    ck_assert_int_eq(fs_metadata_entry(f, 3, &k, NULL, NULL, NULL), -ENOENT);
    ck_assert_int_eq(fs_metadata_entry(f, -1, &k, NULL, NULL, NULL), -ENOENT);
    fs_close(f);
}
END_TEST

START_TEST(no_metadata)
{
    struct memfile f = memfile_model("{\"__metadata__\":null}", 21, "", 0);
    fs_file *file = openers[_i](f.path);
    ck_assert_int_eq(fs_num_metadata(file), 0);
    ck_assert_ptr_null(fs_metadata(file, "format"));
    ck_assert_int_eq(fs_num_tensors(file), 0);
    ck_assert_ptr_null(fs_tensor_names(file)[0]);
    fs_close(file);
}
END_TEST

START_TEST(tensors)
{
    fs_file *f = opened(_i);
    tm_tensor *t = fs_get_tensor(f, "last"), *n = fs_get_tensor_n(f, "n\0l", 3), *e = fs_get_tensor(f, "");
    ck_assert_mem_eq(tm_tensor_data(t), "worl", 4);
    ck_assert_mem_eq(tm_tensor_data(n), "hello", 5);
    ck_assert_int_eq(tm_tensor_rank(n), 2);
    ck_assert_int_eq(tm_tensor_dtype(n), TM_I8);
    ck_assert_uint_eq(tm_tensor_nbytes(e), 0);
    ck_assert_uint_eq(tm_tensor_shape(e)[0], 0);
    fs_close(f);
    /* they outlive it */
    ck_assert_mem_eq(tm_tensor_data(t), "worl", 4);
    ck_assert_mem_eq(tm_tensor_data(n), "hello", 5);
    tm_tensor_free(tm_tensor_ref(t));
    tm_tensor_free(t);
    tm_tensor_free(n);
    tm_tensor_free(e);
}
END_TEST

START_TEST(no_tensor)
{
    fs_file *f = opened(_i);
    fs_error e = {0};
    errno = 0;
    ck_assert_ptr_null(fs_get_tensor(f, "n"));
    ck_assert_int_eq(errno, ENOENT);
    ck_assert_ptr_null(fs_get_tensor_n(f, "last\0", 5));
    ck_assert_ptr_null(fs_get_tensor_e(f, "a\nb", 3, &e));
    ck_assert_int_eq(e.code, -ENOENT);
    ck_assert_str_eq(e.tensor, "a\\x0ab");
    ck_assert_str_eq(e.message, "'a\\x0ab': no such tensor");
    tm_tensor *t = fs_get_tensor_e(f, "last", 4, &e);
    ck_assert_int_eq(e.code, 0);
    tm_tensor_free(t);
    fs_close(f);
}
END_TEST

START_TEST(not_opened)
{
    fs_error e;
    errno = 0;
    ck_assert_ptr_null(openers[_i]("/nonexistent/file"));
    ck_assert_int_eq(errno, ENOENT);
    ck_assert_ptr_null(openers[_i]("/")); /* a directory without a model */
    ck_assert_int_eq(errno, ENOTSUP);
    ck_assert_ptr_null(fs_open_e("/dev/null", &e));
    ck_assert_int_eq(e.code, -ENOTSUP);
    ck_assert_uint_eq(e.offset, FS_NO_OFFSET);
}
END_TEST

/* fs_open has its own copy: the file may go. fs_mmap has the pages. */
START_TEST(file_goes)
{
    struct memfile f = memfile_model(header, HEADER, "helloworl", 9);
    fs_file *file = fs_open(f.path);
    ck_assert_int_eq(ftruncate(f.fd, 0), 0);
    tm_tensor *t = fs_get_tensor(file, "last");
    ck_assert_mem_eq(tm_tensor_data(t), "worl", 4);
    tm_tensor_free(t);
    fs_close(file);
}
END_TEST

START_TEST(mapped_bytes_are_shared)
{
    fs_file *f = opened(1);
    tm_tensor *a = fs_get_tensor(f, "last"), *b = fs_get_tensor(f, "last");
    ck_assert_ptr_eq(tm_tensor_data(a), tm_tensor_data(b)); /* nothing was copied */
    tm_tensor_free(a);
    tm_tensor_free(b);
    fs_close(f);
}
END_TEST

/* Eight threads, each asking for everything many times. Check's assertions are for one thread: wrong answers
 * are counted. */
enum { THREADS = 8, ROUNDS = 2000 };

static int right(fs_file *f)
{
    tm_tensor *t = fs_get_tensor(f, "last"), *n = fs_get_tensor_n(f, "n\0l", 3);
    const char **names = fs_tensor_names(f);
    int ok = t && n && names && memcmp(tm_tensor_data(t), "worl", 4) == 0 &&
             memcmp(tm_tensor_data(n), "hello", 5) == 0 && strcmp(names[0], "last") == 0 &&
             strcmp(fs_metadata(f, "format"), "pt") == 0 && !fs_get_tensor(f, "none");
    tm_tensor_free(t);
    tm_tensor_free(n);
    return ok;
}

static void *reader(void *f)
{
    intptr_t wrong = 0;
    for (int i = 0; i < ROUNDS; i++)
        wrong += !right(f);
    return (void *)wrong;
}

START_TEST(threads)
{
    fs_file *f = opened(_i);
    pthread_t t[THREADS];
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&t[i], NULL, reader, f), 0);
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        ck_assert_int_eq(pthread_join(t[i], &wrong), 0);
        ck_assert_ptr_null(wrong);
    }
    fs_close(f);
}
END_TEST

static void tests(TCase *tc)
{
    tcase_add_loop_test(tc, listed, 0, 2);
    tcase_add_loop_test(tc, metadata, 0, 2);
    tcase_add_loop_test(tc, no_metadata, 0, 2);
    tcase_add_loop_test(tc, tensors, 0, 2);
    tcase_add_loop_test(tc, no_tensor, 0, 2);
    tcase_add_loop_test(tc, not_opened, 0, 2);
    tcase_add_test(tc, file_goes);
    tcase_add_test(tc, mapped_bytes_are_shared);
    tcase_add_loop_test(tc, threads, 0, 2);
}

int main(void)
{
    return unit_run("file", tests);
}
