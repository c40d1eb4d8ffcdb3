/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "extent.h"
#include "source.h"
#include "tensor_i.h"
#include "view.h"

struct tm_tensor {
    atomic_int refs;
    tm_dtype dtype;
    int rank;
    uint64_t nbytes;
    void *data;
    void *owned;           /* to be freed with the tensor */
    struct source *source; /* kept open for the tensor ... */
    uint64_t offset;       /* ... whose bytes begin there in it */
    uint64_t shape[];
};

static tm_tensor *make(tm_dtype dtype, int rank, const uint64_t *shape)
{
    uint64_t nbytes;
    int err = tm_nbytes(dtype, rank, shape, &nbytes);
    if (err < 0) {
        errno = -err;
        return NULL;
    }
    tm_tensor *t = calloc(1, sizeof *t + (size_t)rank * sizeof t->shape[0]);
    if (!t)
        return NULL;
    t->refs = 1;
    t->dtype = dtype;
    t->rank = rank;
    t->nbytes = nbytes;
    if (rank)
        memcpy(t->shape, shape, (size_t)rank * sizeof t->shape[0]);
    return t;
}

tm_tensor *tm_tensor_new(tm_dtype dtype, int rank, const uint64_t *shape)
{
    tm_tensor *t = make(dtype, rank, shape);
    if (!t)
        return NULL;
    if (t->nbytes)
        t->owned = t->nbytes <= SIZE_MAX ? calloc(1, (size_t)t->nbytes) : NULL;
    if (t->nbytes && !t->owned) {
        free(t);
        errno = ENOMEM;
        return NULL;
    }
    t->data = t->owned;
    return t;
}

tm_tensor *tm_tensor_wrap(tm_dtype dtype, int rank, const uint64_t *shape, void *data)
{
    tm_tensor *t = make(dtype, rank, shape);
    if (t && t->nbytes && !data) {
        free(t);
        errno = EINVAL;
        return NULL;
    }
    if (t)
        t->data = data;
    return t;
}

tm_tensor *tensor_of_source(tm_dtype dtype, int rank, const uint64_t *shape, struct source *s, uint64_t off)
{
    tm_tensor *t = make(dtype, rank, shape);
    if (!t)
        return NULL;
    const unsigned char *map = source_mapped(s);
    if (map) {
        t->data = (void *)(uintptr_t)(map + off);
        t->source = source_ref(s);
        t->offset = off;
        return t;
    }
    if (t->nbytes == 0)
        return t;
    int err = -ENOMEM;
    t->data = t->owned = t->nbytes <= SIZE_MAX ? malloc((size_t)t->nbytes) : NULL;
    if (t->data)
        err = source_read(s, off, t->data, (size_t)t->nbytes);
    if (err < 0) {
        tm_tensor_free(t);
        errno = -err;
        return NULL;
    }
    return t;
}

/* A shape may claim far more than there is: 16 bytes expanded to a terabyte. */
static bool fits_memory(uint64_t nbytes)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return nbytes <= SIZE_MAX &&
           (pages <= 0 || size <= 0 || nbytes / (uint64_t)size < (uint64_t)pages / 4 * 3);
}

static int gather(tm_tensor *t, const struct view *v)
{
    t->data = t->owned = fits_memory(t->nbytes) ? malloc((size_t)t->nbytes) : NULL;
    return t->data ? view_fill(v, 0, t->data, (size_t)t->nbytes) : -ENOMEM;
}

tm_tensor *tensor_of_view(tm_dtype dtype, int rank, const uint64_t *shape, const struct view *v)
{
    uint64_t at;
    struct source *s = NULL;
    int err = view_unpack(v, &s, &at);
    if (err == 0 && s)
        return tensor_of_source(dtype, rank, shape, s, at);
    tm_tensor *t = err == 0 ? make(dtype, rank, shape) : NULL;
    if (t && t->nbytes)
        err = gather(t, v);
    if (err < 0) {
        tm_tensor_free(t);
        errno = -err;
        return NULL;
    }
    return t;
}

int tensor_extents(const tm_tensor *t, struct extents *x)
{
    if (t->source)
        return extents_add_source(x, t->source, t->offset, t->nbytes);
    return extents_add_borrowed(x, t->data, t->nbytes);
}

tm_tensor *tm_tensor_ref(tm_tensor *t)
{
    if (t)
        atomic_fetch_add(&t->refs, 1);
    return t;
}

void tm_tensor_free(tm_tensor *t)
{
    if (!t || atomic_fetch_sub(&t->refs, 1) != 1)
        return;
    source_free(t->source);
    free(t->owned);
    free(t);
}

tm_dtype tm_tensor_dtype(const tm_tensor *t)
{
    return t->dtype;
}

int tm_tensor_rank(const tm_tensor *t)
{
    return t->rank;
}

const uint64_t *tm_tensor_shape(const tm_tensor *t)
{
    return t->shape;
}

uint64_t tm_tensor_nbytes(const tm_tensor *t)
{
    return t->nbytes;
}

void *tm_tensor_data(tm_tensor *t)
{
    return t->data;
}
