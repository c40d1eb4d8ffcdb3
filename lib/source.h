/* SPDX-License-Identifier: MIT
 * A file that tensors are read from: mapped read-only, shared by reference, watched for changes in place.
 *
 * Code of ours never reads through the mapping (a file that shrinks would be SIGBUS): it copies with
 * source_read. The mapping is for the kernel, which answers with an error instead, and for callers of the
 * library who asked for it. */
#ifndef SOURCE_H
#define SOURCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "report.h"

struct source {
    atomic_int refs;
    atomic_bool changed;      /* once true, for good */
    atomic_int fd;            /* -1 when the content is in memory, or when each use opens it */
    const unsigned char *map; /* NULL: mapping failed or size is 0, use source_read */
    uint64_t size;
    struct stat st; /* as it was when opened */
    char *name;     /* base name of the path it was opened by */
    char *path;     /* absolute, resolved; NULL: none that it could be found by again */
    bool own;       /* a file of ours: nobody else changes it, so it is not watched */
    int dir;        /* of an own one: while fd is -1 each use opens `name` in this directory */
    void *owner;    /* whoever made an own one may keep a pointer here ... */
    void (*gone)(struct source *s); /* ... and is told when nobody refers to it any more */

    struct shelf *shelf; /* of a file that is opened and mapped when needed (shelf.h), with what that needs */
    struct source *newer, *older;
    unsigned pins;
};

enum source_how { SOURCE_MAP, SOURCE_COPY };

/* Opens a regular file; symlinks are followed. SOURCE_MAP maps it or, where that fails, leaves reads to
 * source_read; SOURCE_COPY reads it into memory. */
int source_open(const char *path, enum source_how how, struct source **out, struct report *r);

/* A source over a file of our own, open for reading; fd is taken over, also when it fails. Of `size` bytes,
 * and mapped; or SOURCE_GROWS: any range may be asked for. NULL: no memory. */
#define SOURCE_GROWS UINT64_MAX
struct source *source_own(int fd, uint64_t size);

/* The same, over a file that grows and is opened anew for each use, so that there may be any number of them.
 * dir is borrowed. */
struct source *source_own_at(int dir, const char *name);

/* Opens such a file for good: its name is about to go. */
int source_pin(struct source *s);

/* A source without bytes, for what is no file. st NULL: made now, by the calling user. NULL: no memory. */
struct source *source_none(const char *name, const struct stat *st);

/* A source that is gone: every use of it is -EIO. NULL: no memory. */
struct source *source_lost(const char *path);

struct source *source_ref(struct source *s);
void source_free(struct source *s); /* drops a reference */

/* Where it is mapped, NULL if it is not: use source_read then. */
const unsigned char *source_mapped(struct source *s);

/* Its descriptor for one use, to be given back; -1: it lies in memory; or another negative errno. */
int source_fd(const struct source *s);
void source_fd_done(const struct source *s, int fd);

/* Copies [off, off + len). -EIO if the file is shorter than that by now, or a read error. */
int source_read(const struct source *s, uint64_t off, void *buf, size_t len);

/* -EIO once the file was truncated or overwritten in place (its size or mtime is no longer what it was).
 * Renaming, unlinking, replacing and chmod change nothing. Costs one fstat. */
int source_check(struct source *s);

/* Called once for a source that has changed; set once, before there are threads. NULL: nobody wants to know.
 */
extern void (*source_on_change)(const struct source *s);

/* Makes the pages of a mapped range present, in large reads where they are on disk. -EIO where that fails. */
int source_populate(const struct source *s, uint64_t off, uint64_t len);

/* The parts a source is made of. */
const unsigned char *source_map_file(int fd, uint64_t size, bool shared);
void source_unmap(const unsigned char *p, uint64_t size);
int source_read_fd(int fd, uint64_t off, void *buf, size_t len);

#endif
