/* SPDX-License-Identifier: MIT */
#include "staged_content.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "source.h"
#include "store.h"

/* From any thread, without the lock: whoever read it last may have done so for long. */
static void blob_gone(struct source *s)
{
    struct blob *b = s->owner;
    if (b->doomed)
        store_remove_file(b->model, b->number);
    store_release(b->model);
    free(b);
}

struct blob *blob_new(struct model_dir *m, uint64_t number, int fd)
{
    struct blob *b = calloc(1, sizeof *b);
    char name[STORE_NAME];
    store_number_name(name, number);
    if (b)
        b->source = source_own_at(m->dir, name);
    if (!b || !b->source) {
        if (fd >= 0)
            close(fd);
        free(b);
        return NULL;
    }
    b->source->fd = fd;
    b->source->owner = b;
    b->source->gone = blob_gone;
    b->model = m;
    b->number = number;
    b->refs = 1;
    store_hold(m);
    return b;
}

void blob_free(struct blob *b)
{
    if (!b || --b->refs)
        return;
    /* Else all of it is gone already, or stays. */
    b->doomed = b->model->top && !b->model->store->closing && !b->model->keep_files;
    source_free(b->source);
}

static struct blob *blob_ref(struct blob *b)
{
    if (b)
        b->refs++;
    return b;
}

static void drop_ref(struct ref *r)
{
    source_free(r->source);
    blob_free(r->blob);
}

static int make_room(struct staged *n, size_t more)
{
    if (n->n_refs + more <= n->room_refs)
        return 0;
    size_t room = (n->n_refs + more) * 2;
    struct ref *p = realloc(n->refs, room * sizeof *p);
    if (!p)
        return -ENOMEM;
    n->refs = p;
    n->room_refs = room;
    return 0;
}

/* Index of the first reference that ends behind `at`. */
static size_t first_behind(const struct staged *n, uint64_t at)
{
    size_t low = 0, high = n->n_refs;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (n->refs[mid].start + n->refs[mid].len <= at)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

bool content_has_ref(const struct staged *n, uint64_t at, uint64_t len)
{
    size_t i = first_behind(n, at);
    return i < n->n_refs && n->refs[i].start < at + len;
}

/* Cuts a reference in two at `at`, which lies inside it; there is room. */
static void split(struct staged *n, size_t i, uint64_t at)
{
    struct ref *r = &n->refs[i];
    memmove(r + 1, r, (n->n_refs - i) * sizeof *r);
    n->n_refs++;
    r->len = at - r->start;
    r[1].start = at;
    r[1].off += r->len;
    r[1].len -= r->len;
    source_ref(r->source);
    blob_ref(r->blob);
}

int content_cut(struct staged *n, uint64_t at, uint64_t len, bool *cut)
{
    uint64_t end = at + len;
    size_t i = first_behind(n, at), j;
    *cut = false;
    if (i == n->n_refs || n->refs[i].start >= end)
        return 0;
    if (make_room(n, 2) < 0)
        return -ENOMEM;
    if (n->refs[i].start < at)
        split(n, i++, at);
    for (j = i; j < n->n_refs && n->refs[j].start < end; j++) {
        if (n->refs[j].start + n->refs[j].len > end)
            split(n, j, end);
        drop_ref(&n->refs[j]);
    }
    memmove(&n->refs[i], &n->refs[j], (n->n_refs - j) * sizeof *n->refs);
    n->n_refs -= j - i;
    *cut = true;
    return 0;
}

int content_refer(struct staged *n, uint64_t at, uint64_t len, struct source *s, struct blob *b, uint64_t off)
{
    size_t i = first_behind(n, at);
    struct ref *before = i ? &n->refs[i - 1] : NULL;
    if (len == 0)
        return 0;
    if (at + len > n->size)
        n->size = at + len;
    if (before && before->source == s && before->start + before->len == at &&
        before->off + before->len == off) {
        before->len += len;
        return 0;
    }
    if (make_room(n, 1) < 0)
        return -ENOMEM;
    memmove(&n->refs[i + 1], &n->refs[i], (n->n_refs - i) * sizeof *n->refs);
    n->refs[i] =
        (struct ref){.start = at, .len = len, .off = off, .source = source_ref(s), .blob = blob_ref(b)};
    n->n_refs++;
    return 0;
}

/* The next range from *at on that nothing refers to; false if there is none. */
static bool next_gap(const struct staged *n, uint64_t *at, uint64_t *len)
{
    size_t i = first_behind(n, *at);
    while (i < n->n_refs && n->refs[i].start <= *at) {
        *at = n->refs[i].start + n->refs[i].len;
        i++;
    }
    uint64_t end = i < n->n_refs ? n->refs[i].start : n->size;
    *len = end > *at ? end - *at : 0;
    return *len > 0;
}

int content_freeze(struct staged *n)
{
    uint64_t at = 0, len;
    struct blob *own = n->own;
    int err = 0;
    if (!own)
        return 0;
    while (err == 0 && next_gap(n, &at, &len)) {
        err = content_refer(n, at, len, own->source, own, at);
        at += len;
    }
    if (err < 0)
        return err; /* some of it is referred to, which says the same */
    n->own = NULL;
    own->writer = NULL;
    blob_free(own);
    return 1;
}

void content_swap(struct staged *a, struct staged *b)
{
    struct staged kept = *a;
    a->size = b->size;
    a->refs = b->refs;
    a->n_refs = b->n_refs;
    a->room_refs = b->room_refs;
    a->own = b->own;
    b->size = kept.size;
    b->refs = kept.refs;
    b->n_refs = kept.n_refs;
    b->room_refs = kept.room_refs;
    b->own = kept.own;
    if (a->own)
        a->own->writer = a;
    if (b->own)
        b->own->writer = b;
}

static int lost(const void *ctx, uint64_t off, void *buf, size_t len)
{
    (void)ctx, (void)off, (void)buf, (void)len;
    return -EIO;
}

/* What is own, or what a damaged record no longer says where it lies. */
static int add_own(const struct staged *n, struct extents *x, uint64_t at, uint64_t len)
{
    return n->own ? extents_add_source(x, n->own->source, at, len) : extents_add_computed(x, lost, NULL, len);
}

int content_extents(const struct staged *n, struct extents *x)
{
    uint64_t at = 0;
    int err = 0;
    for (size_t i = 0; i < n->n_refs && err == 0; i++) {
        const struct ref *r = &n->refs[i];
        if (r->start > at)
            err = add_own(n, x, at, r->start - at);
        if (err == 0)
            err = extents_add_source(x, r->source, r->off, r->len);
        at = r->start + r->len;
    }
    if (err == 0 && n->size > at)
        err = add_own(n, x, at, n->size - at);
    return err;
}

void content_pin(const struct staged *n)
{
    if (n->own)
        (void)source_pin(n->own->source);
    for (size_t i = 0; i < n->n_refs; i++)
        if (n->refs[i].blob)
            (void)source_pin(n->refs[i].source);
}

void content_clear(struct staged *n)
{
    for (size_t i = 0; i < n->n_refs; i++)
        drop_ref(&n->refs[i]);
    free(n->refs);
    n->refs = NULL;
    n->n_refs = n->room_refs = 0;
    if (n->own)
        n->own->writer = NULL;
    blob_free(n->own);
    n->own = NULL;
    n->size = 0;
}
