/* SPDX-License-Identifier: MIT
 * A directory as a model: its shards, by an index that says which of them holds what, or all of them. */
#ifndef DIRECTORY_H
#define DIRECTORY_H

#include "buf.h"
#include "model.h"
#include "shelf.h"

struct directory {
    struct shelf *shelf;
    char **names; /* of its regular files, and all *.safetensors whatever they are; sorted by their bytes */
    size_t n_names;
    struct stat st;
};

/* Opens the directory itself and lists it. */
int directory_new(const char *path, struct directory **out, struct report *r);
void directory_free(struct directory *d);

/* Opens the model in it. index: the name of the index file to go by, NULL: as is usual. */
int directory_open(const char *path, const char *index, enum source_how how, struct model **out,
                   struct report *r);

/* The same, given the path of the index. */
int directory_open_index(const char *path, enum source_how how, struct model **out, struct report *r);

/* Is that file the index of a model directory (JSON with a weight_map)? */
bool directory_is_index(const struct source *s);

/* Reads a whole file of the directory. -ENOENT is not said to r. */
int directory_read(const struct directory *d, const char *name, struct buf *out, struct report *r);

/* Opens one file of the directory as a model by itself, its name before all that is said to r. -ENOENT is not
 * said. */
int directory_part(const struct directory *d, const char *name, enum source_how how, struct model **out,
                   struct report *r);

/* Is that name a regular file, or leads to one? */
bool directory_is_file(const struct directory *d, const char *name);

/* Has the name that ending? */
bool directory_ends(const char *name, const char *ending);

/* Takes from st what the owner, group and mode of another file do not allow as well. */
void directory_restrict(struct stat *st, const struct stat *also);

#endif
