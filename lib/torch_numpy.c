/* SPDX-License-Identifier: MIT
 * NumPy's arrays, scalars and dtypes inside pickles. Their bytes are part of the pickle. */
#include <errno.h>
#include <string.h>

#include "checked.h"
#include "torch.h"

static const struct {
    const char *code;
    tm_dtype dtype;
} codes[] = {
    {"f8", TM_F64}, {"f4", TM_F32},  {"f2", TM_F16}, {"i8", TM_I64},   {"i4", TM_I32},
    {"i2", TM_I16}, {"i1", TM_I8},   {"u8", TM_U64}, {"u4", TM_U32},   {"u2", TM_U16},
    {"u1", TM_U8},  {"b1", TM_BOOL}, {"c8", TM_C64}, {"c16", TM_C128},
};

/* dtype(code[, align, copy]) */
int torch_numpy_dtype(struct torch *t, const struct global *f, struct value *args, struct value **out)
{
    size_t len;
    const char *code = args->n ? torch_text(args->item[0], &len) : NULL;
    (void)f;
    if (!code)
        return 0; /* a class of NumPy's: stays a record */
    struct value *v = value_new(&t->values, VALUE_DTYPE);
    struct numpy_dtype *d = values_alloc(&t->values, sizeof *d);
    if (!v || !d)
        return torch_no_memory(t);
    *d = (struct numpy_dtype){.dtype = -1, .order = '<'};
    if (len && strchr("<>=|", code[0])) {
        d->order = code[0];
        code++;
        len--;
    }
    d->code = code;
    d->code_len = (uint32_t)len;
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (strlen(codes[i].code) == len && memcmp(codes[i].code, code, len) == 0)
            d->dtype = (int)codes[i].dtype;
    d->refused = len && (code[0] == 'O' || code[0] == 'V');
    v->any = d;
    *out = v;
    return 0;
}

/* (version, order, subdescr, names, fields, ...) */
int torch_build_dtype(struct torch *t, struct value *v, struct value *state)
{
    struct numpy_dtype *d = v->any;
    size_t len;
    const char *order = state->kind == VALUE_TUPLE && state->n >= 5 ? torch_text(state->item[1], &len) : NULL;
    if (!order || len != 1 || !strchr("<>=|", order[0]))
        return torch_refuse(t, "a numpy.dtype is given a state that is none");
    d->order = order[0];
    for (uint32_t i = 2; i < 5; i++)
        if (state->item[i]->kind != VALUE_NONE) {
            d->refused = true;
            d->dtype = -1;
        }
    return 0;
}

static int new_array(struct torch *t, const struct global *f, struct value **out, struct torch_tensor **x)
{
    *out = torch_new_tensor(t, x);
    if (!*out)
        return torch_no_memory(t);
    (*x)->flags = TENSOR_PENDING | TENSOR_ARRAY;
    (*x)->cls = f;
    return 0;
}

/* _reconstruct(ndarray, (0,), b'b'): filled by its state. */
int torch_numpy_array(struct torch *t, const struct global *f, struct value *args, struct value **out)
{
    struct torch_tensor *x;
    if (args->n != 3 || args->item[0]->kind != VALUE_GLOBAL)
        return torch_refuse(t, "%s with arguments that make no array", f->full);
    return new_array(t, args->item[0]->global, out, &x);
}

/* Strides of an array of that shape, which are checked not to overflow by the size. */
static int array_strides(struct torch *t, struct torch_tensor *x, bool fortran)
{
    uint64_t *stride = arena_alloc(&t->m->arena, ((size_t)x->rank + 1) * sizeof *stride, true), step = 1;
    if (!stride)
        return torch_no_memory(t);
    for (uint32_t i = 0; i < x->rank; i++) {
        uint32_t d = fortran ? i : x->rank - 1 - i;
        stride[d] = step;
        if (mul_overflows(step, x->shape[d] ? x->shape[d] : 1, &step))
            return torch_refuse(t, "an array of more elements than 64 bits can count");
    }
    x->stride = stride;
    return 0;
}

