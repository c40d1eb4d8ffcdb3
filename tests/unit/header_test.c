/* SPDX-License-Identifier: MIT
 * What is said about damaged headers: which tensor, which byte, and what is wrong. A `^` in a header stands
 * before the byte that must be named; the header begins at byte 8. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "header.h"
#include "safetensors/safetensors.h"
#include "support.h"

/* A header around one tensor "w", and one of four bytes before it. */
#define W(fields) "{\"w\":{" fields "}}"
#define GOOD      "\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]"

struct damage {
    const char *header;
    const char *tensor, *why;
    size_t data; /* bytes behind the header */
};

static const struct damage damages[] = {
    /* the text */
    {"^[]", "", "must be a JSON object", 0},
    {"{^", "", "ends too early", 0},
    {"{^w:1}", "", "a string expected", 0},
    {"{\"w\"^,1}", "", "':' expected", 0},
    {"{}^x", "", "text after the end", 0},
    {"{\"w\":{" GOOD "}^]", "", "',' or '}' expected", 4},
    {"{\"w\":{" GOOD "},^}", "", "a string expected", 4},
    {"{\"a^\x01\":{}}", "", "control character", 0},
    {"{\"a\xC3\xA9^\xFF\":{}}", "", "not UTF-8", 0},
    {"{\"^\\q\":{}}", "", "an escape", 0},
    /* a tensor as a whole */
    {"{\"w\":^7}", "w", "must be an object", 0},
    {"{\"w\":^null}", "w", "must be an object", 0},
    {"{\"w\": ^[1]}", "w", "must be an object", 0},
    {"{^\"w\":{}}", "w", "no dtype", 0},
    {"{^\"w\":{\"dtype\":\"U8\",\"data_offsets\":[0,4]}}", "w", "no shape", 4},
    {"{^\"w\":{\"dtype\":\"U8\",\"shape\":[4]}}", "w", "no data_offsets", 4},
    {"{\"w\":{" GOOD "},^\"w\":{" GOOD "}}", "w", "for the second time", 4},
    {"{\"w\":{" GOOD "},^\"\\u0077\":{" GOOD "}}", "w", "for the second time", 4},
    /* its fields */
    {W("\"dtype\":^8"), "w", "dtype must be a string", 0},
    {W("\"dtype\":^\"f32\""), "w", "unknown dtype 'f32'", 0},
    {W("\"dtype\": ^\"F99\""), "w", "unknown dtype 'F99'", 0},
    {W("\"dtype\":^\"U8\\u0000\""), "w", "unknown dtype 'U8\\x00'", 0},
    {W("\"dtype\":\"U8\",^\"dtype\":\"U8\""), "w", "the field 'dtype' twice", 0},
    {W("\"shape\":[4],^\"shape\":[4]"), "w", "the field 'shape' twice", 0},
    {W("\"data_offsets\":[0,4],^\"data_offsets\":[0,4]"), "w", "the field 'data_offsets' twice", 0},
    {W("\"x\":1,\"y\":2,^\"x\":3"), "w", "the field 'x' twice", 0},
    {W("\"shape\":^4"), "w", "arrays of integers", 0},
    {W("\"shape\":[4,^-1]"), "w", "negative", 0},
    {W("\"shape\":[4, ^1.5]"), "w", "a point or an exponent", 0},
    {W("\"shape\":[^\"4\"]"), "w", "an integer expected", 0},
    {W("\"shape\":[^04]"), "w", "leading zero", 0},
    {W("\"shape\":[1,^18446744073709551616]"), "w", "over 2^64 - 1", 0},
    {W("\"shape\":[4^ 4]"), "w", "',' or ']' expected", 0}, /* see below: white space is passed first */
    {W("\"data_offsets\":^{}"), "w", "arrays of integers", 0},
    {W("\"data_offsets\":^[]"), "w", "two numbers, not 0", 0},
    {W("\"data_offsets\": ^[4]"), "w", "two numbers, not 1", 0},
    {W("\"data_offsets\":^[0,4,8]"), "w", "two numbers, not 3", 0},
    {W("\"x\":^nul"), "w", "no JSON value", 0},
    {W("\"x\"^ 1"), "w", "':' expected", 0}, /* the same */
    /* sizes */
    {"{^\"w\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,4]}}", "w",
     "its shape of F32 needs 16 bytes, data_offsets [0,4] give 4", 4},
    {"{^\"w\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,0]}}", "w", "the end lies before the begin",
     4},
    {"{^\"w\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}}", "w", "of 4 bits fill no whole byte",
     1},
    {"{^\"w\":{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,4]}}", "w",
     "overflows 64 bits", 4},
    /* metadata */
    {"{\"__metadata__\":^[]}", "__metadata__", "an object of strings", 0},
    {"{\"__metadata__\":^\"\"}", "__metadata__", "an object of strings", 0},
    {"{\"__metadata__\":{\"k\":^1}}", "__metadata__", "must be a string", 0},
    {"{\"__metadata__\":{\"k\":\"1\",^\"k\":\"2\"}}", "__metadata__", "a key twice", 0},
    {"{\"__metadata__\":{\"k\":\"1\",^}}", "__metadata__", "a string expected", 0},
    {"{\"__metadata__\":^nope}", "__metadata__", "no JSON value", 0},
    {"{\"__metadata__\":{},^\"__metadata__\":{}}", "", "for the second time", 0},
};

