/* SPDX-License-Identifier: MIT
 * The kind of node behind .safetensors: what the model and the daemon say about themselves, as files. */
#ifndef INFO_H
#define INFO_H

#include "node.h"
#include "tree.h"

/* t and exports (the kind behind .export) must outlive the kind. NULL: no memory. */
struct kind *info_kind_new(const struct tree *t, struct kind *exports);

#endif
