/* SPDX-License-Identifier: MIT
 * Numbers of JSON text as the ThinTensor tool reads and writes them. Reading is not correctly rounded, on
 * purpose: values must be the very same doubles. */
#ifndef JNUMBER_H
#define JNUMBER_H

#include <stdint.h>

#include "buf.h"
#include "json.h"

struct jnumber {
    enum jnumber_kind { JNUMBER_U64, JNUMBER_I64, JNUMBER_F64 } kind; /* I64: negative */
    union {
        uint64_t u;
        int64_t i;
        double f;
    };
};

/* Takes a number. -1 with `why` set: no number, or one that is too large. */
int jnumber_read(struct json *j, struct jnumber *out);

double jnumber_double(const struct jnumber *n);

/* Appends the shortest digits that are read back as the same double; x is finite. */
void jnumber_write_double(struct buf *out, double x);
void jnumber_write(struct buf *out, const struct jnumber *n);

#endif
