/* SPDX-License-Identifier: MIT */
#include "thin_stats.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "jtree.h"

enum { MOST_SHOWN = 16 };

/* A page to be counted: all but those that only hold others. */
struct item {
    const struct thin_page *page;
    uint64_t bytes;
    uint64_t refs; /* from stages */
};

struct bucket {
    const fs_text *name;
    uint64_t pages, bytes;
};

struct stats {
    const struct thin *t;
    struct buf *out;
    struct item *items;
    size_t n;
    uint64_t *refs; /* of each page of the manifest */
    struct bucket *buckets;
};

static int by_text(const fs_text *a, const fs_text *b)
{
    size_t n = a->len < b->len ? a->len : b->len;
    int c = n ? memcmp(a->s, b->s, n) : 0;
    return c ? c : (a->len > b->len) - (a->len < b->len);
}

/* In a sound archive stored and raw size are the same. */
static uint64_t bytes_of(const struct thin *t, size_t page)
{
    uint32_t record = thin_find_record(t, &t->manifest.pages[page].id);
    return record == INDEX_NONE ? t->manifest.pages[page].size : t->records[record].stored;
}

static uint64_t total_bytes(const struct thin *t)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < t->n_records; i++)
        sum += t->records[i].stored;
    return sum;
}

static void count_refs(struct stats *s)
{
    const struct thin_manifest *m = &s->t->manifest;
    for (size_t i = 0; i < m->n_stages; i++)
        for (size_t k = 0; k < m->stages[i].refs.n; k++)
            s->refs[thin_find_page(m, &s->t->pages, &m->stages[i].refs.v[k])]++;
}

static int begin(struct stats *s, const struct thin *t, struct buf *out)
{
    size_t n = t->manifest.n_pages;
    *s = (struct stats){.t = t, .out = out};
    s->items = calloc(n + 1, sizeof *s->items);
    s->refs = calloc(n + 1, sizeof *s->refs);
    s->buckets = calloc(n + 1, sizeof *s->buckets);
    if (!s->items || !s->refs || !s->buckets)
        return -ENOMEM;
    count_refs(s);
    for (size_t i = 0; i < n; i++) {
        const struct thin_page *p = &t->manifest.pages[i];
        if (p->kind.len != 14 || memcmp(p->kind.s, "fused_physical", 14) != 0)
            s->items[s->n++] = (struct item){p, bytes_of(t, i), s->refs[i]};
    }
    return 0;
}

static void end(struct stats *s)
{
    free(s->items);
    free(s->refs);
    free(s->buckets);
}

static void key(struct buf *out, const char *name, unsigned level)
{
    if (out->len && out->p[out->len - 1] != '{' && out->p[out->len - 1] != '[')
        buf_char(out, ',');
    jtree_line(out, level);
    if (name)
        buf_printf(out, "\"%s\": ", name);
}

static void number(struct buf *out, const char *name, unsigned level, uint64_t v)
{
    key(out, name, level);
    buf_printf(out, "%" PRIu64, v);
}

static void optional(struct buf *out, const char *name, unsigned level, fs_opt_u64 v)
{
    if (v.present) {
        number(out, name, level, v.value);
        return;
    }
    key(out, name, level);
    buf_str(out, "null");
}

static void text(struct buf *out, const char *name, unsigned level, const fs_text *t)
{
    key(out, name, level);
    if (t->s)
        buf_json_string(out, t->s, t->len);
    else
        buf_str(out, "null");
}

static void open_list(struct buf *out, const char *name, unsigned level, char bracket)
{
    key(out, name, level);
    buf_char(out, bracket);
}

static void close_list(struct buf *out, unsigned level, char bracket)
{
    if (out->len && out->p[out->len - 1] != '[' && out->p[out->len - 1] != '{')
        jtree_line(out, level);
    buf_char(out, bracket);
}

static void bytes(struct buf *out, unsigned level, uint64_t v)
{
    number(out, "raw_bytes", level, v);
    number(out, "stored_bytes", level, v);
}

static void put_model(struct buf *out, const fs_thin_spec *m)
{
    open_list(out, "model", 1, '{');
    text(out, "arch", 2, &m->arch);
    text(out, "raw_arch", 2, &m->raw_arch);
    number(out, "layers", 2, m->layers);
    number(out, "hidden_size", 2, m->hidden_size);
    number(out, "heads", 2, m->heads);
    number(out, "kv_heads", 2, m->kv_heads);
    optional(out, "head_dim", 2, m->head_dim);
    text(out, "dtype", 2, &m->dtype);
    text(out, "source_dtype", 2, &m->source_dtype);
    optional(out, "vocab_size", 2, m->vocab_size);
    key(out, "tie_word_embeddings", 2);
    buf_str(out, !m->tie_word_embeddings.present ? "null" : m->tie_word_embeddings.value ? "true" : "false");
    close_list(out, 1, '}');
}

static int by_size(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return by_text(&x->page->id, &y->page->id);
}

