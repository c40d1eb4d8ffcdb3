/* SPDX-License-Identifier: MIT
 * Helpers of the conversion's steps. */
#include "thin_build.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int thin_fail(struct thin_build *b, const char *kind, const fs_text *name, const char *why)
{
    report_kind(b->r, kind, -EINVAL, name ? name->s : NULL, name ? name->len : 0, FS_NO_OFFSET, "%s", why);
    return -EINVAL;
}

int thin_no_memory(struct thin_build *b)
{
    return report_fatal(b->r, -ENOMEM, NULL, 0, FS_NO_OFFSET, "out of memory");
}

fs_text thin_copy(struct thin_build *b, const char *s, size_t len)
{
    char *copy = arena_text(b->arena, s, len);
    b->no_memory |= copy == NULL;
    return (fs_text){copy, copy ? len : 0};
}

__attribute__((format(printf, 2, 0))) static fs_text print(struct thin_build *b, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    char *s = n >= 0 ? arena_alloc(b->arena, (size_t)n + 1, 0) : NULL;
    if (s)
        vsnprintf(s, (size_t)n + 1, fmt, again);
    va_end(again);
    b->no_memory |= s == NULL;
    return (fs_text){s, s ? (size_t)n : 0};
}

fs_text thin_print(struct thin_build *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fs_text t = print(b, fmt, ap);
    va_end(ap);
    return t;
}

void thin_warn(struct thin_build *b, const char *kind, const char *fmt, ...)
{
    va_list ap;
    if (b->n_warnings == b->room_warnings) {
        size_t room = b->room_warnings ? b->room_warnings * 2 : 8;
        struct thin_warning *v = realloc(b->warnings, room * sizeof *v);
        if (!v) {
            b->no_memory = true;
            return;
        }
        b->warnings = v;
        b->room_warnings = room;
    }
    va_start(ap, fmt);
    b->warnings[b->n_warnings++] = (struct thin_warning){kind, print(b, fmt, ap)};
    va_end(ap);
}

static bool has_id(const void *ctx, uint32_t number, const void *key, size_t len)
{
    const fs_text *id = &((const struct thin_tensor *)ctx)[number].id;
    return id->len == len && memcmp(id->s, key, len) == 0;
}

struct thin_tensor *thin_find(const struct thin_build *b, const char *id, size_t len)
{
    uint32_t i = index_find(&b->by_id, hash_bytes(0, id, len), has_id, b->tensors, id, len);
    return i == INDEX_NONE ? NULL : &b->tensors[i];
}

struct thin_tensor *thin_findf(const struct thin_build *b, const char *fmt, ...)
{
    char name[256]; /* enough for every name the steps ask for */
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    return n >= 0 && (size_t)n < sizeof name ? thin_find(b, name, (size_t)n) : NULL;
}

bool thin_parse_u32(const char *s, size_t len, uint32_t *out)
{
    uint32_t v = 0;
    if (len && *s == '+') {
        s++;
        len--;
    }
    for (size_t i = 0; i < len; i++)
        if (s[i] < '0' || s[i] > '9' || __builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, (uint32_t)(s[i] - '0'), &v))
            return false;
    *out = v;
    return len != 0;
}

bool thin_has(const fs_text *t, const char *part)
{
    return memmem(t->s, t->len, part, strlen(part)) != NULL;
}

bool thin_begins(const fs_text *t, const char *part)
{
    size_t n = strlen(part);
    return t->s && t->len >= n && memcmp(t->s, part, n) == 0;
}

bool thin_ends(const fs_text *t, const char *part)
{
    size_t n = strlen(part);
    return t->s && t->len >= n && memcmp(t->s + t->len - n, part, n) == 0;
}
