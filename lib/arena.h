/* SPDX-License-Identifier: MIT
 * Memory that is released all at once: names, shapes and other small things that live as long as their model.
 */
#ifndef ARENA_H
#define ARENA_H

#include <stddef.h>

struct arena_block;
struct arena {
    struct arena_block *top;
    size_t left; /* bytes free at the end of top */
};

/* size bytes, aligned for any type when align is true, else not at all (text). NULL: no memory. */
void *arena_alloc(struct arena *a, size_t size, int align);

/* A copy of len bytes with a NUL behind it. */
char *arena_text(struct arena *a, const char *text, size_t len);

/* Forgets everything but keeps a block for what comes next. */
void arena_reset(struct arena *a);
void arena_free(struct arena *a);

#endif
