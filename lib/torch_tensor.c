/* SPDX-License-Identifier: MIT
 * Tensors as the rebuild functions describe them, checked before they are believed. */
#include <errno.h>
#include <string.h>

#include "checked.h"
#include "torch.h"
#include "view.h"

enum { RANK_MAX = 64 };

struct value *torch_new_tensor(struct torch *t, struct torch_tensor **out)
{
    struct value *v = value_new(&t->values, VALUE_TENSOR);
    struct torch_tensor *x = values_alloc(&t->values, sizeof *x);
    if (!v || !x)
        return NULL;
    *x = (struct torch_tensor){0};
    v->any = *out = x;
    return v;
}

int torch_dims(struct torch *t, const struct value *v, const uint64_t **dims, uint32_t *rank)
{
    if (v->kind != VALUE_TUPLE && v->kind != VALUE_LIST)
        return torch_refuse(t, "a size or stride that is no tuple");
    if (v->n > RANK_MAX)
        return torch_refuse(t, "a tensor of %u dimensions", v->n);
    uint64_t *d = arena_alloc(&t->m->arena, ((size_t)v->n + 1) * sizeof *d, true);
    if (!d)
        return torch_no_memory(t);
    for (uint32_t i = 0; i < v->n; i++) {
        if (v->item[i]->kind != VALUE_INT || v->item[i]->i < 0)
            return torch_refuse(t, "a size or stride that is negative or no integer");
        d[i] = (uint64_t)v->item[i]->i;
    }
    *dims = d;
    *rank = v->n;
    return 0;
}

/* Elements of the shape, and how many there would be without dimensions of 0. */
static int count(const struct torch_tensor *x, uint64_t *n)
{
    uint64_t full = 1;
    *n = 1;
    for (uint32_t i = 0; i < x->rank; i++) {
        if (x->shape[i] == 0)
            *n = 0;
        else if (mul_overflows(full, x->shape[i], &full) || full > INT64_MAX)
            return -1;
    }
    *n = *n ? full : 0;
    return 0;
}

/* Number of the last element that is touched, plus one. */
static int reach(const struct torch_tensor *x, uint64_t *end)
{
    uint64_t at = x->offset, step;
    for (uint32_t i = 0; i < x->rank; i++)
        if (x->shape[i] > 1 &&
            (mul_overflows(x->shape[i] - 1, x->stride[i], &step) || add_overflows(at, step, &at)))
            return -1;
    return add_overflows(at, 1, end) ? -1 : 0;
}

int torch_check_tensor(struct torch *t, struct torch_tensor *x, uint64_t storage_bytes)
{
    unsigned bits = tm_dtype_bits(x->dtype);
    uint64_t n, end, last, total;
    if (count(x, &n) < 0 || mul_overflows(n, bits, &total) || total > INT64_MAX - 7)
        return torch_refuse(t, "a tensor of more elements than 63 bits can count");
    x->nbytes = (total + 7) / 8;
    if (n == 0 || x->nothing)
        return 0;
    if (bits % 8 && (!view_contiguous(x->rank, x->shape, x->stride) || x->offset * bits % 8 != 0))
        return torch_refuse(t, "a view into elements of %u bits", bits);
    if (reach(x, &end) < 0 || mul_overflows(end, bits, &last) || last > INT64_MAX - 7)
        return torch_refuse(t, "a tensor that reaches further than 63 bits can count");
    if ((last + 7) / 8 > storage_bytes)
        return torch_refuse(t, "a tensor that reaches to byte %llu of a storage of %llu",
                            (unsigned long long)((last + 7) / 8), (unsigned long long)storage_bytes);
    return 0;
}

static int take_offset(struct torch *t, const struct value *v, uint64_t *offset)
{
    if (v->kind != VALUE_INT || v->i < 0)
        return torch_refuse(t, "an offset that is negative or no integer");
    *offset = (uint64_t)v->i;
    return 0;
}

