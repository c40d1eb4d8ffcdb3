/* SPDX-License-Identifier: MIT
 * Element types, sizes, and tensors that belong to no file. */
#include <errno.h>
#include <string.h>

#include "safetensors/tensor.h"
#include "support.h"

/* From the format's description (codes and widths) and NumPy's (type strings). */
static const struct {
    const char *name;
    unsigned bits;
    const char *numpy;
} known[] = {
    {"BOOL", 8, "|b1"},    {"F4", 4, NULL},           {"F6_E2M3", 6, NULL},      {"F6_E3M2", 6, NULL},
    {"U8", 8, "|u1"},      {"I8", 8, "|i1"},          {"F8_E5M2", 8, "|u1"},     {"F8_E4M3", 8, "|u1"},
    {"F8_E8M0", 8, "|u1"}, {"F8_E4M3FNUZ", 8, "|u1"}, {"F8_E5M2FNUZ", 8, "|u1"}, {"I16", 16, "<i2"},
    {"U16", 16, "<u2"},    {"F16", 16, "<f2"},        {"BF16", 16, "<u2"},       {"I32", 32, "<i4"},
    {"U32", 32, "<u4"},    {"F32", 32, "<f4"},        {"C64", 64, "<c8"},        {"F64", 64, "<f8"},
    {"I64", 64, "<i8"},    {"U64", 64, "<u8"},
};
enum { N_KNOWN = sizeof known / sizeof known[0] };

START_TEST(dtypes)
{
    ck_assert_int_eq(N_KNOWN, 22);
    ck_assert_int_eq(TM_SAFETENSORS_CODES, 22);
    for (int i = 0; i < N_KNOWN; i++) {
        tm_dtype d = TM_SAFETENSORS_CODES;
        ck_assert_int_eq(tm_dtype_from_name(known[i].name, &d), 0);
        ck_assert_int_eq(d, i); /* the order in which the reference declares them */
        ck_assert_str_eq(tm_dtype_name(d), known[i].name);
        ck_assert_uint_eq(tm_dtype_bits(d), known[i].bits);
        ck_assert_pstr_eq(tm_dtype_numpy(d), known[i].numpy);
    }
}
END_TEST

/* Those of PyTorch that safetensors has no code for: 14, from 64 on. */
START_TEST(other_dtypes)
{
    static const struct {
        const char *name;
        unsigned bits;
    } others[] = {
        {"C128", 128},  {"C32", 32},    {"BC32", 32},   {"F4_X2", 8},   {"BITS8", 8},
        {"BITS1X8", 8}, {"BITS2X4", 8}, {"BITS4X2", 8}, {"BITS16", 16}, {"QI8", 8},
        {"QU8", 8},     {"QI32", 32},   {"QU4X2", 4},   {"QU2X4", 2},
    };
    const uint64_t shape[] = {5};
    uint64_t nbytes;
    for (int i = 0; i < 14; i++) {
        tm_dtype d = TM_F32;
        ck_assert_int_eq(tm_dtype_from_name(others[i].name, &d), 0);
        ck_assert_int_eq(d, 64 + i);
        ck_assert_str_eq(tm_dtype_name(d), others[i].name);
        ck_assert_uint_eq(tm_dtype_bits(d), others[i].bits);
    }
    ck_assert_str_eq(tm_dtype_numpy(TM_C128), "<c16");
    ck_assert_ptr_null(tm_dtype_numpy(TM_QU4X2));
    for (int d = TM_SAFETENSORS_CODES; d < 64; d++)
        ck_assert(!tm_dtype_name((tm_dtype)d) && !tm_dtype_bits((tm_dtype)d) && !tm_dtype_numpy((tm_dtype)d));
    ck_assert_int_eq(tm_nbytes(TM_QU4X2, 1, shape, &nbytes), 0);
    ck_assert_uint_eq(nbytes, 3); /* five halves of a byte */
    ck_assert_int_eq(tm_nbytes(TM_QU2X4, 1, shape, &nbytes), 0);
    ck_assert_uint_eq(nbytes, 2);
}
END_TEST

START_TEST(no_dtypes)
{
    static const char *const wrong[] = {"",     "f32",  "F32 ", " F32", "F3",
                                        "F322", "bf16", "F128", "I4",   "C256"};
    tm_dtype d = TM_F32;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        ck_assert_int_eq(tm_dtype_from_name(wrong[i], &d), -EINVAL);
    ck_assert_int_eq(d, TM_F32);
    ck_assert_ptr_null(tm_dtype_name((tm_dtype)1000));
    ck_assert_ptr_null(tm_dtype_numpy((tm_dtype)1000));
    ck_assert_uint_eq(tm_dtype_bits((tm_dtype)1000), 0);
    ck_assert_ptr_null(tm_dtype_name((tm_dtype)-1));
}
END_TEST

#define TOP (UINT64_C(1) << 63)

