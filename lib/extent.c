/* SPDX-License-Identifier: MIT */
#include "extent.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "source.h"

static struct extent *append(struct extents *x, uint64_t len)
{
    if (x->n == x->room) {
        size_t room = x->room ? x->room * 2 : 4;
        struct extent *v = room <= SIZE_MAX / sizeof *v ? realloc(x->v, room * sizeof *v) : NULL;
        if (!v)
            return NULL;
        x->v = v;
        x->room = room;
    }
    struct extent *e = &x->v[x->n++];
    *e = (struct extent){.start = x->size, .len = len};
    x->size += len;
    return e;
}

static bool ends_at(const struct extent *e, const struct source *s, uint64_t off)
{
    return e->kind == EXTENT_SOURCE && e->source == s && e->off + e->len == off;
}

int extents_add_source(struct extents *x, struct source *s, uint64_t off, uint64_t len)
{
    if (len == 0)
        return 0;
    if (x->n && ends_at(&x->v[x->n - 1], s, off)) {
        x->v[x->n - 1].len += len;
        x->size += len;
        return 0;
    }
    struct extent *e = append(x, len);
    if (!e)
        return -ENOMEM;
    e->kind = EXTENT_SOURCE;
    e->source = source_ref(s);
    e->off = off;
    return 0;
}

int extents_add_memory(struct extents *x, const void *p, uint64_t len)
{
    if (len == 0)
        return 0;
    void *copy = len <= SIZE_MAX ? malloc((size_t)len) : NULL;
    struct extent *e = copy ? append(x, len) : NULL;
    if (!e) {
        free(copy);
        return -ENOMEM;
    }
    memcpy(copy, p, (size_t)len);
    e->kind = EXTENT_MEMORY;
    e->memory = copy;
    e->owned = 1;
    return 0;
}

int extents_add_borrowed(struct extents *x, const void *p, uint64_t len)
{
    struct extent *e = len ? append(x, len) : NULL;
    if (!e)
        return len ? -ENOMEM : 0;
    e->kind = EXTENT_MEMORY;
    e->memory = (void *)(uintptr_t)p;
    return 0;
}

int extents_add_computed(struct extents *x, extent_fill fill, const void *ctx, uint64_t len)
{
    struct extent *e = len ? append(x, len) : NULL;
    if (!e)
        return len ? -ENOMEM : 0;
    e->kind = EXTENT_COMPUTED;
    e->fill = fill;
    e->ctx = ctx;
    return 0;
}

void extents_free(struct extents *x)
{
    for (size_t i = 0; i < x->n; i++) {
        if (x->v[i].kind == EXTENT_SOURCE)
            source_free(x->v[i].source);
        else if (x->v[i].kind == EXTENT_MEMORY && x->v[i].owned)
            free(x->v[i].memory);
    }
    free(x->v);
    *x = (struct extents){0};
}

/* The extent that holds byte off, which must lie inside the list. */
static size_t find(const struct extents *x, uint64_t off)
{
    size_t low = 0, high = x->n;
    while (high - low > 1) {
        size_t mid = low + (high - low) / 2;
        if (x->v[mid].start <= off)
            low = mid;
        else
            high = mid;
    }
    return low;
}

int extents_add_range(struct extents *x, const struct extents *from, uint64_t off, uint64_t len)
{
    int err = 0;
    for (size_t i = find(from, off); len && err == 0; i++) {
        const struct extent *e = &from->v[i];
        uint64_t skip = off - e->start, n = e->len - skip < len ? e->len - skip : len;
        if (e->kind == EXTENT_SOURCE)
            err = extents_add_source(x, e->source, e->off + skip, n);
        else if (e->kind == EXTENT_MEMORY)
            err = extents_add_borrowed(x, (char *)e->memory + skip, n);
        else if ((err = extents_add_computed(x, e->fill, e->ctx, n)) == 0)
            x->v[x->n - 1].off = e->off + skip;
        off += n;
        len -= n;
    }
    return err;
}

static size_t clip(const struct extents *x, uint64_t off, size_t size)
{
    if (off >= x->size)
        return 0;
    return x->size - off < size ? (size_t)(x->size - off) : size;
}

static int fill(const struct extent *e, uint64_t skip, void *buf, size_t len)
{
    int err = 0;
    if (e->kind == EXTENT_COMPUTED)
        return e->fill(e->ctx, e->off + skip, buf, len);
    if (e->kind == EXTENT_MEMORY)
        memcpy(buf, (char *)e->memory + skip, len);
    else if ((err = source_check(e->source)) == 0)
        err = source_read(e->source, e->off + skip, buf, len);
    return err;
}

