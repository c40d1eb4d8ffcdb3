/* SPDX-License-Identifier: MIT
 * A strict JSON scanner (RFC 8259) over bytes in memory: one pass, no recursion, no tree. The caller knows
 * what it expects and asks for it; all else can be skipped. */
#ifndef JSON_H
#define JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"

enum { JSON_DEPTH = 127 }; /* containers inside each other, as the reference's parser allows */

struct json {
    const char *start, *p, *end;
    const char *why; /* set when a call fails: what is wrong at p */
};

struct json_text {
    const char *s; /* decoded, a NUL behind it */
    size_t len;
};

/* All return 0, or -1 with `why` set and p at the byte in question. -2 from json_string: no memory. */

/* Skips white space, then tells the next byte without taking it; 0 at the end (or for a NUL, which JSON has
 * not). */
static inline char json_peek(struct json *j)
{
    while (j->p < j->end && (*j->p == ' ' || *j->p == '\n' || *j->p == '\r' || *j->p == '\t'))
        j->p++;
    return j->p < j->end ? *j->p : 0;
}

/* Skips white space and takes c. */
int json_missing(struct json *j, char c);
static inline int json_take(struct json *j, char c)
{
    if (json_peek(j) != c)
        return json_missing(j, c);
    j->p++;
    return 0;
}

/* Takes c if it is next. */
static inline bool json_taken(struct json *j, char c)
{
    if (json_peek(j) != c)
        return false;
    j->p++;
    return true;
}

/* A string, decoded into the arena: escapes resolved, UTF-8 checked, a NUL allowed where it is escaped. */
int json_string(struct json *j, struct arena *a, struct json_text *out);

/* An integer from 0 to 2^64 - 1, exactly, written without sign, point or exponent. */
int json_u64(struct json *j, uint64_t *out);

/* Passes over a number of any kind and size, at whose beginning p is. */
int json_number(struct json *j);

/* `null`. */
int json_null(struct json *j);

/* Any value, checked for syntax, `depth` containers deep already. */
int json_skip(struct json *j, unsigned depth);

/* Nothing but white space may follow. */
int json_end(struct json *j);

static inline size_t json_at(const struct json *j)
{
    return (size_t)(j->p - j->start);
}

#endif
