/* SPDX-License-Identifier: MIT
 * The NumPy file format (numpy.lib.format, versions 1.0 and 2.0): a header before the raw elements. */
#ifndef NPY_H
#define NPY_H

#include "buf.h"
#include "safetensors/tensor.h"

/* Appends the header of a C-contiguous array, a multiple of 64 bytes long. -ENOENT if NumPy has no such type.
 */
int npy_header(struct buf *out, tm_dtype dtype, const uint64_t *shape, uint32_t rank);

#endif