/* The header without its mark; *at is the byte of the file that it named. */
static char *unmarked(const char *header, size_t *len, uint64_t *at)
{
    char *text = strdup(header), *mark = strchr(text, '^');
    ck_assert_ptr_nonnull(mark);
    *at = 8 + (uint64_t)(mark - text);
    memmove(mark, mark + 1, strlen(mark));
    *len = strlen(text);
    while (text[*at - 8] == ' ') /* what is missing is missed at the next byte that is none */
        ++*at;
    return text;
}

START_TEST(damage)
{
    const struct damage *d = &damages[_i];
    size_t len;
    uint64_t at;
    fs_error e = {0};
    char *text = unmarked(d->header, &len, &at), place[40];
    struct memfile f = memfile_model(text, len, "0123456789", d->data);
    snprintf(place, sizeof place, " (byte %llu)", (unsigned long long)at);
    ck_assert_ptr_null(fs_mmap_e(f.path, &e));
    ck_assert_int_eq(e.code, -EBADMSG);
    ck_assert_msg(strstr(e.message, d->why) != NULL, "%s: %s", d->header, e.message);
    ck_assert_msg(e.offset == at, "%s: %s", d->header, e.message);
    ck_assert_str_eq(e.tensor, d->tensor);
    ck_assert_ptr_nonnull(strstr(e.message, place));
    ck_assert_int_eq(strncmp(e.message, "safetensors header: ", 20), 0);
    /* Without anybody to tell it to, and copied, it is refused all the same. */
    ck_assert_ptr_null(fs_open(f.path));
    ck_assert_int_eq(errno, EBADMSG);
    struct model *m = NULL;
    ck_assert_int_eq(model_open(f.path, SOURCE_MAP, &m, NULL), -EBADMSG);
    ck_assert_ptr_null(m);
    free(text);
}
END_TEST

/* Where the bytes of tensors lie: two of them, in a header of a length that is counted here. */
struct placing {
    uint64_t begin_a, end_a, begin_b, end_b;
    size_t data;
    const char *tensor, *why;
    uint64_t at; /* in the data */
};

