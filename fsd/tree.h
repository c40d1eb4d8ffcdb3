/* SPDX-License-Identifier: MIT
 * The immutable tree of a model: which directories and files its tensors' names make (design, section 2).
 * Built once, then only read, by any number of threads.
 *
 * Entries are numbers: 0 is the root, 1 .. n_dirs - 1 are directories, n_dirs + i is the file of tensor i. */
#ifndef TREE_H
#define TREE_H

#include "model.h"
#include "names.h"

#define TREE_ROOT 0u

struct tree_entry {
    const char *name;      /* its component as written, not NUL-terminated */
    uint32_t parent, next; /* next in the same directory; 0: last */
    uint8_t len;
};

struct tree_dir {
    uint32_t first, last; /* entries in it; 0: none */
    uint32_t n, n_dirs;   /* entries in it; directories among them */
    uint32_t prefix;      /* first of its prefixes; INDEX_NONE: none */
};

struct tree {
    const struct model *model;
    enum layout layout;
    struct tree_entry *entry;
    struct tree_dir *dir;
    struct tree_prefix *prefix;
    size_t n_dirs, n_prefixes, room_dirs, room_prefixes;
    struct index by_name; /* entries of large directories by directory and component */
    struct arena arena;   /* components that are no part of a tensor's name */
    uint64_t blocks;      /* of 512 bytes, all tensors together */
};

int tree_build(const struct model *m, enum layout layout, struct tree **out);
void tree_free(struct tree *t);

static inline bool tree_is_dir(const struct tree *t, uint32_t e)
{
    return e < t->n_dirs;
}

static inline const struct tensor *tree_tensor(const struct tree *t, uint32_t e)
{
    return &t->model->tensors[e - t->n_dirs];
}

/* The entry listed in dir under that name, INDEX_NONE if there is none. */
uint32_t tree_find(const struct tree *t, uint32_t dir, const char *name, size_t len);

/* The file found in dir though not listed there: a tensor whose name is what leads to dir and then `name`,
 * dots and all; of several the one with the bytewise smallest name. INDEX_NONE if there is none. */
uint32_t tree_find_raw(const struct tree *t, uint32_t dir, const char *name, size_t len);

/* Appends the path of an entry, relative to the root. */
void tree_path(const struct tree *t, uint32_t e, struct buf *out);

#endif