static void put_largest(struct stats *s)
{
    struct buf *out = s->out;
    open_list(out, "largest_pages", 1, '[');
    if (s->n)
        qsort(s->items, s->n, sizeof *s->items, by_size);
    for (size_t i = 0; i < s->n && i < MOST_SHOWN; i++) {
        const struct thin_page *p = s->items[i].page;
        open_list(out, NULL, 2, '{');
        text(out, "id", 3, &p->id);
        text(out, "kind", 3, &p->kind);
        optional(out, "layer", 3, p->layer);
        text(out, "op", 3, &p->op);
        text(out, "dtype", 3, &p->dtype);
        text(out, "backend_layout", 3, &p->layout);
        bytes(out, 3, s->items[i].bytes);
        number(out, "referenced_stages", 3, s->items[i].refs);
        close_list(out, 2, '}');
    }
    close_list(out, 1, ']');
}

static int by_layer(const void *a, const void *b)
{
    uint64_t x = ((const struct item *)a)->page->layer.value, y = ((const struct item *)b)->page->layer.value;
    return (x > y) - (x < y);
}

static void put_layers(struct stats *s)
{
    open_list(s->out, "per_layer", 1, '[');
    if (s->n)
        qsort(s->items, s->n, sizeof *s->items, by_layer);
    for (size_t i = 0; i < s->n;) {
        uint64_t layer = s->items[i].page->layer.value, sum = 0, pages = 0;
        for (; i < s->n && s->items[i].page->layer.value == layer; i++)
            if (s->items[i].page->layer.present) {
                sum += s->items[i].bytes;
                pages++;
            }
        if (pages == 0)
            continue; /* only pages of no layer */
        open_list(s->out, NULL, 2, '{');
        number(s->out, "layer", 3, layer);
        number(s->out, "pages", 3, pages);
        bytes(s->out, 3, sum);
        close_list(s->out, 2, '}');
    }
    close_list(s->out, 1, ']');
}

static int by_name(const void *a, const void *b)
{
    return by_text(((const struct bucket *)a)->name, ((const struct bucket *)b)->name);
}

static int by_weight(const void *a, const void *b)
{
    const struct bucket *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return by_text(x->name, y->name);
}

/* Pages by one of their texts. */
static void put_buckets(struct stats *s, const char *title, size_t at)
{
    struct bucket *v = s->buckets;
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        v[i] = (struct bucket){(const fs_text *)(const void *)((const char *)s->items[i].page + at), 1,
                               s->items[i].bytes};
    if (s->n)
        qsort(v, s->n, sizeof *v, by_name);
    for (size_t i = 0; i < s->n; i++) {
        if (n && by_text(v[n - 1].name, v[i].name) == 0) {
            v[n - 1].pages++;
            v[n - 1].bytes += v[i].bytes;
        } else
            v[n++] = v[i];
    }
    if (n)
        qsort(v, n, sizeof *v, by_weight);
    open_list(s->out, title, 1, '[');
    for (size_t i = 0; i < n; i++) {
        open_list(s->out, NULL, 2, '{');
        text(s->out, "name", 3, v[i].name);
        number(s->out, "pages", 3, v[i].pages);
        bytes(s->out, 3, v[i].bytes);
        close_list(s->out, 2, '}');
    }
    close_list(s->out, 1, ']');
}

static void put_stages(struct stats *s)
{
    const struct thin_manifest *m = &s->t->manifest;
    open_list(s->out, "first_stages", 2, '[');
    for (size_t i = 0; i < m->n_stages && i < MOST_SHOWN; i++) {
        uint64_t sum = 0;
        for (size_t k = 0; k < m->stages[i].refs.n; k++) {
            uint32_t record = thin_find_record(s->t, &m->stages[i].refs.v[k]);
            sum += record == INDEX_NONE ? 0 : s->t->records[record].stored;
        }
        open_list(s->out, NULL, 3, '{');
        text(s->out, "stage", 4, &m->stages[i].stage);
        number(s->out, "page_refs", 4, m->stages[i].refs.n);
        bytes(s->out, 4, sum);
        close_list(s->out, 3, '}');
    }
    close_list(s->out, 2, ']');
}

static int by_id(const void *a, const void *b)
{
    return by_text(&(*(const struct thin_page *const *)a)->id, &(*(const struct thin_page *const *)b)->id);
}

static int put_duplicates(struct stats *s)
{
    const struct thin_manifest *m = &s->t->manifest;
    const struct thin_page **v = malloc((m->n_pages + 1) * sizeof(struct thin_page *));
    size_t n = 0;
    if (!v)
        return -ENOMEM;
    for (size_t i = 0; i < m->n_pages; i++)
        if (s->refs[i] > 1)
            v[n++] = &m->pages[i];
    if (n)
        qsort(v, n, sizeof(struct thin_page *), by_id);
    open_list(s->out, "duplicate_page_refs", 2, '[');
    for (size_t i = 0; i < n; i++) {
        open_list(s->out, NULL, 3, '{');
        text(s->out, "page_id", 4, &v[i]->id);
        number(s->out, "refs", 4, s->refs[v[i] - m->pages]);
        close_list(s->out, 3, '}');
    }
    close_list(s->out, 2, ']');
    free(v);
    return 0;
}

