/* SPDX-License-Identifier: MIT
 * Writing, copying and linking: the content of staged files. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "say.h"
#include "source.h"
#include "staged_content.h"
#include "staging_i.h"

enum { PIECE = 1 << 20, COPIED = 8 << 20 }; /* bytes copied at once, for one request */

static int write_fully(int fd, const char *p, size_t len, uint64_t off)
{
    while (len) {
        ssize_t done = pwrite(fd, p, len, (off_t)off);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return done < 0 ? -errno : -EIO;
        p += done;
        off += (uint64_t)done;
        len -= (size_t)done;
    }
    return 0;
}

/* Its own numbered file is never longer than the file: what was written in vain is cut off again. */
static int put(const struct staged *n, const char *p, size_t len, uint64_t off)
{
    const struct source *own = n->own->source;
    int fd = source_fd(own);
    int err = fd < 0 ? fd : write_fully(fd, p, len, off);
    if (err < 0 && fd >= 0 && off + len > n->size && ftruncate(fd, (off_t)n->size) < 0)
        say("staging", "a file of %s keeps what could not be written: %s", n->model->store->out_path,
            strerror(errno));
    source_fd_done(own, fd);
    return err;
}

static int resize_own(const struct staged *n, uint64_t size)
{
    const struct source *own = n->own->source;
    int fd = source_fd(own);
    int err = fd < 0 ? fd : ftruncate(fd, (off_t)size) < 0 ? -errno : 0;
    source_fd_done(own, fd);
    return err;
}

static int cut(struct staged *n, uint64_t at, uint64_t len)
{
    struct record_line l;
    bool changed;
    if (!content_has_ref(n, at, len))
        return 0;
    record_node(&l, "cut", n);
    record_number(&l, "start", at);
    record_number(&l, "bytes", len);
    int err = record_end(&l, n->model);
    return err < 0 ? err : content_cut(n, at, len, &changed);
}

int staging_freeze(struct staged *n)
{
    struct record_line l;
    if (!n->own)
        return 0;
    record_node(&l, "freeze", n);
    l.alone = true;
    record_number(&l, "bytes", n->size);
    int err = record_end(&l, n->model);
    if (err == 0)
        err = content_freeze(n);
    return err < 0 ? err : 0;
}

static int write_own(struct staged *n, const void *p, size_t len, uint64_t off)
{
    int err = n->own ? 0 : store_new_file(n);
    if (err == 0)
        err = put(n, p, len, off);
    if (err == 0)
        err = cut(n, off, len);
    if (err == 0 && off + len > n->size)
        n->size = off + len;
    return err;
}

static void touched(struct staging *s, struct staged *n)
{
    clock_gettime(CLOCK_REALTIME, &n->mtime);
    if (n->parent)
        commit_edited(s, n->model);
}

int staging_write(struct kind *k, uint64_t id, const void *p, size_t len, uint64_t off)
{
    struct staging *s = staging_enter(k);
    struct staged *n;
    int err = staging_find(s, id, false, &n);
    if (err == 0 && (off > INT64_MAX || len > INT64_MAX - off))
        err = -EFBIG;
    if (err == 0 && len)
        err = write_own(n, p, len, off);
    if (err == 0)
        touched(s, n);
    return staging_leave(s, err);
}

static int set_size(struct staged *n, uint64_t size)
{
    struct record_line l;
    bool changed;
    int err = size > n->size && !n->own ? store_new_file(n) : 0;
    if (err == 0 && size < n->size) {
        record_node(&l, "size", n);
        record_number(&l, "bytes", size);
        err = record_end(&l, n->model);
        if (err == 0)
            err = content_cut(n, size, UINT64_MAX - size, &changed);
        if (err == 0)
            n->size = size; /* recorded: it is so, whatever comes of the numbered file */
    }
    if (err == 0 && n->own)
        err = resize_own(n, size);
    if (err == 0)
        n->size = size;
    return err;
}

int staging_resize(struct kind *k, uint64_t id, uint64_t size)
{
    struct staging *s = staging_enter(k);
    struct staged *n;
    int err = staging_find(s, id, false, &n);
    if (err == 0 && size != n->size) {
        err = size > INT64_MAX ? -EFBIG : set_size(n, size);
        if (err == 0)
            touched(s, n);
    }
    return staging_leave(s, err);
}

