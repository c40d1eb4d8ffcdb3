/* SPDX-License-Identifier: MIT */
#include "thin.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "checked.h"
#include "utf8.h"

static int broken(struct report *r, const char *kind, uint64_t at, const char *why)
{
    report_kind(r, kind, -EBADMSG, NULL, 0, at, "%s", why);
    return -EBADMSG;
}

static int no_memory(struct report *r)
{
    return report_fatal(r, -ENOMEM, NULL, 0, FS_NO_OFFSET, "out of memory");
}

static uint64_t little(const unsigned char *p, unsigned n)
{
    uint64_t v = 0;
    while (n--)
        v = v << 8 | p[n];
    return v;
}

static int read_failed(struct report *r, int err, uint64_t at)
{
    return report_fatal(r, err, NULL, 0, at, "cannot be read: %s", strerror(-err));
}

static int read_header(struct thin *t, struct report *r)
{
    unsigned char b[THIN_HEADER];
    uint64_t size = t->source->size, end;
    size_t n = size < sizeof b ? (size_t)size : sizeof b;
    int err = source_read(t->source, 0, b, n);
    if (err < 0)
        return read_failed(r, err, 0);
    if (n < 8 || memcmp(b, "THINv0\0\0", 8) != 0)
        return broken(r, "bad-magic", 0, "no ThinTensor archive");
    if (n < sizeof b)
        return broken(r, "truncated", size, "the file ends inside the header");
    if (little(b + 8, 4) != THIN_HEADER)
        return broken(r, "bad-header-len", 8, "the header must have 88 bytes");
    if (little(b + 12, 4) != 0)
        return broken(r, "bad-version", 12, "a version other than 0");
    t->manifest_off = little(b + 16, 8);
    t->manifest_len = little(b + 24, 8);
    t->table_off = little(b + 32, 8);
    t->page_count = little(b + 40, 8);
    t->data_off = little(b + 48, 8);
    t->hash_is_zero = true;
    for (size_t i = 56; i < sizeof b; i++)
        t->hash_is_zero &= b[i] == 0;
    if (add_overflows(t->manifest_off, t->manifest_len, &end) || end > size)
        return broken(r, "truncated", 24, "the manifest goes beyond the end of the file");
    return 0;
}

static int read_manifest(struct thin *t, struct report *r)
{
    size_t at = 0;
    const char *why = NULL;
    if (t->manifest_len > SIZE_MAX - 1)
        return no_memory(r);
    char *text = malloc((size_t)t->manifest_len + 1);
    if (!text)
        return no_memory(r);
    int err = source_read(t->source, t->manifest_off, text, (size_t)t->manifest_len);
    if (err < 0) {
        free(text);
        return read_failed(r, err, t->manifest_off);
    }
    err = thin_manifest_read(&t->manifest, text, (size_t)t->manifest_len, &why, &at);
    free(text);
    if (err == -EBADMSG)
        return broken(r, "manifest-parse", t->manifest_off + at, why);
    return err < 0 ? no_memory(r) : 0;
}

/* The table is read through a window, record by record: its length is known only when it has been read. */
struct window {
    const struct source *source;
    uint64_t at;      /* in the file, of the next byte to be given */
    size_t from, len; /* bytes given and held */
    unsigned char b[65536];
};

/* The next n bytes; NULL if the file ends before or cannot be read (*err). */
static const unsigned char *next_bytes(struct window *w, size_t n, int *err)
{
    *err = 0;
    if (w->len - w->from < n) {
        if (!range_fits(w->at, n, w->source->size))
            return NULL;
        uint64_t left = w->source->size - w->at;
        w->len = left < sizeof w->b ? (size_t)left : sizeof w->b;
        w->from = 0;
        *err = source_read(w->source, w->at, w->b, w->len);
        if (*err < 0)
            return NULL;
    }
    const unsigned char *p = w->b + w->from;
    w->from += n;
    w->at += n;
    return p;
}

static struct thin_record *add_record(struct thin *t)
{
    if (t->n_records == t->room_records) {
        size_t room = t->room_records ? t->room_records * 2 : 64;
        struct thin_record *v = room < UINT32_MAX ? realloc(t->records, room * sizeof *v) : NULL;
        if (!v)
            return NULL;
        t->records = v;
        t->room_records = room;
    }
    return &t->records[t->n_records++];
}

static int record_cut(struct report *r, int err, uint64_t at)
{
    return err < 0 ? read_failed(r, err, at)
                   : broken(r, "truncated", at, "the file ends inside the page table");
}

