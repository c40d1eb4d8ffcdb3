/* SPDX-License-Identifier: MIT
 * A tensor whose bytes do not lie in the file as they are served: strided, byte-swapped, compressed, or known
 * only from the pickle. They are computed range by range, with a bounded amount of memory. */
#ifndef VIEW_H
#define VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "arena.h"
#include "extent.h"

struct source;
struct unpacked;

struct view {
    /* Where the elements lie: one of these four, or none at all (a tensor without bytes). */
    struct source *source;
    struct unpacked *packed;
    const unsigned char *memory;
    const struct extents *extents;
    uint64_t start, end; /* in it: the first element, and where the storage ends */

    uint64_t nbytes;                /* of the tensor as it is served */
    uint32_t rank;                  /* of what is left when dimensions of 1 are dropped and others joined */
    uint32_t item;                  /* bytes of an element */
    uint32_t swap;                  /* bytes of what is swapped; 0: nothing */
    const uint64_t *shape, *stride; /* in elements */
};

/* Do the elements lie one after the other, in order? */
bool view_contiguous(uint32_t rank, const uint64_t *shape, const uint64_t *stride);

/* Sets rank, shape and stride of v from those of a tensor. -ENOMEM. */
int view_shape(struct view *v, struct arena *a, uint32_t rank, const uint64_t *shape, const uint64_t *stride);

/* An extent_fill whose ctx is a view. */
int view_fill(const void *ctx, uint64_t off, void *buf, size_t len);

/* Appends the bytes to x, from where they lie if they do by now. */
int view_extents(const struct view *v, struct extents *x);

/* Where unpacking is all that is to be done: does it, and says where the bytes lie then. *s NULL: it is not.
 */
int view_unpack(const struct view *v, struct source **s, uint64_t *at);

static inline bool view_is_empty(const struct view *v)
{
    return !v->source && !v->packed && !v->memory && !v->extents;
}

/* What is done to them, for user.safetensors.transform: "gather,byteswap"; "" for nothing. Static memory. */
const char *view_transform(const struct view *v);

#endif