static int fill(struct torch *t, struct torch_tensor *x, const struct numpy_dtype *d,
                const struct value *shape, bool fortran, const struct value_bytes *bytes)
{
    x->dtype = (tm_dtype)d->dtype;
    int err = torch_dims(t, shape, &x->shape, &x->rank);
    if (err == 0)
        err = array_strides(t, x, fortran);
    if (err == 0)
        err = torch_check_tensor(t, x, bytes->len);
    if (err == 0 && x->nbytes != bytes->len)
        err = torch_refuse(t, "an array of %llu bytes with %llu", (unsigned long long)x->nbytes,
                           (unsigned long long)bytes->len);
    x->bytes = bytes;
    x->flags = TENSOR_ARRAY | (d->order == '>' ? TENSOR_SWAPPED : 0U);
    return err;
}

/* Strings and dates have no type here: what was to become an array stays a record. */
static int make_record(struct torch *t, struct value *v, const struct global *cls)
{
    struct object *o = values_alloc(&t->values, sizeof *o);
    if (!o)
        return torch_no_memory(t);
    *o = (struct object){.cls = cls, .args = t->pickle.empty_tuple};
    v->kind = VALUE_OBJECT;
    v->object = o;
    return 0;
}

/* ([version,] shape, dtype, is_fortran, bytes) */
int torch_build_array(struct torch *t, struct value *v, struct value *state)
{
    struct torch_tensor *x = v->any;
    struct value **a = state->item;
    if (!(x->flags & TENSOR_PENDING) || state->kind != VALUE_TUPLE || state->n < 4 || state->n > 5)
        return torch_refuse(t, "an array is given a state that is none");
    if (state->n == 5)
        a++;
    if (a[1]->kind != VALUE_DTYPE)
        return torch_refuse(t, "an array of a dtype that is none");
    const struct numpy_dtype *d = a[1]->any;
    if (d->refused)
        return torch_refuse(t, "an array of Python objects or of structures");
    if (d->dtype < 0)
        return make_record(t, v, x->cls);
    if (a[3]->kind != VALUE_BYTES || (a[2]->kind != VALUE_BOOL && a[2]->kind != VALUE_INT))
        return torch_refuse(t, "an array without bytes");
    return fill(t, x, d, a[0], a[2]->kind == VALUE_BOOL ? a[2]->truth : a[2]->i != 0, a[3]->bytes);
}

/* _frombuffer(bytes, dtype, shape, order) */
int torch_numpy_buffer(struct torch *t, const struct global *f, struct value *args, struct value **out)
{
    struct torch_tensor *x;
    size_t len;
    const char *order = args->n == 4 ? torch_text(args->item[3], &len) : NULL;
    if (!order || len != 1 || args->item[1]->kind != VALUE_DTYPE || args->item[0]->kind != VALUE_BYTES)
        return torch_refuse(t, "%s with arguments that make no array", f->full);
    const struct numpy_dtype *d = args->item[1]->any;
    if (d->refused)
        return torch_refuse(t, "an array of Python objects or of structures");
    if (d->dtype < 0)
        return 0; /* stays a record */
    int err = new_array(t, f, out, &x);
    return err < 0 ? err : fill(t, x, d, args->item[2], order[0] == 'F', args->item[0]->bytes);
}

/* scalar(dtype, bytes) */
int torch_numpy_scalar(struct torch *t, const struct global *f, struct value *args, struct value **out)
{
    if (args->n < 1 || args->item[0]->kind != VALUE_DTYPE)
        return torch_refuse(t, "%s of a dtype that is none", f->full);
    const struct numpy_dtype *d = args->item[0]->any;
    if (args->n != 2 || args->item[1]->kind != VALUE_BYTES || d->dtype < 0)
        return 0; /* text, a date, an object: stays a record */
    const struct value_bytes *b = args->item[1]->bytes;
    if (b->len != tm_dtype_bits((tm_dtype)d->dtype) / 8 || !b->p)
        return torch_refuse(t, "a scalar of %llu bytes", (unsigned long long)b->len);
    struct value *v = value_new(&t->values, VALUE_SCALAR);
    struct numpy_scalar *s = values_alloc(&t->values, sizeof *s);
    if (!v || !s)
        return torch_no_memory(t);
    *s = (struct numpy_scalar){d, b};
    v->any = s;
    *out = v;
    return 0;
}
