/* SPDX-License-Identifier: MIT
 * Archives made from archives, and from pages that lie in files. Results are extent lists, to be saved. */
#ifndef THIN_REPACK_H
#define THIN_REPACK_H

#include "thin.h"

/* The archive t, sound in all, with its blobs in another order, or with the projections of each layer fused.
 * The manifest of t is changed by the latter. Errors by kind: repack-layout, fuse-page-missing,
 * fuse-incompatible, manifest-invalid. */
int thin_repack_extents(struct thin *t, const char *layout, struct extents *out, struct report *r);

/* An archive from a manifest file and a directory of ID.bin files. Errors by kind: manifest-parse,
 * manifest-invalid, page-file-missing, page-file-size, page-file-checksum, page-file-duplicate. */
int thin_pack_extents(const char *manifest, const char *pages, struct extents *out, struct report *r);

#endif
