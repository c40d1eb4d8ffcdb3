/* SPDX-License-Identifier: MIT
 * From a tensor's storage to where its bytes lie: in the file as they are served, or a view that makes them
 * so. */
#include <errno.h>
#include <string.h>

#include "torch.h"
#include "view.h"

/* Bytes that change places where the machine that wrote them was big-endian. */
static uint32_t swap_unit(tm_dtype d)
{
    uint32_t item = tm_dtype_bits(d) / 8;
    if (d == TM_C64 || d == TM_C128 || d == TM_C32 || d == TM_BC32)
        item /= 2;
    return item > 1 ? item : 0;
}

/* A storage: the place of the bytes that may be used. */
static void place_storage(const struct torch *t, const struct storage_part *s, struct view *v)
{
    v->start = s->first;
    v->packed = s->root->packed;
    if (!v->packed) {
        v->source = t->m->source;
        v->start += s->root->at;
    }
    v->end = v->start + s->nbytes;
}

/* The bytes of an array: in the file, or copied out of the pickle. */
static int place_bytes(const struct torch *t, const struct value_bytes *b, struct view *v)
{
    if (b->at != VALUE_NOWHERE) {
        v->source = t->m->source;
        v->start = b->at;
    } else {
        unsigned char *p = arena_alloc(&t->m->arena, (size_t)b->len + 1, false);
        if (!p)
            return -ENOMEM;
        memcpy(p, b->p, (size_t)b->len);
        v->memory = p;
    }
    v->end = v->start + b->len;
    return 0;
}

static int add_view(struct torch *t, struct torch_tensor *x, const struct view *v, bool bytewise)
{
    struct view *kept = arena_alloc(&t->m->arena, sizeof *kept, true);
    const uint64_t one = 1;
    if (!kept)
        return -ENOMEM;
    *kept = *v;
    kept->nbytes = x->nbytes;
    kept->item = bytewise ? 1 : tm_dtype_bits(x->dtype) / 8;
    x->view = kept;
    return bytewise ? view_shape(kept, &t->m->arena, 1, &x->nbytes, &one)
                    : view_shape(kept, &t->m->arena, x->rank, x->shape, x->stride);
}

int torch_place(struct torch *t, struct torch_tensor *x)
{
    struct view v = {0};
    unsigned bits = tm_dtype_bits(x->dtype);
    int err = 0;
    if (x->listed)
        return 0;
    x->listed = true;
    if (x->nothing)
        return add_view(t, x, &v, true);
    if (x->storage)
        place_storage(t, x->storage, &v);
    else
        err = place_bytes(t, x->bytes, &v);
    if (err < 0)
        return err;
    if (x->storage ? t->big_endian : (x->flags & TENSOR_SWAPPED) != 0)
        v.swap = swap_unit(x->dtype);
    if (x->nbytes)
        v.start += bits % 8 ? x->offset * bits / 8 : x->offset * (bits / 8);
    bool contiguous = view_contiguous(x->rank, x->shape, x->stride);
    x->at = v.start;
    if (v.source && contiguous && !v.swap)
        return 0;
    return add_view(t, x, &v, bits % 8 != 0 || (contiguous && !v.swap));
}