static const struct placing placings[] = {
    {1, 5, 5, 9, 9, "a", "1 bytes before it belong to no tensor", 0},
    {0, 4, 6, 10, 10, "b", "2 bytes before it belong to no tensor", 4},
    {0, 4, 2, 6, 6, "b", "overlaps the tensor before it by 2 bytes", 2},
    {2, 6, 0, 4, 6, "a", "overlaps the tensor before it by 2 bytes", 2},
    {0, 4, 0, 4, 4, "b", "overlaps the tensor before it by 4 bytes", 0},
    {0, 4, 4, 8, 7, "b", "the file ends here", 7},
    {0, 4, 4, 8, 0, "a", "the file ends here", 0},
    {0, 4, 4, 8, 9, "", "1 bytes at the end belong to no tensor", 8},
    {4, 8, 0, 4, 10, "", "2 bytes at the end belong to no tensor", 8},
};

static size_t two(char *text, size_t room, const struct placing *p)
{
    return (size_t)snprintf(text, room,
                            "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[%llu,%llu]},"
                            "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[%llu,%llu]}}",
                            (unsigned long long)p->begin_a, (unsigned long long)p->end_a,
                            (unsigned long long)p->begin_b, (unsigned long long)p->end_b);
}

START_TEST(placing)
{
    const struct placing *p = &placings[_i];
    char text[200];
    size_t len = two(text, sizeof text, p);
    struct memfile f = memfile_model(text, len, "0123456789", p->data);
    fs_error e = {0};
    ck_assert_ptr_null(fs_mmap_e(f.path, &e));
    ck_assert_int_eq(e.code, -EBADMSG);
    ck_assert_msg(strstr(e.message, p->why) != NULL, "%s", e.message);
    ck_assert_str_eq(e.tensor, p->tensor);
    ck_assert_uint_eq(e.offset, 8 + len + p->at);
}
END_TEST

/* Length fields that cannot be. */
START_TEST(lengths)
{
    static const struct {
        unsigned char b[10];
        size_t n;
        const char *why;
        uint64_t at;
    } cases[] = {
        {{1, 2, 3}, 3, "the file has 3 bytes", FS_NO_OFFSET},
        {{2, 0, 0, 0, 0, 0, 0}, 7, "the file has 7 bytes", FS_NO_OFFSET},
        {{0, 0, 0, 0, 0, 0, 0, 0}, 8, "a header of 0 bytes", 0},
        {{3, 0, 0, 0, 0, 0, 0, 0, '{', '}'}, 10, "a header of 3 bytes in a file of 10", 0},
        {{0x01, 0xE1, 0xF5, 0x05, 0, 0, 0, 0, '{', '}'},
         10,
         "a header of 100000001 bytes, the format allows",
         0},
        {{0, 0, 0, 0, 0, 0, 0, 0x80, '{', '}'}, 10, "a header of 9223372036854775808 bytes", 0},
    };
    fs_error e = {0};
    struct memfile f = memfile_new(cases[_i].b, cases[_i].n);
    ck_assert_ptr_null(fs_mmap_e(f.path, &e));
    ck_assert_int_eq(e.code, -EBADMSG);
    ck_assert_msg(strstr(e.message, cases[_i].why) != NULL, "%s", e.message);
    ck_assert_uint_eq(e.offset, cases[_i].at);
}
END_TEST

/* Two of the offsets in plain numbers, for those who do not trust the marks. */
START_TEST(counted)
{
    static const char text[] = "{\"w\":{\"dtype\":\"F32\",\"shape\":[1,x],\"data_offsets\":[0,4]}}";
    /* 8 + {"w":{ is 6, "dtype":"F32", is 14, "shape":[1, is 11 */
    struct memfile f = memfile_model(text, sizeof text - 1, "0123", 4);
    fs_error e = {0};
    ck_assert_ptr_null(fs_mmap_e(f.path, &e));
    ck_assert_uint_eq(e.offset, 39);
    ck_assert_str_eq(e.message, "safetensors header: 'w': an integer expected (byte 39)");
    struct memfile g = memfile_model("{} ", 3, "01", 2);
    ck_assert_ptr_null(fs_mmap_e(g.path, &e));
    ck_assert_uint_eq(e.offset, 11);
    ck_assert_str_eq(e.message, "safetensors header: 2 bytes at the end belong to no tensor (byte 11)");
}
END_TEST

