/* SPDX-License-Identifier: MIT */
#include "tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "huge.h"

/* A way to spell what leads to a directory: the beginning of a tensor's name, with the separator at its end.
 * Most directories have one; `c.d` and `c/d` are two of c/d. */
struct tree_prefix {
    const char *text;
    uint32_t len, next; /* next of the same directory */
    uint32_t above;     /* the one without the last component; INDEX_NONE: none */
};

/* Directories of so few entries are gone through, without the index: most leaf directories are small. */
enum { SMALL_DIR = 8 };

/* While building: where each tensor's file goes. */
struct place {
    uint32_t parent, from; /* its directory; where the last component begins in its name */
    uint32_t taken;        /* how many of the numbers that follow the one in its path are taken as well */
};

/* How far a walk over a name came: behind one of its separators, in which directory that is, and which
 * of its prefixes. */
struct step {
    uint64_t hash;
    size_t at;
    uint32_t dir, prefix;
};

struct build {
    struct tree *t;
    struct place *place;
    struct step *step; /* of the last name walked over */
    size_t n_steps, room_steps;
    uint32_t *late; /* tensors whose path is taken */
    size_t n_late;
    struct index prefixes; /* by hash; but for the first of each directory */
    struct buf text;
};

struct key {
    const struct tree *t;
    uint32_t parent;
};

static uint64_t key_hash(uint32_t parent, const char *name, size_t len)
{
    return hash_bytes((uint64_t)parent + 1, name, len);
}

static bool has_name(const struct tree_entry *e, const void *name, size_t len)
{
    return e->len == len && memcmp(e->name, name, len) == 0;
}

static bool same_entry(const void *ctx, uint32_t number, const void *name, size_t len)
{
    const struct key *k = ctx;
    const struct tree_entry *e = &k->t->entry[number];
    return e->parent == k->parent && has_name(e, name, len);
}

uint32_t tree_find(const struct tree *t, uint32_t dir, const char *name, size_t len)
{
    const struct tree_dir *d = &t->dir[dir];
    struct key k = {t, dir};
    if (d->n > SMALL_DIR)
        return index_find(&t->by_name, key_hash(dir, name, len), same_entry, &k, name, len);
    for (uint32_t e = d->first; e; e = t->entry[e].next)
        if (has_name(&t->entry[e], name, len))
            return e;
    return INDEX_NONE;
}

static int index_entry(struct tree *t, uint32_t e)
{
    const struct tree_entry *x = &t->entry[e];
    return index_add(&t->by_name, key_hash(x->parent, x->name, x->len), e);
}

static void append_entry(struct tree *t, uint32_t e)
{
    struct tree_dir *d = &t->dir[t->entry[e].parent];
    if (d->last)
        t->entry[d->last].next = e;
    else
        d->first = e;
    d->last = e;
}

/* Puts an entry into its directory. Once that is no longer small, all that is in it goes to the index. */
static int add_entry(struct tree *t, uint32_t e)
{
    struct tree_dir *d = &t->dir[t->entry[e].parent];
    int err = 0;
    append_entry(t, e);
    if (++d->n > SMALL_DIR + 1)
        return index_entry(t, e);
    for (uint32_t i = d->first; i && d->n == SMALL_DIR + 1 && err == 0; i = t->entry[i].next)
        err = index_entry(t, i);
    return err;
}

/* Puts an entry in the place of another of the same name. */
static void replace_entry(struct tree *t, uint32_t old, uint32_t now)
{
    struct tree_entry *x = &t->entry[now];
    struct tree_dir *d = &t->dir[x->parent];
    *x = t->entry[old];
    if (d->n > SMALL_DIR) /* its list is made again in the end */
        index_replace(&t->by_name, key_hash(x->parent, x->name, x->len), old, now);
    uint32_t *link = &d->first;
    for (size_t i = 0; i <= SMALL_DIR && *link && *link != old; i++)
        link = &t->entry[*link].next;
    if (*link == old)
        *link = now;
    if (d->last == old)
        d->last = now;
}

static bool is_tensor(const void *ctx, uint64_t hash, const char *name, size_t len)
{
    return model_find(ctx, hash, name, len) != INDEX_NONE;
}

static void *grown(void *p, size_t n, size_t *room, size_t size)
{
    if (n < *room)
        return p;
    size_t want = *room ? *room * 2 : 16;
    p = want < UINT32_MAX ? realloc(p, want * size) : NULL;
    if (p)
        *room = want;
    return p;
}

/* The component as written, in memory that lives as long as the tree: within the name where that says the
 * same. */
