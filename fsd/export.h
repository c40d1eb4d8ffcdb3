/* SPDX-License-Identifier: MIT
 * The kind of node behind .export: the whole model as one file of another form. `cp` is the converter. */
#ifndef EXPORT_H
#define EXPORT_H

#include "model.h"
#include "node.h"

/* m and base (the exports' name without its ending) must outlive the kind. NULL: no memory. */
struct kind *export_kind_new(const struct model *m, const char *base);

/* Why a form is not there: appends a line for each that is not, to be shown in .safetensors/export-error. */
void export_errors(struct kind *k, struct buf *out);

/* Appends lines about what is being computed for exports. */
void export_stats(struct kind *k, struct buf *out);

/* The name that exports get: a source's base name without a known ending. malloc'd; NULL: no memory. */
char *export_base(const char *source);

#endif
