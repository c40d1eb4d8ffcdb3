/* SPDX-License-Identifier: MIT
 * Every rule for zip archives, by a file that breaks it; and unpacking. */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../zip_make.h"
#include "support.h"
#include "unpack.h"
#include "zip.h"

static struct source *source_of(const void *p, size_t len)
{
    char path[64];
    struct source *s = NULL;
    int fd = memfd_create("zip", MFD_CLOEXEC);
    ck_assert_int_eq(write(fd, p, len), (ssize_t)len);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ck_assert_int_eq(source_open(path, SOURCE_MAP, &s, NULL), 0);
    close(fd);
    return s;
}

static const unsigned char zip64_size[] = {1, 0, 8, 0, 5, 0, 0, 0, 0, 0, 0, 0};
static const unsigned char zip64_short[] = {1, 0, 4, 0, 5, 0, 0, 0};
static const unsigned char zip64_huge[] = {1, 0, 16, 0, 5, 0, 0, 0, 0, 0, 0, 0x80, 5, 0, 0, 0, 0, 0, 0, 0x80};

static const struct rule {
    const char *why; /* part of the message; NULL: it is a right archive */
    struct zip_part part[2];
    struct zip_end end;
} rules[] = {
    {NULL,
     {{.name = "a/x", .data = "hello", .len = 5}, {.name = "a/y", .data = "world", .len = 5, .deflate = 1}},
     {0}},
    {NULL,
     {{.name = "a/x", .data = "hello", .len = 5, .local_extra = 61}, {.name = "a/", .data = "", .len = 0}},
     {.comment = "a comment"}},
    {NULL,
     {{.name = "a/x", .data = "hello", .len = 5}, {.name = "a/b/c", .data = "", .len = 0}},
     {.wide = 1}},
    {NULL,
     {{.name = "a/x", .data = "hello", .len = 5, .size = 0xFFFFFFFF, .extra = zip64_size, .extra_len = 12},
      {.name = "a/y", .data = "1", .len = 1}},
     {.wide = 1, .ones = 1}},
    /* the end */
    {"do not end where the file ends",
     {{.name = "a/x", .data = "hello", .len = 5}, {.name = "a/y", .data = ""}},
     {.after = "more"}},
    {"does not end where the end record begins",
     {{.name = "a/x", .data = "hello", .len = 5}, {.name = "a/y", .data = ""}},
     {.offset = 1}},
    {"does not end where the end record begins",
     {{.name = "a/x", .data = "hello", .len = 5}, {.name = "a/y", .data = ""}},
     {.size = -1}},
    {"several disks", {{.name = "a/x", .data = "hello", .len = 5}, {.name = "a/y", .data = ""}}, {.disk = 1}},
    {"several disks",
     {{.name = "a/x", .data = "hello", .len = 5, .disk = 1}, {.name = "a/y", .data = ""}},
     {0}},
    {"more entries than the directory can hold",
     {{.name = "a/x", .data = "hello", .len = 5}, {.name = "a/y", .data = ""}},
     {.count = 9}},
    {"holds more than its entries",
     {{.name = "a/x", .data = "hello", .len = 5}, {.name = "a/y", .data = ""}},
     {.count = -1}},
    {"holds more than its entries",
     {{.name = "a/x", .data = "hello", .len = 5}, {.name = "a/y", .data = ""}},
     {.in_directory = "left over"}},
    {"the archive is empty",
     {{.name = "a/x", .data = "hello", .len = 5}, {.name = "a/y", .data = ""}},
     {.count = -2}},
    {"zip64 one that is not there",
     {{.name = "a/x", .data = "hello", .len = 5}, {.name = "a/y", .data = ""}},
     {.ones = 1}},
    {"no zip64 end record where the locator points",
     {{.name = "a/x", .data = "hello", .len = 5}, {.name = "a/y", .data = ""}},
     {.wide = 1, .locator = -1}},
    {"locator points outside",
     {{.name = "a/x", .data = "hello", .len = 5}, {.name = "a/y", .data = ""}},
     {.wide = 1, .locator = 4096}},
    {"disagree",
     {{.name = "a/x", .data = "hello", .len = 5}, {.name = "a/y", .data = ""}},
     {.wide = 1, .wide_count = 1}},
    /* entries */
    {"no directory entry",
     {{.name = "a/x", .data = "hello", .len = 5, .bad_signature = 1}, {.name = "a/y", .data = ""}},
     {0}},
    {"no local header",
     {{.name = "a/x", .data = "hello", .len = 5, .bad_local_signature = 1}, {.name = "a/y", .data = ""}},
     {0}},
    {"method 93",
     {{.name = "a/x", .data = "hello", .len = 5, .method = 93, .local_method = 93},
      {.name = "a/y", .data = ""}},
     {0}},
    {"another name or method",
     {{.name = "a/x", .data = "hello", .len = 5, .local_method = 8}, {.name = "a/y", .data = ""}},
     {0}},
    {"another name or method",
     {{.name = "a/x", .data = "hello", .len = 5, .local_name = "a/z"}, {.name = "a/y", .data = ""}},
     {0}},
    {"another name or method",
     {{.name = "a/x", .data = "hello", .len = 5, .local_name = "a/xx"}, {.name = "a/y", .data = ""}},
     {0}},
    {"encrypted", {{.name = "a/x", .data = "hello", .len = 5, .flags = 1}, {.name = "a/y", .data = ""}}, {0}},
    {"encrypted",
     {{.name = "a/x", .data = "hello", .len = 5, .flags = 0x20}, {.name = "a/y", .data = ""}},
     {0}},
    {"encrypted",
     {{.name = "a/x", .data = "hello", .len = 5, .flags = 0x40}, {.name = "a/y", .data = ""}},
     {0}},
    {"encrypted",
     {{.name = "a/x", .data = "hello", .len = 5, .flags = 0x2000}, {.name = "a/y", .data = ""}},
     {0}},
    {"in its local header",
     {{.name = "a/x", .data = "hello", .len = 5, .local_flags = 1}, {.name = "a/y", .data = ""}},
     {0}},
    {"a stored entry with two sizes",
     {{.name = "a/x", .data = "hello", .len = 5, .size = 6}, {.name = "a/y", .data = ""}},
     {0}},
    {"more than deflate can hold",
     {{.name = "a/x", .data = "hello", .len = 5, .deflate = 1, .size = 100000}, {.name = "a/y", .data = ""}},
     {0}},
    {"past the directory's begin",
     {{.name = "a/x", .data = "hello", .len = 5, .packed = 5000, .size = 5000}, {.name = "a/y", .data = ""}},
     {0}},
    {"outside the file",
     {{.name = "a/x", .data = "hello", .len = 5, .header = 5000}, {.name = "a/y", .data = ""}},
     {0}},
    {"entries overlap",
     {{.name = "a/x", .data = "hello", .len = 5, .packed = 40, .size = 40},
      {.name = "a/y", .data = "yy", .len = 2}},
     {0}},
    {"without a zip64 field",
     {{.name = "a/x", .data = "hello", .len = 5, .size = 0xFFFFFFFF}, {.name = "a/y", .data = ""}},
     {0}},
    {"too short",
     {{.name = "a/x", .data = "hello", .len = 5, .size = 0xFFFFFFFF, .extra = zip64_short, .extra_len = 8},
      {.name = "a/y", .data = ""}},
     {0}},
    {"past the directory's begin",
     {{.name = "a/x",
       .data = "hello",
       .len = 5,
       .size = 0xFFFFFFFF,
       .packed = 0xFFFFFFFF,
       .extra = zip64_huge,
       .extra_len = 20},
      {.name = "a/y", .data = ""}},
     {0}},
    /* names */
    {"empty, '.' or '..'", {{.name = "a//x", .data = "hello", .len = 5}, {.name = "a/y", .data = ""}}, {0}},
    {"empty, '.' or '..'", {{.name = "a/./x", .data = "hello", .len = 5}, {.name = "a/y", .data = ""}}, {0}},
    {"empty, '.' or '..'", {{.name = "a/../x", .data = "hello", .len = 5}, {.name = "a/y", .data = ""}}, {0}},
    {"empty, '.' or '..'", {{.name = "../x", .data = "hello", .len = 5}, {.name = "../y", .data = ""}}, {0}},
    {"empty, '.' or '..'", {{.name = "/x", .data = "hello", .len = 5}, {.name = "/y", .data = ""}}, {0}},
    {"empty, '.' or '..'", {{.name = "a/x/", .data = "hello", .len = 5}, {.name = "a/y", .data = ""}}, {0}},
    {"a NUL or a backslash",
     {{.name = "a/x\0y", .name_len = 5, .data = "hello", .len = 5}, {.name = "a/y", .data = ""}},
     {0}},
    {"a NUL or a backslash",
     {{.name = "a/x\\y", .data = "hello", .len = 5}, {.name = "a/y", .data = ""}},
     {0}},
    {"outside of the top folder",
     {{.name = "x", .data = "hello", .len = 5}, {.name = "a/y", .data = ""}},
     {0}},
    {"two top folders", {{.name = "a/x", .data = "hello", .len = 5}, {.name = "b/y", .data = ""}}, {0}},
    {"two entries with one name",
     {{.name = "a/x", .data = "hello", .len = 5}, {.name = "a/x", .data = ""}},
     {0}},
    {"two entries with one name",
     {{.name = "a/x", .data = "hello", .len = 5}, {.name = "a/X", .data = ""}},
     {0}},
};