static int write_component(struct build *b, const char *raw, size_t len, bool first, struct json_text *out)
{
    b->text.len = 0;
    name_write(&b->text, raw, len, first);
    if (b->text.failed)
        return -ENOMEM;
    *out = (struct json_text){raw, b->text.len};
    if (b->text.len != len || memcmp(b->text.p, raw, len) != 0)
        out->s = arena_text(&b->t->arena, b->text.p, b->text.len);
    return out->s ? 0 : -ENOMEM;
}

static int new_dir(struct build *b, uint32_t parent, struct json_text name, uint32_t *out)
{
    struct tree *t = b->t;
    size_t room = t->room_dirs;
    struct tree_dir *d = grown(t->dir, t->n_dirs, &room, sizeof *d);
    if (!d)
        return -ENOMEM;
    t->dir = d;
    struct tree_entry *e = grown(t->entry, t->n_dirs, &t->room_dirs, sizeof *e);
    if (!e)
        return -ENOMEM;
    t->entry = e;
    uint32_t n = (uint32_t)t->n_dirs++;
    d[n] = (struct tree_dir){.prefix = INDEX_NONE};
    e[n] = (struct tree_entry){.name = name.s, .len = (uint8_t)name.len, .parent = parent};
    *out = n;
    return n == TREE_ROOT ? 0 : add_entry(t, n);
}

/* What lies above is known to be the same by its number: comparing it again at each level would make the cost
 * of a deep name the square of its length. */
static bool same_prefix(const void *ctx, uint32_t number, const void *text, size_t len)
{
    const struct key *k = ctx;
    const struct tree_prefix *p = &k->t->prefix[number];
    size_t skip = k->parent == INDEX_NONE ? 0 : k->t->prefix[k->parent].len;
    return p->above == k->parent && p->len == len &&
           memcmp(p->text + skip, (const char *)text + skip, len - skip) == 0;
}

/* One spelling leads to one directory only, so the directory need not be part of the key. A directory's first
 * prefix stays in front of its list and out of the index: most have no other. */
static uint32_t find_prefix(const struct build *b, uint32_t first, const struct name_walk *w, uint32_t above)
{
    struct key k = {b->t, above};
    size_t len = w->to + 1;
    if (first == INDEX_NONE || same_prefix(&k, first, w->name, len))
        return first;
    return index_find(&b->prefixes, w->hash, same_prefix, &k, w->name, len);
}

/* *above is the prefix that this one continues, and becomes its own number. */
static int add_prefix(struct build *b, uint32_t dir, const struct name_walk *w, uint32_t *above)
{
    struct tree *t = b->t;
    uint32_t first = t->dir[dir].prefix, n = find_prefix(b, first, w, *above);
    if (n != INDEX_NONE) {
        *above = n;
        return 0;
    }
    struct tree_prefix *p = grown(t->prefix, t->n_prefixes, &t->room_prefixes, sizeof *p);
    if (!p)
        return -ENOMEM;
    t->prefix = p;
    n = (uint32_t)t->n_prefixes++;
    p[n] = (struct tree_prefix){
        .text = w->name, .len = (uint32_t)w->to + 1, .next = INDEX_NONE, .above = *above};
    *above = n;
    if (first == INDEX_NONE) {
        t->dir[dir].prefix = n;
        return 0;
    }
    p[n].next = p[first].next;
    p[first].next = n;
    return index_add(&b->prefixes, w->hash, n);
}

static int add_step(struct build *b, const struct name_walk *w, uint32_t dir, uint32_t prefix)
{
    struct step *s = grown(b->step, b->n_steps, &b->room_steps, sizeof *s);
    if (!s)
        return -ENOMEM;
    b->step = s;
    s[b->n_steps++] = (struct step){.hash = w->hash, .at = w->at, .dir = dir, .prefix = prefix};
    return 0;
}

static size_t common(const struct tensor *a, const struct tensor *b)
{
    size_t most = a->name_len < b->name_len ? a->name_len : b->name_len, i = 0;
    while (i < most && a->name[i] == b->name[i])
        i++;
    return i;
}

/* Goes as far into a name as the last one went the same way: most names differ from the one before only at
 * their end. The byte behind a separator must be the same as well, since it has a say in what separates. */
static uint32_t resume(struct build *b, struct name_walk *w, uint32_t tensor, uint32_t *prefix)
{
    const struct tensor *all = b->t->model->tensors;
    size_t same = tensor ? common(&all[tensor], &all[tensor - 1]) : 0;
    while (b->n_steps && b->step[b->n_steps - 1].at >= same)
        b->n_steps--;
    if (b->n_steps == 0)
        return TREE_ROOT;
    const struct step *s = &b->step[b->n_steps - 1];
    w->at = s->at;
    w->hash = s->hash;
    *prefix = s->prefix;
    return s->dir;
}

