/* SPDX-License-Identifier: MIT
 * A directory of its own for each test that writes files, and what is in it. */
#ifndef PLACE_H
#define PLACE_H

#include <stddef.h>

/* Fixtures: a new empty directory before, away with it and all that is in it after. */
void place_make(void);
void place_remove(void);

/* "DIRECTORY/name"; good until the 8th call after this one. */
const char *place_path(const char *name);

/* The names in the directory, sorted, each with a space behind it. */
const char *place_list(void);

void place_put(const char *name, const void *p, size_t len);

/* Fails the test unless the file has exactly these bytes. */
void place_expect(const char *name, const void *p, size_t len);

/* Covers the directory with a small tmpfs that only this process sees and that goes with it; options as for
 * mount(8). 0 after a loud SKIP if that is not permitted here. */
int place_cover(const char *options);

#endif
