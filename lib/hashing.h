/* SPDX-License-Identifier: MIT
 * BLAKE3 digests of many ranges of files, over all cores. */
#ifndef HASHING_H
#define HASHING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "blake3.h"

struct source;

struct hash_range {
    struct source *source;
    uint64_t off, len;
    unsigned char digest[BLAKE3_OUT];
    int err; /* 0, or why there is no digest: -EIO, -EINTR ... */
};

struct hash_control {
    atomic_bool stop;    /* set from elsewhere: ends the work soon, with -EINTR for what is not done */
    atomic_ullong bytes; /* hashed so far */
};

/* Hashes v[0 .. n). control may be NULL. 0, -EINTR or -ENOMEM; reading errors are told for each range alone.
 */
int hash_ranges(struct hash_range *v, size_t n, struct hash_control *control);

#endif
