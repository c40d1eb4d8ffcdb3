/* SPDX-License-Identifier: MIT
 * The kind of node behind .staging: models being written, and the files they became. */
#ifndef STAGING_H
#define STAGING_H

#include "node.h"
#include "tree.h"

struct staging_options {
    const char *output;         /* directory */
    int64_t settle;             /* milliseconds; < 0: never by itself */
    const char *dtype;          /* for what has none; NULL: none */
    const struct tree *mounted; /* its model may be empty */
};

/* Says what is wrong and returns an exit status; else 0 and *out. */
int staging_new(const struct staging_options *o, struct kind **out);

/* Before the session ends: nobody is answered any more. What is pending is committed when the kind is freed.
 */
void staging_stop(struct kind *k);

#endif
