/* SPDX-License-Identifier: MIT
 * Writing a file for good: what stands under a name is the old file or the complete new one, never something
 * between, and after success it is on disk. */
#ifndef SAVE_H
#define SAVE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "extent.h"
#include "report.h"

struct save_options {
    /* Called now and then with the bytes written so far; not 0: stop, with that (a negative errno) as the
     * result. */
    int (*progress)(void *ctx, uint64_t done, uint64_t total);
    void *ctx;
    /* Looks at the whole new file before it replaces anything. Not 0 (a negative errno, said to r): it never
     * does. NULL: nobody looks. */
    int (*approve)(int fd, struct report *r);
    bool parents; /* makes the directories that are missing on the way to path */
    uid_t uid;    /* owner of the new file; (uid_t)-1: the writing process's */
    gid_t gid;
    int dir; /* descriptor of the directory that path is relative to; AT_FDCWD */
};

extern const struct save_options save_plain; /* no progress, no owner, relative to the working directory */

/* Writes x to path: a temporary file in the same directory, fsync, rename, fsync of the directory. The new
 * file has the mode of the one it replaces, else 0666 & ~umask. A symbolic link as target is replaced, not
 * followed. What lies in a source is moved by copy_file_range where the file systems can. Fails with -EISDIR,
 * -ENOENT, -EACCES, -EROFS, -ENOSPC, -EIO (a source changed, or the disk), ..., all said to r; the temporary
 * file is then gone and the target as it was. */
int save_extents(const char *path, const struct extents *x, const struct save_options *o, struct report *r);

/* Makes the directories before each slash of a path that are missing, relative to the directory dir. */
int save_make_parents(int dir, const char *path);

/* Is that the name of a temporary file of ours? */
int save_is_temporary(const char *name);

/* Removes that file of a directory if it is a temporary one of ours that a crash left behind: nobody is at
 * work on it any more. */
void save_clean(int dir, const char *name);

#endif
