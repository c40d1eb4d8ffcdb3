/* SPDX-License-Identifier: MIT
 * The files of one directory as sources, of which only some are open at a time: a model of a thousand shards
 * must not hold a thousand descriptors. A file that was closed is opened again by its name when it is needed,
 * and must then be the one it was. */
#ifndef SHELF_H
#define SHELF_H

#include "source.h"

struct shelf;

/* Takes the descriptor of a directory, also when it fails. NULL: no memory. */
struct shelf *shelf_new(int dir);
struct shelf *shelf_ref(struct shelf *f);
void shelf_free(struct shelf *f); /* drops a reference; sources hold their own */
int shelf_dir(const struct shelf *f);

/* Opens a regular file of the directory; symlinks are followed. SOURCE_MAP maps it when that is first asked
 * for. */
int shelf_open(struct shelf *f, const char *name, enum source_how how, struct source **out, struct report *r);

/* For source.c: the descriptor of s, which stays open until shelf_unpin; -EIO if the file is gone or another.
 * shelf_map maps s, once. shelf_forget is the end of s. */
int shelf_pin(struct source *s);
void shelf_unpin(struct source *s);
const unsigned char *shelf_map(struct source *s);
void shelf_forget(struct source *s);

#endif
