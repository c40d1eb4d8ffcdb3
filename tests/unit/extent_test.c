/* SPDX-License-Identifier: MIT
 * Lists of extents: joining, and reading them in both ways at every offset. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "extent.h"
#include "source.h"
#include "support.h"

static struct memfile file;
static struct source *source;

/* A source whose byte i is i modulo 251. */
static void setup(void)
{
    unsigned char b[10000];
    for (size_t i = 0; i < sizeof b; i++)
        b[i] = (unsigned char)(i % 251);
    file = memfile_new(b, sizeof b);
    ck_assert_int_eq(source_open(file.path, SOURCE_MAP, &source, NULL), 0);
    ck_assert_ptr_nonnull(source->map);
}

static void teardown(void)
{
    source_free(source);
    close(file.fd);
}

/* Byte i is 255 - i modulo 7. Fails where ctx points to something else than 0. */
static int compute(const void *ctx, uint64_t off, void *buf, size_t len)
{
    for (size_t i = 0; i < len; i++)
        ((unsigned char *)buf)[i] = (unsigned char)(255 - (off + i) % 7);
    return *(const int *)ctx;
}

/* Four pieces of every kind, and what they say. */
enum { SIZE = 100 + 50 + 30 + 20 };

static void mixed(struct extents *x, unsigned char want[SIZE])
{
    static const int fine = 0;
    unsigned char memory[50];
    memset(memory, 'm', sizeof memory);
    ck_assert_int_eq(extents_add_source(x, source, 1000, 100), 0);
    ck_assert_int_eq(extents_add_memory(x, memory, 50), 0);
    ck_assert_int_eq(extents_add_computed(x, compute, &fine, 30), 0);
    ck_assert_int_eq(extents_add_source(x, source, 0, 20), 0);
    memset(memory, 0, sizeof memory); /* was copied */
    for (size_t i = 0; i < 100; i++)
        want[i] = (unsigned char)((1000 + i) % 251);
    memset(want + 100, 'm', 50);
    for (size_t i = 0; i < 30; i++)
        want[150 + i] = (unsigned char)(255 - i % 7);
    for (size_t i = 0; i < 20; i++)
        want[180 + i] = (unsigned char)i;
}

static void check_read(const struct extents *x, const unsigned char *want, uint64_t off, size_t size)
{
    unsigned char got[SIZE + 2];
    size_t expect = off >= SIZE ? 0 : SIZE - off < size ? (size_t)(SIZE - off) : size;
    memset(got, 0xAA, sizeof got);
    ck_assert_int_eq(extents_read(x, off, got, size), (ssize_t)expect);
    ck_assert_mem_eq(got, want + (expect ? off : 0), expect);
    ck_assert_uint_eq(got[expect], 0xAA); /* nothing written behind it */
}

/* Returns the number of vectors. */
static int check_iov(const struct extents *x, const unsigned char *want, uint64_t off, size_t size, int most)
{
    struct iovec v[8];
    void *scratch = &v;
    int n = most;
    size_t expect = off >= SIZE ? 0 : SIZE - off < size ? (size_t)(SIZE - off) : size, at = 0;
    ck_assert_int_eq(extents_iov(x, off, size, v, &n, &scratch), (ssize_t)expect);
    ck_assert_int_le(n, most);
    for (int i = 0; i < n; i++) {
        ck_assert_uint_gt(v[i].iov_len, 0);
        ck_assert_mem_eq(v[i].iov_base, want + off + at, v[i].iov_len);
        at += v[i].iov_len;
    }
    ck_assert_uint_eq(at, expect);
    free(scratch);
    return n;
}

START_TEST(every_range)
{
    static const uint64_t sizes[] = {0, 1, 2, 19, 20, 21, 30, 49, 50, 51, 99, 100, 101, 150, SIZE, SIZE + 1};
    struct extents x = {0};
    unsigned char want[SIZE];
    mixed(&x, want);
    ck_assert_uint_eq(x.size, SIZE);
    ck_assert_uint_eq(x.n, 4);
    for (uint64_t off = 0; off <= SIZE + 2; off++)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            check_read(&x, want, off, (size_t)sizes[i]);
            check_iov(&x, want, off, (size_t)sizes[i], 8);
            check_iov(&x, want, off, (size_t)sizes[i], 1);
        }
    check_read(&x, want, UINT64_MAX, SIZE);
    extents_free(&x);
    ck_assert_uint_eq(x.n, 0);
    ck_assert_uint_eq(x.size, 0);
}
END_TEST

START_TEST(joined)
{
    struct extents x = {0};
    extents_add_source(&x, source, 10, 5);
    extents_add_source(&x, source, 15, 5);
    ck_assert_uint_eq(x.n, 1);
    ck_assert_uint_eq(x.v[0].len, 10);
    extents_add_source(&x, source, 20, 0); /* nothing */
    extents_add_memory(&x, NULL, 0);
    extents_add_computed(&x, compute, NULL, 0);
    ck_assert_uint_eq(x.n, 1);
    extents_add_source(&x, source, 21, 5); /* a hole */
    extents_add_source(&x, source, 21, 5); /* again */
    ck_assert_uint_eq(x.n, 3);
    extents_add_memory(&x, "a", 1);
    extents_add_source(&x, source, 26, 1); /* would continue the one before the memory */
    ck_assert_uint_eq(x.n, 5);
    ck_assert_uint_eq(x.size, 22);
    ck_assert_uint_eq(x.v[4].start, 21);
    extents_free(&x);
}
END_TEST

