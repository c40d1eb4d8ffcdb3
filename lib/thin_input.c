/* SPDX-License-Identifier: MIT */
#include "thin_input.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "safetensors/tensor.h"

static int no_memory(struct report *r)
{
    return report_fatal(r, -ENOMEM, NULL, 0, FS_NO_OFFSET, "out of memory");
}

static int failed(struct report *r, const char *kind, int err, const char *name, const char *why)
{
    report_kind(r, kind, err, name, strlen(name), FS_NO_OFFSET, "%s", why);
    return err;
}

int thin_input_config(struct thin_input *in, struct report *r)
{
    struct buf text = {0};
    struct report quiet = {0};
    int err = directory_read(in->dir, "config.json", &text, &quiet);
    if (err == -ENOENT)
        return failed(r, "config-missing", -EINVAL, "config.json", strerror(ENOENT));
    if (err < 0) {
        buf_free(&text);
        return failed(r, "io", err, "config.json", quiet.first.message);
    }
    struct json j = {.start = text.p, .p = text.p, .end = text.p + text.len};
    in->config = jtree_document(&j, &in->arena);
    if (!in->config && strcmp(j.why, "out of memory") == 0)
        err = no_memory(r);
    else if (!in->config) {
        report_kind(r, "config-parse", -EINVAL, "config.json", 11, json_at(&j), "%s", j.why);
        err = -EINVAL;
    }
    buf_free(&text);
    return err;
}

/* The tool knows fewer types than this library. */
static bool is_known(tm_dtype d)
{
    return d < TM_SAFETENSORS_CODES && d != TM_F8_E4M3FNUZ && d != TM_F8_E5M2FNUZ && d != TM_C64;
}

static const struct model *opened(const struct thin_input *in, const char *name)
{
    for (size_t i = 0; in->model && i < in->model->n_parts; i++)
        if (strcmp(in->model->part[i]->source->name, name) == 0)
            return in->model->part[i];
    return NULL;
}

static bool is_safetensors(const struct model *m)
{
    return strcmp(m->format, "safetensors") == 0;
}

static int open_shard(struct thin_input *in, const char *name, struct report *r)
{
    struct report quiet = {0};
    struct model *m = NULL;
    const struct model *have = opened(in, name);
    if (have && is_safetensors(have))
        return 0;
    int err = directory_part(in->dir, name, SOURCE_MAP, &m, &quiet);
    if (err == -ENOMEM)
        return no_memory(r);
    if (err == -ENOENT)
        return failed(r, "io", -EINVAL, name, strerror(ENOENT));
    if (err < 0)
        return report_kind(r, err == -EBADMSG || err == -ENOTSUP ? "safetensors-invalid" : "io", -EINVAL,
                           NULL, 0, FS_NO_OFFSET, "%s", quiet.first.message);
    if (!is_safetensors(m)) {
        model_free(m);
        return failed(r, "safetensors-invalid", -EINVAL, name, "another kind of file");
    }
    in->part[in->n_parts++] = m;
    return 0;
}

static int open_shards(struct thin_input *in, struct report *r)
{
    bool any = false;
    int err = 0;
    in->part = calloc(in->dir->n_names + 1, sizeof(struct model *));
    if (!in->part)
        return no_memory(r);
    for (size_t i = 0; i < in->dir->n_names && err == 0; i++)
        if (directory_ends(in->dir->names[i], ".safetensors")) {
            any = true;
            err = open_shard(in, in->dir->names[i], r);
        }
    if (err == 0 && !any) {
        report_kind(r, "no-safetensors", -EINVAL, NULL, 0, FS_NO_OFFSET, "no *.safetensors in the directory");
        err = -EINVAL;
    }
    return err;
}

static int add_tensor(struct thin_build *b, const struct tensor *t, size_t *room)
{
    if (!is_known(t->dtype)) {
        fs_text name = {t->name, t->name_len};
        return thin_fail(b, "safetensors-invalid", &name, "a dtype the format's tool does not know");
    }
    if (t->name_len == 0) {
        fs_text file = {t->source->name, strlen(t->source->name)};
        return thin_fail(b, "tensor-name-empty", &file, "");
    }
    if (b->n_tensors == *room) {
        size_t more = *room ? *room * 2 : 64;
        struct thin_tensor *v = more < UINT32_MAX ? realloc(b->tensors, more * sizeof *v) : NULL;
        if (!v)
            return thin_no_memory(b);
        b->tensors = v;
        *room = more;
    }
    struct thin_tensor *x = &b->tensors[b->n_tensors++];
    *x = (struct thin_tensor){.id = {t->name, t->name_len}, .tensor = t};
    memset(x->hex, '0', 64);
    return 0;
}

static int by_id(const void *a, const void *b)
{
    const fs_text *x = &((const struct thin_tensor *)a)->id, *y = &((const struct thin_tensor *)b)->id;
    int c = memcmp(x->s, y->s, x->len < y->len ? x->len : y->len);
    return c ? c : (x->len > y->len) - (x->len < y->len);
}

static int sort_tensors(struct thin_build *b)
{
    if (b->n_tensors)
        qsort(b->tensors, b->n_tensors, sizeof *b->tensors, by_id);
    for (size_t i = 1; i < b->n_tensors; i++)
        if (by_id(&b->tensors[i - 1], &b->tensors[i]) == 0)
            return thin_fail(b, "tensor-duplicate", &b->tensors[i].id, "in two shards");
    return 0;
}

int thin_input_tensors(struct thin_input *in, struct thin_build *b)
{
    size_t room = 0;
    int err = open_shards(in, b->r);
    /* Of a model whose parts have given their tensors away, these are all in the model itself. */
    for (size_t i = 0; in->model && i < in->model->n_tensors && err == 0; i++)
        if (directory_ends(in->model->tensors[i].source->name, ".safetensors"))
            err = add_tensor(b, &in->model->tensors[i], &room);
    for (size_t i = 0; i < in->n_parts && err == 0; i++)
        for (size_t k = 0; k < in->part[i]->n_tensors && err == 0; k++)
            err = add_tensor(b, &in->part[i]->tensors[k], &room);
    return err < 0 ? err : sort_tensors(b);
}

void thin_input_free(struct thin_input *in)
{
    for (size_t i = 0; i < in->n_parts; i++)
        model_free(in->part[i]);
    free(in->part);
    arena_free(&in->arena);
}
