/* SPDX-License-Identifier: MIT */
#include "bytes_in.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int bytes_in_source(struct bytes_in *b, const struct source *s, uint64_t start, uint64_t end)
{
    *b = (struct bytes_in){.source = s, .start = start, .end = end, .next = start};
    b->block = malloc(BYTES_IN_BLOCK);
    return b->block ? 0 : -ENOMEM;
}

void bytes_in_memory(struct bytes_in *b, const void *p, size_t len)
{
    *b = (struct bytes_in){.memory = p, .end = len, .next = len, .have = len};
}

void bytes_in_free(struct bytes_in *b)
{
    free(b->block);
    b->block = NULL;
}

int bytes_in_more(struct bytes_in *b)
{
    uint64_t left = b->end - b->next;
    size_t n = left < BYTES_IN_BLOCK ? (size_t)left : BYTES_IN_BLOCK;
    if (n == 0 || !b->source || b->err < 0)
        return -1;
    b->err = source_read(b->source, b->next, b->block, n);
    if (b->err < 0)
        return -1;
    b->next += n;
    b->at = 0;
    b->have = n;
    return 0;
}

int bytes_in_take(struct bytes_in *b, void *p, uint64_t len)
{
    char *to = p;
    if (len > bytes_in_left(b))
        return -1;
    while (len) {
        size_t n = b->have - b->at < len ? b->have - b->at : (size_t)len;
        if (to && n) {
            memcpy(to, (b->memory ? b->memory : b->block) + b->at, n);
            to += n;
        }
        b->at += n;
        len -= n;
        if (len >= BYTES_IN_BLOCK) { /* what is large goes without the block between */
            if (to)
                b->err = source_read(b->source, b->next, to, (size_t)len);
            b->next += len;
            return b->err < 0 ? -1 : 0;
        }
        if (len && bytes_in_more(b) < 0)
            return -1;
    }
    return 0;
}