static const struct {
    tm_dtype d;
    int rank;
    uint64_t shape[3];
    int err;
    uint64_t nbytes;
} sizes[] = {
    {TM_F32, 0, {0}, 0, 4},
    {TM_F64, 0, {0}, 0, 8},
    {TM_F32, 2, {2, 3}, 0, 24},
    {TM_F32, 1, {0}, 0, 0},
    {TM_BOOL, 3, {7, 1, 5}, 0, 35},
    {TM_C64, 1, {3}, 0, 24},
    {TM_F4, 1, {2}, 0, 1},
    {TM_F4, 1, {3}, -EINVAL, 0},                     /* 12 bits */
    {TM_F4, 0, {0}, -EINVAL, 0},                     /* 4 bits */
    {TM_F4, 1, {0}, 0, 0},                           /* 0 bits are whole bytes */
    {TM_F6_E2M3, 1, {4}, 0, 3},                      /* 24 bits */
    {TM_F6_E3M2, 1, {2}, -EINVAL, 0},                /* 12 bits */
    {TM_U8, 1, {UINT64_MAX / 8}, 0, UINT64_MAX / 8}, /* 2^64 - 8 bits: the largest */
    {TM_U8, 1, {UINT64_MAX / 8 + 1}, -EOVERFLOW, 0}, /* 2^64 bits */
    {TM_U64, 1, {UINT64_MAX / 64}, 0, (UINT64_MAX / 64) * 8},
    {TM_U64, 1, {UINT64_MAX / 64 + 1}, -EOVERFLOW, 0},
    {TM_U8, 2, {TOP, 2}, -EOVERFLOW, 0},
    {TM_U8, 3, {TOP, 2, 0}, -EOVERFLOW, 0}, /* overflows before the zero */
    {TM_U8, 3, {0, TOP, 2}, 0, 0},          /* zero comes first: no overflow */
    {TM_U8, 2, {0, UINT64_MAX}, 0, 0},
    {TM_U8, 2, {UINT64_MAX, 0}, 0, 0},
    {TM_F32, -1, {0}, -EINVAL, 0},
    {(tm_dtype)1000, 0, {0}, -EINVAL, 0},
};

START_TEST(nbytes)
{
    uint64_t n = 99;
    ck_assert_int_eq(tm_nbytes(sizes[_i].d, sizes[_i].rank, sizes[_i].shape, &n), sizes[_i].err);
    if (sizes[_i].err == 0)
        ck_assert_uint_eq(n, sizes[_i].nbytes);
}
END_TEST

START_TEST(new_is_zeroed)
{
    uint64_t shape[] = {3, 5};
    tm_tensor *t = tm_tensor_new(TM_I16, 2, shape);
    shape[0] = 77; /* was copied */
    ck_assert_ptr_nonnull(t);
    ck_assert_int_eq(tm_tensor_dtype(t), TM_I16);
    ck_assert_int_eq(tm_tensor_rank(t), 2);
    ck_assert_uint_eq(tm_tensor_shape(t)[0], 3);
    ck_assert_uint_eq(tm_tensor_shape(t)[1], 5);
    ck_assert_uint_eq(tm_tensor_nbytes(t), 30);
    for (size_t i = 0; i < 30; i++)
        ck_assert_int_eq(((char *)tm_tensor_data(t))[i], 0);
    memset(tm_tensor_data(t), 1, 30);
    tm_tensor_free(t);
}
END_TEST

START_TEST(new_without_bytes)
{
    tm_tensor *scalar = tm_tensor_new(TM_F64, 0, NULL);
    ck_assert_uint_eq(tm_tensor_nbytes(scalar), 8);
    tm_tensor_free(scalar);
    tm_tensor *none = tm_tensor_new(TM_F64, 2, (uint64_t[]){4, 0});
    ck_assert_ptr_nonnull(none);
    ck_assert_uint_eq(tm_tensor_nbytes(none), 0);
    tm_tensor_free(none);
}
END_TEST

START_TEST(new_refused)
{
    errno = 0;
    ck_assert_ptr_null(tm_tensor_new(TM_F4, 1, (uint64_t[]){3}));
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_ptr_null(tm_tensor_new(TM_F32, -1, NULL));
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_ptr_null(tm_tensor_wrap(TM_U8, 2, (uint64_t[]){TOP, 2}, NULL));
    ck_assert_int_eq(errno, EOVERFLOW);
}
END_TEST

START_TEST(wrap_borrows)
{
    char bytes[6] = "hello";
    tm_tensor *t = tm_tensor_wrap(TM_U8, 1, (uint64_t[]){6}, bytes);
    ck_assert_ptr_eq(tm_tensor_data(t), bytes);
    tm_tensor_free(t);
    ck_assert_str_eq(bytes, "hello");
}
END_TEST

START_TEST(references)
{
    tm_tensor *t = tm_tensor_new(TM_U8, 1, (uint64_t[]){1});
    ck_assert_ptr_eq(tm_tensor_ref(t), t);
    tm_tensor_free(t);
    *(char *)tm_tensor_data(t) = 7; /* still there: the sanitizers would tell */
    ck_assert_uint_eq(tm_tensor_nbytes(t), 1);
    tm_tensor_free(t);
    ck_assert_ptr_null(tm_tensor_ref(NULL));
    tm_tensor_free(NULL);
}
END_TEST

static void tests(TCase *tc)
{
    tcase_add_test(tc, dtypes);
    tcase_add_test(tc, other_dtypes);
    tcase_add_test(tc, no_dtypes);
    tcase_add_loop_test(tc, nbytes, 0, sizeof sizes / sizeof sizes[0]);
    tcase_add_test(tc, new_is_zeroed);
    tcase_add_test(tc, new_without_bytes);
    tcase_add_test(tc, new_refused);
    tcase_add_test(tc, wrap_borrows);
    tcase_add_test(tc, references);
}

int main(void)
{
    return unit_run("tensor", tests);
}
