/* SPDX-License-Identifier: MIT
 * A growing byte string. Adding to a buffer that has run out of memory does nothing; check `failed` once at
 * the end. */
#ifndef BUF_H
#define BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
    char *p; /* always NUL-terminated when not NULL */
    size_t len, room;
    bool failed;
};

void buf_add(struct buf *b, const void *p, size_t len);
void buf_str(struct buf *b, const char *s);
void buf_char(struct buf *b, char c);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_free(struct buf *b);

/* "[3,4]": the shape as every attribute and header writes it. */
void buf_shape(struct buf *b, const uint64_t *shape, uint32_t rank);

/* A JSON string with its quotes, escaped as the reference implementation writes it (serde_json: only `"`, `\`
 * and what lies below U+0020, with the short forms where JSON has them; all else raw). */
void buf_json_string(struct buf *b, const char *s, size_t len);

/* Text for a terminal or a log: control characters, quotes, backslashes and what is no UTF-8 become \xNN, and
 * text longer than `most` bytes (0: any) is cut with "...". */
void buf_printable(struct buf *b, const char *s, size_t len, size_t most);

#endif
