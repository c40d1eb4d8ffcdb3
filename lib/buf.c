/* SPDX-License-Identifier: MIT */
#include "buf.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "utf8.h"

static bool reserve(struct buf *b, size_t more)
{
    if (b->failed)
        return false;
    if (more < b->room - b->len)
        return true;
    size_t room = b->room ? b->room : 64;
    while (more >= room - b->len) {
        if (room > SIZE_MAX / 2) {
            b->failed = true;
            return false;
        }
        room *= 2;
    }
    char *p = realloc(b->p, room);
    if (!p) {
        b->failed = true;
        return false;
    }
    b->p = p;
    b->room = room;
    return true;
}

void buf_add(struct buf *b, const void *p, size_t len)
{
    if (!reserve(b, len))
        return;
    if (len)
        memcpy(b->p + b->len, p, len);
    b->len += len;
    b->p[b->len] = 0;
}

void buf_str(struct buf *b, const char *s)
{
    buf_add(b, s, strlen(s));
}

void buf_char(struct buf *b, char c)
{
    buf_add(b, &c, 1);
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n >= 0 && reserve(b, (size_t)n)) {
        vsnprintf(b->p + b->len, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    }
    va_end(again);
}

void buf_free(struct buf *b)
{
    free(b->p);
    *b = (struct buf){0};
}

void buf_shape(struct buf *b, const uint64_t *shape, uint32_t rank)
{
    buf_char(b, '[');
    for (uint32_t i = 0; i < rank; i++)
        buf_printf(b, i ? ",%" PRIu64 : "%" PRIu64, shape[i]);
    buf_char(b, ']');
}

void buf_json_string(struct buf *b, const char *s, size_t len)
{
    static const char shorts[32] = {['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};
    size_t done = 0;
    buf_char(b, '"');
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        buf_add(b, s + done, i - done);
        done = i + 1;
        if (c >= 0x20)
            buf_printf(b, "\\%c", c);
        else if (shorts[c])
            buf_printf(b, "\\%c", shorts[c]);
        else
            buf_printf(b, "\\u%04x", c);
    }
    buf_add(b, s + done, len - done);
    buf_char(b, '"');
}

void buf_printable(struct buf *b, const char *s, size_t len, size_t most)
{
    size_t i = 0;
    while (i < len && (most == 0 || i < most)) {
        size_t n = utf8_char(s + i, len - i);
        unsigned char c = (unsigned char)s[i];
        if (n == 1 && c >= 0x20 && c != 0x7F && c != '\\' && c != '\'')
            buf_char(b, (char)c);
        else if (n == 2 && c == 0xC2 && (unsigned char)s[i + 1] < 0xA0) /* C1 control characters */
            buf_printf(b, "\\x%02x\\x%02x", c, (unsigned char)s[i + 1]);
        else if (n > 1)
            buf_add(b, s + i, n);
        else
            buf_printf(b, "\\x%02x", c);
        i += n ? n : 1;
    }
    if (i < len)
        buf_str(b, "...");
}
