/* SPDX-License-Identifier: MIT
 * The public reading calls, over a model. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"
#include "tensor_i.h"

struct fs_file {
    struct model *model;
    pthread_mutex_t lock; /* guards names */
    const char **names;   /* made when first asked for */
};

static fs_file *open_how(const char *path, enum source_how how, fs_error *e)
{
    struct report r = {0};
    fs_file *f = calloc(1, sizeof *f);
    int err = -ENOMEM;
    if (!f)
        report_fatal(&r, err, NULL, 0, FS_NO_OFFSET, "out of memory");
    else
        err = model_open(path, how, &f->model, &r);
    if (e)
        *e = r.first;
    if (err < 0) {
        free(f);
        errno = -err;
        return NULL;
    }
    pthread_mutex_init(&f->lock, NULL);
    return f;
}

fs_file *fs_open_e(const char *path, fs_error *e)
{
    return open_how(path, SOURCE_COPY, e);
}

fs_file *fs_mmap_e(const char *path, fs_error *e)
{
    return open_how(path, SOURCE_MAP, e);
}

fs_file *fs_open(const char *path)
{
    return open_how(path, SOURCE_COPY, NULL);
}

fs_file *fs_mmap(const char *path)
{
    return open_how(path, SOURCE_MAP, NULL);
}

fs_file *fs_load_pytorch_e(const char *path, fs_error *e)
{
    struct report r = {0};
    fs_file *f = open_how(path, SOURCE_MAP, e);
    if (!f || strstr(f->model->format, "torch"))
        return f;
    report_fatal(&r, -ENOTSUP, NULL, 0, FS_NO_OFFSET, "is a %s file, not a PyTorch checkpoint",
                 f->model->format);
    if (e)
        *e = r.first;
    fs_close(f);
    errno = ENOTSUP;
    return NULL;
}

fs_file *fs_load_pytorch(const char *path)
{
    return fs_load_pytorch_e(path, NULL);
}

void fs_close(fs_file *f)
{
    if (!f)
        return;
    model_free(f->model);
    pthread_mutex_destroy(&f->lock);
    free(f->names);
    free(f);
}

int fs_num_tensors(fs_file *f)
{
    return (int)f->model->n_tensors;
}

const char **fs_tensor_names(fs_file *f)
{
    pthread_mutex_lock(&f->lock);
    if (!f->names) {
        size_t n = f->model->n_tensors;
        f->names = calloc(n + 1, sizeof *f->names);
        for (size_t i = 0; f->names && i < n; i++)
            f->names[i] = f->model->tensors[i].name;
    }
    pthread_mutex_unlock(&f->lock);
    return f->names;
}

static const struct tensor *tensor_at(const fs_file *f, int i)
{
    return i >= 0 && (size_t)i < f->model->n_tensors ? &f->model->tensors[i] : NULL;
}

const char *fs_tensor_name(fs_file *f, int i, size_t *len)
{
    const struct tensor *t = tensor_at(f, i);
    if (!t)
        return NULL;
    if (len)
        *len = t->name_len;
    return t->name;
}

int fs_tensor_offset(fs_file *f, int i, uint64_t *offset)
{
    const struct tensor *t = tensor_at(f, i);
    if (!t)
        return -ENOENT;
    if (!tensor_in_place(t))
        return -ENODATA;
    *offset = t->offset;
    return 0;
}

tm_tensor *fs_get_tensor_e(fs_file *f, const char *name, size_t len, fs_error *e)
{
    struct report r = {0};
    tm_tensor *t = NULL;
    uint32_t i = model_find(f->model, hash_bytes(0, name, len), name, len);
    if (i == INDEX_NONE) {
        report_fatal(&r, -ENOENT, name, len, FS_NO_OFFSET, "no such tensor");
    } else {
        const struct tensor *have = &f->model->tensors[i];
        t = have->view
                ? tensor_of_view(have->dtype, (int)have->rank, have->shape, have->view)
                : tensor_of_source(have->dtype, (int)have->rank, have->shape, have->source, have->offset);
        if (!t && tensor_is_empty(have))
            report_fatal(&r, -EIO, name, len, FS_NO_OFFSET, "has a shape but no bytes");
        else if (!t)
            report_fatal(&r, -errno, name, len, have->view ? FS_NO_OFFSET : have->offset, "%s",
                         strerror(errno));
    }
    if (e)
        *e = r.first;
    if (!t)
        errno = -r.first.code;
    return t;
}

tm_tensor *fs_get_tensor_n(fs_file *f, const char *name, size_t len)
{
    return fs_get_tensor_e(f, name, len, NULL);
}

tm_tensor *fs_get_tensor(fs_file *f, const char *name)
{
    return fs_get_tensor_e(f, name, strlen(name), NULL);
}

int fs_num_metadata(fs_file *f)
{
    return (int)f->model->n_metadata;
}

int fs_metadata_entry(fs_file *f, int i, const char **key, size_t *key_len, const char **value,
                      size_t *value_len)
{
    if (i < 0 || (size_t)i >= f->model->n_metadata)
        return -ENOENT;
    const struct metadata *d = &f->model->metadata[i];
    if (key)
        *key = d->key.s;
    if (key_len)
        *key_len = d->key.len;
    if (value)
        *value = d->value.s;
    if (value_len)
        *value_len = d->value.len;
    return 0;
}

const char *fs_metadata(fs_file *f, const char *key)
{
    for (size_t i = 0; i < f->model->n_metadata; i++) {
        const struct metadata *d = &f->model->metadata[i];
        if (d->key.len == strlen(key) && memcmp(d->key.s, key, d->key.len) == 0)
            return d->value.s;
    }
    return NULL;
}

const char *fs_format(fs_file *f)
{
    return f->model->format;
}

const char *fs_leaves(fs_file *f, size_t *len)
{
    if (len)
        *len = f->model->leaves.len;
    return f->model->leaves.p;
}

int fs_check(const char *path, void (*found)(void *ctx, const fs_error *what), void *ctx, fs_error *e)
{
    struct report r = {.deep = true, .each = found, .ctx = ctx};
    struct model *m = NULL;
    int err = model_open(path, SOURCE_MAP, &m, &r);
    model_free(m);
    if (e)
        *e = r.first;
    if (err < 0 && err != -EBADMSG && err != -ENOTSUP)
        return err;
    return (int)r.count;
}
