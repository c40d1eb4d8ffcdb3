/* SPDX-License-Identifier: MIT
 * The bytes of an archive before its pages. */
#ifndef THIN_WRITE_H
#define THIN_WRITE_H

#include "thin_build.h"

/* A page table record to be. */
struct thin_entry {
    const fs_text *id;
    uint64_t size;
    const unsigned char *digest;
};

/* Header, manifest and page table of v[0 .. n), whose blobs follow each other in that order. -ENOMEM,
 * -EOVERFLOW. */
int thin_write_head(const struct thin_manifest *m, const struct thin_entry *v, size_t n, struct buf *out);

/* The same of a conversion. */
int thin_write_prefix(const struct thin_build *b, const uint32_t *order, struct buf *out);

#endif