/* Makes the directories of one tensor's path. */
static int add_dirs(struct build *b, uint32_t tensor)
{
    struct tree *t = b->t;
    const struct tensor *have = &t->model->tensors[tensor];
    struct name_walk w = {.name = have->name, .len = have->name_len, .layout = t->layout};
    uint32_t prefix = INDEX_NONE, dir = resume(b, &w, tensor, &prefix);
    struct json_text name;
    bool made = false; /* this directory, just now: nothing is in it */
    int err;
    while (name_next(&w, is_tensor, t->model)) {
        err = write_component(b, w.name + w.from, w.to - w.from, dir == TREE_ROOT, &name);
        if (err < 0)
            return err;
        uint32_t found = made ? INDEX_NONE : tree_find(t, dir, name.s, name.len);
        made = found == INDEX_NONE;
        err = made ? new_dir(b, dir, name, &found) : 0;
        if (err == 0)
            err = add_prefix(b, found, &w, &prefix);
        if (err == 0)
            err = add_step(b, &w, found, prefix);
        if (err < 0)
            return err;
        dir = found;
    }
    b->place[tensor] = (struct place){.parent = dir, .from = (uint32_t)w.from};
    return 0;
}

static int by_name(const struct tensor *a, const struct tensor *b)
{
    int c = memcmp(a->name, b->name, a->name_len < b->name_len ? a->name_len : b->name_len);
    return c ? c : (a->name_len > b->name_len) - (a->name_len < b->name_len);
}

static int written_name(struct build *b, uint32_t tensor, struct json_text *out)
{
    const struct tensor *have = &b->t->model->tensors[tensor];
    const struct place *p = &b->place[tensor];
    return write_component(b, have->name + p->from, have->name_len - p->from, p->parent == TREE_ROOT, out);
}

static int set_entry(struct build *b, uint32_t tensor, struct json_text name)
{
    struct tree *t = b->t;
    uint32_t parent = b->place[tensor].parent;
    t->entry[t->n_dirs + tensor] =
        (struct tree_entry){.name = name.s, .len = (uint8_t)name.len, .parent = parent};
    return add_entry(t, (uint32_t)t->n_dirs + tensor);
}

/* Gives a tensor its plain path, or, of two that want the same, leaves it to the one with the smaller name.
 */
static int add_file(struct build *b, uint32_t tensor)
{
    struct tree *t = b->t;
    const struct tensor *all = t->model->tensors;
    uint32_t parent = b->place[tensor].parent, file = (uint32_t)t->n_dirs + tensor;
    struct json_text name;
    int err = written_name(b, tensor, &name);
    if (err < 0)
        return err;
    uint32_t holder = tree_find(t, parent, name.s, name.len);
    if (holder == INDEX_NONE)
        return set_entry(b, tensor, name);
    uint32_t loser = tensor;
    if (!tree_is_dir(t, holder) && by_name(&all[tensor], tree_tensor(t, holder)) < 0) {
        t->entry[file].parent = parent;
        replace_entry(t, holder, file);
        loser = holder - (uint32_t)t->n_dirs;
    }
    b->late[b->n_late++] = loser;
    return 0;
}

static int late_order(const void *a, const void *b, void *model)
{
    const struct tensor *all = ((const struct model *)model)->tensors;
    return by_name(&all[*(const uint32_t *)a], &all[*(const uint32_t *)b]);
}

/* Rule 5. Should even the suffixed path be taken (the hash can be made to collide), the next free number is
 * used; going by name, so that the result depends on the set only. Where one search ended is remembered with
 * the file that it met first: many names of one hash would else each pass all before them. */
static int add_late(struct build *b, uint32_t tensor)
{
    struct tree *t = b->t;
    const struct tensor *have = &t->model->tensors[tensor];
    uint64_t hash = name_fnv(have->name, have->name_len);
    uint32_t parent = b->place[tensor].parent, steps = 0, behind = 0;
    struct place *first = NULL; /* who has the path of the plain hash, or of the first number with a file */
    struct json_text name;
    struct buf text = {0};
    int err = written_name(b, tensor, &name);
    if (err < 0)
        return err;
    for (;;) {
        text.len = 0;
        name_suffix(&text, name.s, name.len, hash + steps);
        uint32_t at = text.failed ? INDEX_NONE : tree_find(t, parent, text.p, text.len);
        if (at == INDEX_NONE)
            break;
        steps++;
        if (!tree_is_dir(t, at)) {
            struct place *p = &b->place[at - t->n_dirs];
            if (!first) {
                first = p;
                behind = steps;
            }
            steps += p->taken;
        }
    }
    if (first)
        first->taken = steps - behind;
    name = (struct json_text){text.failed ? NULL : arena_text(&t->arena, text.p, text.len), text.len};
    err = name.s ? set_entry(b, tensor, name) : -ENOMEM;
    buf_free(&text);
    return err;
}

/* Strings the entries of each directory together: directories in order of appearance, then files in file
 * order. */
