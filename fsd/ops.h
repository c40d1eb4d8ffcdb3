/* SPDX-License-Identifier: MIT
 * The low-level FUSE operations, over kinds of nodes. */
#ifndef OPS_H
#define OPS_H

#ifndef FUSE_USE_VERSION
#define FUSE_USE_VERSION 312
#endif
#include <fuse_lowlevel.h>

#include "node.h"

enum { MAX_KINDS = 4 };

struct fs {
    struct kind *kind[MAX_KINDS]; /* [0] is the root's */
    size_t n_kinds;
    struct stat base;  /* owner, times and permission bits of every file; directories add x to each r */
    bool direct_io;    /* the kernel keeps no pages */
    bool no_opendir;   /* the kernel need not ask */
    unsigned max_read; /* bytes in one request, as the mount was told; 0: the kernel's own limit */
    uint64_t blocks;   /* for statfs: of 512 bytes */
    uint64_t files;
};

extern const struct fuse_lowlevel_ops fs_ops; /* userdata: struct fs * */

#endif
