/* SPDX-License-Identifier: MIT
 * What the rest of the library may do with tensors beyond the public header. */
#ifndef TENSOR_I_H
#define TENSOR_I_H

#include "safetensors/tensor.h"

struct source;

/* A tensor over bytes of a source, which it keeps open: mapped where the source is, else read into memory
 * here. NULL with errno. */
tm_tensor *tensor_of_source(tm_dtype dtype, int rank, const uint64_t *shape, struct source *s, uint64_t off);

#endif