static int take_shape(struct torch *t, const struct value *size, const struct value *stride,
                      struct torch_tensor *x)
{
    uint32_t rank = 0;
    int err = torch_dims(t, size, &x->shape, &x->rank);
    if (err == 0)
        err = torch_dims(t, stride, &x->stride, &rank);
    if (err == 0 && rank != x->rank)
        err = torch_refuse(t, "a tensor with %u sizes and %u strides", x->rank, rank);
    return err;
}

int torch_strided(struct torch *t, const struct value *storage, tm_dtype dtype, const struct value *offset,
                  const struct value *size, const struct value *stride, struct value **out)
{
    struct torch_tensor *x;
    if (storage->kind != VALUE_STORAGE)
        return torch_refuse(t, "a tensor over something that is no storage");
    struct value *v = torch_new_tensor(t, &x);
    if (!v)
        return torch_no_memory(t);
    x->storage = storage->any;
    x->dtype = dtype;
    int err = take_offset(t, offset, &x->offset);
    if (err == 0)
        err = take_shape(t, size, stride, x);
    if (err == 0)
        err = torch_check_tensor(t, x, x->storage->nbytes);
    *out = v;
    return err;
}

/* {'conj': True, 'neg': True}; whatever else it holds says nothing about the bytes. */
static int take_metadata(struct torch *t, struct value *tensor, const struct value *metadata)
{
    struct torch_tensor *x = tensor->any;
    if (metadata->kind == VALUE_NONE)
        return 0;
    if (metadata->kind != VALUE_DICT)
        return torch_refuse(t, "a tensor with metadata that are no dict");
    const struct value *conj = value_get_text(metadata, "conj"), *neg = value_get_text(metadata, "neg");
    if (conj && conj->kind == VALUE_BOOL && conj->truth)
        x->flags |= TENSOR_CONJUGATE;
    if (neg && neg->kind == VALUE_BOOL && neg->truth)
        x->flags |= TENSOR_NEGATED;
    return 0;
}

static int arguments(struct torch *t, const struct global *f, const struct value *args, uint32_t least,
                     uint32_t most)
{
    if (args->n < least || args->n > most)
        return torch_refuse(t, "%s with %u arguments", f->full, args->n);
    return 0;
}

/* storage, offset, size, stride[, requires_grad, hooks[, metadata]] */
int torch_rebuild_tensor(struct torch *t, const struct global *f, struct value *args, struct value **out)
{
    int err = arguments(t, f, args, 4, 7);
    if (err < 0)
        return err;
    struct value **a = args->item;
    if (a[0]->kind != VALUE_STORAGE)
        return torch_refuse(t, "a tensor over something that is no storage");
    const struct storage_part *s = a[0]->any;
    err = torch_strided(t, a[0], s->cls->dtype, a[1], a[2], a[3], out);
    return err == 0 && args->n == 7 ? take_metadata(t, *out, a[6]) : err;
}

static int take_dtype(struct torch *t, const struct value *v, tm_dtype *dtype)
{
    const struct meaning *m = torch_meaning(v);
    if (!m || m->kind != MEANS_DTYPE)
        return torch_refuse(t, "a tensor with a dtype that is none");
    if (m->dtype < 0)
        return torch_refuse(t, "a tensor of %s, whose elements have no size", m->name);
    *dtype = (tm_dtype)m->dtype;
    return 0;
}

/* storage, offset, size, stride, requires_grad, hooks, dtype[, metadata] */
int torch_rebuild_tensor_v3(struct torch *t, const struct global *f, struct value *args, struct value **out)
{
    tm_dtype dtype;
    int err = arguments(t, f, args, 7, 8);
    if (err == 0)
        err = take_dtype(t, args->item[6], &dtype);
    if (err < 0)
        return err;
    struct value **a = args->item;
    err = torch_strided(t, a[0], dtype, a[1], a[2], a[3], out);
    return err == 0 && args->n == 8 ? take_metadata(t, *out, a[7]) : err;
}