/* Small extents that follow each other in the list and lie near each other in one source. A model of many
 * tiny tensors would cost two system calls for each; they are read at once instead, with what lies between
 * them. */
struct cluster {
    size_t n;          /* extents; 0: the first one stands alone */
    uint64_t from, to; /* in the source */
    uint64_t useful;   /* bytes of extents in that range */
};

enum {
    SMALL = 4096,
    WINDOW = 1 << 20,
    SPARSE = 32
}; /* an extent; a cluster; bytes read for each useful one */

static struct cluster cluster_at(const struct extents *x, size_t i, size_t left)
{
    struct cluster c = {.from = UINT64_MAX};
    const struct source *s = x->v[i].kind == EXTENT_SOURCE ? x->v[i].source : NULL;
    for (; s && i < x->n && c.useful < left; i++, c.n++) {
        const struct extent *e = &x->v[i];
        if (e->kind != EXTENT_SOURCE || e->source != s || e->len > SMALL)
            break;
        uint64_t from = e->off < c.from ? e->off : c.from;
        uint64_t to = e->off + e->len > c.to ? e->off + e->len : c.to;
        if (to - from > WINDOW)
            break;
        c.from = from;
        c.to = to;
        c.useful += e->len;
    }
    return c;
}

/* Reads the range of a cluster that is worth it; *window NULL: it is not. */
static int cluster_read(const struct cluster *c, struct source *s, char **window)
{
    *window = NULL;
    if (c->n < 4 || (c->to - c->from) / SPARSE > c->useful)
        return 0;
    *window = malloc((size_t)(c->to - c->from));
    if (!*window)
        return -ENOMEM;
    int err = source_check(s);
    return err < 0 ? err : source_read(s, c->from, *window, (size_t)(c->to - c->from));
}

ssize_t extents_read(const struct extents *x, uint64_t off, void *buf, size_t size)
{
    char *p = buf, *window = NULL;
    size_t left = size = clip(x, off, size);
    struct cluster c = {0};
    int err = 0;
    for (size_t i = find(x, off); left && err == 0; i++) {
        const struct extent *e = &x->v[i];
        uint64_t skip = off - e->start;
        size_t len = e->len - skip < left ? (size_t)(e->len - skip) : left;
        if (c.n == 0) {
            free(window);
            c = cluster_at(x, i, left);
            err = cluster_read(&c, e->source, &window);
        }
        if (err == 0 && window)
            memcpy(p, window + (e->off + skip - c.from), len);
        else if (err == 0)
            err = fill(e, skip, p, len);
        c.n -= c.n != 0;
        p += len;
        off += len;
        left -= len;
    }
    free(window);
    return err < 0 ? err : (ssize_t)size;
}

/* Can the kernel take it from where it lies? */
static bool in_place(const struct extent *e)
{
    return e->kind == EXTENT_MEMORY || (e->kind == EXTENT_SOURCE && source_mapped(e->source));
}

static int point(const struct extent *e, uint64_t skip, size_t len, struct iovec *v)
{
    const void *p = e->memory;
    int err = 0;
    if (e->kind == EXTENT_SOURCE) {
        p = source_mapped(e->source) + e->off;
        err = source_check(e->source);
        if (err == 0)
            err = source_populate(e->source, e->off + skip, len);
    }
    *v = (struct iovec){.iov_base = (char *)(uintptr_t)p + skip, .iov_len = len};
    return err;
}

ssize_t extents_iov(const struct extents *x, uint64_t off, size_t size, struct iovec *iov, int *n,
                    void **scratch)
{
    int most = *n, used = 0;
    size_t left = size = clip(x, off, size);
    uint64_t at = off;
    *scratch = NULL;
    for (size_t i = find(x, at); left; i++) {
        const struct extent *e = &x->v[i];
        uint64_t skip = at - e->start;
        size_t len = e->len - skip < left ? (size_t)(e->len - skip) : left;
        if (used == most || !in_place(e))
            goto copy;
        int err = point(e, skip, len, &iov[used++]);
        if (err < 0)
            return err;
        at += len;
        left -= len;
    }
    *n = used;
    return (ssize_t)size;
copy: /* many small pieces, or some that lie nowhere: one block of memory holds them all */
    *scratch = malloc(size);
    if (!*scratch)
        return -ENOMEM;
    *n = 1;
    iov[0] = (struct iovec){.iov_base = *scratch, .iov_len = size};
    return extents_read(x, off, *scratch, size);
}
