/* SPDX-License-Identifier: MIT
 * Numbers of JSON text as the ThinTensor tool reads and writes them. Reading is not correctly rounded, on
 * purpose: values must be the very same doubles. */
#ifndef NUMBER_H
#define NUMBER_H

#include <stdint.h>

#include "buf.h"
#include "json.h"

struct number {
    enum number_kind { NUMBER_U64, NUMBER_I64, NUMBER_F64 } kind; /* I64: negative */
    union {
        uint64_t u;
        int64_t i;
        double f;
    };
};

/* Takes a number. -1 with `why` set: no number, or one that is too large. */
int number_read(struct json *j, struct number *out);

double number_double(const struct number *n);

/* Appends the shortest digits that are read back as the same double; x is finite. */
void number_write_double(struct buf *out, double x);
void number_write(struct buf *out, const struct number *n);

#endif
