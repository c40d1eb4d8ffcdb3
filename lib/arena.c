/* SPDX-License-Identifier: MIT */
#include "arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "huge.h"

struct arena_block {
    struct arena_block *below;
    size_t size;
    alignas(max_align_t) unsigned char data[];
};

enum { SMALLEST = 4096, LARGEST = 16 << 20 };

/* Blocks double in size up to LARGEST, so that small models stay small and large ones need few blocks. */
static int grow(struct arena *a, size_t need)
{
    size_t size = a->top ? a->top->size * 2 : SMALLEST;
    if (size > LARGEST)
        size = LARGEST;
    if (size < need)
        size = need;
    if (size > SIZE_MAX - sizeof(struct arena_block))
        return -1;
    struct arena_block *b = in_huge_pages(malloc(sizeof *b + size), sizeof *b + size);
    if (!b)
        return -1;
    b->below = a->top;
    b->size = size;
    a->top = b;
    a->left = size;
    return 0;
}

void *arena_alloc(struct arena *a, size_t size, int align)
{
    size_t skip = align ? a->left % alignof(max_align_t) : 0;
    if (!a->top || skip > a->left || a->left - skip < size) {
        if (size > SIZE_MAX - alignof(max_align_t))
            return NULL;
        size_t need = (size + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t);
        if (grow(a, need) < 0)
            return NULL;
        skip = 0;
    }
    unsigned char *p = a->top->data + (a->top->size - a->left) + skip;
    a->left -= skip + size;
    return p;
}

char *arena_text(struct arena *a, const char *text, size_t len)
{
    char *p = len < SIZE_MAX ? arena_alloc(a, len + 1, 0) : NULL;
    if (!p)
        return NULL;
    if (len)
        memcpy(p, text, len);
    p[len] = 0;
    return p;
}

void arena_reset(struct arena *a)
{
    if (!a->top)
        return;
    struct arena rest = {.top = a->top->below};
    a->top->below = NULL;
    a->left = a->top->size;
    arena_free(&rest);
}

void arena_free(struct arena *a)
{
    while (a->top) {
        struct arena_block *below = a->top->below;
        free(a->top);
        a->top = below;
    }
    a->left = 0;
}
