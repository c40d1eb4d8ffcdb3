/* SPDX-License-Identifier: MIT
 * Which tensor a staged file is: its name, dtype and shape by the rules of section 5 of the design. */
#ifndef STAGED_TENSOR_H
#define STAGED_TENSOR_H

#include "report.h"
#include "staged.h"
#include "tree.h"

/* What the rules ask besides the file itself. */
struct staged_rules {
    const struct tree *mounted; /* NULL: none */
    enum layout layout;
    const char *dtype; /* for files that have none; NULL: none */
};

struct staged_item {
    const struct staged *file;
    char *name; /* malloc'd */
    size_t name_len;
    tm_dtype dtype;
    uint64_t *shape; /* malloc'd */
    uint32_t rank;
    uint64_t skip, nbytes; /* the bytes begin behind a .npy header ... */
    bool fortran, swapped; /* ... and may be column-major or big-endian there */
};

/* Decides what a file is that is closed or referred to for the first time, so that it stays that wherever it
 * is moved. Changes n->bound, n->npy, n->is_bound; true if it did. */
bool staged_bind(const struct staged_rules *r, struct staged *n);

/* 0 and *out (release with staged_item_free); 1 if it is something that a tool left behind; else a negative
 * errno with the reason, which names the tensor, in *why. */
int staged_describe(const struct staged_rules *r, const struct staged *n, struct staged_item *out,
                    struct report *why);
void staged_item_free(struct staged_item *i);

/* The dtype or shape it has at present, by whatever rule; NULL if none. */
const char *staged_value(const struct staged *n, enum attribute a);

/* Appends the name of its tensor. */
void staged_name(const struct staged_rules *r, const struct staged *n, struct buf *out);

#endif
