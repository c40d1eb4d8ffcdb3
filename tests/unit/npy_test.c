/* SPDX-License-Identifier: MIT
 * NumPy headers, against bytes written by hand after the format's description (numpy.lib.format). */
#include <errno.h>
#include <string.h>

#include "npy.h"
#include "support.h"

/* The text padded with spaces so that the whole is 64 or 128 bytes long, a line feed last. */
static const struct {
    tm_dtype dtype;
    uint32_t rank;
    uint64_t shape[4];
    unsigned total;
    const char *text;
} headers[] = {
    {TM_F32, 0, {0}, 128, "{'descr': '<f4', 'fortran_order': False, 'shape': (), }"},
    {TM_F32, 1, {3}, 128, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }"},
    {TM_BF16, 2, {2, 3}, 128, "{'descr': '<u2', 'fortran_order': False, 'shape': (2, 3), }"},
    {TM_F8_E4M3, 2, {0, 7}, 128, "{'descr': '|u1', 'fortran_order': False, 'shape': (0, 7), }"},
    {TM_BOOL,
     1,
     {18446744073709551615u},
     128,
     "{'descr': '|b1', 'fortran_order': False, 'shape': (18446744073709551615,), }"},
    {TM_C64, 4, {1, 2, 3, 4}, 128, "{'descr': '<c8', 'fortran_order': False, 'shape': (1, 2, 3, 4), }"},
    {TM_I64,
     4,
     {1000000000000u, 1000000000000u, 1000000000000u, 1000000000000u},
     128,
     "{'descr': '<i8', 'fortran_order': False, 'shape': "
     "(1000000000000, 1000000000000, 1000000000000, 1000000000000), }"},
};

START_TEST(by_hand)
{
    unsigned total = headers[_i].total;
    char want[256];
    struct buf b = {0};
    memset(want, ' ', sizeof want);
    memcpy(want, "\x93NUMPY\1\0", 8);
    want[8] = (char)(total - 10);
    want[9] = 0;
    memcpy(want + 10, headers[_i].text, strlen(headers[_i].text));
    want[total - 1] = '\n';
    ck_assert_int_eq(npy_header(&b, headers[_i].dtype, headers[_i].shape, headers[_i].rank), 0);
    ck_assert_uint_eq(b.len, total);
    ck_assert_mem_eq(b.p, want, total);
    buf_free(&b);
}
END_TEST

/* One in full, byte for byte. */
START_TEST(in_full)
{
    static const char want[] =
        "\x93NUMPY\1\0\x76\0{'descr': '<f2', 'fortran_order': False, 'shape': (2, 3), }"
        "                                                          \n";
    struct buf b = {0};
    ck_assert_uint_eq(sizeof want - 1, 128);
    ck_assert_int_eq(npy_header(&b, TM_F16, (uint64_t[]){2, 3}, 2), 0);
    ck_assert_uint_eq(b.len, 128);
    ck_assert_mem_eq(b.p, want, 128);
    buf_free(&b);
}
END_TEST

/* Every length of text: always whole, always aligned, never padded by 64 or more. */
START_TEST(aligned)
{
    uint64_t shape[200];
    for (size_t i = 0; i < 200; i++)
        shape[i] = 1;
    for (uint32_t rank = 0; rank <= 200; rank++) {
        struct buf b = {0};
        ck_assert_int_eq(npy_header(&b, TM_U8, shape, rank), 0);
        size_t text = 55 + (rank ? 3 * rank - 2 : 0) + (rank == 1); /* {...(1, 1, 1), } */
        ck_assert_uint_eq(b.len % 64, 0);
        ck_assert_uint_ge(b.len, 10 + text + 1);
        ck_assert_uint_lt(b.len, 10 + text + 1 + 64);
        ck_assert_uint_eq((unsigned char)b.p[8] + 256u * (unsigned char)b.p[9], b.len - 10);
        ck_assert_int_eq(b.p[b.len - 1], '\n');
        buf_free(&b);
    }
}
END_TEST

/* Text over 65535 bytes takes version 2, with a length of four bytes. */
START_TEST(version_2)
{
    static uint64_t shape[30000]; /* "0, " each: 90000 bytes */
    struct buf b = {0};
    ck_assert_int_eq(npy_header(&b, TM_U8, shape, 30000), 0);
    ck_assert_mem_eq(b.p, "\x93NUMPY\2\0", 8);
    ck_assert_uint_eq(b.len % 64, 0);
    const unsigned char *p = (const unsigned char *)b.p;
    ck_assert_uint_eq(p[8] + 256u * p[9] + 65536u * p[10] + 16777216u * p[11], b.len - 12);
    ck_assert_uint_ge(b.len, 12 + 55 + 89998 + 1);
    ck_assert_uint_lt(b.len, 12 + 55 + 89998 + 1 + 64);
    ck_assert_mem_eq(b.p + 12, "{'descr': '|u1', 'fortran_order': False, 'shape': (0, 0, ", 57);
    ck_assert_int_eq(b.p[b.len - 1], '\n');
    buf_free(&b);
}
END_TEST

START_TEST(appended)
{
    struct buf b = {0};
    buf_str(&b, "before");
    ck_assert_int_eq(npy_header(&b, TM_U8, NULL, 0), 0);
    ck_assert_uint_eq(b.len, 6 + 128);
    ck_assert_mem_eq(b.p, "before\x93NUMPY", 12);
    buf_free(&b);
}
END_TEST

START_TEST(no_such_type)
{
    struct buf b = {0};
    ck_assert_int_eq(npy_header(&b, TM_F4, (uint64_t[]){2}, 1), -ENOENT);
    ck_assert_int_eq(npy_header(&b, TM_F6_E2M3, (uint64_t[]){4}, 1), -ENOENT);
    ck_assert_int_eq(npy_header(&b, TM_F6_E3M2, (uint64_t[]){4}, 1), -ENOENT);
    ck_assert_uint_eq(b.len, 0);
    buf_free(&b);
}
END_TEST

static void tests(TCase *tc)
{
    tcase_add_loop_test(tc, by_hand, 0, sizeof headers / sizeof headers[0]);
    tcase_add_test(tc, in_full);
    tcase_add_test(tc, aligned);
    tcase_add_test(tc, version_2);
    tcase_add_test(tc, appended);
    tcase_add_test(tc, no_such_type);
}

int main(void)
{
    return unit_run("npy", tests);
}
