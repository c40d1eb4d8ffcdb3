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
#include "staged_content.h"
#include "staging_i.h"

uint64_t staging_id(const struct staged *n)
{
    return n->id << 1;
}

bool staging_is_finished(uint64_t id)
{
    return id & 1;
}

struct staging *staging_enter(struct kind *k)
{
    struct staging *s = (struct staging *)k;
    pthread_mutex_lock(&s->lock);
    return s;
}

int staging_leave(struct staging *s, int err)
{
    pthread_mutex_unlock(&s->lock);
    return err;
}

struct staged *staging_node(const struct staging *s, uint64_t id)
{
    return staged_by_id(&s->store.tree, id >> 1);
}

int staging_find(const struct staging *s, uint64_t id, bool dir, struct staged **out)
{
    *out = staging_node(s, id);
    if (!*out)
        return -ENOENT;
    if (staging_is_finished(id))
        return dir ? -ENOTDIR : -EPERM;
    if ((*out)->is_dir != dir)
        return dir ? -ENOTDIR : -EISDIR;
    return 0;
}

bool staging_is_model(const struct staging *s, const struct staged *n)
{
    return n->parent == s->store.tree.top;
}

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

struct staged *staging_model_of_output(const struct staging *s, const char *name)
{
    size_t n = strlen(name), e = sizeof STAGED_ENDING - 1;
    char model[256];
    if (n <= e || n > 255 || strcmp(name + n - e, STAGED_ENDING) != 0)
        return NULL;
    memcpy(model, name, n - e);
    model[n - e] = 0;
    return staged_find(&s->store.tree, s->store.tree.top, model);
}

static int lookup(struct kind *k, uint64_t dir, const char *name, uint64_t *id)
{
    struct staging *s = staging_enter(k);
    struct staged *d, *n;
    struct stat st = {0};
    int err = staging_find(s, dir, true, &d);
    if (err < 0)
        return staging_leave(s, err);
    n = staged_find(&s->store.tree, d, name);
    if (n)
        *id = staging_id(n);
    else if (d == s->store.tree.top && has_output(s, n = staging_model_of_output(s, name), &st))
        *id = staging_id(n) + 1;
    else
        err = -ENOENT;
    return staging_leave(s, err);
}

static int getattr(struct kind *k, uint64_t id, struct stat *st)
{
    struct staging *s = staging_enter(k);
    const struct staged *n = staging_node(s, id);
    struct stat out = {0};
    int err = 0;
    if (!n)
        err = -ENOENT;
    else if (staging_is_finished(id)) {
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
    return staging_leave(s, err);
}

/* An entry stands at twice its cookie, the finished file of a model behind it. */
static int list(struct kind *k, uint64_t dir, uint64_t from, node_emit emit, void *ctx)
{
    struct staging *s = staging_enter(k);
    struct staged *d, *n = NULL;
    struct stat st = {0};
    bool more = true;
    int err = staging_find(s, dir, true, &d);
    if (err == 0)
        for (n = d->first; n && n->cookie * 2 + 1 < from; n = n->next)
            ;
    for (; n && more; n = n->next) {
        uint64_t at = n->cookie * 2;
        if (at >= from)
            more = emit(ctx, n->name, strlen(n->name), staging_id(n), n->is_dir ? S_IFDIR : S_IFREG, at + 1);
        if (more && d == s->store.tree.top && has_output(s, n, &st)) {
            char name[512];
            int len = snprintf(name, sizeof name, "%s%s", n->name, STAGED_ENDING);
            if (len <= 255)
                more = emit(ctx, name, (size_t)len, staging_id(n) + 1, S_IFREG, at + 2);
        }
    }
    return staging_leave(s, err);
}

static int open_finished(const struct staging *s, const struct staged *n, struct content *c)
{
    struct buf name = {0};
    struct stat st = {0};
    commit_target(n->model, &name);
    int fd = name.failed ? -1 : openat(s->store.out, name.p, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    int err = fd < 0 || fstat(fd, &st) < 0 ? -errno : 0;
    buf_free(&name);
    if (err < 0)
        return err;
    struct source *src = source_own(fd, SOURCE_GROWS);
    if (!src)
        return -ENOMEM;
    err = extents_add_source(&c->x, src, 0, (uint64_t)st.st_size);
    source_free(src);
    return err;
}

static int open_content(struct kind *k, uint64_t id, struct content *c)
{
    struct staging *s = staging_enter(k);
    const struct staged *n = staging_node(s, id);
    int err = -ENOENT;
    if (n && staging_is_finished(id))
        err = open_finished(s, n, c);
    else if (n) {
        c->live = true;
        err = content_extents(n, &c->x);
    }
    return staging_leave(s, err);
}

static int tensor(struct kind *k, uint64_t id, struct node_tensor *out)
{
    struct staging *s = staging_enter(k);
    const struct staged *n = staging_node(s, id);
    struct staged_item item = {0};
    struct report why = {0};
    int err = n && !n->is_dir && !n->npy ? staged_describe(&s->rules, n, &item, &why) : -ENOENT;
    staging_leave(s, 0);
    if (err == 0) {
        *out = (struct node_tensor){item.shape, item.nbytes, item.rank, (uint8_t)item.dtype};
        item.shape = NULL;
    }
    staged_item_free(&item);
    return err == 0 ? 0 : -ENOENT;
}

static int statfs_output(struct kind *k, struct statvfs *v)
{
    const struct staging *s = (struct staging *)k;
    return fstatvfs(s->store.out, v) < 0 ? -errno : 0;
}

static void hold(struct kind *k, uint64_t id, int64_t n)
{
    struct staging *s = staging_enter(k);
    struct staged *x = staging_node(s, id);
    if (x) {
        x->held += (uint64_t)n;
        staged_drop(&s->store.tree, x);
    }
    staging_leave(s, 0);
}

void staging_stop(struct kind *k)
{
    struct staging *s = staging_enter(k);
    commit_dismiss(s);
    staging_leave(s, 0);
}

static void destroy(struct kind *k)
{
    struct staging *s = staging_enter(k);
    s->stopping = true;
    pthread_cond_signal(&s->wake);
    staging_leave(s, 0);
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
    .getxattr = staging_getxattr,
    .listxattr = staging_listxattr,
    .open = open_content,
    .tensor = tensor,
    .statfs = statfs_output,
    .free = destroy,
    .make = staging_make,
    .link = staging_link,
    .remove = staging_remove,
    .rename = staging_rename,
    .write = staging_write,
    .resize = staging_resize,
    .touch = staging_touch,
    .chown = staging_chown,
    .copy = staging_copy,
    .setxattr = staging_setxattr,
    .removexattr = staging_removexattr,
    .flush = staging_flush,
    .fsync = staging_fsync,
    .sync = staging_sync,
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
