/* SPDX-License-Identifier: MIT */
#include "canonical.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "checked.h"
#include "header.h"
#include "utf8.h"

static int no_memory(struct report *r)
{
    return report_fatal(r, -ENOMEM, NULL, 0, FS_NO_OFFSET, "out of memory");
}

int canonical_name(const char *name, size_t len, struct report *r)
{
    if (utf8_span(name, len) != len)
        return report_fatal(r, -EINVAL, name, len, FS_NO_OFFSET, "a tensor's name must be UTF-8");
    if (len == 12 && memcmp(name, "__metadata__", 12) == 0)
        return report_fatal(r, -EINVAL, name, len, FS_NO_OFFSET, "the format keeps this name for metadata");
    return 0;
}

int canonical_dtype(tm_dtype d, const char *name, size_t len, struct report *r)
{
    const char *code = tm_dtype_name(d);
    if (d < TM_SAFETENSORS_CODES)
        return 0;
    return report_fatal(r, -EINVAL, name, len, FS_NO_OFFSET, "safetensors has no code for dtype %s",
                        code ? code : "?");
}

static int compare_names(const struct canonical_item *a, const struct canonical_item *b)
{
    int c = memcmp(a->name, b->name, a->name_len < b->name_len ? a->name_len : b->name_len);
    return c ? c : (a->name_len > b->name_len) - (a->name_len < b->name_len);
}

static int by_name(const void *a, const void *b)
{
    return compare_names(a, b);
}

static int by_order(const void *a, const void *b)
{
    const struct canonical_item *x = a, *y = b;
    return x->dtype != y->dtype ? (int)y->dtype - (int)x->dtype : compare_names(x, y);
}

static int by_key(const void *a, const void *b)
{
    const struct json_text *x = &((const struct metadata *)a)->key, *y = &((const struct metadata *)b)->key;
    int c = memcmp(x->s, y->s, x->len < y->len ? x->len : y->len);
    return c ? c : (x->len > y->len) - (x->len < y->len);
}

static int sort(struct canonical_item *items, size_t n, struct report *r)
{
    if (n == 0)
        return 0;
    qsort(items, n, sizeof *items, by_name);
    for (size_t i = 1; i < n; i++)
        if (compare_names(&items[i - 1], &items[i]) == 0)
            return report_fatal(r, -EEXIST, items[i].name, items[i].name_len, FS_NO_OFFSET,
                                "two tensors of this name");
    qsort(items, n, sizeof *items, by_order);
    return 0;
}

/* In order of their keys: the reference has none (it uses a hash map). */
static int add_metadata(const struct metadata *metadata, size_t n, struct buf *out)
{
    struct metadata *sorted = malloc(n * sizeof *sorted);
    if (!sorted)
        return -ENOMEM;
    memcpy(sorted, metadata, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_key);
    buf_str(out, "\"__metadata__\":{");
    for (size_t i = 0; i < n; i++) {
        if (i)
            buf_char(out, ',');
        buf_json_string(out, sorted[i].key.s, sorted[i].key.len);
        buf_char(out, ':');
        buf_json_string(out, sorted[i].value.s, sorted[i].value.len);
    }
    buf_char(out, '}');
    free(sorted);
    return 0;
}

static int add_items(const struct canonical_item *items, size_t n, bool first, struct buf *out,
                     struct report *r)
{
    uint64_t at = 0, end;
    for (size_t i = 0; i < n; i++, at = end) {
        const struct canonical_item *t = &items[i];
        if (add_overflows(at, t->nbytes, &end))
            return report_fatal(r, -EOVERFLOW, t->name, t->name_len, FS_NO_OFFSET,
                                "the file would be too large");
        if (!first)
            buf_char(out, ',');
        first = false;
        buf_json_string(out, t->name, t->name_len);
        buf_printf(out, ":{\"dtype\":\"%s\",\"shape\":", tm_dtype_name(t->dtype));
        buf_shape(out, t->shape, t->rank);
        buf_printf(out, ",\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at, end);
    }
    return 0;
}

int canonical_header(struct canonical_item *items, size_t n, const struct metadata *metadata,
                     size_t n_metadata, struct buf *out, struct report *r)
{
    size_t start = out->len;
    int err = sort(items, n, r);
    if (err < 0)
        return err;
    buf_add(out, "\0\0\0\0\0\0\0\0{", 9);
    if (n_metadata && add_metadata(metadata, n_metadata, out) < 0)
        return no_memory(r);
    err = add_items(items, n, n_metadata == 0, out, r);
    if (err < 0)
        return err;
    buf_char(out, '}');
    buf_add(out, "       ", (8 - (out->len - start) % 8) % 8);
    if (out->failed)
        return no_memory(r);
    uint64_t len = out->len - start - 8;
    if (len > HEADER_MAX)
        return report_fatal(r, -EFBIG, NULL, 0, FS_NO_OFFSET,
                            "the header would have %" PRIu64 " bytes, the format allows %d", len, HEADER_MAX);
    for (size_t i = 0; i < 8; i++)
        out->p[start + i] = (char)(len >> (8 * i) & 0xFF);
    return 0;
}

static int model_items(const struct model *m, struct canonical_item **out, struct report *r)
{
    size_t n = m->n_tensors;
    struct canonical_item *items = malloc((n ? n : 1) * sizeof *items);
    int err = 0;
    if (!items)
        return no_memory(r);
    for (size_t i = 0; i < n && err == 0; i++) {
        const struct tensor *t = &m->tensors[i];
        err = canonical_name(t->name, t->name_len, r);
        if (err == 0)
            err = canonical_dtype(t->dtype, t->name, t->name_len, r);
        if (err == 0 && t->nbytes && tensor_is_empty(t))
            err = report_fatal(r, -EINVAL, t->name, t->name_len, FS_NO_OFFSET, "has a shape but no bytes");
        items[i] = (struct canonical_item){t->name, t->shape, t->nbytes, t->name_len, t->rank, t->dtype, t};
    }
    if (err == 0)
        *out = items;
    else
        free(items);
    return err;
}

/* Both are to be released by the caller, also after an error. */
static int model_header(const struct model *m, struct canonical_item **items, struct buf *header,
                        struct report *r)
{
    int err = model_items(m, items, r);
    return err < 0 ? err : canonical_header(*items, m->n_tensors, m->metadata, m->n_metadata, header, r);
}

int canonical_extents(const struct model *m, struct extents *x, struct report *r)
{
    struct canonical_item *items = NULL;
    struct buf header = {0};
    int err = model_header(m, &items, &header, r);
    if (err < 0)
        goto out;
    err = extents_add_memory(x, header.p, header.len);
    for (size_t i = 0; i < m->n_tensors && err == 0; i++)
        err = model_extents(m, items[i].who, x);
    if (err < 0)
        no_memory(r);
out:
    buf_free(&header);
    free(items);
    return err;
}

int canonical_header_text(const struct model *m, struct buf *out, struct report *r)
{
    struct canonical_item *items = NULL;
    struct buf header = {0};
    int err = model_header(m, &items, &header, r);
    while (err == 0 && header.p[header.len - 1] == ' ')
        header.len--;
    if (err == 0)
        buf_add(out, header.p + 8, header.len - 8);
    buf_free(&header);
    free(items);
    return err;
}
