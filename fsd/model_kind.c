/* SPDX-License-Identifier: MIT */
#include "model_kind.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "npy.h"
#include "safetensors/tensor.h"
#include "thin_manifest.h"

/* A node's number is that of its entry in the tree, times two, plus one for the .npy form of a tensor. */
static uint64_t node(uint32_t entry, bool npy)
{
    return (uint64_t)entry << 1 | npy;
}

static uint32_t entry_of(uint64_t id)
{
    return (uint32_t)(id >> 1);
}

static bool is_npy(uint64_t id)
{
    return id & 1;
}

struct model_kind {
    struct kind kind;
    const struct tree *tree;
};

static const struct tree *tree_of(const struct kind *k)
{
    return ((const struct model_kind *)k)->tree;
}

static uint32_t find(const struct tree *t, uint32_t dir, const char *name, size_t len)
{
    uint32_t e = tree_find(t, dir, name, len);
    return e != INDEX_NONE ? e : tree_find_raw(t, dir, name, len);
}

static int lookup(struct kind *k, uint64_t dir, const char *name, uint64_t *id)
{
    const struct tree *t = tree_of(k);
    size_t len = strlen(name);
    if (is_npy(dir) || !tree_is_dir(t, entry_of(dir)))
        return -ENOTDIR;
    uint32_t e = find(t, entry_of(dir), name, len);
    if (e != INDEX_NONE) {
        *id = node(e, false);
        return 0;
    }
    if (len <= 4 || memcmp(name + len - 4, ".npy", 4) != 0)
        return -ENOENT;
    e = find(t, entry_of(dir), name, len - 4);
    if (e == INDEX_NONE || tree_is_dir(t, e) || !tm_dtype_numpy(tree_tensor(t, e)->dtype))
        return -ENOENT;
    *id = node(e, true);
    return 0;
}

static int open_content(struct kind *k, uint64_t id, struct content *c)
{
    const struct tree *t = tree_of(k);
    const struct tensor *tensor = tree_tensor(t, entry_of(id));
    struct buf header = {0};
    int err = 0;
    if (is_npy(id)) {
        err = npy_header(&header, tensor->dtype, tensor->shape, tensor->rank);
        if (err == 0)
            err = extents_add_memory(&c->x, header.p, header.len);
        buf_free(&header);
    }
    return err < 0 ? err : model_extents(t->model, tensor, &c->x);
}

static int getattr(struct kind *k, uint64_t id, struct stat *st)
{
    const struct tree *t = tree_of(k);
    uint32_t e = entry_of(id);
    if (tree_is_dir(t, e)) {
        st->st_mode |= S_IFDIR;
        st->st_nlink = 2 + t->dir[e].n_dirs;
        return 0;
    }
    const struct tensor *tensor = tree_tensor(t, e);
    struct buf header = {0};
    int err = 0;
    st->st_mode |= S_IFREG;
    if (is_npy(id))
        err = npy_header(&header, tensor->dtype, tensor->shape, tensor->rank);
    st->st_size = (off_t)(tensor->nbytes + header.len);
    buf_free(&header);
    return err;
}

static int list(struct kind *k, uint64_t dir, uint64_t from, node_emit emit, void *ctx)
{
    const struct tree *t = tree_of(k);
    uint32_t e = from ? (uint32_t)from : t->dir[entry_of(dir)].first;
    if (from == INDEX_NONE)
        return 0;
    while (e) {
        const struct tree_entry *x = &t->entry[e];
        uint64_t next = x->next ? x->next : INDEX_NONE;
        if (!emit(ctx, x->name, x->len, node(e, false), tree_is_dir(t, e) ? S_IFDIR : S_IFREG, next))
            break;
        e = x->next;
    }
    return 0;
}

/* Attributes of a tensor: each appends its value, or says -ENODATA. */
struct attribute {
    const char *name;
    int (*value)(const struct tree *t, const struct tensor *x, struct buf *out);
};

static int dtype_value(const struct tree *t, const struct tensor *x, struct buf *out)
{
    (void)t;
    buf_str(out, tensor_code(x));
    return 0;
}

static int shape_value(const struct tree *t, const struct tensor *x, struct buf *out)
{
    (void)t;
    buf_shape(out, x->shape, x->rank);
    return 0;
}

static int name_value(const struct tree *t, const struct tensor *x, struct buf *out)
{
    (void)t;
    buf_add(out, x->name, x->name_len);
    return 0;
}

static int source_value(const struct tree *t, const struct tensor *x, struct buf *out)
{
    (void)t;
    if (!tensor_in_place(x))
        return -ENODATA;
    buf_str(out, x->source->name);
    return 0;
}

static int offset_value(const struct tree *t, const struct tensor *x, struct buf *out)
{
    (void)t;
    if (!tensor_in_place(x))
        return -ENODATA;
    buf_printf(out, "%" PRIu64, x->offset);
    return 0;
}

static int page_text(const fs_text *t, struct buf *out)
{
    buf_add(out, t->s, t->len);
    return 0;
}

static int thin_kind_value(const struct tree *t, const struct tensor *x, struct buf *out)
{
    (void)t;
    return x->page ? page_text(&x->page->kind, out) : -ENODATA;
}

static int thin_layer_value(const struct tree *t, const struct tensor *x, struct buf *out)
{
    (void)t;
    if (!x->page || !x->page->layer.present)
        return -ENODATA;
    buf_printf(out, "%" PRIu64, x->page->layer.value);
    return 0;
}

