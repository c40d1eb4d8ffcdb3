/* SPDX-License-Identifier: MIT
 * Making, removing and renaming what is staged. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "staged_content.h"
#include "staging_i.h"

static int check_model_name(const char *name)
{
    size_t n = strlen(name), e = sizeof STAGED_ENDING - 1;
    if (n > 255 - e)
        return -ENAMETOOLONG;
    return n >= e && strcmp(name + n - e, STAGED_ENDING) == 0 ? -EINVAL : 0;
}

static int make_model(struct staging *s, const char *name, struct node_caller who, struct staged **out)
{
    int err = check_model_name(name);
    struct model_dir *m = err == 0 ? store_new_model(&s->store, name, who, &err) : NULL;
    if (m)
        *out = m->top;
    return err;
}

/* No path is longer than one that can be named. */
static int check_path(const struct staged *dir, const char *name)
{
    return staged_path_length(dir) + strlen(name) + 1 >= PATH_MAX ? -ENAMETOOLONG : 0;
}

int staging_make_node(struct staging *s, struct staged *d, const char *name, bool is_dir,
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

int staging_make(struct kind *k, uint64_t dir, const char *name, mode_t type, struct node_caller who,
                 uint64_t *id)
{
    struct staging *s = staging_enter(k);
    struct staged *d, *n = NULL;
    int err = staging_find(s, dir, true, &d);
    if (err == 0 && type != S_IFDIR && (type != S_IFREG || d == s->store.tree.top))
        err = -EPERM;
    if (err == 0 && staged_find(&s->store.tree, d, name))
        err = -EEXIST;
    if (err == 0)
        err = check_path(d, name);
    if (err == 0)
        err = d == s->store.tree.top ? make_model(s, name, who, &n)
                                     : staging_make_node(s, d, name, type == S_IFDIR, who, &n);
    if (err == 0) {
        *id = staging_id(n);
        clock_gettime(CLOCK_REALTIME, &d->mtime);
        commit_edited(s, n->model);
    }
    return staging_leave(s, err);
}

/* Removes an entry that is known to be a file or an empty directory. */
int staging_drop(struct staging *s, struct staged *n)
{
    struct model_dir *m = n->model;
    struct record_line l;
    int err;
    if (staging_is_model(s, n)) {
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

int staging_remove(struct kind *k, uint64_t dir, const char *name, bool is_dir)
{
    struct staging *s = staging_enter(k);
    struct staged *d, *n = NULL;
    int err = staging_find(s, dir, true, &d);
    if (err == 0 && !(n = staged_find(&s->store.tree, d, name)))
        err = staging_model_of_output(s, name) && d == s->store.tree.top ? -EPERM : -ENOENT;
    if (err == 0 && n->is_dir != is_dir)
        err = is_dir ? -ENOTDIR : -EISDIR;
    if (err == 0 && n->first)
        err = -ENOTEMPTY;
    return staging_leave(s, err < 0 ? err : staging_drop(s, n));
}

/* Its content once more, as `copy` in another model: its numbered files get names there. */
static int copy_refs(const struct staged *n, struct staged *copy)
{
    int err = 0;
    for (size_t i = 0; i < n->n_refs && err == 0; i++) {
        struct ref r = n->refs[i];
        if (r.blob && (r.blob = store_link_file(copy->model, r.blob, &err)))
            r.source = r.blob->source;
        if (err == 0)
            err = record_ref(copy, &r);
        if (err == 0)
            err = content_refer(copy, r.start, r.len, r.source, r.blob, r.off);
        blob_free(r.blob);
    }
    return err;
}

static int copy_types(const struct staged *n, struct staged *copy)
{
    int err = 0;
    for (int a = 0; a < ATTR_NAME && err == 0; a++)
        if (n->attr[a])
            err = staging_set_attribute(copy, (enum attribute)a, n->attr[a], strlen(n->attr[a]));
    for (int a = 0; a < 2 && err == 0; a++)
        if (n->bound[a])
            err = staged_set_text(&copy->bound[a], n->bound[a], strlen(n->bound[a]));
    copy->npy = n->npy;
    copy->is_bound = n->is_bound;
    return err == 0 && n->is_bound ? record_bound(copy) : err;
}

/* A file into another model. It is recorded there as a copy before it is taken from where it was; then the
 * copy gives its content to the file itself, which others may have open. */
static int change_model(struct staging *s, struct staged *n, struct staged *d, const char *name)
{
    struct node_caller who = {n->uid, n->gid};
    struct staged *copy = NULL;
    struct model_dir *m = n->model;
    struct record_line l;
    int err = staging_freeze(n);
    record_batch(d->model);
    if (err == 0)
        err = staging_make_node(s, d, name, false, who, &copy);
    if (err == 0)
        err = copy_refs(n, copy);
    if (err == 0)
        err = copy_types(n, copy);
    int recorded = record_batch_end(d->model, err == 0);
    if (err < 0 || recorded < 0) {
        if (copy)
            staged_unlink(&s->store.tree, copy);
        return err < 0 ? err : recorded;
    }
    record_node(&l, "remove", n);
    err = record_end(&l, m);
    if (err < 0) {
        staging_drop(s, copy);
        return err;
    }
    content_swap(n, copy);
    staged_unlink(&s->store.tree, copy);
    commit_edited(s, m);
    return staged_move(&s->store.tree, n, d, name);
}

/* What stands there is replaced by the same line of the record. */
static int move(struct staging *s, struct staged *n, struct staged *d, const char *name, struct staged *old)
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
    if (err < 0)
        return err;
    if (old)
        staged_unlink(&s->store.tree, old);
    return staged_move(&s->store.tree, n, d, name);
}

static int move_model(struct staging *s, struct staged *n, const char *name, struct staged *old)
{
    struct record_line l;
    int err = check_model_name(name);
    if (err == 0 && old)
        err = staging_drop(s, old);
    if (err == 0)
        err = store_rename_model(n->model, name);
    if (err == 0)
        err = staged_move(&s->store.tree, n, s->store.tree.top, name);
    if (err < 0)
        return err;
    record_begin(&l, "renamed", "", 0);
    return record_end(&l, n->model);
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

/* Across models files can be moved, to a place that is free; mv does all else by copying, by reference. */
static int check_models(const struct staging *s, const struct staged *from, const struct staged *to,
                        const struct staged *n, const struct staged *old)
{
    const struct staged *top = s->store.tree.top;
    if (from == top && to == top)
        return 0;
    if (from == top || to == top)
        return to == top && !n->is_dir ? -EPERM : -EXDEV;
    return from->model != to->model && (n->is_dir || old) ? -EXDEV : 0;
}

int staging_rename(struct kind *k, uint64_t dir, const char *name, uint64_t new_dir, const char *new_name,
                   unsigned flags)
{
    struct staging *s = staging_enter(k);
    struct staged *from, *to = NULL, *n = NULL, *old = NULL, *top = s->store.tree.top;
    int err = flags & ~(unsigned)RENAME_NOREPLACE ? -EINVAL : staging_find(s, dir, true, &from);
    if (err == 0)
        err = staging_find(s, new_dir, true, &to);
    if (err == 0 && !(n = staged_find(&s->store.tree, from, name)))
        err = staging_model_of_output(s, name) && from == top ? -EPERM : -ENOENT;
    if (err == 0) {
        old = staged_find(&s->store.tree, to, new_name);
        err = old == n ? 0 : check_replace(n, old, flags);
    }
    if (err == 0 && staged_is_below(to, n))
        err = -EINVAL;
    if (err == 0)
        err = check_models(s, from, to, n, old);
    if (err == 0)
        err = check_path(to, new_name);
    if (err < 0 || old == n)
        return staging_leave(s, err);
    err = from == top                ? move_model(s, n, new_name, old)
          : from->model != to->model ? change_model(s, n, to, new_name)
                                     : move(s, n, to, new_name, old);
    if (err == 0)
        commit_edited(s, n->model);
    return staging_leave(s, err);
}
