/* SPDX-License-Identifier: MIT
 * Bytes that come one after the other, from a range of a source or from memory, with a place that is known.
 */
#ifndef BYTES_IN_H
#define BYTES_IN_H

#include <stddef.h>
#include <stdint.h>

#include "source.h"

enum { BYTES_IN_BLOCK = 65536 };

struct bytes_in {
    const struct source *source; /* NULL: from memory */
    const unsigned char *memory;
    uint64_t start, end;  /* the range of the source, or 0 and the length of the memory */
    uint64_t next;        /* where the next block begins */
    size_t at, have;      /* of the present block */
    unsigned char *block; /* of BYTES_IN_BLOCK bytes, allocated; not for memory */
    int err;              /* the source could not be read */
};

int bytes_in_source(struct bytes_in *b, const struct source *s, uint64_t start, uint64_t end);
void bytes_in_memory(struct bytes_in *b, const void *p, size_t len);
void bytes_in_free(struct bytes_in *b);

/* Takes the next block. -1: there is none. */
int bytes_in_more(struct bytes_in *b);

/* Copies the next len bytes, skips them (p NULL). -1: there are fewer. */
int bytes_in_take(struct bytes_in *b, void *p, uint64_t len);

/* The next byte, -1 at the end. */
static inline int bytes_in_byte(struct bytes_in *b)
{
    if (b->at == b->have && bytes_in_more(b) < 0)
        return -1;
    return b->memory ? b->memory[b->at++] : b->block[b->at++];
}

/* Where the next byte lies, in the source or in the memory. */
static inline uint64_t bytes_in_at(const struct bytes_in *b)
{
    return b->next - (b->have - b->at);
}

static inline uint64_t bytes_in_left(const struct bytes_in *b)
{
    return b->end - bytes_in_at(b);
}

#endif
