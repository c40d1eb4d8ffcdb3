/* SPDX-License-Identifier: MIT
 * What staging.c and commit.c share. */
#ifndef STAGING_I_H
#define STAGING_I_H

#include <pthread.h>

#include "staged_tensor.h"
#include "store.h"

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

/* All with the lock held. */

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
