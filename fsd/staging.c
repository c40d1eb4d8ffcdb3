/* SPDX-License-Identifier: MIT
 * What is done to staged files, one function an operation. Each takes the lock, changes what is staged and
 * its record, and tells the committer. The record comes first: what it does not hold did not happen. */
#include "staging.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "say.h"
#include "source.h"
#include "staged_content.h"
#include "staging_i.h"
#include "utf8.h"

enum { PIECE = 1 << 20 };
static const char ending[] = ".safetensors", metadata_prefix[] = "user.metadata.",
                  status_name[] = "user.safetensors.status";

/* A node's number is that of what is staged, times two; plus one for the finished file of a model. */
static uint64_t id_of(const struct staged *n)
{
    return n->id << 1;
}

static bool is_finished(uint64_t id)
{
    return id & 1;
}

static struct staging *enter(struct kind *k)
{
    struct staging *s = (struct staging *)k;
    pthread_mutex_lock(&s->lock);
    return s;
}

static int leave(struct staging *s, int err)
{
    pthread_mutex_unlock(&s->lock);
    return err;
}

static struct staged *node(const struct staging *s, uint64_t id)
{
    return staged_by_id(&s->store.tree, id >> 1);
}

/* The file or directory that may be changed. */
static int find(const struct staging *s, uint64_t id, bool dir, struct staged **out)
{
    *out = node(s, id);
    if (!*out)
        return -ENOENT;
    if (is_finished(id))
        return dir ? -ENOTDIR : -EPERM;
    if ((*out)->is_dir != dir)
        return dir ? -ENOTDIR : -EISDIR;
    return 0;
}

static bool is_model(const struct staging *s, const struct staged *n)
{
    return n->parent == s->store.tree.top;
}

/* ---- looking ---- */

/* Is the last commit's output still there? */
static bool has_output(const struct staging *s, const struct staged *n, struct stat *st)
{
    struct buf name = {0};
    if (!n || !n->model || !n->model->committed.done)
        return false;
    commit_target(n->model, &name);
    bool yes = !name.failed && fstatat(s->store.out, name.p, st, AT_SYMLINK_NOFOLLOW) == 0 &&
               S_ISREG(st->st_mode) && st->st_dev == n->model->committed.dev &&
               st->st_ino == n->model->committed.ino;
    buf_free(&name);
    return yes;
}

/* The model whose finished file that name is. */
static struct staged *model_of_output(const struct staging *s, const char *name)
{
    size_t n = strlen(name), e = sizeof ending - 1;
    char model[256];
    if (n <= e || n > 255 || strcmp(name + n - e, ending) != 0)
        return NULL;
    memcpy(model, name, n - e);
    model[n - e] = 0;
    return staged_find(&s->store.tree, s->store.tree.top, model);
}

static int lookup(struct kind *k, uint64_t dir, const char *name, uint64_t *id)
{
    struct staging *s = enter(k);
    struct staged *d, *n;
    struct stat st;
    int err = find(s, dir, true, &d);
    if (err < 0)
        return leave(s, err);
    n = staged_find(&s->store.tree, d, name);
    if (n)
        *id = id_of(n);
    else if (d == s->store.tree.top && has_output(s, n = model_of_output(s, name), &st))
        *id = id_of(n) + 1;
    else
        err = -ENOENT;
    return leave(s, err);
}

static int getattr(struct kind *k, uint64_t id, struct stat *st)
{
    struct staging *s = enter(k);
    const struct staged *n = node(s, id);
    struct stat out;
    int err = 0;
    if (!n)
        err = -ENOENT;
    else if (is_finished(id)) {
        err = has_output(s, n, &out) ? 0 : -ENOENT;
        st->st_mode |= S_IFREG;
        st->st_size = out.st_size;
        st->st_mtim = out.st_mtim;
    } else {
        if (n != s->store.tree.top) {
            st->st_uid = n->uid;
            st->st_gid = n->gid;
            st->st_mtim = st->st_ctim = n->mtime;
        }
        st->st_mode |= (n->is_dir ? S_IFDIR : S_IFREG) | 0600;
        st->st_size = (off_t)n->size;
        st->st_nlink = n->is_dir ? 2 + n->n_dirs : 1;
    }
    return leave(s, err);
}

