/* SPDX-License-Identifier: MIT */
#include "info.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "canonical.h"
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

static int open_stats(struct info_kind *k, struct content *c)
{
    const struct source *s = k->tree->model->source;
    struct buf text = {0};
    stats_write(&text);
    buf_printf(&text, "tensors %zu\nsource %s\nmapped %s\n", k->tree->model->n_tensors,
               model_changed(k->tree->model) ? "changed" : "unchanged", s->map ? "yes" : "no");
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
    {"header.json", open_header},  {"metadata.json", open_metadata},
    {"tensors.tsv", open_tensors}, {"manifest.json", open_manifest},
    {"stats", open_stats},         {"export-error", open_export_error},
};

/* Node 0 is the directory, node i + 1 is files[i]. */
enum { N_FILES = sizeof files / sizeof files[0] };

static int open_content(struct kind *k, uint64_t id, struct content *c)
{
    return files[id - 1].open((struct info_kind *)k, c);
}

static int size_of(struct kind *k, uint64_t id, off_t *size)
{
    struct content c = {0};
    int err = open_content(k, id, &c);
    *size = (off_t)c.x.size;
    extents_free(&c.x);
    return err;
}

static int lookup(struct kind *k, uint64_t dir, const char *name, uint64_t *id)
{
    off_t size;
    if (dir != 0)
        return -ENOTDIR;
    for (uint64_t i = 0; i < N_FILES; i++)
        if (strcmp(files[i].name, name) == 0) {
            *id = i + 1;
            return size_of(k, *id, &size);
        }
    return -ENOENT;
}

static int getattr(struct kind *k, uint64_t id, struct stat *st)
{
    if (id == 0) {
        st->st_mode |= S_IFDIR;
        st->st_nlink = 2;
        return 0;
    }
    st->st_mode |= S_IFREG;
    return size_of(k, id, &st->st_size);
}

static int list(struct kind *k, uint64_t dir, uint64_t from, node_emit emit, void *ctx)
{
    off_t size;
    (void)dir;
    for (uint64_t i = from; i < N_FILES; i++)
        if (size_of(k, i + 1, &size) == 0 &&
            !emit(ctx, files[i].name, strlen(files[i].name), i + 1, S_IFREG, i + 1))
            break;
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
