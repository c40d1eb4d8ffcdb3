/* SPDX-License-Identifier: MIT
 * From a tensor's name to the components of its path (design, section 2, rules 1 to 4), for one name at a
 * time. What depends on several names at once - two names on one path, rule 5 - is the tree's affair. */
#ifndef NAMES_H
#define NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"

enum layout { LAYOUT_TREE, LAYOUT_FLAT };
enum { COMPONENT_MAX = 255, COMPONENT_CUT = 230 };

/* The first components that never stand for tensors, and what lies behind each. */
extern const char *const reserved_names[3];
enum reserved { RESERVED_INFO, RESERVED_EXPORT, RESERVED_STAGING };

/* Walks over the separators of one name:
 *
 *     struct name_walk w = {.name = name, .len = len, .layout = layout};
 *     while (name_next(&w, is_tensor, ctx))
 *         ...component is name[w.from .. w.to), its separator lies at w.to, w.hash is the hash up to and with
 * that...
 *     ...the last component is name[w.from .. len)...
 *
 * is_tensor answers whether the first `len` bytes of the name, whose hash is given, are the name of a tensor.
 */
typedef bool (*name_is_tensor)(const void *ctx, uint64_t hash, const char *name, size_t len);

struct name_walk {
    const char *name;
    size_t len;
    enum layout layout;
    size_t from, to; /* the present component */
    size_t at;       /* how far the name was read: behind the separator */
    uint64_t hash;   /* of name[0 .. at), but for the last component */
    bool stopped;    /* a tensor's name was met: nothing separates any more */
};

bool name_next(struct name_walk *w, name_is_tensor is_tensor, const void *ctx);

/* Appends one component as it is written in a path; first: it is the first of its path. */
void name_write(struct buf *out, const char *component, size_t len, bool first);

/* Appends to a written component, cut if need be, the suffix that tells names with one path apart: "%~" and
 * `hash`. */
void name_suffix(struct buf *out, const char *written, size_t len, uint64_t hash);

/* FNV-1a, 64 bits. */
uint64_t name_fnv(const char *s, size_t len);

#endif
