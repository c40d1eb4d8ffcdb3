/* SPDX-License-Identifier: MIT */
#include "info.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "canonical.h"
#include "directory.h"
#include "export.h"
#include "stats.h"
#include "thin.h"
#include "tsv.h"

struct info_kind {
    struct kind kind;
    const struct tree *tree;
    struct kind *exports;
    pthread_mutex_t lock; /* guards the making of tsv, which does not change afterwards */
    struct tsv tsv;
};

static int add_text(struct content *c, struct buf *text)
{
    int err = text->failed ? -ENOMEM : extents_add_memory(&c->x, text->p, text->len);
    buf_free(text);
    return err;
}

/* As stored; of other formats the one that a safetensors file of the same tensors would have. */
static int open_header(struct info_kind *k, struct content *c)
{
    const struct model *m = k->tree->model;
    struct buf text = {0};
    if (m->header_len)
        return extents_add_source(&c->x, m->source, m->header_off, m->header_len);
    int err = canonical_header_text(m, &text, NULL);
    return err < 0 ? -ENOENT : add_text(c, &text);
}

static int open_export_error(struct info_kind *k, struct content *c)
{
    struct buf text = {0};
    export_errors(k->exports, &text);
    return text.len || text.failed ? add_text(c, &text) : -ENOENT;
}

/* Not by cJSON: keys and values may hold NULs, which it cannot say. */
static int open_metadata(struct info_kind *k, struct content *c)
{
    const struct model *m = k->tree->model;
    struct buf text = {0};
    buf_char(&text, '{');
    for (size_t i = 0; i < m->n_metadata; i++) {
        const struct metadata *d = &m->metadata[i];
        buf_str(&text, i ? ",\n " : "\n ");
        buf_json_string(&text, d->key.s, d->key.len);
        buf_str(&text, ": ");
        buf_json_string(&text, d->value.s, d->value.len);
    }
    buf_str(&text, m->n_metadata ? "\n}\n" : "}\n");
    return add_text(c, &text);
}

static int open_tensors(struct info_kind *k, struct content *c)
{
    pthread_mutex_lock(&k->lock);
    int err = k->tsv.start ? 0 : tsv_open(&k->tsv, k->tree);
    pthread_mutex_unlock(&k->lock);
    return err < 0 ? err : extents_add_computed(&c->x, tsv_fill, &k->tsv, k->tsv.size);
}

static int open_leaves(struct info_kind *k, struct content *c)
{
    const struct model *m = k->tree->model;
    if (m->leaves.len == 0) /* a format that has none */
        return extents_add_memory(&c->x, "[]\n", 3);
    return extents_add_borrowed(&c->x, m->leaves.p, m->leaves.len);
}

/* The shards of a directory are mapped when they are first read. */
static bool is_mapped(const struct model *m)
{
    bool mapped = m->source->map != NULL;
    for (size_t i = 0; i < m->n_parts; i++)
        mapped |= __atomic_load_n(&m->part[i]->source->map, __ATOMIC_ACQUIRE) != NULL;
    return mapped;
}

static int open_stats(struct info_kind *k, struct content *c)
{
    const struct model *m = k->tree->model;
    struct buf text = {0};
    stats_write(&text);
    buf_printf(&text, "tensors %zu\nsource %s\nmapped %s\n", m->n_tensors,
               model_changed(m) ? "changed" : "unchanged", is_mapped(m) ? "yes" : "no");
    export_stats(k->exports, &text);
    c->fresh = true;
    return add_text(c, &text);
}

static int open_manifest(struct info_kind *k, struct content *c)
{
    const struct model *m = k->tree->model;
    if (!m->thin)
        return -ENOENT;
    return extents_add_source(&c->x, m->source, m->thin->manifest_off, m->thin->manifest_len);
}

/* An open that says -ENOENT: this model has no such file. */
static const struct {
    const char *name;
    int (*open)(struct info_kind *k, struct content *c);
} files[] = {
    {"header.json", open_header},        {"metadata.json", open_metadata}, {"tensors.tsv", open_tensors},
    {"leaves.json", open_leaves},        {"manifest.json", open_manifest}, {"stats", open_stats},
    {"export-error", open_export_error},
};

/* Node 0 is the directory, node i + 1 is files[i]; then comes the directory of the model directory's other
 * files, as far as there is one, and these, numbered as their directory lists them. */
enum { N_FILES = sizeof files / sizeof files[0], OTHERS = N_FILES + 1, FIRST_OTHER };

static const char others_name[] = "files";

static const struct directory *others(const struct kind *k)
{
    return ((const struct info_kind *)k)->tree->model->dir;
}

