/* SPDX-License-Identifier: MIT
 * Commits: from a staged model to a safetensors file. One worker does them, one after the other. Under the
 * lock it takes a snapshot - the header, and the tensors as extents of files that are never written again -
 * and then works without it, so that nobody waits for a commit but who asked for it. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "canonical.h"
#include "save.h"
#include "say.h"
#include "staged_content.h"
#include "staging_i.h"
#include "view.h"

struct waiter {
    struct waiter *next;
    void (*done)(void *ctx, int err);
    bool (*interrupted)(void *ctx);
    void *ctx;
};

/* What is in a model, described. */
struct contents {
    struct staged_item *items;
    struct canonical_item *order; /* who: one of items */
    size_t n, room;
    unsigned ignored;
};

struct commit {
    struct staging *s;
    struct model_dir *m;
    bool asked; /* for; else by itself */
    uint64_t edits;
    struct buf target;
    uid_t uid;
    gid_t gid;
    struct buf header;
    struct extents x;
    struct extents *files; /* what x borrows from */
    size_t n_files;
    struct arena views;
    struct report why;
};

static int64_t milliseconds(struct timespec from, struct timespec to)
{
    return (to.tv_sec - from.tv_sec) * 1000 + (to.tv_nsec - from.tv_nsec) / 1000000;
}

static struct timespec now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t;
}

void commit_edited(struct staging *s, struct model_dir *m)
{
    m->edits++;
    m->commit.last_edit = now();
    pthread_cond_signal(&s->wake);
    record_compact(m);
}

int commit_request(struct staging *s, struct model_dir *m, void (*done)(void *ctx, int err),
                   bool (*interrupted)(void *ctx), void *ctx)
{
    struct waiter *w = malloc(sizeof *w);
    if (!w)
        return -ENOMEM;
    *w = (struct waiter){m->commit.waiters, done, interrupted, ctx};
    m->commit.waiters = w;
    pthread_cond_signal(&s->wake);
    return 0;
}

static void answer(struct waiter **list, int err)
{
    while (*list) {
        struct waiter *w = *list;
        *list = w->next;
        w->done(w->ctx, err);
        free(w);
    }
}

void commit_dismiss(struct staging *s)
{
    for (struct model_dir *m = s->store.models; m; m = m->next) {
        m->commit.forced |= m->commit.waiters != NULL;
        answer(&m->commit.waiters, -EINTR);
        answer(&m->commit.served, -EINTR);
    }
}

void commit_target(const struct model_dir *m, struct buf *out)
{
    buf_printf(out, "%s" STAGED_ENDING, m->top->name);
}

/* ---- what is in the model ---- */

static void free_contents(struct contents *c)
{
    for (size_t i = 0; i < c->n; i++)
        staged_item_free(&c->items[i]);
    free(c->items);
    free(c->order);
    *c = (struct contents){0};
}

static int add_item(struct contents *c, const struct staged_item *item)
{
    if (c->n == c->room) {
        size_t room = c->room ? c->room * 2 : 64;
        struct staged_item *i = realloc(c->items, room * sizeof *i);
        if (!i)
            return -ENOMEM;
        c->items = i;
        struct canonical_item *o = realloc(c->order, room * sizeof *o);
        if (!o)
            return -ENOMEM;
        c->order = o;
        c->room = room;
    }
    c->order[c->n] = (struct canonical_item){.name = item->name,
                                             .name_len = (uint32_t)item->name_len,
                                             .shape = item->shape,
                                             .rank = item->rank,
                                             .dtype = (uint8_t)item->dtype,
                                             .nbytes = item->nbytes};
    c->items[c->n++] = *item;
    return 0;
}

/* Describes all files; the first that is no tensor ends it, with the reason in *why. */
static int describe(const struct staging *s, const struct model_dir *m, struct contents *c,
                    struct report *why)
{
    int first = 0; /* error; what is ignored is counted all the same */
    for (struct staged *n = staged_next(m->top, m->top); n; n = staged_next(m->top, n)) {
        struct staged_item item;
        if (n->is_dir)
            continue;
        int err = staged_describe(&s->rules, n, &item, why);
        if (err == 1)
            c->ignored++;
        else if (err == 0 && add_item(c, &item) < 0) {
            staged_item_free(&item);
            err = report_fatal(why, -ENOMEM, NULL, 0, FS_NO_OFFSET, "out of memory");
        }
        if (err < 0 && first == 0)
            first = err;
    }
    for (size_t i = 0; i < c->n; i++)
        c->order[i].who = &c->items[i];
    return first;
}

