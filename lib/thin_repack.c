/* SPDX-License-Identifier: MIT */
#include "thin_repack.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blake3.h"
#include "thin_write.h"

/* A blob of the new archive: a record of the old one, or, fused, several of them behind each other. */
struct blob {
    uint32_t page;
    uint32_t parts[3]; /* records */
    uint32_t n_parts;
    unsigned char digest[32];
};

struct repack {
    struct thin *t;
    struct report *r;
    struct blob *blobs; /* one a page, by page; n_parts 0: it has none */
    uint32_t *order;    /* pages */
    size_t n;
    bool *taken;
};

static int fail(struct repack *x, const char *kind, const char *name, const char *why)
{
    report_kind(x->r, kind, -EINVAL, name, strlen(name), FS_NO_OFFSET, "%s", why);
    return -EINVAL;
}

static int no_memory(struct repack *x)
{
    return report_fatal(x->r, -ENOMEM, NULL, 0, FS_NO_OFFSET, "out of memory");
}

static void take(struct repack *x, uint32_t page)
{
    if (page == INDEX_NONE || x->taken[page] || x->blobs[page].n_parts == 0)
        return;
    x->taken[page] = true;
    x->order[x->n++] = page;
}

static void take_manifest(struct repack *x, bool only_hot)
{
    const struct thin_manifest *m = &x->t->manifest;
    for (uint32_t i = 0; i < m->n_pages; i++) {
        const struct thin_page *p = &m->pages[i];
        bool hot =
            !p->layer.present || strcmp(p->kind.s, "embedding") == 0 || strcmp(p->kind.s, "lm_head") == 0;
        if (hot || !only_hot)
            take(x, i);
    }
}

/* Pages inside others stand for those, where `parents` says so. */
static void take_tape(struct repack *x, bool parents)
{
    const struct thin_manifest *m = &x->t->manifest;
    for (size_t i = 0; i < m->n_stages; i++)
        for (size_t k = 0; k < m->stages[i].refs.n; k++) {
            uint32_t page = thin_find_page(m, &x->t->pages, &m->stages[i].refs.v[k]);
            if (parents && page != INDEX_NONE && m->pages[page].fused_to.s)
                page = thin_find_page(m, &x->t->pages, &m->pages[page].fused_to);
            take(x, page);
        }
}

static int execution_ordered(struct repack *x)
{
    take_tape(x, false);
    take_manifest(x, false);
    return 0;
}

static int hot_stream(struct repack *x)
{
    take_manifest(x, true);
    take_tape(x, false);
    take_manifest(x, false);
    return 0;
}

static const struct fusing {
    const char *name, *parts[3];
    uint32_t n;
} fusings[] = {
    {"attn_qkv", {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}, 3},
    {"mlp_gate_up", {"mlp.gate_proj", "mlp.up_proj", NULL}, 2},
};

/* The parts of a fused page: all there, of one dtype, matrices of one width. */
static int find_parts(struct repack *x, uint32_t layer, const struct fusing *f, uint32_t pages[3])
{
    struct thin *t = x->t;
    char id[128];
    for (uint32_t i = 0; i < f->n; i++) {
        snprintf(id, sizeof id, "model.layers.%" PRIu32 ".%s.weight", layer, f->parts[i]);
        fs_text name = {id, strlen(id)};
        pages[i] = thin_find_page(&t->manifest, &t->pages, &name);
        if (pages[i] == INDEX_NONE || x->blobs[pages[i]].n_parts == 0)
            return fail(x, "fuse-page-missing", id, "");
    }
    for (uint32_t i = 0; i < f->n; i++) {
        const struct thin_page *p = &t->manifest.pages[pages[i]], *first = &t->manifest.pages[pages[0]];
        if (p->rank != 2 || first->dtype.len != p->dtype.len ||
            memcmp(first->dtype.s, p->dtype.s, p->dtype.len) != 0 || first->shape[1] != p->shape[1])
            return fail(x, "fuse-incompatible", p->id.s,
                        "not a matrix of the same dtype and width as the first");
    }
    return 0;
}

static int hash_blob(struct repack *x, struct blob *b)
{
    unsigned char *room = malloc(BLAKE3_PIECE);
    struct blake3 h;
    int err = room ? 0 : -ENOMEM;
    blake3_init(&h);
    for (uint32_t i = 0; i < b->n_parts; i++) {
        const struct thin_record *p = &x->t->records[b->parts[i]];
        for (uint64_t at = 0; at < p->stored && err == 0;) {
            size_t n = p->stored - at < BLAKE3_PIECE ? (size_t)(p->stored - at) : BLAKE3_PIECE;
            err = source_read(x->t->source, p->offset + at, room, n);
            if (err == 0)
                blake3_update(&h, room, n);
            at += n;
        }
    }
    blake3_final(&h, b->digest);
    free(room);
    return err < 0 ? report_fatal(x->r, err, NULL, 0, FS_NO_OFFSET, "%s", strerror(-err)) : 0;
}