/* The shards are shown as what they hold. */
static bool is_other(const struct kind *k, size_t i)
{
    const struct model *m = ((const struct info_kind *)k)->tree->model;
    for (size_t p = 0; p < m->n_parts; p++)
        if (strcmp(m->part[p]->source->name, m->dir->names[i]) == 0)
            return false;
    return strlen(m->dir->names[i]) <= 255 && directory_is_file(m->dir, m->dir->names[i]);
}

static int open_other(const struct kind *k, uint64_t id, struct content *c, struct stat *st)
{
    const struct directory *d = others(k);
    struct source *s = NULL;
    int err = shelf_open(d->shelf, d->names[id - FIRST_OTHER], SOURCE_MAP, &s, NULL);
    if (err == 0) {
        *st = s->st;
        err = extents_add_source(&c->x, s, 0, s->size);
    }
    c->fresh = true; /* not part of the model: it may change */
    source_free(s);
    return err;
}

static int open_content(struct kind *k, uint64_t id, struct content *c)
{
    struct stat st;
    if (id <= N_FILES)
        return files[id - 1].open((struct info_kind *)k, c);
    return open_other(k, id, c, &st);
}

static int size_of(struct kind *k, uint64_t id, off_t *size)
{
    struct content c = {0};
    int err = open_content(k, id, &c);
    *size = (off_t)c.x.size;
    extents_free(&c.x);
    return err;
}

static int lookup_other(struct kind *k, const char *name, uint64_t *id)
{
    const struct directory *d = others(k);
    for (size_t i = 0; i < d->n_names; i++)
        if (strcmp(d->names[i], name) == 0 && is_other(k, i)) {
            *id = FIRST_OTHER + i;
            return 0;
        }
    return -ENOENT;
}

static int lookup(struct kind *k, uint64_t dir, const char *name, uint64_t *id)
{
    off_t size;
    if (dir == OTHERS)
        return lookup_other(k, name, id);
    if (dir != 0)
        return -ENOTDIR;
    if (others(k) && strcmp(name, others_name) == 0) {
        *id = OTHERS;
        return 0;
    }
    for (uint64_t i = 0; i < N_FILES; i++)
        if (strcmp(files[i].name, name) == 0) {
            *id = i + 1;
            return size_of(k, *id, &size);
        }
    return -ENOENT;
}

static int getattr(struct kind *k, uint64_t id, struct stat *st)
{
    struct content c = {0};
    struct stat own = {0};
    if (id == 0 || id == OTHERS) {
        st->st_mode |= S_IFDIR;
        st->st_nlink = id == 0 && others(k) ? 3 : 2;
        return 0;
    }
    st->st_mode |= S_IFREG;
    if (id < FIRST_OTHER)
        return size_of(k, id, &st->st_size);
    int err = open_other(k, id, &c, &own);
    if (err == 0) {
        directory_restrict(st, &own);
        st->st_size = own.st_size;
        st->st_mtim = own.st_mtim;
        st->st_ctim = own.st_ctim;
    }
    extents_free(&c.x);
    return err;
}

static int list_others(struct kind *k, uint64_t from, node_emit emit, void *ctx)
{
    const struct directory *d = others(k);
    for (uint64_t i = from; i < d->n_names; i++)
        if (is_other(k, i) && !emit(ctx, d->names[i], strlen(d->names[i]), FIRST_OTHER + i, S_IFREG, i + 1))
            break;
    return 0;
}

static int list(struct kind *k, uint64_t dir, uint64_t from, node_emit emit, void *ctx)
{
    off_t size;
    if (dir == OTHERS)
        return list_others(k, from, emit, ctx);
    for (uint64_t i = from; i < N_FILES; i++)
        if (size_of(k, i + 1, &size) == 0 &&
            !emit(ctx, files[i].name, strlen(files[i].name), i + 1, S_IFREG, i + 1))
            return 0;
    if (others(k) && from <= N_FILES)
        emit(ctx, others_name, strlen(others_name), OTHERS, S_IFDIR, N_FILES + 1);
    return 0;
}

static void destroy(struct kind *kind)
{
    struct info_kind *k = (struct info_kind *)kind;
    tsv_close(&k->tsv);
    pthread_mutex_destroy(&k->lock);
    free(k);
}

static const struct kind_ops ops = {
    .name = ".safetensors",
    .same_names = true,
    .lookup = lookup,
    .getattr = getattr,
    .readdir = list,
    .open = open_content,
    .free = destroy,
};

struct kind *info_kind_new(const struct tree *t, struct kind *exports)
{
    struct info_kind *k = calloc(1, sizeof *k);
    if (!k)
        return NULL;
    k->kind.ops = &ops;
    k->tree = t;
    k->exports = exports;
    pthread_mutex_init(&k->lock, NULL);
    return &k->kind;
}
