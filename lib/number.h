/* SPDX-License-Identifier: MIT
 * Numbers as text, whatever the locale. */
#ifndef NUMBER_H
#define NUMBER_H

#include "buf.h"

/* The shortest text that reads back as f, written as Python and JSON do (0.1, 1e-08, 1.0); nan, inf, -inf. */
void buf_float(struct buf *b, double f);

/* n bytes of two's complement, little-endian, as decimal digits; beyond 64 bytes as "0x" and hexadecimal
 * ones, since the time for decimal ones grows with the square. */
void buf_big(struct buf *b, const unsigned char *p, size_t n);

/* A decimal floating-point number of exactly len bytes. -1: it is none. */
int number_float(const char *s, size_t len, double *f);

/* A decimal integer of exactly len bytes to little-endian two's complement of at most *n bytes, as few as
 * are needed. -1: it is none, or has more. */
int number_big(const char *s, size_t len, unsigned char *p, size_t *n);

#endif
