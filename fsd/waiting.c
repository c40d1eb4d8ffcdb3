/* SPDX-License-Identifier: MIT */
#include "waiting.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { MOST = 256 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards running */
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
static unsigned running;
static atomic_bool stopping;
static _Thread_local fuse_req_t present;

bool waiting_over(void)
{
    return stopping || (present && fuse_req_interrupted(present));
}

void waiting_for(fuse_req_t req)
{
    present = req;
}

static void done(void)
{
    pthread_mutex_lock(&lock);
    running--;
    pthread_cond_broadcast(&ended);
    pthread_mutex_unlock(&lock);
}

static void *wait_and_answer(void *ctx)
{
    struct waiting *w = ctx;
    w->answer(w);
    free(w);
    done();
    return NULL;
}

static bool may_start(void)
{
    pthread_mutex_lock(&lock);
    bool yes = running < MOST && !stopping;
    running += yes;
    pthread_mutex_unlock(&lock);
    return yes;
}

bool waiting_start(const struct waiting *w)
{
    pthread_t thread;
    struct waiting *copy = malloc(sizeof *copy);
    if (!copy || !may_start()) {
        free(copy);
        return false;
    }
    *copy = *w;
    if (pthread_create(&thread, NULL, wait_and_answer, copy) != 0) {
        free(copy);
        done();
        return false;
    }
    pthread_detach(thread);
    return true;
}

void waiting_stop(void)
{
    pthread_mutex_lock(&lock);
    stopping = true;
    while (running)
        pthread_cond_wait(&ended, &lock);
    pthread_mutex_unlock(&lock);
}
