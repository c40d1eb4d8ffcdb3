/* SPDX-License-Identifier: MIT
 * The canonical safetensors file of a set of tensors: header text and order, byte for byte as the reference
 * implementation writes them (safetensors 0.4.5 and 0.6, `serialize`): by dtype, the last of its enum first,
 * then by name; no space in the JSON; the header padded with spaces to a multiple of 8. */
#ifndef CANONICAL_H
#define CANONICAL_H

#include "buf.h"
#include "model.h"

struct canonical_item {
    const char *name; /* UTF-8 */
    const uint64_t *shape;
    uint64_t nbytes;
    uint32_t name_len, rank;
    uint8_t dtype;
    const void *who; /* the caller's: whose bytes they are */
};

/* May a tensor have that name? -EINVAL, said to r, for what is no UTF-8 and for "__metadata__". */
int canonical_name(const char *name, size_t len, struct report *r);

/* Can a safetensors file hold that dtype? -EINVAL, said to r. */
int canonical_dtype(tm_dtype d, const char *name, size_t len, struct report *r);

/* Sorts the items into their order in the file and appends length and header to out. -EEXIST for a name
 * twice, -EFBIG for a header the format has no room for, -EOVERFLOW, -ENOMEM. Names and dtypes were checked
 * before. */
int canonical_header(struct canonical_item *items, size_t n, const struct metadata *metadata,
                     size_t n_metadata, struct buf *out, struct report *r);

/* The whole model as one canonical file: *x gets header and tensors. Fails also with -EINVAL for what a
 * safetensors file cannot hold. */
int canonical_extents(const struct model *m, struct extents *x, struct report *r);

/* The header text alone, as it would be in that file, without length and padding. */
int canonical_header_text(const struct model *m, struct buf *out, struct report *r);

#endif