/* A model that takes something from the mounted one begins with its metadata. */
static int inherit(struct staging *s, struct model_dir *m)
{
    const struct model *from = s->store.model;
    struct record_line l;
    int err = 0;
    if (m->inherited || !from)
        return 0;
    for (size_t i = 0; i < from->n_metadata && err == 0; i++) {
        struct json_text key = from->metadata[i].key, value = from->metadata[i].value;
        if (store_metadata(m, key.s, key.len))
            continue;
        record_begin(&l, "metadata", "", 0);
        l.alone = true;
        record_text(&l, "key", key.s, key.len);
        record_text(&l, "value", value.s, value.len);
        err = record_end(&l, m);
        if (err == 0)
            err = store_set_metadata(m, key.s, key.len, value.s, value.len);
    }
    if (err == 0) {
        record_begin(&l, "inherited", "", 0);
        l.alone = true;
        err = record_end(&l, m);
    }
    m->inherited = err == 0;
    return err;
}

/* Who writes that numbered file must not write it any more. */
static int freeze_writer(struct blob *b)
{
    struct staged *w = b->writer;
    return w ? staging_freeze(w) : 0;
}

/* Does the numbered file hold that range? It may have been cut off since the caller looked. */
static int check_range(const struct source *s, uint64_t off, uint64_t len)
{
    struct stat st;
    int fd = source_fd(s);
    int err = fd < 0 ? fd : fstat(fd, &st) < 0 ? -errno : 0;
    source_fd_done(s, fd);
    return err < 0 ? err : (uint64_t)st.st_size < off + len ? -EIO : 0;
}

static int refer(struct staging *s, struct staged *n, uint64_t at, const struct extent *e, uint64_t skip,
                 uint64_t len)
{
    struct ref r = {.start = at, .len = len, .off = e->off + skip, .source = e->source};
    struct blob *b = e->source->own ? e->source->owner : NULL;
    bool changed;
    int err = 0;
    if (b) {
        b->refs++; /* it must outlive its writer's freezing */
        err = freeze_writer(b);
        if (err == 0)
            err = check_range(b->source, r.off, len);
        if (err == 0 && (r.blob = store_link_file(n->model, b, &err)))
            r.source = r.blob->source;
        blob_free(b);
    } else
        err = inherit(s, n->model);
    if (err == 0)
        err = record_ref(n, &r);
    if (err == 0)
        err = content_cut(n, at, len, &changed);
    if (err == 0)
        err = content_refer(n, at, len, r.source, r.blob, r.off);
    blob_free(r.blob);
    return err;
}

static int copy_bytes(struct staged *n, uint64_t at, const struct extents *x, uint64_t from, uint64_t len)
{
    char *piece = malloc(PIECE);
    int err = piece ? 0 : -ENOMEM;
    while (len && err == 0) {
        ssize_t got = extents_read(x, from, piece, len < PIECE ? (size_t)len : PIECE);
        err = got <= 0 ? (got < 0 ? (int)got : -EIO) : write_own(n, piece, (size_t)got, at);
        if (err == 0) {
            at += (uint64_t)got;
            from += (uint64_t)got;
            len -= (uint64_t)got;
        }
    }
    free(piece);
    return err;
}

/* By reference what can be found again after a crash: files that have a path, and numbered files. */
static bool can_refer(const struct staged *n, const struct extent *e)
{
    if (e->kind != EXTENT_SOURCE || !n->parent)
        return false;
    const struct blob *b = e->source->own ? e->source->owner : NULL;
    return e->source->own ? b && b->refs && b->model->top : e->source->path != NULL;
}

/* Bytes that must be copied are so many at most; *len is then less afterwards. */
static int copy_range(struct staging *s, struct staged *n, uint64_t at, const struct extents *x,
                      uint64_t from, uint64_t *length, uint64_t most)
{
    uint64_t first = at, len = *length;
    int err = at > n->size ? set_size(n, at) : 0;
    for (size_t i = 0; i < x->n && len && err == 0; i++) {
        const struct extent *e = &x->v[i];
        if (e->start + e->len <= from)
            continue;
        uint64_t skip = from - e->start, part = e->len - skip < len ? e->len - skip : len;
        bool by_reference = can_refer(n, e);
        if (!by_reference && part > most)
            len = part = most;
        if (part == 0)
            break;
        err = by_reference ? refer(s, n, at, e, skip, part) : copy_bytes(n, at, x, from, part);
        most -= by_reference ? 0 : part;
        at += part;
        from += part;
        len -= part;
    }
    *length = at - first;
    return err;
}

/* Remembers what a file is copied from, until it is bound. */
static int set_origin(struct staged *n, const struct node_tensor *t)
{
    size_t shape = t ? t->rank * sizeof *t->shape : 0;
    free(n->origin);
    n->origin = t ? malloc(sizeof *n->origin + shape) : NULL;
    if (!n->origin)
        return t ? -ENOMEM : 0;
    *n->origin = *t;
    n->origin->shape = memcpy(n->origin + 1, t->shape, shape);
    return 0;
}