struct findings {
    char text[20][768];
    int n;
};

static void collect(void *ctx, const fs_error *e)
{
    struct findings *all = ctx;
    ck_assert_int_lt(all->n, 20);
    strcpy(all->text[all->n++], e->message);
}

static void check_findings(const char *text, size_t data, const char *const *want, int n)
{
    struct memfile f = memfile_model(text, strlen(text), "0123456789", data);
    struct findings all = {.n = 0};
    fs_error e = {0};
    ck_assert_int_eq(fs_check(f.path, collect, &all, &e), n);
    ck_assert_int_eq(all.n, n);
    for (int i = 0; i < n; i++)
        ck_assert_msg(strstr(all.text[i], want[i]) != NULL, "finding %d: %s", i, all.text[i]);
    ck_assert_str_eq(e.message, all.text[0]);
}

START_TEST(several)
{
    static const char *const want[] = {"'a': unknown dtype 'X'",
                                       "'a': a negative number",
                                       "'b': no shape",
                                       "'__metadata__': every value",
                                       "'c': the field 'q' twice",
                                       "'c': its shape of U16 needs 2 bytes, data_offsets [0,4] give 4",
                                       "'a': a tensor of this name"};
    check_findings("{\"a\":{\"dtype\":\"X\",\"shape\":[-4],\"data_offsets\":[0,4]},"
                   "\"b\":{\"dtype\":\"U8\",\"data_offsets\":[0,4]},"
                   "\"__metadata__\":{\"k\":1,\"l\":\"x\"},"
                   "\"c\":{\"dtype\":\"U16\",\"q\":1,\"q\":[],\"shape\":[1],\"data_offsets\":[0,4]},"
                   "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
                   4, want, 7);
}
END_TEST

START_TEST(several_places)
{
    static const char *const want[] = {"'a': 1 bytes before it belong to no tensor",
                                       "'b': overlaps the tensor before it by 1 bytes",
                                       "2 bytes at the end belong to no tensor"};
    struct placing p = {1, 5, 4, 8, 0, "", "", 0};
    char text[200];
    two(text, sizeof text, &p);
    check_findings(text, 10, want, 3);
}
END_TEST

/* A mistake in the text ends it; what was found before is told as well. */
START_TEST(up_to_the_syntax)
{
    static const char *const want[] = {"'a': no dtype", "a string expected (byte 17)"};
    check_findings("{\"a\":{}, 5:{}}", 0, want, 2); /* {"a":{},_ is 9 */
}
END_TEST

START_TEST(nothing)
{
    check_findings("{}", 0, NULL, 0);
}
END_TEST

START_TEST(unreadable)
{
    fs_error e = {0};
    struct findings all = {.n = 0};
    ck_assert_int_eq(fs_check("/nonexistent/file", collect, &all, &e), -ENOENT);
    ck_assert_int_eq(all.n, 0);
    ck_assert_int_eq(e.code, -ENOENT);
    ck_assert_int_eq(fs_check("/nonexistent/file", NULL, NULL, NULL), -ENOENT);
    ck_assert_int_eq(fs_check("/", collect, &all, &e), 1); /* a directory without a model */
    ck_assert_int_eq(e.code, -ENOTSUP);
}
END_TEST

static void tests(TCase *tc)
{
    tcase_add_loop_test(tc, damage, 0, sizeof damages / sizeof damages[0]);
    tcase_add_loop_test(tc, placing, 0, sizeof placings / sizeof placings[0]);
    tcase_add_loop_test(tc, lengths, 0, 6);
    tcase_add_test(tc, counted);
    tcase_add_test(tc, several);
    tcase_add_test(tc, several_places);
    tcase_add_test(tc, up_to_the_syntax);
    tcase_add_test(tc, nothing);
    tcase_add_test(tc, unreadable);
}

int main(void)
{
    return unit_run("header", tests);
}