/* The new page that holds others; its number is that of the last page. */
static int add_parent(struct repack *x, uint32_t layer, const struct fusing *f, const uint32_t pages[3])
{
    struct thin_manifest *m = &x->t->manifest;
    struct thin_page *parent = &m->pages[m->n_pages];
    struct blob *b = &x->blobs[m->n_pages];
    uint64_t *size = arena_alloc(&m->arena, sizeof *size, 1);
    char id[64], hex[65];
    snprintf(id, sizeof id, "layer_%" PRIu32 "_%s_fused", layer, f->name);
    char *name = arena_text(&m->arena, id, strlen(id));
    if (!size || !name)
        return no_memory(x);
    *size = 0;
    *b = (struct blob){.page = (uint32_t)m->n_pages, .n_parts = f->n};
    for (uint32_t i = 0; i < f->n; i++) {
        struct thin_page *p = &m->pages[pages[i]];
        p->fused_to = (fs_text){name, strlen(id)};
        p->fused_offset = (fs_opt_u64){*size, 1};
        *size += p->size; /* blobs of one file: no overflow */
        b->parts[i] = x->blobs[pages[i]].parts[0];
        x->blobs[pages[i]].n_parts = 0;
    }
    int err = hash_blob(x, b);
    if (err < 0)
        return err;
    thin_hex(b->digest, hex);
    char *checksum = arena_text(&m->arena, hex, 64);
    if (!checksum)
        return no_memory(x);
    *parent = (struct thin_page){.id = {name, strlen(id)},
                                 .kind = {"fused_physical", 14},
                                 .layer = {layer, 1},
                                 .op = {f->name, strlen(f->name)},
                                 .dtype = {"u8", 2},
                                 .shape = size,
                                 .rank = 1,
                                 .layout = {"row_concat_v1", 13},
                                 .size = *size,
                                 .checksum = {checksum, 64}};
    m->n_pages++;
    return 0;
}

/* The names of the pages that came may be taken. */
static int check_again(struct repack *x)
{
    struct thin *t = x->t;
    index_free(&t->pages);
    if (thin_index_pages(&t->manifest, &t->pages) < 0)
        return no_memory(x);
    return thin_refuse_manifest(&t->manifest, &t->pages, x->r);
}

static int fused_decode(struct repack *x)
{
    struct thin *t = x->t;
    uint32_t pages[3];
    for (uint64_t layer = 0; layer < t->manifest.model.layers; layer++)
        for (size_t i = 0; i < 2; i++) {
            int err = find_parts(x, (uint32_t)layer, &fusings[i], pages);
            if (err == 0)
                err = add_parent(x, (uint32_t)layer, &fusings[i], pages);
            if (err < 0)
                return err;
        }
    int err = check_again(x);
    if (err < 0)
        return err;
    take_tape(x, true);
    take_manifest(x, false);
    return 0;
}

static const struct {
    const char *name;
    int (*arrange)(struct repack *x);
} layouts[] = {
    {"execution_ordered_v1", execution_ordered},
    {"hot_stream_v1", hot_stream},
    {"fused_decode_v1", fused_decode},
};

/* Room for the pages there are and those that fusing may add: with fewer pages than it needs it fails. */
static int prepare(struct repack *x)
{
    struct thin_manifest *m = &x->t->manifest;
    size_t most = 2 * m->n_pages + 2;
    struct thin_page *pages = realloc(m->pages, most * sizeof *pages);
    if (pages)
        m->pages = pages;
    x->blobs = calloc(most, sizeof *x->blobs);
    x->order = calloc(most, sizeof *x->order);
    x->taken = calloc(most, sizeof *x->taken);
    if (!pages || !x->blobs || !x->order || !x->taken)
        return no_memory(x);
    for (uint32_t i = 0; i < m->n_pages; i++) {
        uint32_t record = thin_find_record(x->t, &m->pages[i].id);
        if (record == INDEX_NONE)
            continue;
        x->blobs[i] = (struct blob){.page = i, .parts = {record}, .n_parts = 1};
        memcpy(x->blobs[i].digest, x->t->records[record].checksum, 32);
    }
    return 0;
}

static int put(struct repack *x, struct extents *out)
{
    const struct thin_manifest *m = &x->t->manifest;
    struct thin_entry *v = malloc((x->n + 1) * sizeof *v);
    struct buf head = {0};
    if (!v)
        return -ENOMEM;
    for (size_t i = 0; i < x->n; i++) {
        const struct thin_page *p = &m->pages[x->order[i]];
        v[i] = (struct thin_entry){&p->id, p->size, x->blobs[x->order[i]].digest};
    }
    int err = thin_write_head(m, v, x->n, &head);
    if (err == 0)
        err = extents_add_memory(out, head.p, head.len);
    for (size_t i = 0; i < x->n; i++)
        for (uint32_t k = 0; k < x->blobs[x->order[i]].n_parts && err == 0; k++) {
            const struct thin_record *p = &x->t->records[x->blobs[x->order[i]].parts[k]];
            err = extents_add_source(out, x->t->source, p->offset, p->stored);
        }
    buf_free(&head);
    free(v);
    return err;
}

int thin_repack_extents(struct thin *t, const char *layout, struct extents *out, struct report *r)
{
    struct repack x = {.t = t, .r = r};
    size_t i = 0;
    while (i < 3 && strcmp(layouts[i].name, layout) != 0)
        i++;
    if (i == 3)
        return fail(&x, "repack-layout", layout, "no layout of that name");
    int err = prepare(&x);
    if (err == 0)
        err = layouts[i].arrange(&x);
    if (err == 0 && put(&x, out) < 0)
        err = no_memory(&x);
    free(x.blobs);
    free(x.order);
    free(x.taken);
    return err;
}
