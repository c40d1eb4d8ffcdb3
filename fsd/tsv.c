/* SPDX-License-Identifier: MIT */
#include "tsv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 256 }; /* lines */

static void field(struct buf *out, const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (s[i] == '\t')
            buf_str(out, "\\t");
        else if (s[i] == '\n')
            buf_str(out, "\\n");
        else if (s[i] == '\\')
            buf_str(out, "\\\\");
        else
            buf_char(out, s[i]);
    }
    buf_char(out, '\t');
}

static void line(const struct tree *t, uint32_t i, struct buf *path, struct buf *out)
{
    const struct tensor *x = &t->model->tensors[i];
    path->len = 0;
    tree_path(t, (uint32_t)t->n_dirs + i, path);
    field(out, path->p, path->len);
    field(out, x->name, x->name_len);
    field(out, tensor_code(x), strlen(tensor_code(x)));
    buf_shape(out, x->shape, x->rank);
    buf_printf(out, "\t%" PRIu64 "\t", x->nbytes);
    if (tensor_in_place(x)) /* else both stay empty */
        buf_printf(out, "%" PRIu64, x->offset);
    buf_char(out, '\t');
    field(out, x->source->name, tensor_in_place(x) ? strlen(x->source->name) : 0);
    out->failed |= path->failed;
    if (!out->failed)
        out->p[out->len - 1] = '\n';
}

/* The lines of one block; the first begins with the heading. */
static int block(const struct tree *t, size_t b, struct buf *out)
{
    struct buf path = {0};
    out->len = 0;
    if (b == 0)
        buf_str(out, "path\tname\tdtype\tshape\tbytes\toffset\tsource\n");
    for (size_t i = b * BLOCK; i < (b + 1) * BLOCK && i < t->model->n_tensors && !out->failed; i++)
        line(t, (uint32_t)i, &path, out);
    buf_free(&path);
    return out->failed ? -ENOMEM : 0;
}

int tsv_open(struct tsv *v, const struct tree *t)
{
    struct buf text = {0};
    int err = 0;
    size_t n = t->model->n_tensors / BLOCK + 1;
    *v = (struct tsv){.tree = t, .n_blocks = n, .start = malloc(n * sizeof *v->start)};
    if (!v->start)
        return -ENOMEM;
    for (size_t b = 0; b < n && err == 0; b++) {
        v->start[b] = v->size;
        err = block(t, b, &text);
        v->size += text.len;
    }
    buf_free(&text);
    if (err < 0)
        tsv_close(v);
    return err;
}

void tsv_close(struct tsv *v)
{
    free(v->start);
    *v = (struct tsv){0};
}

int tsv_fill(const void *ctx, uint64_t off, void *buf, size_t len)
{
    const struct tsv *v = ctx;
    struct buf text = {0};
    char *to = buf;
    size_t b = 0, high = v->n_blocks;
    int err = 0;
    while (high - b > 1) {
        size_t mid = b + (high - b) / 2;
        if (v->start[mid] <= off)
            b = mid;
        else
            high = mid;
    }
    for (; len && err == 0; b++) {
        err = b < v->n_blocks ? block(v->tree, b, &text) : -EIO;
        if (err < 0 || text.len == 0)
            break;
        size_t skip = (size_t)(off - v->start[b]);
        size_t n = text.len - skip < len ? text.len - skip : len;
        memcpy(to, text.p + skip, n);
        to += n;
        off += n;
        len -= n;
    }
    buf_free(&text);
    return err;
}
