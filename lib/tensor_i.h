/* SPDX-License-Identifier: MIT
 * What the rest of the library may do with tensors beyond the public header. */
#ifndef TENSOR_I_H
#define TENSOR_I_H

#include "safetensors/tensor.h"

struct extents;
struct source;
struct view;

/* A tensor over bytes of a source, which it keeps open: mapped where the source is, else read into memory
 * here. NULL with errno. */
tm_tensor *tensor_of_source(tm_dtype dtype, int rank, const uint64_t *shape, struct source *s, uint64_t off);

/* The same for a view: mapped where its bytes could be unpacked into a file, else gathered into memory here,
 * which is refused with ENOMEM where the machine has not enough for it. */
tm_tensor *tensor_of_view(tm_dtype dtype, int rank, const uint64_t *shape, const struct view *v);

/* Appends its bytes to x: as a range of the file where they are mapped from one, else as memory that t must
 * outlive. */
int tensor_extents(const tm_tensor *t, struct extents *x);

#endif