/* Another source at the place that would continue is another extent. */
START_TEST(not_joined)
{
    struct extents x = {0};
    struct source *other;
    ck_assert_int_eq(source_open(file.path, SOURCE_COPY, &other, NULL), 0);
    extents_add_source(&x, source, 0, 5);
    extents_add_source(&x, other, 5, 5);
    ck_assert_uint_eq(x.n, 2);
    source_free(other); /* the list holds its own reference */
    unsigned char got[10];
    ck_assert_int_eq(extents_read(&x, 0, got, 10), 10);
    ck_assert_uint_eq(got[9], 9);
    extents_free(&x);
}
END_TEST

START_TEST(in_place)
{
    struct extents x = {0};
    struct iovec v[4];
    void *scratch;
    int n = 4;
    extents_add_source(&x, source, 100, 50);
    extents_add_memory(&x, "abc", 3);
    ck_assert_int_eq(extents_iov(&x, 10, 42, v, &n, &scratch), 42);
    ck_assert_int_eq(n, 2);
    ck_assert_ptr_null(scratch); /* no copy was made */
    ck_assert_ptr_eq(v[0].iov_base, source->map + 110);
    ck_assert_uint_eq(v[0].iov_len, 40);
    ck_assert_mem_eq(v[1].iov_base, "ab", 2);
    extents_free(&x);
}
END_TEST

/* More pieces than vectors: one block of memory holds them all. */
START_TEST(many_pieces)
{
    struct extents x = {0};
    struct iovec v[4];
    void *scratch;
    int n = 4;
    for (uint64_t i = 0; i < 1000; i++)
        extents_add_source(&x, source, 2 * i, 1);
    ck_assert_uint_eq(x.n, 1000);
    ck_assert_int_eq(extents_iov(&x, 0, 4, v, &n, &scratch), 4); /* as many as there are */
    ck_assert_int_eq(n, 4);
    ck_assert_ptr_null(scratch);
    n = 4;
    ck_assert_int_eq(extents_iov(&x, 100, 5, v, &n, &scratch), 5);
    ck_assert_int_eq(n, 1);
    ck_assert_ptr_eq(v[0].iov_base, scratch);
    for (unsigned i = 0; i < 5; i++)
        ck_assert_uint_eq(((unsigned char *)scratch)[i], 200 + 2 * i);
    free(scratch);
    extents_free(&x);
}
END_TEST

START_TEST(unmapped)
{
    struct extents x = {0};
    struct iovec v[4];
    void *scratch;
    int n = 4;
    munmap((void *)(uintptr_t)source->map, (size_t)source->size);
    source->map = NULL; /* as where mapping fails */
    extents_add_source(&x, source, 5, 10);
    ck_assert_int_eq(extents_iov(&x, 3, 100, v, &n, &scratch), 7);
    ck_assert_int_eq(n, 1);
    ck_assert_ptr_eq(v[0].iov_base, scratch);
    ck_assert_mem_eq(scratch, "\x08\x09\x0a\x0b\x0c\x0d\x0e", 7);
    free(scratch);
    extents_free(&x);
}
END_TEST

static void check_eio(struct extents *x)
{
    unsigned char b[20];
    struct iovec v[4];
    void *scratch;
    int n = 4;
    ck_assert_int_eq(extents_read(x, 0, b, 20), -EIO);
    ck_assert_int_eq(extents_iov(x, 0, 20, v, &n, &scratch), -EIO);
    free(scratch);
    extents_free(x);
}

START_TEST(truncated)
{
    struct extents x = {0};
    extents_add_source(&x, source, 9000, 20);
    ck_assert_int_eq(ftruncate(file.fd, 9990), 0); /* elsewhere: still no longer the file it was */
    check_eio(&x);
}
END_TEST

START_TEST(written_over)
{
    struct extents x = {0};
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 12345}};
    extents_add_memory(&x, "0123456789", 10);
    extents_add_source(&x, source, 0, 20);
    ck_assert_int_eq(futimens(file.fd, times), 0);
    check_eio(&x);
}
END_TEST

START_TEST(computing_fails)
{
    static const int bad = -EIO;
    struct extents x = {0};
    extents_add_memory(&x, "0123456789", 10);
    extents_add_computed(&x, compute, &bad, 20);
    check_eio(&x);
}
END_TEST

static void tests(TCase *tc)
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, every_range);
    tcase_add_test(tc, joined);
    tcase_add_test(tc, not_joined);
    tcase_add_test(tc, in_place);
    tcase_add_test(tc, many_pieces);
    tcase_add_test(tc, unmapped);
    tcase_add_test(tc, truncated);
    tcase_add_test(tc, written_over);
    tcase_add_test(tc, computing_fails);
}

int main(void)
{
    return unit_run("extent", tests);
}