static int put_execution(struct stats *s)
{
    const struct thin_manifest *m = &s->t->manifest;
    uint64_t refs = 0, referenced = 0, empty = 0;
    for (size_t i = 0; i < m->n_pages; i++) {
        refs += s->refs[i];
        referenced += s->refs[i] != 0;
    }
    for (size_t i = 0; i < m->n_stages; i++)
        empty += m->stages[i].refs.n == 0;
    open_list(s->out, "execution", 1, '{');
    number(s->out, "stage_count", 2, m->n_stages);
    number(s->out, "page_ref_count", 2, refs);
    number(s->out, "referenced_page_count", 2, referenced);
    number(s->out, "empty_stage_count", 2, empty);
    open_list(s->out, "unreferenced_pages", 2, '[');
    for (size_t i = 0; i < m->n_pages; i++)
        if (s->refs[i] == 0)
            text(s->out, NULL, 3, &m->pages[i].id);
    close_list(s->out, 2, ']');
    int err = put_duplicates(s);
    put_stages(s);
    close_list(s->out, 1, '}');
    return err;
}

static void put_unknown(struct stats *s)
{
    const struct thin_manifest *m = &s->t->manifest;
    open_list(s->out, "unknown_op_pages", 1, '[');
    for (size_t i = 0; i < m->n_pages; i++) {
        const struct thin_page *p = &m->pages[i];
        bool holder = p->kind.len == 14 && memcmp(p->kind.s, "fused_physical", 14) == 0;
        if (!holder && p->op.len == 7 && memcmp(p->op.s, "unknown", 7) == 0)
            text(s->out, NULL, 2, &p->id);
    }
    close_list(s->out, 1, ']');
}

int thin_stats_json(const struct thin *t, struct buf *out)
{
    struct stats s;
    int err = begin(&s, t, out);
    if (err < 0)
        goto out;
    buf_char(out, '{');
    number(out, "archive_bytes", 1, t->source->size);
    number(out, "manifest_bytes", 1, t->manifest_len);
    number(out, "page_table_records", 1, t->page_count);
    number(out, "data_offset", 1, t->data_off);
    number(out, "page_count", 1, s.n);
    number(out, "total_raw_bytes", 1, total_bytes(t));
    number(out, "total_stored_bytes", 1, total_bytes(t));
    put_model(out, &t->manifest.model);
    put_largest(&s);
    put_layers(&s);
    put_buckets(&s, "per_op", offsetof(struct thin_page, op));
    put_buckets(&s, "by_kind", offsetof(struct thin_page, kind));
    put_buckets(&s, "by_dtype", offsetof(struct thin_page, dtype));
    put_buckets(&s, "by_backend_layout", offsetof(struct thin_page, layout));
    err = put_execution(&s);
    put_unknown(&s);
    buf_str(out, "\n}");
out:
    end(&s);
    return err < 0 ? err : out->failed ? -ENOMEM : 0;
}

static void size_text(struct buf *out, uint64_t v)
{
    static const char *const units[] = {"KiB", "MiB", "GiB"};
    double x = (double)v / 1024;
    int i = 0;
    if (v < 1024) {
        buf_printf(out, "%" PRIu64 " B", v);
        return;
    }
    for (; x >= 1024 && i < 2; i++)
        x /= 1024;
    buf_printf(out, "%.2f %s", x, units[i]);
}

int thin_stats_text(const struct thin *t, struct buf *out)
{
    struct stats s;
    int err = begin(&s, t, out);
    const fs_thin_spec *m = &t->manifest.model;
    if (err == 0) {
        buf_str(out, "model ");
        buf_printable(out, m->arch.s, m->arch.len, 0);
        buf_printf(out,
                   ": %" PRIu64 " layers, hidden size %" PRIu64 ", %" PRIu64 " heads, %" PRIu64 " kv heads\n",
                   m->layers, m->hidden_size, m->heads, m->kv_heads);
        buf_str(out, "archive ");
        size_text(out, t->source->size);
        buf_str(out, ", pages ");
        size_text(out, total_bytes(t));
        buf_printf(out, " in %zu records; %zu pages, %zu stages\n", t->n_records, s.n, t->manifest.n_stages);
        if (s.n)
            qsort(s.items, s.n, sizeof *s.items, by_size);
    }
    for (size_t i = 0; err == 0 && i < s.n && i < MOST_SHOWN; i++) {
        size_text(out, s.items[i].bytes);
        buf_char(out, '\t');
        buf_printable(out, s.items[i].page->id.s, s.items[i].page->id.len, 0);
        buf_char(out, '\n');
    }
    end(&s);
    return err < 0 ? err : out->failed ? -ENOMEM : 0;
}
