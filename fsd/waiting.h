/* SPDX-License-Identifier: MIT
 * Requests that must wait for something long, such as the digests of a whole model: each waits in a thread of
 * its own, so that the threads that answer requests stay free for everybody else. */
#ifndef WAITING_H
#define WAITING_H

#include <stdbool.h>

#ifndef FUSE_USE_VERSION
#define FUSE_USE_VERSION 312
#endif
#include <fuse_lowlevel.h>

#include "node.h"

struct waiting {
    fuse_req_t req;
    fuse_ino_t ino;
    const struct content *content;
    size_t size;
    uint64_t off;
    void (*answer)(struct waiting *w); /* waits, and answers */
};

/* Has the caller of the request this thread answers given up, or does the daemon end? */
bool waiting_over(void);

/* This thread answers that request from now on; NULL: none. */
void waiting_for(fuse_req_t req);

/* Lets a thread of its own answer. false: there is none to be had; *w is unused then. */
bool waiting_start(const struct waiting *w);

/* Ends all waiting, with errors for their callers, and returns when nobody waits any more. */
void waiting_stop(void);

#endif