START_TEST(each_rule)
{
    const struct rule *x = &rules[_i];
    struct buf b = {0};
    struct zip z = {0};
    struct report r = {0};
    zip_make(&b, x->part, 2, &x->end);
    struct source *s = source_of(b.p, b.len);
    int err = zip_open(&z, s, &r);
    if (!x->why)
        ck_assert_msg(err == 0 && z.n == 2, "%s", r.first.message);
    else
        ck_assert_msg(err == -EBADMSG && strstr(r.first.message, x->why), "'%s' does not say '%s'",
                      r.first.message, x->why);
    zip_free(&z);
    source_free(s);
    buf_free(&b);
}
END_TEST

/* Cut anywhere, an archive is refused. */
START_TEST(truncated)
{
    const struct zip_part part[] = {{.name = "a/x", .data = "hello", .len = 5}};
    struct buf b = {0};
    zip_make(&b, part, 1, NULL);
    for (size_t len = 1; len < b.len; len++) {
        struct zip z = {0};
        struct report r = {0};
        struct source *s = source_of(b.p, len);
        ck_assert_int_eq(zip_open(&z, s, &r), -EBADMSG);
        zip_free(&z);
        source_free(s);
    }
    buf_free(&b);
}
END_TEST

START_TEST(reading)
{
    const struct zip_part part[] = {
        {.name = "a/x", .data = "hello", .len = 5},
        {.name = "a/y", .data = "wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww", .len = 32, .deflate = 1}};
    struct buf b = {0};
    struct zip z = {0};
    struct report r = {0};
    unsigned char *p;
    zip_make(&b, part, 2, NULL);
    struct source *s = source_of(b.p, b.len);
    ck_assert_int_eq(zip_open(&z, s, &r), 0);
    ck_assert(zip_find(&z, "z", 1) == NULL && zip_find(&z, "X", 1) == NULL);
    ck_assert_int_eq(zip_read(&z, zip_find(&z, "x", 1), 5, &p, &r), 0);
    ck_assert_mem_eq(p, "hello", 5);
    free(p);
    ck_assert_int_eq(zip_read(&z, zip_find(&z, "y", 1), 32, &p, &r), 0);
    ck_assert_mem_eq(p, part[1].data, 32);
    free(p);
    ck_assert_int_eq(zip_read(&z, zip_find(&z, "y", 1), 31, &p, &r), -EBADMSG);
    zip_free(&z);
    source_free(s);
    buf_free(&b);
}
END_TEST

