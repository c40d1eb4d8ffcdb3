/* SPDX-License-Identifier: MIT
 * What the parts of the .staging kind share. */
#ifndef STAGING_I_H
#define STAGING_I_H

#include <pthread.h>

#include "staged_tensor.h"
#include "store.h"

#define STAGED_ENDING ".safetensors"

struct staging {
    struct kind kind;
    pthread_mutex_t lock; /* guards all below, and all that is staged */
    pthread_cond_t wake;  /* of the worker */
    pthread_t worker;
    bool stopping; /* the worker ends when nothing is left to do */
    struct store store;
    struct staged_rules rules;
    int64_t settle; /* milliseconds; < 0: never by itself */
};

/* ---- staging.c: looking ---- */

/* A node's number is that of what is staged, times two; plus one for the finished file of a model. */
uint64_t staging_id(const struct staged *n);
bool staging_is_finished(uint64_t id);

/* Each operation enters, and leaves with its result. */
struct staging *staging_enter(struct kind *k);
int staging_leave(struct staging *s, int err);

struct staged *staging_node(const struct staging *s, uint64_t id);

/* The file, or the directory, that may be changed. */
int staging_find(const struct staging *s, uint64_t id, bool dir, struct staged **out);
bool staging_is_model(const struct staging *s, const struct staged *n);

/* The model whose finished file that name is. */
struct staged *staging_model_of_output(const struct staging *s, const char *name);

/* ---- staging_names.c: making, removing, renaming ---- */

/* With the lock held: a new entry, recorded; and the end of one that is a file or an empty directory. */
int staging_make_node(struct staging *s, struct staged *d, const char *name, bool is_dir,
                      struct node_caller who, struct staged **out);
int staging_drop(struct staging *s, struct staged *n);

/* Operations, as node.h describes them. */
int staging_make(struct kind *k, uint64_t dir, const char *name, mode_t type, struct node_caller who,
                 uint64_t *id);
int staging_remove(struct kind *k, uint64_t dir, const char *name, bool is_dir);
int staging_rename(struct kind *k, uint64_t dir, const char *name, uint64_t new_dir, const char *new_name,
                   unsigned flags);

/* ---- staging_content.c ---- */

int staging_write(struct kind *k, uint64_t id, const void *p, size_t len, uint64_t off);
int staging_resize(struct kind *k, uint64_t id, uint64_t size);
int64_t staging_copy(struct kind *k, uint64_t id, uint64_t off, const struct node_origin *from,
                     uint64_t from_off, uint64_t len);

/* With the lock held: what the file owns becomes references, for others are about to read it. */
int staging_freeze(struct staged *n);
int staging_link(struct kind *k, uint64_t dir, const char *name, const struct node_origin *from,
                 struct node_caller who, uint64_t *id);
int staging_flush(struct kind *k, uint64_t id);
int staging_fsync(struct kind *k, uint64_t id);
void staging_sync(struct kind *k, uint64_t id, void (*done)(void *ctx, int err),
                  bool (*interrupted)(void *ctx), void *ctx);

/* ---- staging_attrs.c ---- */

/* With the lock held; value NULL removes. */
int staging_set_attribute(struct staged *n, enum attribute a, const char *value, size_t len);

int staging_touch(struct kind *k, uint64_t id, const struct timespec *mtime);
int staging_chown(struct kind *k, uint64_t id, uid_t uid, gid_t gid);
int staging_getxattr(struct kind *k, uint64_t id, const char *name, struct buf *value);
int staging_listxattr(struct kind *k, uint64_t id, struct buf *names);
int staging_setxattr(struct kind *k, uint64_t id, const char *name, const char *value, size_t len, int flags);
int staging_removexattr(struct kind *k, uint64_t id, const char *name);

/* ---- commit.c: all with the lock held ---- */

/* Something about the model changed. */
void commit_edited(struct staging *s, struct model_dir *m);

/* Asks for a commit now; done() comes from the worker. -ENOMEM: it will not. */
int commit_request(struct staging *s, struct model_dir *m, void (*done)(void *ctx, int err),
                   bool (*interrupted)(void *ctx), void *ctx);

/* Answers all who wait; what they asked for still happens. */
void commit_dismiss(struct staging *s);

/* Appends the state of the model, as user.safetensors.status says it. */
void commit_status(struct staging *s, struct model_dir *m, struct buf *out);

/* The worker's thread, until s->stopping. */
void *commit_worker(void *staging);

/* Appends the file name of the model's output. */
void commit_target(const struct model_dir *m, struct buf *out);

#endif