/* The header, and the order of the tensors. */
static int make_header(const struct model_dir *m, struct contents *c, struct buf *out, struct report *why)
{
    struct metadata *metadata = malloc((m->n_metadata ? m->n_metadata : 1) * sizeof *metadata);
    if (!metadata)
        return report_fatal(why, -ENOMEM, NULL, 0, FS_NO_OFFSET, "out of memory");
    for (size_t i = 0; i < m->n_metadata; i++) {
        const struct staged_pair *p = &m->metadata[i];
        metadata[i] = (struct metadata){{p->key, p->key_len}, {p->value, p->value_len}};
    }
    int err = canonical_header(c->order, c->n, metadata, m->n_metadata, out, why);
    free(metadata);
    return err;
}

/* Is what stands under the target's name there by our own doing, or nothing? */
static bool may_replace(const struct staging *s, const struct model_dir *m)
{
    struct buf name = {0};
    struct stat st = {0};
    const struct committed *c = &m->committed;
    commit_target(m, &name);
    int err = name.failed ? 0 : fstatat(s->store.out, name.p, &st, AT_SYMLINK_NOFOLLOW);
    bool free_to = !name.failed && err < 0 && errno == ENOENT;
    buf_free(&name);
    return free_to || (err == 0 && c->done && S_ISREG(st.st_mode) && st.st_dev == c->dev &&
                       st.st_ino == c->ino && (uint64_t)st.st_size == c->bytes &&
                       st.st_mtim.tv_sec == c->mtime.tv_sec && st.st_mtim.tv_nsec == c->mtime.tv_nsec);
}

void commit_status(struct staging *s, struct model_dir *m, struct buf *out)
{
    struct contents c = {0};
    struct report why = {0};
    struct buf header = {0};
    int err = describe(s, m, &c, &why);
    bool failed = m->commit.failed == m->edits + 1;
    if (m->commit.running)
        buf_printf(out, "committing %u%%", m->commit.percent);
    else if (failed)
        buf_printf(out, "error: %s", m->commit.why);
    else if (m->committed.done && m->edits == m->committed_edits)
        buf_printf(out, "committed %" PRIu64, m->committed.bytes);
    else if (err < 0)
        buf_printf(out, "incomplete: %s", why.first.message);
    else if (make_header(m, &c, &header, &why) < 0)
        buf_printf(out, "error: %s", why.first.message);
    else if (c.n == 0)
        buf_str(out, "incomplete: no tensor yet");
    else if (may_replace(s, m))
        buf_str(out, "pending");
    else {
        buf_printf(out, "pending: %s/", s->store.out_path);
        commit_target(m, out);
        buf_str(out, " exists, sync to replace it");
    }
    if (c.ignored)
        buf_printf(out, ", ignored %u", c.ignored);
    buf_free(&header);
    free_contents(&c);
}

/* ---- snapshot ---- */

/* A .npy file in another order than the row-major, little-endian one of the format is turned while it is
 * written. */
static int add_turned(struct commit *c, const struct extents *file, const struct staged_item *item)
{
    struct view *v = arena_alloc(&c->views, sizeof *v, 1);
    uint64_t *stride = arena_alloc(&c->views, (item->rank + 1) * sizeof *stride, 1), step = 1;
    if (!v || !stride)
        return -ENOMEM;
    for (uint32_t i = 0; i < item->rank; i++) {
        uint32_t d = item->fortran ? i : item->rank - 1 - i;
        stride[d] = step;
        step *= item->shape[d];
    }
    uint32_t bytes = tm_dtype_bits(item->dtype) / 8;
    *v = (struct view){.extents = file,
                       .start = item->skip,
                       .end = item->skip + item->nbytes,
                       .nbytes = item->nbytes,
                       .item = bytes,
                       .swap = !item->swapped          ? 0
                               : item->dtype == TM_C64 ? bytes / 2
                                                       : bytes};
    int err = view_shape(v, &c->views, item->rank, item->shape, stride);
    return err < 0 ? err : extents_add_computed(&c->x, view_fill, v, item->nbytes);
}

