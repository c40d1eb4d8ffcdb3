/* SPDX-License-Identifier: MIT
 * The content of staged files: see staged.h. Each change is told to the record by the caller. */
#ifndef STAGED_CONTENT_H
#define STAGED_CONTENT_H

#include "staged.h"

/* A numbered file. It is opened for each use, unless fd (taken over) is not -1: for one without a name. NULL:
 * no memory, and fd is closed. */
struct blob *blob_new(struct model_dir *m, uint64_t number, int fd);
void blob_free(struct blob *b); /* drops a reference; with the last one the file goes, once nobody reads it */

/* [at, at + len) is no longer referred to but own. True in *cut if that changed anything. -ENOMEM. */
int content_cut(struct staged *n, uint64_t at, uint64_t len, bool *cut);

/* Is any of [at, at + len) referred to? */
bool content_has_ref(const struct staged *n, uint64_t at, uint64_t len);

/* [at, at + len), which is not referred to, is [off, off + len) of a source; its blob if it is one's. Grows
 * the file. */
int content_refer(struct staged *n, uint64_t at, uint64_t len, struct source *s, struct blob *b,
                  uint64_t off);

/* What is own becomes references. 0 if there was nothing own, 1 if there was, -ENOMEM. */
int content_freeze(struct staged *n);

/* Exchanges what two files hold. */
void content_swap(struct staged *a, struct staged *b);

/* The file as extents. */
int content_extents(const struct staged *n, struct extents *x);

/* Opens its numbered files for good, for they are about to lose their names. */
void content_pin(const struct staged *n);

void content_clear(struct staged *n);

#endif