static int thin_op_value(const struct tree *t, const struct tensor *x, struct buf *out)
{
    (void)t;
    return x->page ? page_text(&x->page->op, out) : -ENODATA;
}

static int thin_checksum_value(const struct tree *t, const struct tensor *x, struct buf *out)
{
    (void)t;
    return x->page ? page_text(&x->page->checksum, out) : -ENODATA;
}

static int transform_value(const struct tree *t, const struct tensor *x, struct buf *out)
{
    const char *how = x->view ? view_transform(x->view) : "";
    (void)t;
    buf_str(out, how);
    return *how ? 0 : -ENODATA;
}

static const struct attribute tensor_attributes[] = {
    {"user.dtype", dtype_value},
    {"user.shape", shape_value},
    {"user.safetensors.name", name_value},
    {"user.safetensors.source", source_value},
    {"user.safetensors.offset", offset_value},
    {"user.thin.kind", thin_kind_value},
    {"user.thin.layer", thin_layer_value},
    {"user.thin.op", thin_op_value},
    {"user.thin.checksum", thin_checksum_value},
    {"user.safetensors.transform", transform_value},
};

enum { N_ATTRIBUTES = sizeof tensor_attributes / sizeof tensor_attributes[0] };
static const char format_attribute[] = "user.safetensors.format", metadata_prefix[] = "user.metadata.";

/* Linux: a name has at most 255 bytes, a value and the list of names 64 KiB each. */
enum { XATTR_NAME = 255, XATTR_SIZE = 65536 };

static bool fits(const struct metadata *d)
{
    return d->key.len && d->key.len <= XATTR_NAME - (sizeof metadata_prefix - 1) &&
           memchr(d->key.s, 0, d->key.len) == NULL && d->value.len <= XATTR_SIZE;
}

static int root_getxattr(const struct model *m, const char *name, struct buf *value)
{
    if (strcmp(name, format_attribute) == 0) {
        buf_str(value, m->format);
        return 0;
    }
    if (strncmp(name, metadata_prefix, sizeof metadata_prefix - 1) != 0)
        return -ENODATA;
    name += sizeof metadata_prefix - 1;
    for (size_t i = 0; i < m->n_metadata; i++) {
        const struct metadata *d = &m->metadata[i];
        if (fits(d) && strcmp(d->key.s, name) == 0) {
            buf_add(value, d->value.s, d->value.len);
            return 0;
        }
    }
    return -ENODATA;
}

static void root_listxattr(const struct model *m, struct buf *names)
{
    buf_add(names, format_attribute, sizeof format_attribute);
    for (size_t i = 0; i < m->n_metadata; i++) {
        const struct metadata *d = &m->metadata[i];
        if (fits(d) && names->len + sizeof metadata_prefix + d->key.len <= XATTR_SIZE) {
            buf_str(names, metadata_prefix);
            buf_add(names, d->key.s, d->key.len + 1);
        }
    }
}

static int get_attribute(struct kind *k, uint64_t id, const char *name, struct buf *value)
{
    const struct tree *t = tree_of(k);
    uint32_t e = entry_of(id);
    if (e == TREE_ROOT)
        return root_getxattr(t->model, name, value);
    if (tree_is_dir(t, e) || is_npy(id))
        return -ENODATA;
    for (size_t i = 0; i < N_ATTRIBUTES; i++)
        if (strcmp(tensor_attributes[i].name, name) == 0)
            return tensor_attributes[i].value(t, tree_tensor(t, e), value);
    return -ENODATA;
}

static int list_attributes(struct kind *k, uint64_t id, struct buf *names)
{
    const struct tree *t = tree_of(k);
    uint32_t e = entry_of(id);
    if (e == TREE_ROOT)
        root_listxattr(t->model, names);
    if (tree_is_dir(t, e) || is_npy(id))
        return 0;
    for (size_t i = 0; i < N_ATTRIBUTES; i++) {
        struct buf value = {0};
        if (tensor_attributes[i].value(t, tree_tensor(t, e), &value) == 0 && value.len <= XATTR_SIZE)
            buf_add(names, tensor_attributes[i].name, strlen(tensor_attributes[i].name) + 1);
        buf_free(&value);
    }
    return 0;
}

static int tensor(struct kind *k, uint64_t id, struct node_tensor *out)
{
    const struct tree *t = tree_of(k);
    if (is_npy(id) || tree_is_dir(t, entry_of(id)))
        return -ENOENT;
    const struct tensor *x = tree_tensor(t, entry_of(id));
    *out = (struct node_tensor){NULL, x->nbytes, x->rank, x->dtype};
    out->shape = malloc((x->rank + 1) * sizeof *out->shape);
    if (!out->shape)
        return -ENOMEM;
    memcpy(out->shape, x->shape, x->rank * sizeof *out->shape);
    return 0;
}

static void destroy(struct kind *k)
{
    free(k);
}

static const struct kind_ops ops = {
    .forever = true,
    .same_names = true,
    .lookup = lookup,
    .getattr = getattr,
    .readdir = list,
    .getxattr = get_attribute,
    .listxattr = list_attributes,
    .open = open_content,
    .tensor = tensor,
    .free = destroy,
};

struct kind *model_kind_new(const struct tree *t)
{
    struct model_kind *k = calloc(1, sizeof *k);
    if (!k)
        return NULL;
    k->kind.ops = &ops;
    k->tree = t;
    return &k->kind;
}