/* A state of Python attributes: a dict, or that of slots (dict or None, dict). */
int torch_attach(struct torch *t, struct value *v, struct value *state)
{
    struct value *plain = state, *slots = NULL;
    if (v->kind != VALUE_TENSOR) /* parts have no place for them, and no writer gives them any */
        return 0;
    struct torch_tensor *x = v->any;
    if (state->kind == VALUE_TUPLE && state->n == 2) {
        plain = state->item[0];
        slots = state->item[1];
    }
    for (int i = 0; i < 2; i++) {
        const struct value *d = i ? slots : plain;
        if (!d || d->kind == VALUE_NONE)
            continue;
        if (d->kind != VALUE_DICT)
            return torch_refuse(t, "a tensor is given a state that is none");
        if (!x->attributes && !(x->attributes = value_new(&t->values, VALUE_DICT)))
            return torch_no_memory(t);
        for (uint32_t k = 0; k < dict_len(d); k++) {
            int err = value_set(&t->values, x->attributes, d->dict->pair[k].key, d->dict->pair[k].value);
            if (err < 0)
                return pickle_failed(&t->pickle, err);
        }
    }
    return 0;
}

/* Something that can stand for a tensor: one, its parts, or an object of a class not known here. */
static bool is_tensor(const struct value *v)
{
    return v->kind == VALUE_TENSOR || v->kind == VALUE_PARTS || v->kind == VALUE_OBJECT;
}

/* tensor, requires_grad, hooks[, state] */
int torch_rebuild_parameter(struct torch *t, const struct global *f, struct value *args, struct value **out)
{
    int err = arguments(t, f, args, 1, 4);
    if (err < 0)
        return err;
    if (!is_tensor(args->item[0]))
        return torch_refuse(t, "a parameter that is no tensor");
    *out = args->item[0];
    if ((*out)->kind == VALUE_TENSOR)
        ((struct torch_tensor *)(*out)->any)->flags |= TENSOR_PARAMETER;
    return args->n == 4 && (*out)->kind != VALUE_OBJECT ? torch_attach(t, *out, args->item[3]) : 0;
}

static int without_bytes(struct torch *t, const struct value *dtype, const struct value *size,
                         const struct value *stride, const char *why, struct value **out)
{
    struct torch_tensor *x;
    struct value *v = torch_new_tensor(t, &x);
    if (!v)
        return torch_no_memory(t);
    x->nothing = why;
    int err = take_dtype(t, dtype, &x->dtype);
    if (err == 0)
        err = take_shape(t, size, stride, x);
    if (err == 0)
        err = torch_check_tensor(t, x, 0);
    *out = v;
    return err;
}

/* dtype, size, stride, requires_grad */
int torch_rebuild_meta(struct torch *t, const struct global *f, struct value *args, struct value **out)
{
    int err = arguments(t, f, args, 3, 4);
    struct value **a = args->item;
    return err < 0 ? err : without_bytes(t, a[0], a[1], a[2], "meta", out);
}

/* cls, dtype, size, stride, offset, layout, device, requires_grad */
int torch_rebuild_wrapper(struct torch *t, const struct global *f, struct value *args, struct value **out)
{
    int err = arguments(t, f, args, 4, 8);
    struct value **a = args->item;
    return err < 0 ? err : without_bytes(t, a[1], a[2], a[3], "wrapper subclass", out);
}

/* tensor or array, dtype, device, requires_grad: a tensor of another device, saved through this one. */
int torch_rebuild_device(struct torch *t, const struct global *f, struct value *args, struct value **out)
{
    tm_dtype dtype;
    int err = arguments(t, f, args, 2, 4);
    if (err == 0)
        err = take_dtype(t, args->item[1], &dtype);
    if (err < 0)
        return err;
    *out = args->item[0];
    if ((*out)->kind != VALUE_TENSOR)
        return torch_refuse(t, "a tensor of another device that is no tensor");
    const struct torch_tensor *x = (*out)->any;
    if (!(x->flags & TENSOR_PENDING) && x->dtype != dtype)
        return torch_refuse(t, "a tensor that was saved as %s and should be %s", tm_dtype_name(x->dtype),
                            tm_dtype_name(dtype));
    return 0;
}

