/* SPDX-License-Identifier: MIT
 * What is made of several tensors: quantized, sparse and nested ones. */
#include <errno.h>
#include <string.h>

#include "torch.h"

static struct parts *new_parts(struct torch *t, const char *object)
{
    struct parts *p = values_alloc(&t->values, sizeof *p);
    if (p)
        *p = (struct parts){.object = object};
    return p;
}

/* A missing value (no memory) is noticed by parts_done. */
static void add(struct parts *p, const char *name, struct value *v)
{
    p->part[p->n].name = name;
    p->part[p->n++].value = v;
}

static int parts_done(struct torch *t, const struct parts *p)
{
    for (uint32_t i = 0; i < p->n; i++)
        if (!p->part[i].value)
            return torch_no_memory(t);
    return 0;
}

static struct value *text(struct torch *t, const char *s)
{
    return value_text(&t->values, s, strlen(s));
}

static bool is_number(const struct value *v)
{
    return v->kind == VALUE_INT || v->kind == VALUE_FLOAT;
}

/* (qscheme, scale, zero_point) */
static int per_tensor(struct torch *t, const struct value *q, const char *scheme, struct parts *p)
{
    if (q->n != 3 || !is_number(q->item[1]) || q->item[2]->kind != VALUE_INT)
        return torch_refuse(t, "a quantizer with a scale or zero point that is no number");
    add(p, "qscheme", text(t, scheme));
    add(p, "scale", q->item[1]);
    add(p, "zero_point", q->item[2]);
    return 0;
}

static bool has_length(const struct value *v, uint64_t n)
{
    if (v->kind == VALUE_LIST || v->kind == VALUE_TUPLE)
        return v->n == n;
    if (v->kind != VALUE_TENSOR)
        return false;
    const struct torch_tensor *x = v->any;
    return !(x->flags & TENSOR_PENDING) && x->rank == 1 && x->shape[0] == n;
}

/* (qscheme, scales, zero_points, axis) */
static int per_channel(struct torch *t, const struct value *q, const char *scheme,
                       const struct torch_tensor *x, struct parts *p)
{
    if (q->n != 4 || q->item[3]->kind != VALUE_INT)
        return torch_refuse(t, "a quantizer that is none");
    int64_t axis = q->item[3]->i;
    if (axis < 0 || axis >= (int64_t)x->rank)
        return torch_refuse(t, "a quantizer for axis %lld of %u", (long long)axis, x->rank);
    uint64_t n = x->shape[axis];
    if (!has_length(q->item[1], n) || !has_length(q->item[2], n))
        return torch_refuse(t, "a quantizer whose scales do not match its axis");
    const struct torch_tensor *scales = q->item[1]->kind == VALUE_TENSOR ? q->item[1]->any : NULL;
    if (scales && scales->dtype == TM_F32) /* PyTorch writes the wrong name for these */
        scheme = "torch.per_channel_affine_float_qparams";
    add(p, "qscheme", text(t, scheme));
    add(p, "axis", q->item[3]);
    add(p, "scales", q->item[1]);
    add(p, "zero_points", q->item[2]);
    return 0;
}

/* storage, offset, size, stride, quantizer, requires_grad, hooks */
int torch_rebuild_quantized(struct torch *t, const struct global *f, struct value *args, struct value **out)
{
    struct value **a = args->item;
    if (args->n < 5 || args->n > 8 || a[0]->kind != VALUE_STORAGE)
        return torch_refuse(t, "%s with arguments that make no tensor", f->full);
    const struct storage_part *s = a[0]->any;
    int err = torch_strided(t, a[0], s->cls->dtype, a[1], a[2], a[3], out);
    if (err < 0)
        return err;
    struct torch_tensor *x = (*out)->any;
    const struct value *q = a[4];
    const struct meaning *scheme = q->kind == VALUE_TUPLE && q->n ? torch_meaning(q->item[0]) : NULL;
    if (!scheme || scheme->kind != MEANS_QSCHEME)
        return torch_refuse(t, "a quantizer of a scheme that is none");
    x->parts = new_parts(t, NULL);
    if (!x->parts)
        return torch_no_memory(t);
    err = strncmp(scheme->name, "torch.per_tensor", 16) == 0 ? per_tensor(t, q, scheme->name, x->parts)
                                                             : per_channel(t, q, scheme->name, x, x->parts);
    return err < 0 ? err : parts_done(t, x->parts);
}

