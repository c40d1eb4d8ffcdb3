/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "checked.h"
#include "thin.h"
#include "thin_write.h"

static void put(struct buf *out, uint64_t v, unsigned n)
{
    for (; n; n--, v >>= 8)
        buf_char(out, (char)(v & 0xFF));
}

static int put_table(const struct thin_entry *v, size_t n, uint64_t at, struct buf *out)
{
    for (size_t i = 0; i < n; i++) {
        if (v[i].id->len > THIN_ID_MAX)
            return -EOVERFLOW;
        put(out, v[i].id->len, 2);
        buf_add(out, v[i].id->s, v[i].id->len);
        put(out, at, 8);
        put(out, v[i].size, 8);
        put(out, v[i].size, 8);
        put(out, 0, 4);
        buf_add(out, v[i].digest, 32);
        if (add_overflows(at, v[i].size, &at))
            return -EOVERFLOW;
    }
    return 0;
}

int thin_write_head(const struct thin_manifest *m, const struct thin_entry *v, size_t n, struct buf *out)
{
    struct buf text = {0};
    uint64_t table = 0;
    thin_manifest_write(m, &text);
    for (size_t i = 0; i < n; i++)
        table += THIN_RECORD + v[i].id->len;
    uint64_t table_off = THIN_HEADER + text.len;
    buf_add(out, "THINv0\0\0", 8);
    put(out, THIN_HEADER, 4);
    put(out, 0, 4);
    put(out, THIN_HEADER, 8);
    put(out, text.len, 8);
    put(out, table_off, 8);
    put(out, n, 8);
    put(out, table_off + table, 8);
    for (int i = 0; i < 4; i++)
        put(out, 0, 8);
    buf_add(out, text.p, text.len);
    int err = text.failed ? -ENOMEM : put_table(v, n, table_off + table, out);
    buf_free(&text);
    return err < 0 ? err : out->failed ? -ENOMEM : 0;
}

int thin_write_prefix(const struct thin_build *b, const uint32_t *order, struct buf *out)
{
    struct thin_entry *v = malloc((b->n_tensors + 1) * sizeof *v);
    if (!v)
        return -ENOMEM;
    for (size_t i = 0; i < b->n_tensors; i++) {
        const struct thin_tensor *t = &b->tensors[order[i]];
        v[i] = (struct thin_entry){&t->id, t->tensor->nbytes, t->digest};
    }
    int err = thin_write_head(&b->manifest, v, b->n_tensors, out);
    free(v);
    return err;
}