static int bind(struct staging *s, struct staged *n)
{
    if (!n->parent || !staged_bind(&s->rules, n))
        return 0;
    int err = record_bound(n);
    if (err < 0)
        n->is_bound = false; /* tried again when it is closed again */
    commit_edited(s, n->model);
    return err;
}

int64_t staging_copy(struct kind *k, uint64_t id, uint64_t off, const struct node_origin *from,
                     uint64_t from_off, uint64_t len)
{
    struct staging *s = staging_enter(k);
    struct staged *n;
    int err = staging_find(s, id, false, &n);
    if (err == 0 && (off > INT64_MAX || len > INT64_MAX - off))
        err = -EFBIG;
    if (err == 0 && off == 0 && from_off == 0 && n->size == 0) {
        err = set_origin(n, from->tensor);
        n->is_bound &= !n->origin; /* written anew, as another tensor */
    }
    if (err == 0)
        err = copy_range(s, n, off, from->x, from_off, &len, COPIED);
    if (err == 0)
        touched(s, n);
    staging_leave(s, 0);
    return err < 0 ? err : (int64_t)len;
}

int staging_link(struct kind *k, uint64_t dir, const char *name, const struct node_origin *from,
                 struct node_caller who, uint64_t *id)
{
    struct staging *s = staging_enter(k);
    struct staged *d, *n = NULL;
    uint64_t len = from->x->size;
    int err = staging_find(s, dir, true, &d);
    if (err == 0 && d == s->store.tree.top)
        err = -EPERM;
    if (err == 0 && staged_find(&s->store.tree, d, name))
        err = -EEXIST;
    if (err < 0)
        return staging_leave(s, err);
    record_batch(d->model); /* all of it, or there is no link */
    err = staging_make_node(s, d, name, false, who, &n);
    if (err == 0)
        err = set_origin(n, from->tensor);
    if (err == 0)
        err = copy_range(s, n, 0, from->x, 0, &len, len);
    if (err == 0)
        err = bind(s, n);
    int recorded = record_batch_end(d->model, err == 0);
    err = err < 0 ? err : recorded;
    if (err < 0 && n)
        staged_unlink(&s->store.tree, n);
    else if (err == 0) {
        *id = staging_id(n);
        touched(s, n);
    }
    return staging_leave(s, err);
}

int staging_flush(struct kind *k, uint64_t id)
{
    struct staging *s = staging_enter(k);
    struct staged *n;
    int err = staging_find(s, id, false, &n);
    return staging_leave(s, err < 0 ? err : bind(s, n));
}

static int sync_source(const struct extent *e)
{
    if (e->kind != EXTENT_SOURCE || !e->source->own)
        return 0;
    int fd = source_fd(e->source);
    int err = fd < 0 ? fd : fdatasync(fd) < 0 ? -errno : 0;
    source_fd_done(e->source, fd);
    return err;
}

int staging_fsync(struct kind *k, uint64_t id)
{
    struct staging *s = staging_enter(k);
    struct extents x = {0};
    struct staged *n;
    int record = -1, dir = -1, err = staging_find(s, id, false, &n);
    if (err == 0)
        err = content_extents(n, &x);
    if (err == 0 && n->parent) {
        record = fcntl(n->model->record, F_DUPFD_CLOEXEC, 3);
        dir = fcntl(n->model->dir, F_DUPFD_CLOEXEC, 3);
        err = record < 0 || dir < 0 ? -EMFILE : 0;
    }
    staging_leave(s, 0); /* disks are slow */
    for (size_t i = 0; i < x.n && err == 0; i++)
        err = sync_source(&x.v[i]);
    if (err == 0 && record >= 0 && (fdatasync(record) < 0 || fsync(dir) < 0))
        err = -errno;
    if (record >= 0)
        close(record);
    if (dir >= 0)
        close(dir);
    extents_free(&x);
    return err;
}

void staging_sync(struct kind *k, uint64_t id, void (*done)(void *ctx, int err),
                  bool (*interrupted)(void *ctx), void *ctx)
{
    struct staging *s = staging_enter(k);
    struct staged *n;
    int err = staging_find(s, id, true, &n);
    bool waits = err == 0 && n->model && n->model->top && n != s->store.tree.top;
    if (waits)
        err = commit_request(s, n->model, done, interrupted, ctx);
    staging_leave(s, 0);
    if (!waits || err < 0)
        done(ctx, err);
}
