/* SPDX-License-Identifier: MIT
 * Reading the header of a NumPy file (numpy.lib.format, versions 1.0, 2.0, 3.0). */
#ifndef NPY_READ_H
#define NPY_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "safetensors/tensor.h"

enum { NPY_MOST = 1 << 20, NPY_RANK = 64 }; /* bytes of header looked at, dimensions */

struct npy {
    tm_dtype dtype;
    uint64_t shape[NPY_RANK];
    uint32_t rank;
    uint64_t skip; /* bytes before the elements */
    bool fortran;  /* column-major */
    bool swapped;  /* big-endian */
};

/* How many bytes the elements begin behind, by the first 12 bytes of the file; 0: it is no such file. */
uint64_t npy_skip(const char *p);

/* p holds the first len bytes of the file. False: no valid header, or a type without a safetensors code. */
bool npy_parse(const char *p, size_t len, struct npy *out);

#endif