/* An entry stands at twice its cookie, the finished file of a model behind it. */
static int list(struct kind *k, uint64_t dir, uint64_t from, node_emit emit, void *ctx)
{
    struct staging *s = enter(k);
    struct staged *d, *n = NULL;
    struct stat st;
    bool more = true;
    int err = find(s, dir, true, &d);
    if (err == 0)
        for (n = d->first; n && n->cookie * 2 + 1 < from; n = n->next)
            ;
    for (; n && more; n = n->next) {
        uint64_t at = n->cookie * 2;
        if (at >= from)
            more = emit(ctx, n->name, strlen(n->name), id_of(n), n->is_dir ? S_IFDIR : S_IFREG, at + 1);
        if (more && d == s->store.tree.top && has_output(s, n, &st)) {
            char name[512];
            int len = snprintf(name, sizeof name, "%s%s", n->name, ending);
            if (len <= 255)
                more = emit(ctx, name, (size_t)len, id_of(n) + 1, S_IFREG, at + 2);
        }
    }
    return leave(s, err);
}

static int open_finished(const struct staging *s, const struct staged *n, struct content *c)
{
    struct buf name = {0};
    struct stat st;
    commit_target(n->model, &name);
    int fd = name.failed ? -1 : openat(s->store.out, name.p, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    int err = fd < 0 || fstat(fd, &st) < 0 ? -errno : 0;
    buf_free(&name);
    if (err < 0)
        return err;
    struct source *src = source_own(fd);
    if (!src)
        return -ENOMEM;
    err = extents_add_source(&c->x, src, 0, (uint64_t)st.st_size);
    source_free(src);
    return err;
}

static int open_content(struct kind *k, uint64_t id, struct content *c)
{
    struct staging *s = enter(k);
    const struct staged *n = node(s, id);
    int err = -ENOENT;
    if (n && is_finished(id))
        err = open_finished(s, n, c);
    else if (n) {
        c->live = true;
        err = content_extents(n, &c->x);
    }
    return leave(s, err);
}

static int tensor(struct kind *k, uint64_t id, struct node_tensor *out)
{
    struct staging *s = enter(k);
    const struct staged *n = node(s, id);
    struct staged_item item = {0};
    struct report why = {0};
    int err = n && !n->is_dir && !n->npy ? staged_describe(&s->rules, n, &item, &why) : -ENOENT;
    leave(s, 0);
    if (err == 0) {
        *out = (struct node_tensor){item.shape, item.nbytes, item.rank, (uint8_t)item.dtype};
        item.shape = NULL;
    }
    staged_item_free(&item);
    return err == 0 ? 0 : -ENOENT;
}

/* ---- making, removing, renaming ---- */

static int check_model_name(const char *name)
{
    size_t n = strlen(name), e = sizeof ending - 1;
    if (n > 255 - e)
        return -ENAMETOOLONG;
    return n >= e && strcmp(name + n - e, ending) == 0 ? -EINVAL : 0;
}

static int make_model(struct staging *s, const char *name, struct node_caller who, struct staged **out)
{
    int err = check_model_name(name);
    struct model_dir *m = err == 0 ? store_new_model(&s->store, name, who, &err) : NULL;
    if (m)
        *out = m->top;
    return err;
}

static int make_node(struct staging *s, struct staged *d, const char *name, bool is_dir,
                     struct node_caller who, struct staged **out)
{
    struct staged *n = staged_add(&s->store.tree, d, name, is_dir, who);
    int err = n ? record_new_node(n) : -ENOMEM;
    if (n && err < 0)
        staged_unlink(&s->store.tree, n);
    else
        *out = n;
    return err;
}

static int make(struct kind *k, uint64_t dir, const char *name, mode_t type, struct node_caller who,
                uint64_t *id)
{
    struct staging *s = enter(k);
    struct staged *d, *n = NULL;
    int err = find(s, dir, true, &d);
    if (err == 0 && type != S_IFDIR && (type != S_IFREG || d == s->store.tree.top))
        err = -EPERM;
    if (err == 0 && staged_find(&s->store.tree, d, name))
        err = -EEXIST;
    if (err == 0)
        err = d == s->store.tree.top ? make_model(s, name, who, &n)
                                     : make_node(s, d, name, type == S_IFDIR, who, &n);
    if (err == 0) {
        *id = id_of(n);
        clock_gettime(CLOCK_REALTIME, &d->mtime);
        commit_edited(s, n->model);
    }
    return leave(s, err);
}

/* Removes an entry that is known to be a file or an empty directory. */
static int drop(struct staging *s, struct staged *n)
{
    struct model_dir *m = n->model;
    struct record_line l;
    int err;
    if (is_model(s, n)) {
        err = store_remove_model(m);
        if (err == 0)
            staged_unlink(&s->store.tree, n);
        return err;
    }
    record_node(&l, "remove", n);
    err = record_end(&l, m);
    if (err < 0)
        return err;
    staged_unlink(&s->store.tree, n);
    commit_edited(s, m);
    return 0;
}

static int remove_node(struct kind *k, uint64_t dir, const char *name, bool is_dir)
{
    struct staging *s = enter(k);
    struct staged *d, *n = NULL;
    int err = find(s, dir, true, &d);
    if (err == 0 && !(n = staged_find(&s->store.tree, d, name)))
        err = model_of_output(s, name) && d == s->store.tree.top ? -EPERM : -ENOENT;
    if (err == 0 && n->is_dir != is_dir)
        err = is_dir ? -ENOTDIR : -EISDIR;
    if (err == 0 && n->first)
        err = -ENOTEMPTY;
    return leave(s, err < 0 ? err : drop(s, n));
}

/* A file into another model: its numbered files get names there. */
static int change_model(struct staging *s, struct staged *n, struct staged *d, const char *name)
{
    struct node_caller who = {n->uid, n->gid};
    struct staged *copy = NULL;
    struct record_line l;
    int err = content_freeze(n);
    if (err == 1) {
        record_node(&l, "freeze", n);
        record_number(&l, "bytes", n->size);
        err = record_end(&l, n->model);
    }
    if (err == 0)
        err = make_node(s, d, name, false, who, &copy);
    for (size_t i = 0; i < n->n_refs && err == 0; i++) {
        struct ref r = n->refs[i];
        if (r.blob && (r.blob = store_link_file(d->model, r.blob, &err)))
            r.source = r.blob->source;
        if (err == 0)
            err = record_ref(copy, &r);
        if (err == 0)
            err = content_refer(copy, r.start, r.len, r.source, r.blob, r.off);
        blob_free(r.blob);
    }
    for (int a = 0; a < ATTR_NAME && err == 0; a++)
        if (n->attr[a] && (err = staged_set_text(&copy->attr[a], n->attr[a], strlen(n->attr[a]))) == 0)
            err = record_attribute(copy, a);
    for (int a = 0; a < 2 && err == 0; a++)
        if (n->bound[a])
            err = staged_set_text(&copy->bound[a], n->bound[a], strlen(n->bound[a]));
    if (err == 0) {
        copy->npy = n->npy;
        copy->is_bound = n->is_bound;
        err = n->is_bound ? record_bound(copy) : 0;
    }
    if (err == 0)
        err = drop(s, n);
    if (err < 0 && copy)
        drop(s, copy);
    return err;
}

static int move(struct staging *s, struct staged *n, struct staged *d, const char *name)
{
    struct buf path = {0};
    struct record_line l;
    record_node(&l, "rename", n);
    staged_path(d, &path);
    if (path.len)
        buf_char(&path, '/');
    buf_str(&path, name);
    record_path(&l, "to", path.p ? path.p : "", path.len);
    l.text.failed |= path.failed;
    buf_free(&path);
    int err = record_end(&l, n->model);
    return err < 0 ? err : staged_move(&s->store.tree, n, d, name);
}

static int move_model(struct staging *s, struct staged *n, const char *name)
{
    int err = check_model_name(name);
    if (err == 0)
        err = store_rename_model(n->model, name);
    return err < 0 ? err : staged_move(&s->store.tree, n, s->store.tree.top, name);
}

/* May n take the place of old? */
static int check_replace(const struct staged *n, const struct staged *old, unsigned flags)
{
    if (!old)
        return 0;
    if (flags & RENAME_NOREPLACE)
        return -EEXIST;
    if (n->is_dir != old->is_dir)
        return old->is_dir ? -EISDIR : -ENOTDIR;
    return old->first ? -ENOTEMPTY : 0;
}

static int rename_node(struct kind *k, uint64_t dir, const char *name, uint64_t new_dir, const char *new_name,
                       unsigned flags)
{
    struct staging *s = enter(k);
    struct staged *from, *to = NULL, *n = NULL, *old = NULL, *top = s->store.tree.top;
    int err = flags & ~(unsigned)RENAME_NOREPLACE ? -EINVAL : find(s, dir, true, &from);
    if (err == 0)
        err = find(s, new_dir, true, &to);
    if (err == 0 && !(n = staged_find(&s->store.tree, from, name)))
        err = model_of_output(s, name) && from == top ? -EPERM : -ENOENT;
    if (err == 0 && ((from == top) != (to == top) || (n->is_dir && from != top && from->model != to->model)))
        err = to == top && !n->is_dir ? -EPERM : -EXDEV; /* mv then copies, by reference */
    if (err == 0) {
        old = staged_find(&s->store.tree, to, new_name);
        err = old == n ? 0 : check_replace(n, old, flags);
    }
    if (err < 0 || old == n)
        return leave(s, err);
    struct model_dir *m = to == top ? n->model : to->model;
    if (old)
        err = drop(s, old);
    if (err == 0)
        err = from == top                ? move_model(s, n, new_name)
              : from->model != to->model ? change_model(s, n, to, new_name)
                                         : move(s, n, to, new_name);
    if (err == 0)
        commit_edited(s, m);
    return leave(s, err);
}

/* ---- content ---- */

static int put(const struct staged *n, const char *p, size_t len, uint64_t off)
{
    while (len) {
        ssize_t done = pwrite(n->own->source->fd, p, len, (off_t)off);
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

static int cut(struct staged *n, uint64_t at, uint64_t len)
{
    struct record_line l;
    bool changed;
    for (size_t i = 0; i < n->n_refs; i++) {
        const struct ref *r = &n->refs[i];
        if (r->start >= at + len || r->start + r->len <= at)
            continue;
        record_node(&l, "cut", n);
        record_number(&l, "start", at);
        record_number(&l, "bytes", len);
        int err = record_end(&l, n->model);
        return err < 0 ? err : content_cut(n, at, len, &changed);
    }
    return 0;
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

static int write_file(struct kind *k, uint64_t id, const void *p, size_t len, uint64_t off)
{
    struct staging *s = enter(k);
    struct staged *n;
    int err = find(s, id, false, &n);
    if (err == 0 && (off > INT64_MAX || len > INT64_MAX - off))
        err = -EFBIG;
    if (err == 0 && len)
        err = write_own(n, p, len, off);
    if (err == 0)
        touched(s, n);
    return leave(s, err);
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
    }
    if (err == 0 && n->own && ftruncate(n->own->source->fd, (off_t)size) < 0)
        err = -errno;
    if (err == 0)
        n->size = size;
    return err;
}

static int resize(struct kind *k, uint64_t id, uint64_t size)
{
    struct staging *s = enter(k);
    struct staged *n;
    int err = find(s, id, false, &n);
    if (err == 0 && size != n->size) {
        err = size > INT64_MAX ? -EFBIG : set_size(n, size);
        if (err == 0)
            touched(s, n);
    }
    return leave(s, err);
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
        record_text(&l, "key", key.s, key.len);
        record_text(&l, "value", value.s, value.len);
        err = record_end(&l, m);
        if (err == 0)
            err = store_set_metadata(m, key.s, key.len, value.s, value.len);
    }
    if (err == 0) {
        record_begin(&l, "inherited", "", 0);
        err = record_end(&l, m);
    }
    m->inherited = err == 0;
    return err;
}

/* Who writes that numbered file must not write it any more. */
static int freeze_writer(struct blob *b)
{
    struct staged *w = b->writer;
    struct record_line l;
    if (!w)
        return 0;
    record_node(&l, "freeze", w);
    record_number(&l, "bytes", w->size);
    int err = record_end(&l, w->model);
    if (err == 0)
        err = content_freeze(w);
    return err < 0 ? err : 0;
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
    return e->source->own ? e->source->owner != NULL : e->source->path != NULL;
}

static int copy_range(struct staging *s, struct staged *n, uint64_t at, const struct extents *x,
                      uint64_t from, uint64_t len)
{
    int err = at > n->size ? set_size(n, at) : 0;
    for (size_t i = 0; i < x->n && len && err == 0; i++) {
        const struct extent *e = &x->v[i];
        if (e->start + e->len <= from)
            continue;
        uint64_t skip = from - e->start, part = e->len - skip < len ? e->len - skip : len;
        err = can_refer(n, e) ? refer(s, n, at, e, skip, part) : copy_bytes(n, at, x, from, part);
        at += part;
        from += part;
        len -= part;
    }
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
    commit_edited(s, n->model);
    return err;
}

static int copy(struct kind *k, uint64_t id, uint64_t off, const struct node_origin *from, uint64_t from_off,
                uint64_t len)
{
    struct staging *s = enter(k);
    struct staged *n;
    int err = find(s, id, false, &n);
    if (err == 0 && (off > INT64_MAX || len > INT64_MAX - off))
        err = -EFBIG;
    if (err == 0 && off == 0 && from_off == 0 && n->size == 0)
        err = set_origin(n, from->tensor);
    if (err == 0)
        err = copy_range(s, n, off, from->x, from_off, len);
    if (err == 0)
        touched(s, n);
    return leave(s, err);
}

static int link_node(struct kind *k, uint64_t dir, const char *name, const struct node_origin *from,
                     struct node_caller who, uint64_t *id)
{
    struct staging *s = enter(k);
    struct staged *d, *n = NULL;
    int err = find(s, dir, true, &d);
    if (err == 0 && d == s->store.tree.top)
        err = -EPERM;
    if (err == 0 && staged_find(&s->store.tree, d, name))
        err = -EEXIST;
    if (err == 0)
        err = make_node(s, d, name, false, who, &n);
    if (err < 0)
        return leave(s, err);
    err = set_origin(n, from->tensor);
    if (err == 0)
        err = copy_range(s, n, 0, from->x, 0, from->x->size);
    if (err == 0)
        err = bind(s, n);
    if (err < 0)
        drop(s, n);
    else {
        *id = id_of(n);
        touched(s, n);
    }
    return leave(s, err);
}

static int flush(struct kind *k, uint64_t id)
{
    struct staging *s = enter(k);
    struct staged *n;
    int err = find(s, id, false, &n);
    return leave(s, err < 0 ? err : bind(s, n));
}

static int sync_file(struct kind *k, uint64_t id)
{
    struct staging *s = enter(k);
    struct staged *n;
    int err = find(s, id, false, &n);
    if (err == 0 && n->own && fdatasync(n->own->source->fd) < 0)
        err = -errno;
    if (err == 0 && n->parent && fdatasync(n->model->record) < 0)
        err = -errno;
    return leave(s, err);
}

static void sync_dir(struct kind *k, uint64_t id, void (*done)(void *ctx, int err),
                     bool (*interrupted)(void *ctx), void *ctx)
{
    struct staging *s = enter(k);
    struct staged *n;
    int err = find(s, id, true, &n);
    bool waits = err == 0 && n->model && n->model->top && n != s->store.tree.top;
    if (waits)
        err = commit_request(s, n->model, done, interrupted, ctx);
    leave(s, 0);
    if (!waits || err < 0)
        done(ctx, err);
}

/* ---- attributes ---- */

static int touch(struct kind *k, uint64_t id, const struct timespec *mtime)
{
    struct staging *s = enter(k);
    struct staged *n = node(s, id);
    int err = !n ? -ENOENT : is_finished(id) ? -EPERM : 0;
    if (err == 0)
        n->mtime = *mtime;
    return leave(s, err);
}

static int change_owner(struct kind *k, uint64_t id, uid_t uid, gid_t gid)
{
    struct staging *s = enter(k);
    struct staged *n = node(s, id);
    struct record_line l;
    int err = !n ? -ENOENT : is_finished(id) || n == s->store.tree.top ? -EPERM : 0;
    if (err == 0) {
        n->uid = uid == (uid_t)-1 ? n->uid : uid;
        n->gid = gid == (gid_t)-1 ? n->gid : gid;
        record_node(&l, "owner", n);
        record_number(&l, "uid", n->uid);
        record_number(&l, "gid", n->gid);
        err = record_end(&l, n->model);
    }
    return leave(s, err);
}

static const char *const attribute_names[N_ATTRS] = {"user.dtype", "user.shape", "user.safetensors.name"};

static int attribute(const char *name)
{
    for (int a = 0; a < N_ATTRS; a++)
        if (strcmp(attribute_names[a], name) == 0)
            return a;
    return -1;
}

/* What a mounted tensor has besides: taken from whoever copies attributes along, and dropped, for it would
 * not be true. */
static bool meaningless(const char *name)
{
    static const char *const names[] = {"user.safetensors.source", "user.safetensors.offset",
                                        "user.safetensors.transform", "user.safetensors.format"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

static bool is_metadata(const char *name)
{
    return strncmp(name, metadata_prefix, sizeof metadata_prefix - 1) == 0 &&
           name[sizeof metadata_prefix - 1];
}

static int get_model(struct staging *s, const struct staged *n, const char *name, struct buf *value)
{
    if (strcmp(name, status_name) == 0) {
        commit_status(s, n->model, value);
        return 0;
    }
    const char *key = name + sizeof metadata_prefix - 1;
    const struct staged_pair *p = is_metadata(name) ? store_metadata(n->model, key, strlen(key)) : NULL;
    if (!p)
        return -ENODATA;
    buf_add(value, p->value, p->value_len);
    return 0;
}

static int getxattr_node(struct kind *k, uint64_t id, const char *name, struct buf *value)
{
    struct staging *s = enter(k);
    const struct staged *n = node(s, id);
    int a = attribute(name), err = n ? -ENODATA : -ENOENT;
    if (!n || is_finished(id) || (n->is_dir && !is_model(s, n)))
        return leave(s, err);
    if (n->is_dir)
        return leave(s, get_model(s, n, name, value));
    const char *text = a >= 0 && a != ATTR_NAME ? staged_value(n, a) : NULL;
    if (a == ATTR_NAME)
        staged_name(&s->rules, n, value);
    else if (text)
        buf_str(value, text);
    return leave(s, text || a == ATTR_NAME ? 0 : -ENODATA);
}

static int listxattr_node(struct kind *k, uint64_t id, struct buf *names)
{
    struct staging *s = enter(k);
    const struct staged *n = node(s, id);
    if (!n || is_finished(id) || (n->is_dir && !is_model(s, n)))
        return leave(s, n ? 0 : -ENOENT);
    if (n->is_dir) {
        buf_add(names, status_name, sizeof status_name);
        for (size_t i = 0; i < n->model->n_metadata; i++) {
            const struct staged_pair *p = &n->model->metadata[i];
            if (p->key_len == 0 || p->key_len > 255 - (sizeof metadata_prefix - 1) ||
                memchr(p->key, 0, p->key_len) || p->value_len > XATTR_SIZE_MAX ||
                names->len + sizeof metadata_prefix + p->key_len > XATTR_SIZE_MAX)
                continue;
            buf_str(names, metadata_prefix);
            buf_add(names, p->key, p->key_len + 1);
        }
    } else
        for (int a = 0; a < N_ATTRS; a++)
            if (a == ATTR_NAME || staged_value(n, a))
                buf_add(names, attribute_names[a], strlen(attribute_names[a]) + 1);
    return leave(s, 0);
}

static int set_attribute(struct staged *n, enum attribute a, const char *value, size_t len)
{
    struct buf path = {0};
    int err = staged_set_text(&n->attr[a], value, len);
    if (err == 0 && a == ATTR_NAME) {
        n->name_len = len;
        staged_path(n, &path);
        err = path.failed ? -ENOMEM : staged_set_text(&n->name_path, value ? path.p : NULL, path.len);
        buf_free(&path);
    }
    return err < 0 ? err : record_attribute(n, a);
}

static int set_metadata(struct model_dir *m, const char *key, const char *value, size_t len)
{
    struct record_line l;
    if (value && (utf8_span(key, strlen(key)) != strlen(key) || utf8_span(value, len) != len))
        return -EINVAL; /* a safetensors file could not hold it */
    int err = store_set_metadata(m, key, strlen(key), value, len);
    if (err < 0)
        return err;
    record_begin(&l, "metadata", "", 0);
    record_text(&l, "key", key, strlen(key));
    if (value)
        record_text(&l, "value", value, len);
    return record_end(&l, m);
}

/* value NULL removes. */
static int change_attribute(struct kind *k, uint64_t id, const char *name, const char *value, size_t len,
                            int flags)
{
    struct staging *s = enter(k);
    struct staged *n = node(s, id);
    int a = attribute(name), err = n ? 0 : -ENOENT;
    if (err == 0 && is_finished(id))
        err = -EPERM;
    if (err < 0)
        return leave(s, err);
    bool model = n->is_dir && is_model(s, n), there;
    if (model && is_metadata(name))
        there = store_metadata(n->model, name + sizeof metadata_prefix - 1,
                               strlen(name) - sizeof metadata_prefix + 1);
    else if (!n->is_dir && a >= 0)
        there = n->attr[a] != NULL;
    else if (!value)
        return leave(s, -ENODATA);
    else
        return leave(s, meaningless(name) ? 0 : strcmp(name, status_name) == 0 ? -EPERM : -EOPNOTSUPP);
    if (value ? (there && (flags & XATTR_CREATE)) : !there)
        return leave(s, value ? -EEXIST : -ENODATA);
    if (value && !there && (flags & XATTR_REPLACE))
        return leave(s, -ENODATA);
    err = model ? set_metadata(n->model, name + sizeof metadata_prefix - 1, value, len)
                : set_attribute(n, (enum attribute)a, value, len);
    if (err == 0 && n->parent)
        commit_edited(s, n->model);
    return leave(s, err);
}

static int setxattr_node(struct kind *k, uint64_t id, const char *name, const char *value, size_t len,
                         int flags)
{
    return change_attribute(k, id, name, value, len, flags);
}

static int removexattr_node(struct kind *k, uint64_t id, const char *name)
{
    return change_attribute(k, id, name, NULL, 0, 0);
}

/* ---- the kind ---- */

static int statfs_output(struct kind *k, struct statvfs *v)
{
    const struct staging *s = (struct staging *)k;
    return fstatvfs(s->store.out, v) < 0 ? -errno : 0;
}

static void hold(struct kind *k, uint64_t id, int64_t n)
{
    struct staging *s = enter(k);
    struct staged *x = node(s, id);
    if (x) {
        x->held += (uint64_t)n;
        staged_drop(&s->store.tree, x);
    }
    leave(s, 0);
}

void staging_stop(struct kind *k)
{
    struct staging *s = enter(k);
    commit_dismiss(s);
    leave(s, 0);
}

static void destroy(struct kind *k)
{
    struct staging *s = enter(k);
    s->stopping = true;
    pthread_cond_signal(&s->wake);
    leave(s, 0);
    pthread_join(s->worker, NULL);
    store_close(&s->store);
    pthread_cond_destroy(&s->wake);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static const struct kind_ops ops = {
    .name = ".staging",
    .lookup = lookup,
    .getattr = getattr,
    .readdir = list,
    .getxattr = getxattr_node,
    .listxattr = listxattr_node,
    .open = open_content,
    .tensor = tensor,
    .statfs = statfs_output,
    .free = destroy,
    .make = make,
    .link = link_node,
    .remove = remove_node,
    .rename = rename_node,
    .write = write_file,
    .resize = resize,
    .touch = touch,
    .chown = change_owner,
    .copy = copy,
    .setxattr = setxattr_node,
    .removexattr = removexattr_node,
    .flush = flush,
    .fsync = sync_file,
    .sync = sync_dir,
    .hold = hold,
};

int staging_new(const struct staging_options *o, struct kind **out)
{
    struct staging *s = calloc(1, sizeof *s);
    pthread_condattr_t monotonic;
    pthread_mutexattr_t recursive; /* a listing asks for the attributes of what it lists */
    if (!s)
        return EXIT_SYSTEM;
    s->kind.ops = &ops;
    s->settle = o->settle;
    s->rules = (struct staged_rules){.mounted = o->mounted, .layout = o->mounted->layout, .dtype = o->dtype};
    int status = store_open(&s->store, o->output, o->mounted->model);
    if (status) {
        store_close(&s->store);
        free(s);
        return status;
    }
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&s->lock, &recursive);
    pthread_mutexattr_destroy(&recursive);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&s->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (pthread_create(&s->worker, NULL, commit_worker, s) != 0) {
        say(NULL, "cannot start a thread");
        store_close(&s->store);
        free(s);
        return EXIT_SYSTEM;
    }
    *out = &s->kind;
    return 0;
}
