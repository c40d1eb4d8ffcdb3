/* SPDX-License-Identifier: MIT
 * The rules an archive must keep beyond those of its manifest (thin_check.c). */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "checked.h"
#include "hashing.h"
#include "thin.h"

struct verify {
    const struct thin *t;
    struct report *r;
    int err; /* once set, nothing more is said */
};

static void found(struct verify *v, const char *kind, const fs_text *name, uint64_t at, const char *why)
{
    if (v->err == 0)
        v->err =
            report_kind(v->r, kind, -EBADMSG, name ? name->s : NULL, name ? name->len : 0, at, "%s", why);
}

static int no_memory(struct verify *v)
{
    return v->err ? v->err : report_fatal(v->r, -ENOMEM, NULL, 0, FS_NO_OFFSET, "out of memory");
}

static void check_header(struct verify *v)
{
    const struct thin *t = v->t;
    if (t->manifest_off != THIN_HEADER)
        found(v, "manifest-off", NULL, 16, "the manifest does not follow the header");
    if (t->table_off != t->manifest_off + t->manifest_len)
        found(v, "table-not-after-manifest", NULL, 32, "the page table does not follow the manifest");
    if (t->data_off != t->table_end)
        found(v, "data-not-after-table", NULL, 48, "the pages do not follow the page table");
    if (t->data_off > t->source->size)
        found(v, "data-off-range", NULL, 48, "the pages begin beyond the end of the file");
    if (!t->hash_is_zero)
        found(v, "archive-hash-not-zero", NULL, 56, "reserved bytes that are not zero");
}

static bool same_checksum(const fs_text *text, const unsigned char digest[32])
{
    char hex[65];
    thin_hex(digest, hex);
    return text->len == 64 && memcmp(text->s, hex, 64) == 0;
}

static void check_record(struct verify *v, const struct thin_record *x)
{
    const struct thin_page *p = x->page == INDEX_NONE ? NULL : &v->t->manifest.pages[x->page];
    if (!p) {
        found(v, "record-not-in-manifest", &x->id, x->offset, "the manifest has no such page");
        return;
    }
    if (p->fused_to.s) {
        found(v, "record-for-logical-page", &x->id, x->offset,
              "a page inside another has no blob of its own");
        return;
    }
    if (x->flags)
        found(v, "record-flags", &x->id, x->offset, "flags that are reserved");
    if (x->stored != x->raw)
        found(v, "stored-raw-differ", &x->id, x->offset, "stored and raw size differ");
    if (x->stored != p->size)
        found(v, "size-differs", &x->id, x->offset, "the manifest gives another size");
    if (!same_checksum(&p->checksum, x->checksum))
        found(v, "checksum-fields-differ", &x->id, x->offset, "the manifest gives another checksum");
}

static void check_records(struct verify *v)
{
    const struct thin *t = v->t;
    for (uint32_t i = 0; i < t->n_records && v->err == 0; i++) {
        const struct thin_record *x = &t->records[i];
        if (x->again)
            found(v, "duplicate-record", &x->id, x->offset, "an id for the second time");
        check_record(v, x);
    }
    for (size_t i = 0; i < t->manifest.n_pages && v->err == 0; i++)
        if (!t->manifest.pages[i].fused_to.s && thin_find_record(t, &t->manifest.pages[i].id) == INDEX_NONE)
            found(v, "page-without-record", &t->manifest.pages[i].id, FS_NO_OFFSET,
                  "the page table has it not");
}

/* Sorting keeps the order of the table among equals. */
static int by_offset(const void *a, const void *b)
{
    const struct thin_record *x = *(const struct thin_record *const *)a,
                             *y = *(const struct thin_record *const *)b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return x < y ? -1 : x > y;
}

static void check_overlap(struct verify *v, const struct thin_record **order, size_t n)
{
    qsort(order, n, sizeof(struct thin_record *), by_offset);
    for (size_t i = 1; i < n; i++)
        if (order[i]->offset < order[i - 1]->offset + order[i - 1]->stored)
            found(v, "blob-overlap", &order[i]->id, order[i]->offset,
                  "begins before the end of the page before it");
}