enum { BIG = 3000000, THREADS = 8 };

static unsigned char *pattern(void)
{
    unsigned char *p = malloc(BIG);
    for (size_t i = 0; i < BIG; i++)
        p[i] = (unsigned char)(i * 7 + i / 251);
    return p;
}

static struct buf packed_pattern(const unsigned char *p)
{
    struct buf b = {0};
    unsigned char *out = malloc(BIG + BIG / 8 + 128);
    const struct zip_part part = {.data = p, .len = BIG};
    size_t n = zip_pack(&part, out, BIG + BIG / 8 + 128);
    buf_add(&b, out, n);
    free(out);
    return b;
}

struct reader {
    struct unpacked *x;
    const unsigned char *expected;
    pthread_t thread;
    int err;
    bool same;
};

static void *read_all(void *ctx)
{
    struct reader *r = ctx;
    unsigned char *p = malloc(BIG);
    r->err = unpacked_read(r->x, 0, p, BIG);
    r->same = memcmp(p, r->expected, BIG) == 0;
    free(p);
    return NULL;
}

/* Many threads read one record at once; afterwards it lies in a source. */
START_TEST(unpacking)
{
    unsigned char *p = pattern(), some[100];
    struct buf b = packed_pattern(p);
    struct source *s = source_of(b.p, b.len);
    struct unpacker *u = unpacker_new(s);
    struct unpacked *x = unpacker_add(u, 0, b.len, BIG);
    struct reader reader[THREADS];
    uint64_t at;
    ck_assert_int_eq(unpacker_start(u, NULL), 0);
    ck_assert(unpacked_source(x, &at) == NULL);
    for (int i = 0; i < THREADS; i++) {
        reader[i] = (struct reader){.x = x, .expected = p};
        pthread_create(&reader[i].thread, NULL, read_all, &reader[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(reader[i].thread, NULL);
        ck_assert_int_eq(reader[i].err, 0);
        ck_assert(reader[i].same);
    }
    struct source *out = unpacked_source(x, &at);
    ck_assert(out != NULL);
    ck_assert_int_eq(source_read(out, at + 1000000, some, sizeof some), 0);
    ck_assert_mem_eq(some, p + 1000000, sizeof some);
    ck_assert_mem_eq(out->map + at, p, BIG);
    ck_assert_int_eq(unpacked_read(x, BIG - 50, some, 51), -EIO);
    unpacker_free(u);
    source_free(s);
    buf_free(&b);
    free(p);
}
END_TEST

/* A stream that gives one byte more or less than it should, is cut or followed by something, is damaged. */
START_TEST(damaged_streams)
{
    unsigned char *p = pattern(), byte;
    struct buf b = packed_pattern(p);
    const struct {
        uint64_t len, size;
    } wrong[] = {{b.len, BIG - 1}, {b.len, BIG + 1}, {b.len - 1, BIG}, {b.len + 1, BIG}, {0, BIG}};
    buf_char(&b, 'x');
    struct source *s = source_of(b.p, b.len);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct unpacker *u = unpacker_new(s);
        struct unpacked *x = unpacker_add(u, 0, wrong[i].len, wrong[i].size);
        ck_assert_int_eq(unpacker_start(u, NULL), 0);
        ck_assert_int_eq(unpacked_read(x, 0, &byte, 1), -EIO);
        ck_assert_int_eq(unpacked_read(x, 0, &byte, 1), -EIO);
        unpacker_free(u);
    }
    source_free(s);
    buf_free(&b);
    free(p);
}
END_TEST

static bool yes(void *ctx)
{
    (void)ctx;
    return true;
}

START_TEST(interrupted)
{
    unsigned char *p = pattern(), byte = 0;
    struct buf b = packed_pattern(p);
    struct source *s = source_of(b.p, b.len);
    struct unpacker *u = unpacker_new(s);
    struct unpacked *x = unpacker_add(u, 0, b.len, BIG);
    ck_assert_int_eq(unpacker_start(u, NULL), 0);
    unpack_interrupt(yes, NULL);
    ck_assert_int_eq(unpacked_read(x, 1, &byte, 1), -EINTR);
    unpack_interrupt(NULL, NULL);
    ck_assert_int_eq(unpacked_read(x, 1, &byte, 1), 0); /* it was no damage */
    ck_assert_uint_eq(byte, 7);
    unpacker_free(u);
    source_free(s);
    buf_free(&b);
    free(p);
}
END_TEST

static void tests(TCase *t)
{
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, each_rule, 0, sizeof rules / sizeof rules[0]);
    tcase_add_test(t, truncated);
    tcase_add_test(t, reading);
    tcase_add_test(t, unpacking);
    tcase_add_test(t, damaged_streams);
    tcase_add_test(t, interrupted);
}

int main(void)
{
    return unit_run("zip", tests);
}