static int read_record(struct thin *t, struct window *w, struct report *r)
{
    int err;
    uint64_t start = w->at;
    const unsigned char *p = next_bytes(w, 2, &err);
    if (!p)
        return record_cut(r, err, start);
    size_t n = (size_t)little(p, 2);
    if (n == 0 || n > THIN_ID_MAX)
        return broken(r, "bad-record-id", start, "an id must have 1 to 4096 bytes");
    p = next_bytes(w, n + THIN_RECORD - 2, &err);
    if (!p)
        return record_cut(r, err, start);
    if (utf8_span((const char *)p, n) != n)
        return broken(r, "bad-record-id", start + 2, "an id that is not UTF-8");
    struct thin_record *x = add_record(t);
    char *id = arena_text(&t->arena, (const char *)p, n);
    if (!x || !id)
        return no_memory(r);
    p += n;
    *x = (struct thin_record){.id = {id, n},
                              .offset = little(p, 8),
                              .stored = little(p + 8, 8),
                              .raw = little(p + 16, 8),
                              .flags = (uint32_t)little(p + 24, 4)};
    memcpy(x->checksum, p + 28, sizeof x->checksum);
    return 0;
}

static int read_table(struct thin *t, struct report *r)
{
    struct window *w = calloc(1, sizeof *w);
    int err = 0;
    if (!w)
        return no_memory(r);
    w->source = t->source;
    w->at = t->table_off;
    for (uint64_t i = 0; i < t->page_count && err == 0; i++)
        err = read_record(t, w, r);
    t->table_end = w->at;
    free(w);
    return err;
}

static bool has_id(const void *ctx, uint32_t number, const void *key, size_t len)
{
    const fs_text *id = &((const struct thin_page *)ctx)[number].id;
    return id->len == len && memcmp(id->s, key, len) == 0;
}

uint32_t thin_find_page(const struct thin_manifest *m, const struct index *x, const fs_text *id)
{
    return index_find(x, hash_bytes(0, id->s, id->len), has_id, m->pages, id->s, id->len);
}

int thin_index_pages(const struct thin_manifest *m, struct index *x)
{
    index_init();
    if (m->n_pages >= INDEX_NONE)
        return -ENOMEM;
    for (uint32_t i = 0; i < m->n_pages; i++) {
        const fs_text *id = &m->pages[i].id;
        uint64_t hash = hash_bytes(0, id->s, id->len);
        uint32_t before = thin_find_page(m, x, id);
        if (before != INDEX_NONE)
            index_replace(x, hash, before, i);
        else if (index_add(x, hash, i) < 0)
            return -ENOMEM;
    }
    return 0;
}

bool thin_record_readable(const struct thin *t, const struct thin_record *x)
{
    /* Nothing can be read anywhere, but beyond what a file offset can say. */
    return x->stored ? range_fits(x->offset, x->stored, t->source->size) : x->offset <= INT64_MAX;
}

static bool record_has_id(const void *ctx, uint32_t number, const void *key, size_t len)
{
    const fs_text *id = &((const struct thin_record *)ctx)[number].id;
    return id->len == len && memcmp(id->s, key, len) == 0;
}

uint32_t thin_find_record(const struct thin *t, const fs_text *id)
{
    return index_find(&t->by_id, hash_bytes(0, id->s, id->len), record_has_id, t->records, id->s, id->len);
}

static int index_records(struct thin *t)
{
    for (uint32_t i = 0; i < t->n_records; i++) {
        struct thin_record *x = &t->records[i];
        uint64_t hash = hash_bytes(0, x->id.s, x->id.len);
        uint32_t before = thin_find_record(t, &x->id);
        x->again = before != INDEX_NONE;
        if (!x->again && index_add(&t->by_id, hash, i) < 0)
            return -ENOMEM;
        if (x->again && (thin_record_readable(t, x) || !thin_record_readable(t, &t->records[before])))
            index_replace(&t->by_id, hash, before, i);
    }
    return 0;
}

/* Which page belongs to which record. */
static int connect(struct thin *t)
{
    int err = thin_index_pages(&t->manifest, &t->pages);
    if (err == 0)
        err = index_records(t);
    for (uint32_t i = 0; i < t->n_records && err == 0; i++)
        t->records[i].page = thin_find_page(&t->manifest, &t->pages, &t->records[i].id);
    return err;
}

int thin_open(struct thin *t, struct source *s, struct report *r)
{
    *t = (struct thin){.source = s};
    r->what = "ThinTensor archive";
    int err = read_header(t, r);
    if (err == 0)
        err = read_manifest(t, r);
    if (err == 0)
        err = read_table(t, r);
    if (err == 0 && connect(t) < 0)
        err = no_memory(r);
    return err;
}

void thin_free(struct thin *t)
{
    thin_manifest_free(&t->manifest);
    free(t->records);
    index_free(&t->pages);
    index_free(&t->by_id);
    source_free(t->empty);
    arena_free(&t->arena);
}

void thin_hex(const unsigned char digest[32], char out[65])
{
    for (int i = 0; i < 32; i++) {
        out[2 * i] = "0123456789abcdef"[digest[i] >> 4];
        out[2 * i + 1] = "0123456789abcdef"[digest[i] & 15];
    }
    out[64] = 0;
}