/* func, type, args, state: only a function that makes a tensor can be func. */
int torch_rebuild_typed(struct torch *t, const struct global *f, struct value *args, struct value **out)
{
    int err = arguments(t, f, args, 4, 4);
    if (err < 0)
        return err;
    const struct meaning *m = torch_meaning(args->item[0]);
    if (!m || !m->rebuilds || m->call == torch_rebuild_typed)
        return torch_refuse(t, "%s is to call something that makes no tensor", f->full);
    if (args->item[2]->kind != VALUE_TUPLE)
        return torch_refuse(t, "arguments that are no tuple");
    err = m->call(t, args->item[0]->global, args->item[2], out);
    return err < 0 || (*out)->kind == VALUE_OBJECT ? err : torch_attach(t, *out, args->item[3]);
}

static int pending(struct torch *t, const struct global *f, const struct storage_class *cls,
                   struct value **out)
{
    struct torch_tensor *x;
    *out = torch_new_tensor(t, &x);
    if (!*out)
        return torch_no_memory(t);
    x->flags = TENSOR_PENDING;
    x->cls = f;
    x->dtype = cls ? cls->dtype : TM_F32;
    return 0;
}

/* Parameter([tensor[, requires_grad]]) */
int torch_parameter(struct torch *t, const struct global *f, struct value *args, struct value **out)
{
    if (args->n && args->item[0]->kind != VALUE_NONE)
        return torch_rebuild_parameter(t, f, args, out);
    return pending(t, f, NULL, out);
}

/* torch.FloatTensor(), to be filled by its state. With arguments it is made in memory, from nothing. */
int torch_old_tensor(struct torch *t, const struct global *f, struct value *args, struct value **out)
{
    if (args->n)
        return torch_refuse(t, "%s with arguments", f->full);
    return pending(t, f, ((const struct meaning *)f->meaning)->cls, out);
}

/* The tensors of old: (storage, offset, size, stride). */
static int fill(struct torch *t, struct value *v, struct value *state)
{
    struct torch_tensor *x = v->any;
    struct value *made;
    if (state->item[0]->kind != VALUE_STORAGE)
        return torch_refuse(t, "a tensor over something that is no storage");
    const struct storage_part *s = state->item[0]->any;
    struct value **a = state->item;
    int err = torch_strided(t, a[0], s->cls->dtype, a[1], a[2], a[3], &made);
    if (err == 0)
        *x = *(struct torch_tensor *)made->any;
    return err;
}

/* The parameters of 2017: (data, grad, hooks, requires_grad, volatile). */
static int fill_parameter(struct torch *t, struct value *v, struct value *state)
{
    struct torch_tensor *x = v->any;
    struct value *data = state->item[0], *grad = state->item[1];
    if (data->kind != VALUE_TENSOR)
        return torch_refuse(t, "a parameter that is no tensor");
    *x = *(struct torch_tensor *)data->any;
    if (grad->kind != VALUE_TENSOR)
        return 0;
    struct value *name = value_text(&t->values, "grad", 4);
    x->attributes = value_new(&t->values, VALUE_DICT);
    if (!name || !x->attributes)
        return torch_no_memory(t);
    return pickle_failed(&t->pickle, value_set(&t->values, x->attributes, name, grad));
}

int torch_build_tensor(struct torch *t, struct value *v, struct value *state)
{
    const struct torch_tensor *x = v->any;
    if (state->kind == VALUE_TUPLE && (x->flags & TENSOR_PENDING)) {
        if (state->n == 4)
            return fill(t, v, state);
        if (state->n == 5)
            return fill_parameter(t, v, state);
        return torch_refuse(t, "a tensor is given a state of %u items", state->n);
    }
    if (state->kind == VALUE_TUPLE && (state->n == 3 || state->n == 4 || state->n == 5))
        return 0; /* (requires_grad, volatile, hooks): nothing about the bytes */
    return torch_attach(t, v, state);
}
