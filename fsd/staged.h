/* SPDX-License-Identifier: MIT
 * What is staged: models being written, their directories and files, in memory. All of it is guarded by one
 * lock, which the callers hold (staging.c); nothing here is slow.
 *
 * The content of a staged file is what its references say - ranges of mounted sources or of numbered files,
 * sorted, none overlapping - and, where there is none, what its own numbered file holds at the same offset.
 * So a file that was copied from the mount is one reference, one that was written is a numbered file, and
 * writing over a reference cuts a piece out of it. A numbered file that somebody else refers to, or that a
 * commit is reading, is never written again: its owner is frozen first, that is, what it owned becomes
 * references, and what is written later goes to another numbered file. */
#ifndef STAGED_H
#define STAGED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "arena.h"
#include "extent.h"
#include "node.h"

struct model_dir;

/* A numbered file of a model. */
struct blob {
    struct source *source;
    struct model_dir *model;
    struct staged *writer; /* whose own it is; NULL: never written again */
    uint64_t number;
    unsigned refs; /* none left: only readers still have the source */
    bool doomed;   /* the file goes with the last of them */
};

struct ref {
    uint64_t start, len, off; /* in the file; in the source */
    struct source *source;    /* a reference is held, in the blob too if there is one */
    struct blob *blob;        /* NULL: a mounted source */
};

enum attribute { ATTR_DTYPE, ATTR_SHAPE, ATTR_NAME, N_ATTRS };

struct staged {
    uint64_t id;
    struct staged *parent; /* NULL: the top, or removed */
    char *name;
    struct model_dir *model; /* NULL for the top directory */
    struct model_dir *holds; /* the model that this node keeps in being */
    bool is_dir;
    struct staged *first, *last, *prev, *next; /* entries; siblings in order of cookie, or other orphans */
    uint64_t cookie;                           /* its place in the listing, never given twice */
    uint64_t n_dirs;
    uint64_t held; /* times the kernel knows it */
    uid_t uid;
    gid_t gid;
    struct timespec mtime;
    /* files */
    uint64_t size;
    struct ref *refs;
    size_t n_refs, room_refs;
    struct blob *own;
    char *attr[N_ATTRS];        /* as set by the user; NULL: not */
    size_t name_len;            /* of attr[ATTR_NAME], which may hold NULs */
    char *name_path;            /* where it lay when attr[ATTR_NAME] was set */
    char *bound[2];             /* dtype and shape it was bound to when first closed; NULL: none */
    struct node_tensor *origin; /* copied from this tensor, until it is bound; NULL: from none */
    bool npy;                   /* it is a .npy file with a valid header */
    bool is_bound;
};

/* Metadata of a model. */
struct staged_pair {
    char *key, *value;
    size_t key_len, value_len;
};

struct staged_tree {
    void *by_id, *by_name; /* of tsearch */
    uint64_t last_id, last_cookie;
    struct staged *top;
    struct staged *orphans; /* removed, but still held */
};

int staged_init(struct staged_tree *t);
void staged_free(struct staged_tree *t);

/* NULL if there is none. */
struct staged *staged_by_id(const struct staged_tree *t, uint64_t id);
struct staged *staged_find(const struct staged_tree *t, const struct staged *dir, const char *name);

/* A path relative to the model's top; NULL if there is none, or a component of it is a file. "" is `from`
 * itself. */
struct staged *staged_walk(const struct staged_tree *t, struct staged *from, const char *path);

/* A new entry of dir (NULL: the top), which must not have one of that name. NULL: no memory. */
struct staged *staged_add(struct staged_tree *t, struct staged *dir, const char *name, bool is_dir,
                          struct node_caller who);

/* Takes it out of its directory, which must not hold entries of its own. It stays until nobody holds it
 * (staged_drop). */
void staged_unlink(struct staged_tree *t, struct staged *n);

/* Ends the names that were set for tensors in it. */
int staged_move(struct staged_tree *t, struct staged *n, struct staged *dir, const char *name);

/* Frees a removed node that nobody holds; else does nothing. */
void staged_drop(struct staged_tree *t, struct staged *n);

/* Appends its path relative to its model's top. */
void staged_path(const struct staged *n, struct buf *out);
size_t staged_path_length(const struct staged *n);

/* Is it dir, or somewhere in it? */
bool staged_is_below(const struct staged *n, const struct staged *dir);

/* The next node below `top` in a walk over all of them, NULL at the end; begins with staged_next(top, top).
 */
struct staged *staged_next(const struct staged *top, const struct staged *n);

/* Replaces text by a copy of len bytes (value NULL: by none). -ENOMEM leaves it. */
int staged_set_text(char **text, const char *value, size_t len);

#endif
