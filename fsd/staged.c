/* SPDX-License-Identifier: MIT */
#include "staged.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "staged_content.h"
#include "store.h"

static int compare_ids(const void *a, const void *b)
{
    const struct staged *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static int compare_names(const void *a, const void *b)
{
    const struct staged *x = a, *y = b;
    if (x->parent != y->parent)
        return x->parent->id < y->parent->id ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int index_name(struct staged_tree *t, struct staged *n)
{
    return tsearch(n, &t->by_name, compare_names) ? 0 : -ENOMEM;
}

struct staged *staged_by_id(const struct staged_tree *t, uint64_t id)
{
    struct staged key = {.id = id};
    struct staged **found = tfind(&key, &t->by_id, compare_ids);
    return found ? *found : NULL;
}

struct staged *staged_find(const struct staged_tree *t, const struct staged *dir, const char *name)
{
    struct staged key = {.parent = (struct staged *)(uintptr_t)dir, .name = (char *)(uintptr_t)name};
    struct staged **found = tfind(&key, &t->by_name, compare_names);
    return found ? *found : NULL;
}

struct staged *staged_walk(const struct staged_tree *t, struct staged *from, const char *path)
{
    char name[256];
    while (from && *path) {
        size_t n = strcspn(path, "/");
        if (n >= sizeof name)
            return NULL;
        memcpy(name, path, n);
        name[n] = 0;
        from = staged_find(t, from, name);
        path += n + (path[n] == '/');
    }
    return from;
}

/* At the end of its directory's listing. */
static void attach(struct staged_tree *t, struct staged *dir, struct staged *n)
{
    n->parent = dir;
    if (dir->model && dir->model != n->holds) {
        store_hold(dir->model);
        if (n->holds)
            store_release(n->holds);
        n->holds = dir->model;
    }
    if (dir->model)
        n->model = dir->model;
    n->cookie = ++t->last_cookie;
    n->prev = dir->last;
    n->next = NULL;
    if (dir->last)
        dir->last->next = n;
    else
        dir->first = n;
    dir->last = n;
    dir->n_dirs += n->is_dir;
}

static void detach(struct staged *n)
{
    struct staged *dir = n->parent;
    if (n->prev)
        n->prev->next = n->next;
    else
        dir->first = n->next;
    if (n->next)
        n->next->prev = n->prev;
    else
        dir->last = n->prev;
    dir->n_dirs -= n->is_dir;
    n->parent = n->prev = n->next = NULL;
}

static void free_node(struct staged *n)
{
    content_clear(n);
    if (n->holds)
        store_release(n->holds);
    for (size_t i = 0; i < N_ATTRS; i++)
        free(n->attr[i]);
    free(n->bound[0]);
    free(n->bound[1]);
    free(n->name_path);
    free(n->origin);
    free(n->name);
    free(n);
}

struct staged *staged_add(struct staged_tree *t, struct staged *dir, const char *name, bool is_dir,
                          struct node_caller who)
{
    struct staged *n = calloc(1, sizeof *n);
    if (!n)
        return NULL;
    n->id = t->last_id + 1;
    n->is_dir = is_dir;
    n->uid = who.uid;
    n->gid = who.gid;
    n->name = strdup(name);
    clock_gettime(CLOCK_REALTIME, &n->mtime);
    if (!n->name || !tsearch(n, &t->by_id, compare_ids))
        goto fail;
    if (dir) {
        attach(t, dir, n);
        if (index_name(t, n) < 0) {
            detach(n);
            tdelete(n, &t->by_id, compare_ids);
            goto fail;
        }
    }
    t->last_id++;
    return n;
fail:
    free_node(n);
    return NULL;
}

void staged_unlink(struct staged_tree *t, struct staged *n)
{
    tdelete(n, &t->by_name, compare_names);
    detach(n);
    n->next = t->orphans;
    if (n->next)
        n->next->prev = n;
    t->orphans = n;
    staged_drop(t, n);
}

void staged_drop(struct staged_tree *t, struct staged *n)
{
    if (n->parent || n->held || n == t->top)
        return;
    if (n->prev)
        n->prev->next = n->next;
    else
        t->orphans = n->next;
    if (n->next)
        n->next->prev = n->prev;
    tdelete(n, &t->by_id, compare_ids);
    free_node(n);
}

int staged_init(struct staged_tree *t)
{
    *t = (struct staged_tree){0};
    t->last_id = UINT64_MAX; /* so that the top becomes 0 */
    t->top = staged_add(t, NULL, "", true, (struct node_caller){0, 0});
    return t->top ? 0 : -ENOMEM;
}

static void nothing(void *p)
{
    (void)p;
}

void staged_free(struct staged_tree *t)
{
    tdestroy(t->by_name, nothing);
    while (t->by_id) {
        struct staged *n = *(struct staged **)t->by_id;
        tdelete(n, &t->by_id, compare_ids);
        free_node(n);
    }
    *t = (struct staged_tree){0};
}

size_t staged_path_length(const struct staged *n)
{
    size_t len = 0;
    for (; n->parent && n->parent->parent; n = n->parent)
        len += strlen(n->name) + (n->parent->parent->parent != NULL);
    return len;
}

/* Written from its end. */
void staged_path(const struct staged *n, struct buf *out)
{
    size_t at = staged_path_length(n);
    char *path = malloc(at + 1);
    out->failed |= !path;
    if (!path)
        return;
    for (path[at] = 0; n->parent && n->parent->parent; n = n->parent) {
        size_t len = strlen(n->name);
        memcpy(path + (at -= len), n->name, len);
        if (at)
            path[--at] = '/';
    }
    buf_str(out, path);
    free(path);
}

bool staged_is_below(const struct staged *n, const struct staged *dir)
{
    while (n && n != dir)
        n = n->parent;
    return n != NULL;
}

struct staged *staged_next(const struct staged *top, const struct staged *n)
{
    if (n->first)
        return n->first;
    while (n != top && !n->next)
        n = n->parent;
    return n == top ? NULL : n->next;
}

int staged_set_text(char **text, const char *value, size_t len)
{
    char *copy = value ? malloc(len + 1) : NULL;
    if (value && !copy)
        return -ENOMEM;
    if (copy) {
        memcpy(copy, value, len);
        copy[len] = 0;
    }
    free(*text);
    *text = copy;
    return 0;
}

/* A name that was set holds as long as the file stays where it was set. */
static void forget_names(struct staged *top)
{
    for (struct staged *n = top; n; n = staged_next(top, n)) {
        staged_set_text(&n->attr[ATTR_NAME], NULL, 0);
        staged_set_text(&n->name_path, NULL, 0);
    }
}

int staged_move(struct staged_tree *t, struct staged *n, struct staged *dir, const char *name)
{
    char *copy = strdup(name);
    if (!copy)
        return -ENOMEM;
    tdelete(n, &t->by_name, compare_names);
    detach(n);
    free(n->name);
    n->name = copy;
    attach(t, dir, n);
    if (dir != t->top) /* a model that is renamed stays the same inside */
        forget_names(n);
    return index_name(t, n);
}
