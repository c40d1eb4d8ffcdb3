/* SPDX-License-Identifier: MIT
 * A JSON text as a tree of values, in an arena; for text whose shape is not known beforehand. Neither reading
 * nor writing is recursive. */
#ifndef JTREE_H
#define JTREE_H

#include "jnumber.h"

enum jtype { J_NULL, J_FALSE, J_TRUE, J_NUMBER, J_TEXT, J_ARRAY, J_OBJECT };

struct jvalue {
    enum jtype type;
    uint32_t n;           /* of items */
    uint32_t place;       /* among its siblings in the text */
    struct json_text key; /* of a member of an object */
    union {
        struct jnumber number;
        struct json_text text;
        struct jvalue **item; /* of an object: by the bytes of their keys, the last value of each only */
    };
};

/* Reads a value that lies `depth` containers deep. NULL with j->why; "out of memory" among it. */
struct jvalue *jtree_read(struct json *j, struct arena *a, unsigned depth);

/* A whole document. */
struct jvalue *jtree_document(struct json *j, struct arena *a);

/* Skips a value that nobody reads: its syntax is checked, but neither the text in its strings, nor the size
 * of its numbers, nor its depth. */
int jtree_ignore(struct json *j);

/* The value of a key; NULL if v is NULL, no object, or has none. */
const struct jvalue *jtree_get(const struct jvalue *v, const char *key);

/* Appends v, two spaces for each level, the first of which is `level`. -ENOMEM. */
int jtree_write(struct buf *out, const struct jvalue *v, unsigned level);

/* Appends a line end and the spaces of a level. */
void jtree_line(struct buf *out, unsigned level);

#endif
