/* SPDX-License-Identifier: MIT
 * The kind of node that shows the model itself: the root, its directories, a file for each tensor, and the
 * unlisted forms of those files (raw dotted names, .npy). */
#ifndef MODEL_KIND_H
#define MODEL_KIND_H

#include "node.h"
#include "tree.h"

/* t must outlive the kind. NULL: no memory. */
struct kind *model_kind_new(const struct tree *t);

#endif
