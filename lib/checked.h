/* SPDX-License-Identifier: MIT
 * Checked 64-bit arithmetic: all numbers from a file go through these. True means the result does not fit. */
#ifndef CHECKED_H
#define CHECKED_H

#include <stdbool.h>
#include <stdint.h>

static inline bool mul_overflows(uint64_t a, uint64_t b, uint64_t *out)
{
    return __builtin_mul_overflow(a, b, out);
}

static inline bool add_overflows(uint64_t a, uint64_t b, uint64_t *out)
{
    return __builtin_add_overflow(a, b, out);
}

/* Does [off, off + len) lie inside [0, size)? */
static inline bool range_fits(uint64_t off, uint64_t len, uint64_t size)
{
    return off <= size && len <= size - off;
}

#endif