static int add_file(struct commit *c, const struct staged_item *item, struct extents *file)
{
    struct staged *n = (struct staged *)(uintptr_t)item->file;
    int err = staging_freeze(n);
    if (err == 0)
        err = content_extents(n, file);
    if (err == 0)
        err = item->nbytes && (item->fortran || item->swapped)
                  ? add_turned(c, file, item)
                  : extents_add_range(&c->x, file, item->skip, item->nbytes);
    return err;
}

/* Before anything is written, be it a line of the record. */
static int check_space(struct commit *c, const struct contents *all)
{
    struct statvfs v;
    uint64_t need = c->header.len;
    for (size_t i = 0; i < all->n; i++)
        need += all->order[i].nbytes; /* the header's offsets fit, so does this */
    if (fstatvfs(c->s->store.out, &v) < 0 || v.f_blocks == 0)
        return 0;
    uint64_t have = (uint64_t)v.f_bavail * v.f_frsize;
    if (have >= need)
        return 0;
    return report_fatal(&c->why, -ENOSPC, NULL, 0, FS_NO_OFFSET,
                        "%" PRIu64 " bytes needed, %" PRIu64 " free in %s", need, have, c->s->store.out_path);
}

/* Everything the commit needs, so that it does not depend on what is staged any longer. */
static int take_snapshot(struct commit *c)
{
    struct contents all = {0};
    struct model_dir *m = c->m;
    int err = describe(c->s, m, &all, &c->why);
    if (err == 0)
        err = make_header(m, &all, &c->header, &c->why);
    if (err == 0)
        err = check_space(c, &all);
    if (err < 0)
        goto out;
    c->uid = m->top->uid;
    c->gid = m->top->gid;
    c->n_files = all.n;
    c->files = calloc(all.n ? all.n : 1, sizeof *c->files);
    err = !c->files || c->target.failed ? -ENOMEM : extents_add_borrowed(&c->x, c->header.p, c->header.len);
    for (size_t i = 0; i < all.n && err == 0; i++)
        err = add_file(c, all.order[i].who, &c->files[i]);
    if (err < 0)
        report_fatal(&c->why, err, NULL, 0, FS_NO_OFFSET, "%s", strerror(-err));
out:
    free_contents(&all);
    return err;
}

static void free_commit(struct commit *c)
{
    extents_free(&c->x);
    for (size_t i = 0; i < c->n_files; i++)
        extents_free(&c->files[i]);
    free(c->files);
    arena_free(&c->views);
    buf_free(&c->header);
    buf_free(&c->target);
}

/* ---- one commit ---- */

/* Answers those who were interrupted while they waited. True if there was one, and none is left. */
static bool answer_interrupted(struct waiter **list)
{
    bool some = false;
    for (struct waiter **p = list; *p;) {
        struct waiter *w = *p;
        if (w->interrupted(w->ctx)) {
            *p = w->next;
            w->done(w->ctx, -EINTR);
            free(w);
            some = true;
        } else
            p = &w->next;
    }
    return some && !*list;
}

/* Called while the file is being written: shall it go on? */
static int progress(void *ctx, uint64_t done, uint64_t total)
{
    struct commit *c = ctx;
    struct model_dir *m = c->m;
    int err = 0;
    pthread_mutex_lock(&c->s->lock);
    m->commit.percent = total ? (unsigned)((double)done * 100 / (double)total) : 100;
    for (struct model_dir *other = c->s->store.models; other; other = other->next)
        (void)answer_interrupted(&other->commit.waiters);
    if (answer_interrupted(&m->commit.served))
        err = -EINTR;
    if (!m->top || (!c->asked && m->edits != c->edits))
        err = -ECANCELED;
    pthread_mutex_unlock(&c->s->lock);
    return err;
}

static int write_file(struct commit *c)
{
    bool root = geteuid() == 0;
    struct save_options o = {.progress = progress,
                             .ctx = c,
                             .uid = root ? c->uid : (uid_t)-1,
                             .gid = root ? c->gid : (gid_t)-1,
                             .dir = c->s->store.out};
    return save_extents(c->target.p, &c->x, &o, &c->why);
}

