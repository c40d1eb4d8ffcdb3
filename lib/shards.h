/* SPDX-License-Identifier: MIT
 * Which files of a directory are the shards of its model, and which tensors each must hold. */
#ifndef SHARDS_H
#define SHARDS_H

#include "directory.h"

struct shards {
    const char **names; /* sorted by their bytes */
    size_t n;
    const struct jvalue *weight_map; /* NULL without an index */
    const char *index;               /* name of the index */
    struct arena arena;
};

/* index: see directory_open. */
int shards_find(struct shards *x, const struct directory *d, const char *index, struct report *r);
void shards_free(struct shards *x);

/* The weight_map in the text of an index; NULL with *why if it is none. */
const struct jvalue *shards_weight_map(const struct buf *text, struct arena *a, const char **why);

/* Compares what the shards hold with what the index says. */
int shards_compare(const struct shards *x, const struct model *m, struct report *r);

#endif
