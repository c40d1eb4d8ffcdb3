/* SPDX-License-Identifier: MIT
 * A model directory as a ThinTensor archive, in the form of an extent list: header, manifest and page table
 * are made here, the pages are ranges of the shards. Its size is known at once; the digests of the pages only
 * once somebody reads what contains them, or asks for them. */
#ifndef THIN_EXPORT_H
#define THIN_EXPORT_H

#include "extent.h"
#include "hashing.h"
#include "thin_build.h"

struct thin_options {
    const char *arch;  /* instead of what config.json says; NULL: as it says */
    bool no_tokenizer; /* no digests of the tokenizer's files */
};

struct thin_export;

/* From a directory's path; or from the directory opened as a model, which must outlive the export and is
 * -EINVAL where it is none. All rules are looked at here, so that what is made keeps them. */
int thin_export_open(const char *path, const struct thin_options *o, struct thin_export **out,
                     struct report *r);
int thin_export_model(const struct model *m, const struct thin_options *o, struct thin_export **out,
                      struct report *r);
void thin_export_free(struct thin_export *x); /* stops the hashing first */

uint64_t thin_export_size(const struct thin_export *x);

/* Appends the archive; x must outlive the list. */
int thin_export_extents(struct thin_export *x, struct extents *out);

/* Computes all digests, or waits for another thread that does. `stop` is asked now and then and may be NULL:
 * true ends the waiting with -EINTR; the hashing goes on. -EIO: a shard changed or cannot be read. */
int thin_export_hash(struct thin_export *x, bool (*stop)(void *ctx), void *ctx);

/* Can the byte at off be read without waiting for digests? */
bool thin_export_ready(const struct thin_export *x, uint64_t off);

/* How far the hashing is, in bytes. */
void thin_export_progress(struct thin_export *x, uint64_t *done, uint64_t *total);

/* What readers of the computed part ask in place of stop: set once, before any thread reads. */
extern bool (*thin_export_interrupted)(void);

const struct thin_build *thin_export_build(const struct thin_export *x);

/* The shards of an export opened by path, in the order of their names; NULL: there are no more. */
const struct source *thin_export_shard(const struct thin_export *x, size_t i);

/* Number of the tensor that is the i-th blob. */
uint32_t thin_export_page(const struct thin_export *x, size_t i);
uint64_t thin_export_prefix(const struct thin_export *x); /* bytes before the first blob */

#endif
