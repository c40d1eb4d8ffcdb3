/* SPDX-License-Identifier: MIT
 * Reading NumPy headers: texts after the description of the format, and such as are none. */
#include <string.h>

#include "npy_read.h"
#include "support.h"

static size_t header(char *out, int version, const char *text)
{
    size_t n = strlen(text), fixed = version == 1 ? 10 : 12;
    memcpy(out, "\x93NUMPY", 6);
    out[6] = (char)version;
    out[7] = 0;
    for (size_t i = 8; i < fixed; i++)
        out[i] = (char)(n >> (8 * (i - 8)));
    memcpy(out + fixed, text, n);
    return fixed + n;
}

#define D(descr, order, shape) "{'descr': '" descr "', 'fortran_order': " order ", 'shape': " shape ", }"

static const struct {
    const char *text;
    tm_dtype dtype;
    uint32_t rank;
    uint64_t shape[3];
    bool fortran, swapped;
} good[] = {
    {D("<f4", "False", "(3, 4)") "   \n", TM_F32, 2, {3, 4}, false, false},
    {D(">i8", "True", "(3, 4)") "\n", TM_I64, 2, {3, 4}, true, true},
    {D("|u1", "False", "()") "\n", TM_U8, 0, {0}, false, false},
    {D("|b1", "False", "(5,)"), TM_BOOL, 1, {5}, false, false},
    {D("<c8", "False", "(0, 1, 2)"), TM_C64, 3, {0, 1, 2}, false, false},
    {"{'shape': (5L, 2L), 'fortran_order': False, 'descr': '<i2'}",
     TM_I16,
     2,
     {5, 2},
     false,
     false}, /* Python
                2 */
    {"{\"shape\":(18446744073709551615,),\"fortran_order\":False,\"descr\":\"<u8\"}",
     TM_U64,
     1,
     {UINT64_MAX},
     false,
     false},
};

START_TEST(good_headers)
{
    for (int version = 1; version <= 3; version++) {
        char b[256];
        struct npy n;
        size_t len = header(b, version, good[_i].text);
        ck_assert_uint_eq(npy_skip(b), len);
        ck_assert(npy_parse(b, len, &n));
        ck_assert_int_eq(n.dtype, good[_i].dtype);
        ck_assert_uint_eq(n.rank, good[_i].rank);
        for (uint32_t i = 0; i < n.rank; i++)
            ck_assert_uint_eq(n.shape[i], good[_i].shape[i]);
        ck_assert(n.fortran == good[_i].fortran && n.swapped == good[_i].swapped);
        ck_assert_uint_eq(n.skip, len);
        for (size_t cut = 0; cut < len; cut++)
            ck_assert(!npy_parse(b, cut, &n));
    }
}
END_TEST

static const char *const bad[] = {
    "",
    "{}",
    "{'descr': '<f4', 'fortran_order': False}",
    D("<f4", "false", "(3,)"),
    D("<f4", "1", "(3,)"),
    D("<f3", "False", "(3,)"),
    D("<U4", "False", "(3,)"),
    D("", "False", "(3,)"),
    D("f4x", "False", "(3,)"),
    D("<f4", "False", "(-3,)"),
    D("<f4", "False", "(3"),
    D("<f4", "False", "(18446744073709551616,)"),
    D("<f4", "False", "[3]"),
    D("<f4", "False", "(3,)") " x",
    "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'more': 1}",
    "{'descr': '<f4' 'fortran_order': False, 'shape': (3,)}",
    "{'descr': '\\x3cf4', 'fortran_order': False, 'shape': (3,)}",
    "{'descr': '<f4",
};

START_TEST(bad_headers)
{
    char b[256];
    struct npy n;
    size_t len = header(b, 1, bad[_i]);
    ck_assert(!npy_parse(b, len, &n));
}
END_TEST

START_TEST(other_files)
{
    char b[256];
    struct npy n;
    size_t len = header(b, 1, good[0].text);
    b[6] = 0;
    ck_assert(!npy_parse(b, len, &n));
    b[6] = 4;
    ck_assert(!npy_parse(b, len, &n));
    b[6] = 1;
    b[7] = 1;
    ck_assert(!npy_parse(b, len, &n));
    b[7] = 0;
    b[0] = 'x';
    ck_assert(!npy_parse(b, len, &n));
    ck_assert_uint_eq(npy_skip(b), 0);
    /* 65 dimensions, one more than there are */
    char text[512] = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
    for (int i = 0; i < 65; i++)
        strcat(text, "1,");
    strcat(text, ")}");
    char large[600];
    len = header(large, 2, text);
    ck_assert(!npy_parse(large, len, &n));
}
END_TEST

static void add(TCase *tc)
{
    tcase_add_loop_test(tc, good_headers, 0, sizeof good / sizeof good[0]);
    tcase_add_loop_test(tc, bad_headers, 0, sizeof bad / sizeof bad[0]);
    tcase_add_test(tc, other_files);
}

int main(void)
{
    return unit_run("npy_read", add);
}
