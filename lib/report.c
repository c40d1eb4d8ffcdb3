/* SPDX-License-Identifier: MIT */
#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "buf.h"

static void copy_text(char *to, size_t room, const struct buf *from)
{
    size_t n = from->len < room ? from->len : room - 1;
    if (n)
        memcpy(to, from->p, n);
    to[n] = 0;
}

static fs_error describe(const struct report *r, const char *kind, int code, const char *name, size_t len,
                         uint64_t offset, const char *why)
{
    fs_error e = {.code = code, .offset = offset};
    struct buf tensor = {0}, text = {0};
    if (name)
        buf_printable(&tensor, name, len, 200);
    if (r->part) {
        buf_printable(&text, r->part, strlen(r->part), 100);
        buf_str(&text, ": ");
    }
    if (r->what)
        buf_printf(&text, "%s: ", r->what);
    if (name)
        buf_printf(&text, "'%s': ", tensor.len ? tensor.p : "");
    if (kind)
        buf_printf(&text, why[0] ? "%s: " : "%s", kind);
    buf_str(&text, why);
    if (offset != FS_NO_OFFSET)
        buf_printf(&text, " (byte %" PRIu64 ")", offset);
    snprintf(e.kind, sizeof e.kind, "%s", kind ? kind : "");
    copy_text(e.tensor, sizeof e.tensor, &tensor);
    copy_text(e.message, sizeof e.message, &text);
    buf_free(&tensor);
    buf_free(&text);
    return e;
}

static void __attribute__((format(printf, 7, 0)))
make(struct report *r, const char *kind, int code, const char *name, size_t len, uint64_t offset,
     const char *fmt, va_list ap)
{
    char why[400];
    if (!r)
        return;
    vsnprintf(why, sizeof why, fmt, ap);
    fs_error e = describe(r, kind, code, name, len, offset, why);
    if (r->first.code == 0)
        r->first = e;
    if (code != -EBADMSG && code != -ENOTSUP)
        return; /* not about the content */
    r->count++;
    if (r->each)
        r->each(r->ctx, &e);
}

int report_add(struct report *r, int code, const char *name, size_t len, uint64_t offset, const char *fmt,
               ...)
{
    va_list ap;
    va_start(ap, fmt);
    make(r, NULL, code, name, len, offset, fmt, ap);
    va_end(ap);
    return r && r->each ? 0 : code;
}

int report_fatal(struct report *r, int code, const char *name, size_t len, uint64_t offset, const char *fmt,
                 ...)
{
    va_list ap;
    va_start(ap, fmt);
    make(r, NULL, code, name, len, offset, fmt, ap);
    va_end(ap);
    return code;
}

int report_kind(struct report *r, const char *kind, int code, const char *name, size_t len, uint64_t offset,
                const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    make(r, kind, code, name, len, offset, fmt, ap);
    va_end(ap);
    return r && r->each ? 0 : code;
}

void report_note(struct report *r, const char *kind, const char *name, size_t len, const char *fmt, ...)
{
    char why[400];
    va_list ap;
    if (!r || !r->note)
        return;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    fs_error e = describe(r, kind, 0, name, len, FS_NO_OFFSET, why);
    r->note(r->ctx, &e);
}