/* What the target is now, so that it will be known again as ours. */
static void remember(struct commit *c, int64_t took)
{
    struct model_dir *m = c->m;
    struct stat st = {0};
    if (fstatat(c->s->store.out, c->target.p, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    m->committed = (struct committed){.done = true,
                                      .bytes = c->x.size,
                                      .dev = st.st_dev,
                                      .ino = st.st_ino,
                                      .took = (uint64_t)took,
                                      .mtime = st.st_mtim};
    m->committed_edits = c->edits;
    if (m->top)
        record_committed(m);
}

static void conclude(struct commit *c, int err, int64_t took)
{
    struct model_dir *m = c->m;
    if (err == 0) {
        remember(c, took);
        say(c->target.p, "committed %" PRIu64 " bytes", c->x.size);
    } else if (err != -ECANCELED && m->top) {
        m->commit.failed = c->edits + 1;
        snprintf(m->commit.why, sizeof m->commit.why, "%s", c->why.first.message);
        say(c->target.len ? c->target.p : m->top->name, "not committed: %s", m->commit.why);
    }
}

/* With the lock held, which is let go for the time of the writing. */
static void run(struct staging *s, struct model_dir *m, bool asked)
{
    struct commit c = {.s = s, .m = m, .asked = asked, .edits = m->edits};
    struct timespec start = now();
    m->commit.served = m->commit.waiters;
    m->commit.waiters = NULL;
    m->commit.forced = false;
    store_hold(m);
    commit_target(m, &c.target);
    int err = take_snapshot(&c);
    if (err == 0) {
        m->commit.running = true;
        m->commit.percent = 0;
        pthread_mutex_unlock(&s->lock);
        err = write_file(&c);
        pthread_mutex_lock(&s->lock);
        m->commit.running = false;
    }
    conclude(&c, err, milliseconds(start, now()));
    answer(&m->commit.served, err);
    store_release(m);
    free_commit(&c);
}

/* ---- which, and when ---- */

static bool changed(const struct model_dir *m)
{
    return m->edits != m->committed_edits || !m->committed.done;
}

/* Complete, not empty, and onto nothing that is not ours. */
static bool would_commit(const struct staging *s, const struct model_dir *m)
{
    struct contents c = {0};
    struct report why = {0};
    struct buf header = {0};
    bool yes = describe(s, m, &c, &why) == 0 && c.n > 0 && may_replace(s, m) &&
               make_header(m, &c, &header, &why) == 0;
    buf_free(&header);
    free_contents(&c);
    return yes;
}

/* Milliseconds until the model may be committed by itself; < 0: not before it is edited again. */
static int64_t due(const struct staging *s, const struct model_dir *m)
{
    if (s->settle < 0 || !changed(m) || m->commit.judged == m->edits + 1 || m->commit.failed == m->edits + 1)
        return -1;
    int64_t quiet = s->settle, took = (int64_t)m->committed.took * 2;
    if (took > quiet)
        quiet = took;
    int64_t left = quiet - milliseconds(m->commit.last_edit, now());
    return s->stopping || left < 0 ? 0 : left;
}

/* The next thing to do; NULL: nothing before *wait milliseconds have passed (< 0: nothing at all). */
static struct model_dir *next_job(struct staging *s, bool *asked, int64_t *wait)
{
    *wait = -1;
    for (struct model_dir *m = s->store.models; m; m = m->next)
        if (m->commit.waiters || m->commit.forced) {
            *asked = true;
            return m;
        }
    *asked = false;
    for (struct model_dir *m = s->store.models; m; m = m->next) {
        int64_t left = due(s, m);
        if (left == 0 && would_commit(s, m))
            return m;
        if (left == 0)
            m->commit.judged = m->edits + 1;
        else if (left > 0 && (*wait < 0 || left < *wait))
            *wait = left;
    }
    return NULL;
}

static void sleep_until(struct staging *s, int64_t wait)
{
    struct timespec t = now();
    t.tv_sec += wait / 1000;
    t.tv_nsec += wait % 1000 * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_nsec -= 1000000000;
        t.tv_sec++;
    }
    if (wait < 0)
        pthread_cond_wait(&s->wake, &s->lock);
    else
        pthread_cond_timedwait(&s->wake, &s->lock, &t);
}

void *commit_worker(void *staging)
{
    struct staging *s = staging;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        bool asked;
        int64_t wait;
        struct model_dir *m = next_job(s, &asked, &wait);
        if (m)
            run(s, m, asked);
        else if (s->stopping)
            break;
        else
            sleep_until(s, wait);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}