static bool is_tensor(const struct value *v)
{
    return v->kind == VALUE_TENSOR && !(((const struct torch_tensor *)v->any)->flags & TENSOR_PENDING);
}

static const struct sparse_layout {
    const char *name, *first, *second;
} layouts[] = {
    {"torch.sparse_coo", "indices", NULL},
    {"torch.sparse_csr", "crow_indices", "col_indices"},
    {"torch.sparse_bsr", "crow_indices", "col_indices"},
    {"torch.sparse_csc", "ccol_indices", "row_indices"},
    {"torch.sparse_bsc", "ccol_indices", "row_indices"},
};

static const struct sparse_layout *find_layout(const struct value *v)
{
    for (size_t i = 0; v->kind == VALUE_WORD && i < sizeof layouts / sizeof layouts[0]; i++)
        if (strlen(layouts[i].name) == v->n && memcmp(layouts[i].name, v->text, v->n) == 0)
            return &layouts[i];
    return NULL;
}

/* The shape, as a leaf. */
static struct value *size_leaf(struct torch *t, const struct value *v)
{
    struct value *s = value_tuple(&t->values, v->item, v->n);
    if (s)
        s->flags |= VALUE_SIZE;
    return s;
}

/* layout, (indices, values, size[, coalesced]) or (compressed, plain, values, size) */
int torch_rebuild_sparse(struct torch *t, const struct global *f, struct value *args, struct value **out)
{
    const struct sparse_layout *l = args->n ? find_layout(args->item[0]) : NULL;
    const struct value *data = args->n == 2 ? args->item[1] : NULL;
    const uint64_t *dims;
    uint32_t rank, tensors;
    if (!l)
        return torch_refuse(t, "a sparse tensor of a layout that is none");
    tensors = l->second ? 3 : 2;
    if (!data || data->kind != VALUE_TUPLE || data->n < tensors + 1 || data->n > 4)
        return torch_refuse(t, "%s with arguments that make no tensor", f->full);
    for (uint32_t i = 0; i < tensors; i++)
        if (!is_tensor(data->item[i]))
            return torch_refuse(t, "a part of a sparse tensor that is no tensor");
    int err = torch_dims(t, data->item[tensors], &dims, &rank);
    if (err < 0)
        return err;
    struct value *v = value_new(&t->values, VALUE_PARTS);
    struct parts *p = new_parts(t, NULL);
    if (!v || !p)
        return torch_no_memory(t);
    add(p, l->first, data->item[0]);
    if (l->second)
        add(p, l->second, data->item[1]);
    add(p, "values", data->item[tensors - 1]);
    add(p, "layout", text(t, l->name));
    add(p, "shape", size_leaf(t, data->item[tensors]));
    if (!l->second && data->n == 4)
        add(p, "coalesced", data->item[3]);
    else if (!l->second)
        add(p, "coalesced", t->pickle.no);
    v->any = p;
    *out = v;
    return parts_done(t, p);
}

/* buffer, sizes, strides, storage_offsets */
int torch_rebuild_nested(struct torch *t, const struct global *f, struct value *args, struct value **out)
{
    static const char *const part_names[] = {"values", "sizes", "strides", "storage_offsets"};
    struct value *v = value_new(&t->values, VALUE_PARTS);
    struct parts *p = new_parts(t, "nested_tensor");
    if (!v || !p)
        return torch_no_memory(t);
    if (args->n != 4)
        return torch_refuse(t, "%s with %u arguments", f->full, args->n);
    for (uint32_t i = 0; i < 4; i++) {
        if (!is_tensor(args->item[i]))
            return torch_refuse(t, "a part of a nested tensor that is no tensor");
        add(p, part_names[i], args->item[i]);
    }
    v->any = p;
    *out = v;
    return 0;
}
