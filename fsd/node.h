/* SPDX-License-Identifier: MIT
 * Kinds of nodes: the model's tree, .safetensors, .export, .staging. Each kind numbers its own nodes and
 * answers the same few questions; the FUSE operations know no more than this interface.
 *
 * Unless said otherwise a function returns 0 or a negative errno, may be called from many threads at once,
 * and answers without waiting for anything. A NULL function is one the kind does not have. */
#ifndef NODE_H
#define NODE_H

#include <sys/stat.h>

#include "buf.h"
#include "extent.h"

/* An opened file: what the one read path serves. */
struct content {
    struct extents x;
    bool fresh; /* changes by itself: the kernel must not cache it */
};

/* Takes an entry of a listing; false: no more now. `next` is where to go on behind it. */
typedef bool (*node_emit)(void *ctx, const char *name, size_t len, uint64_t id, mode_t type, uint64_t next);

struct kind {
    const struct kind_ops *ops;
};

struct kind_ops {
    const char *name; /* under which its top directory, node 0, is found in the root; NULL: it is the root */
    bool forever;     /* nothing in it ever changes: the kernel may keep all it learns */
    bool same_names;  /* no name in it comes or goes, though what is behind it may change */

    int (*lookup)(struct kind *k, uint64_t dir, const char *name, uint64_t *id);
    /* st comes with owner, times and permission bits for a file; the kind sets the type bits in st_mode,
     * st_size and, where it is not 1, st_nlink. */
    int (*getattr)(struct kind *k, uint64_t id, struct stat *st);
    /* Lists from `from` on: 0, or a `next` of an earlier call, which stays valid whatever is added or
     * removed. */
    int (*readdir)(struct kind *k, uint64_t dir, uint64_t from, node_emit emit, void *ctx);
    /* The value of an attribute; -ENODATA if there is none. */
    int (*getxattr)(struct kind *k, uint64_t id, const char *name, struct buf *value);
    /* Appends the names of all attributes, each with its NUL. */
    int (*listxattr)(struct kind *k, uint64_t id, struct buf *names);
    int (*open)(struct kind *k, uint64_t id, struct content *c);
    void (*free)(struct kind *k);
};

#endif
