/* SPDX-License-Identifier: MIT
 * Kinds of nodes: the model's tree, .safetensors, .export, .staging. Each kind numbers its own nodes and
 * answers the same few questions; the FUSE operations know no more than this interface.
 *
 * Unless said otherwise a function returns 0 or a negative errno, may be called from many threads at once,
 * and answers without waiting for long. A NULL function is one the kind does not have. */
#ifndef NODE_H
#define NODE_H

#include <sys/stat.h>
#include <sys/statvfs.h>

#include "buf.h"
#include "extent.h"

/* An opened file: what the one read path serves. */
struct content {
    struct extents x;
    bool fresh;  /* changes by itself: the kernel must not cache it */
    bool live;   /* can be written: x is asked for anew at each read */
    bool writes; /* opened for writing */

    /* Would reading there have to wait for long? NULL: nowhere. */
    bool (*slow)(const void *ctx, uint64_t off);
    const void *slow_ctx;
};

/* Type and shape of a tensor, as far as a copy of its file may want to know them. */
struct node_tensor {
    uint64_t *shape; /* malloc'd, for whoever asked to free */
    uint64_t nbytes;
    uint32_t rank;
    uint8_t dtype;
};

/* Where a staged copy comes from: content of a node of any kind, and the tensor it is, if it is one. */
struct node_origin {
    const struct extents *x;
    const struct node_tensor *tensor; /* NULL: none, or the form is another (.npy) */
};

struct node_caller {
    uid_t uid;
    gid_t gid;
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
    /* The tensor that a file is; -ENOENT if it is none. */
    int (*tensor)(struct kind *k, uint64_t id, struct node_tensor *t);
    int (*statfs)(struct kind *k, struct statvfs *v);
    void (*free)(struct kind *k);

    /* What can be written has these; a kind without one answers EROFS. */
    int (*make)(struct kind *k, uint64_t dir, const char *name, mode_t type, struct node_caller who,
                uint64_t *id);
    int (*link)(struct kind *k, uint64_t dir, const char *name, const struct node_origin *from,
                struct node_caller who, uint64_t *id);
    int (*remove)(struct kind *k, uint64_t dir, const char *name, bool is_dir);
    int (*rename)(struct kind *k, uint64_t dir, const char *name, uint64_t new_dir, const char *new_name,
                  unsigned flags);
    int (*write)(struct kind *k, uint64_t id, const void *p, size_t len, uint64_t off);
    int (*resize)(struct kind *k, uint64_t id, uint64_t size);
    int (*touch)(struct kind *k, uint64_t id, const struct timespec *mtime);
    int (*chown)(struct kind *k, uint64_t id, uid_t uid, gid_t gid); /* -1: as it is */
    /* Copies [from_off, from_off + len) of an origin to off, by reference where that can be. Returns the
     * number of bytes, which may be less. */
    int64_t (*copy)(struct kind *k, uint64_t id, uint64_t off, const struct node_origin *from,
                    uint64_t from_off, uint64_t len);
    int (*setxattr)(struct kind *k, uint64_t id, const char *name, const char *value, size_t len, int flags);
    int (*removexattr)(struct kind *k, uint64_t id, const char *name);
    int (*flush)(struct kind *k, uint64_t id); /* closed by one who could write */
    int (*fsync)(struct kind *k, uint64_t id); /* of a file */
    /* fsync of a directory: answered by and by, through done(), from another thread; interrupted() asks
     * whether anybody still waits. */
    void (*sync)(struct kind *k, uint64_t id, void (*done)(void *ctx, int err),
                 bool (*interrupted)(void *ctx), void *ctx);
    void (*hold)(struct kind *k, uint64_t id,
                 int64_t n); /* the kernel knows the node n times more (n < 0: less) */
};

#endif
