/* SPDX-License-Identifier: MIT
 * The table of element types: code, bits, NumPy form. */
#include <errno.h>
#include <string.h>

#include "checked.h"
#include "safetensors/tensor.h"

/* Numbers between the safetensors codes and the others are no types: their entries are all zero. */
static const struct {
    const char *name;
    unsigned bits;
    const char *numpy;
} table[] = {
    [TM_BOOL] = {"BOOL", 8, "|b1"},
    [TM_F4] = {"F4", 4, NULL},
    [TM_F6_E2M3] = {"F6_E2M3", 6, NULL},
    [TM_F6_E3M2] = {"F6_E3M2", 6, NULL},
    [TM_U8] = {"U8", 8, "|u1"},
    [TM_I8] = {"I8", 8, "|i1"},
    [TM_F8_E5M2] = {"F8_E5M2", 8, "|u1"},
    [TM_F8_E4M3] = {"F8_E4M3", 8, "|u1"},
    [TM_F8_E8M0] = {"F8_E8M0", 8, "|u1"},
    [TM_F8_E4M3FNUZ] = {"F8_E4M3FNUZ", 8, "|u1"},
    [TM_F8_E5M2FNUZ] = {"F8_E5M2FNUZ", 8, "|u1"},
    [TM_I16] = {"I16", 16, "<i2"},
    [TM_U16] = {"U16", 16, "<u2"},
    [TM_F16] = {"F16", 16, "<f2"},
    [TM_BF16] = {"BF16", 16, "<u2"},
    [TM_I32] = {"I32", 32, "<i4"},
    [TM_U32] = {"U32", 32, "<u4"},
    [TM_F32] = {"F32", 32, "<f4"},
    [TM_C64] = {"C64", 64, "<c8"},
    [TM_F64] = {"F64", 64, "<f8"},
    [TM_I64] = {"I64", 64, "<i8"},
    [TM_U64] = {"U64", 64, "<u8"},
    [TM_C128] = {"C128", 128, "<c16"},
    [TM_C32] = {"C32", 32, "<u4"},
    [TM_BC32] = {"BC32", 32, "<u4"},
    [TM_F4_X2] = {"F4_X2", 8, "|u1"},
    [TM_BITS8] = {"BITS8", 8, "|u1"},
    [TM_BITS1X8] = {"BITS1X8", 8, "|u1"},
    [TM_BITS2X4] = {"BITS2X4", 8, "|u1"},
    [TM_BITS4X2] = {"BITS4X2", 8, "|u1"},
    [TM_BITS16] = {"BITS16", 16, "<u2"},
    [TM_QI8] = {"QI8", 8, "|i1"},
    [TM_QU8] = {"QU8", 8, "|u1"},
    [TM_QI32] = {"QI32", 32, "<i4"},
    [TM_QU4X2] = {"QU4X2", 4, NULL},
    [TM_QU2X4] = {"QU2X4", 2, NULL},
};

#define N_DTYPES (sizeof table / sizeof table[0])

const char *tm_dtype_name(tm_dtype d)
{
    return (size_t)d < N_DTYPES ? table[d].name : NULL;
}

unsigned tm_dtype_bits(tm_dtype d)
{
    return (size_t)d < N_DTYPES ? table[d].bits : 0;
}

const char *tm_dtype_numpy(tm_dtype d)
{
    return (size_t)d < N_DTYPES ? table[d].numpy : NULL;
}

int tm_dtype_from_name(const char *name, tm_dtype *d)
{
    for (size_t i = 0; i < N_DTYPES; i++)
        if (table[i].name && strcmp(table[i].name, name) == 0) {
            *d = (tm_dtype)i;
            return 0;
        }
    return -EINVAL;
}

int tm_nbytes(tm_dtype d, int rank, const uint64_t *shape, uint64_t *nbytes)
{
    uint64_t n = 1;
    if (tm_dtype_bits(d) == 0 || rank < 0)
        return -EINVAL;
    for (int i = 0; i < rank; i++)
        if (mul_overflows(n, shape[i], &n))
            return -EOVERFLOW;
    if (mul_overflows(n, tm_dtype_bits(d), &n))
        return -EOVERFLOW;
    if (n % 8 != 0 && d != TM_QU4X2 && d != TM_QU2X4)
        return -EINVAL;
    *nbytes = n / 8 + (n % 8 != 0);
    return 0;
}