static void link_entries(struct tree *t)
{
    for (size_t i = 0; i < t->n_dirs; i++)
        t->dir[i].first = t->dir[i].last = 0;
    for (uint32_t e = 1; e < t->n_dirs + t->model->n_tensors; e++) {
        t->entry[e].next = 0;
        append_entry(t, e);
        if (tree_is_dir(t, e))
            t->dir[t->entry[e].parent].n_dirs++;
        else
            t->blocks += (tree_tensor(t, e)->nbytes + 511) / 512;
    }
}

static int add_files(struct build *b)
{
    struct tree *t = b->t;
    size_t n = t->model->n_tensors;
    int err = 0;
    if (t->n_dirs + n > UINT32_MAX / 4)
        return -ENOMEM;
    size_t bytes = (t->n_dirs + n) * sizeof(struct tree_entry);
    struct tree_entry *e = in_huge_pages(realloc(t->entry, bytes), bytes);
    if (!e)
        return -ENOMEM;
    t->entry = e;
    b->late = malloc((n ? n : 1) * sizeof *b->late);
    if (!b->late)
        return -ENOMEM;
    for (uint32_t i = 0; i < n && err == 0; i++)
        err = add_file(b, i);
    qsort_r(b->late, b->n_late, sizeof *b->late, late_order, (void *)(uintptr_t)t->model);
    for (size_t i = 0; i < b->n_late && err == 0; i++)
        err = add_late(b, b->late[i]);
    return err;
}

int tree_build(const struct model *m, enum layout layout, struct tree **out)
{
    struct build b = {.t = calloc(1, sizeof *b.t)};
    uint32_t root;
    int err = -ENOMEM;
    if (!b.t)
        return err;
    b.t->model = m;
    b.t->layout = layout;
    b.place = malloc((m->n_tensors ? m->n_tensors : 1) * sizeof *b.place);
    if (!b.place)
        goto out;
    err = new_dir(&b, TREE_ROOT, (struct json_text){"", 0}, &root);
    for (uint32_t i = 0; i < m->n_tensors && err == 0; i++)
        err = add_dirs(&b, i);
    if (err == 0)
        err = add_files(&b);
    if (err < 0)
        goto out;
    link_entries(b.t);
    *out = b.t;
    b.t = NULL;
out:
    free(b.place);
    free(b.step);
    free(b.late);
    index_free(&b.prefixes);
    buf_free(&b.text);
    tree_free(b.t);
    return err;
}

void tree_free(struct tree *t)
{
    if (!t)
        return;
    free(t->entry);
    free(t->dir);
    free(t->prefix);
    index_free(&t->by_name);
    arena_free(&t->arena);
    free(t);
}

/* Is there a tensor of the name prefix + rest? */
static uint32_t find_joined(const struct tree *t, const struct tree_prefix *p, const char *rest, size_t len)
{
    char text[2048], *name = text;
    uint32_t found = INDEX_NONE;
    if (p->len + len > sizeof text)
        name = malloc(p->len + len);
    if (name) {
        memcpy(name, p->text, p->len);
        memcpy(name + p->len, rest, len);
        found = model_find(t->model, hash_bytes(0, name, p->len + len), name, p->len + len);
    }
    if (name != text)
        free(name);
    return found;
}

uint32_t tree_find_raw(const struct tree *t, uint32_t dir, const char *name, size_t len)
{
    const struct tensor *all = t->model->tensors;
    uint32_t best = INDEX_NONE;
    if (dir == TREE_ROOT)
        best = model_find(t->model, hash_bytes(0, name, len), name, len);
    for (uint32_t i = t->dir[dir].prefix; i != INDEX_NONE; i = t->prefix[i].next) {
        const struct tree_prefix *p = &t->prefix[i];
        if (p->text[p->len - 1] == '.' && name[0] == '.')
            continue; /* rule 1: such a dot does not lead into a directory */
        uint32_t found = find_joined(t, p, name, len);
        if (found != INDEX_NONE && (best == INDEX_NONE || by_name(&all[found], &all[best]) < 0))
            best = found;
    }
    return best == INDEX_NONE ? best : (uint32_t)t->n_dirs + best;
}

void tree_path(const struct tree *t, uint32_t e, struct buf *out)
{
    size_t len = 0;
    for (uint32_t i = e; i != TREE_ROOT; i = t->entry[i].parent)
        len += t->entry[i].len + (size_t)(i != e);
    size_t start = out->len;
    for (size_t i = 0; i < len; i++)
        buf_char(out, '/');
    if (out->failed)
        return;
    char *p = out->p + start + len;
    for (uint32_t i = e; i != TREE_ROOT; i = t->entry[i].parent) {
        p -= t->entry[i].len;
        memcpy(p, t->entry[i].name, t->entry[i].len);
        p--;
    }
}
