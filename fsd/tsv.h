/* SPDX-License-Identifier: MIT
 * tensors.tsv: a line for each tensor. The text of a large model is large, so it is never held: lines are
 * made when they are read, with the help of the place of every 256th line. */
#ifndef TSV_H
#define TSV_H

#include "tree.h"

struct tsv {
    const struct tree *tree;
    uint64_t *start; /* of each block of lines */
    size_t n_blocks;
    uint64_t size;
};

int tsv_open(struct tsv *v, const struct tree *t);
void tsv_close(struct tsv *v);

/* An extent_fill: ctx is a struct tsv. */
int tsv_fill(const void *ctx, uint64_t off, void *buf, size_t len);

#endif
