/* SPDX-License-Identifier: MIT
 * Members of a tar archive, as far as PyTorch's of 2017 needs them: plain files with short names, and PAX
 * headers. Nothing is ever extracted. */
#ifndef TAR_H
#define TAR_H

#include <stdbool.h>

#include "source.h"

struct tar_member {
    char name[101];
    uint64_t at, size;
};

struct tar {
    const struct source *source;
    uint64_t next; /* where the next header lies */
};

/* Do these first n bytes of a file begin with a tar header? */
bool tar_is(const unsigned char *b, size_t n);

/* The next member. 1, 0 at the end, or a negative errno after a report: a member that is no plain file, or
 * lies outside, is refused. */
int tar_next(struct tar *t, struct tar_member *m, struct report *r);

#endif