static void check_ranges(struct verify *v)
{
    const struct thin *t = v->t;
    const struct thin_record **order = malloc((t->n_records + 1) * sizeof(struct thin_record *));
    size_t n = 0;
    if (!order) {
        v->err = no_memory(v);
        return;
    }
    for (size_t i = 0; i < t->n_records; i++) {
        const struct thin_record *x = &t->records[i];
        uint64_t end;
        if (x->stored == 0)
            found(v, "stored-zero", &x->id, x->offset, "a size of 0");
        if (x->offset < t->data_off)
            found(v, "blob-before-data", &x->id, x->offset, "begins before the pages do");
        if (add_overflows(x->offset, x->stored, &end)) {
            found(v, "blob-range-overflow", &x->id, x->offset, "its end leaves 64 bits");
            continue;
        }
        if (end > t->source->size)
            found(v, "blob-past-end", &x->id, x->offset, "goes beyond the end of the file");
        order[n++] = x;
    }
    check_overlap(v, order, n);
    free(order);
}

int thin_check_table(const struct thin *t, struct report *r)
{
    struct verify v = {.t = t, .r = r};
    check_header(&v);
    check_records(&v);
    check_ranges(&v);
    return v.err;
}

/* Of no bytes it does not matter where they lie, be it beyond the end. */
static struct hash_range range(const struct thin *t, uint64_t off, uint64_t len)
{
    return (struct hash_range){.source = t->source, .off = len ? off : 0, .len = len};
}

static void judge_record(struct verify *v, const struct thin_record *x, const struct hash_range *h)
{
    if (!thin_record_readable(v->t, x) || h->err == -EIO)
        found(v, "blob-unreadable", &x->id, x->offset, "cannot be read");
    else if (h->err < 0 && v->err == 0)
        v->err = report_fatal(v->r, h->err, x->id.s, x->id.len, x->offset, "%s", strerror(-h->err));
    else if (memcmp(h->digest, x->checksum, 32) != 0)
        found(v, "checksum-mismatch", &x->id, x->offset, "its bytes have another digest");
}

/* Where a page inside another lies. 0: its parent has no record, nothing is said; 1: here; -1: after a
 * finding. */
static int find_slice(struct verify *v, const struct thin_page *p, struct hash_range *h)
{
    const struct thin *t = v->t;
    uint32_t record = thin_find_record(t, &p->fused_to);
    uint64_t off = p->fused_offset.value, end;
    if (record == INDEX_NONE)
        return 0;
    const struct thin_record *x = &t->records[record];
    if (!thin_record_readable(t, x)) {
        found(v, "fused-parent-unread", &p->id, x->offset, "the page it lies in cannot be read");
        return -1;
    }
    if (add_overflows(off, p->size, &end) || end > x->stored) {
        found(v, "fused-slice-range", &p->id, x->offset, "its slice goes beyond the end of its parent");
        return -1;
    }
    *h = range(t, x->offset + off, p->size);
    return 1;
}

static void judge_slice(struct verify *v, const struct thin_page *p)
{
    struct hash_range h;
    if (find_slice(v, p, &h) <= 0)
        return;
    int err = hash_ranges(&h, 1, NULL);
    if (err < 0 && v->err == 0)
        v->err = no_memory(v);
    else if (h.err < 0)
        found(v, "fused-parent-unread", &p->id, h.off, "the page it lies in cannot be read");
    else if (!same_checksum(&p->checksum, h.digest))
        found(v, "logical-checksum-mismatch", &p->id, h.off, "its bytes have another digest");
}

int thin_check_payload(const struct thin *t, struct report *r)
{
    struct verify v = {.t = t, .r = r};
    struct hash_range *h = calloc(t->n_records + 1, sizeof *h);
    if (!h)
        return no_memory(&v);
    for (size_t i = 0; i < t->n_records; i++) {
        const struct thin_record *x = &t->records[i];
        h[i] = range(t, x->offset, thin_record_readable(t, x) ? x->stored : 0);
    }
    if (hash_ranges(h, t->n_records, NULL) < 0)
        v.err = no_memory(&v);
    for (size_t i = 0; i < t->n_records && v.err == 0; i++)
        judge_record(&v, &t->records[i], &h[i]);
    free(h);
    for (size_t i = 0; i < t->manifest.n_pages && v.err == 0; i++)
        if (t->manifest.pages[i].fused_to.s)
            judge_slice(&v, &t->manifest.pages[i]);
    return v.err;
}
