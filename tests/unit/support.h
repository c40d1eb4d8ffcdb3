/* SPDX-License-Identifier: MIT
 * What the unit tests share: running a suite, files in memory, JSON with NULs. */
#ifndef SUPPORT_H
#define SUPPORT_H

#include <check.h>
#include <cjson/cJSON.h>
#include <stddef.h>
#include <stdint.h>

#include "model.h"

#define VECTORS "tests/vectors/"

/* Runs one suite with one case; the result is main's. Limits on time are there for hangs only. */
int unit_run(const char *suite, void (*add)(TCase *tc));

/* A file that lives in memory and is opened by a path all the same. Goes with the process. */
struct memfile {
    int fd;
    char path[40];
};
struct memfile memfile_new(const void *p, size_t len);
struct memfile memfile_model(const char *header, size_t len, const void *data, size_t data_len);

/* The whole of a file, with a NUL behind it; to be freed. Fails the test if it cannot be read. */
char *read_whole(const char *path, size_t *len);

/* Parses a JSON file. cJSON has no NULs in strings: they come as U+E000, which text_of turns back. */
cJSON *json_file(const char *path);
char *text_of(const cJSON *string, size_t *len);

/* A model of U8 tensors of those names, each of one byte more than the one before it, at the place where a
 * file of them would have it. */
struct names {
    char **s;
    size_t *len;
    size_t n;
};
struct model *model_of(const struct names *names);

/* Is the file of tensor i found at path, one component after the other? */
struct tree;
uint32_t walk(const struct tree *t, const char *path, size_t len);

#endif
