/* SPDX-License-Identifier: MIT */
#include "model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "directory.h"
#include "huge.h"
#include "safetensors/tensor.h"
#include "thin.h"

struct model *model_new(struct source *s)
{
    struct model *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    index_init();
    m->source = source_ref(s);
    return m;
}

int model_none(struct model **out)
{
    struct source *s = source_none("none", NULL);
    *out = s ? model_new(s) : NULL;
    source_free(s);
    if (!*out)
        return -ENOMEM;
    (*out)->format = "none";
    return 0;
}

void model_free(struct model *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->n_parts; i++)
        model_free(m->part[i]); /* a part has no parts */
    free(m->part);
    directory_free(m->dir);
    source_free(m->source);
    if (m->thin)
        thin_free(m->thin);
    free(m->thin);
    free(m->tensors);
    free(m->metadata);
    index_free(&m->by_name);
    buf_free(&m->leaves);
    unpacker_free(m->unpacker);
    arena_free(&m->arena);
    free(m);
}

/* Makes room for one more element of an array. */
static void *more(void *p, size_t n, size_t *room, size_t size)
{
    if (n < *room)
        return p;
    size_t want = *room ? *room * 2 : 16;
    if (want >= UINT32_MAX || want > SIZE_MAX / size) /* numbers of tensors are 32 bits */
        return NULL;
    p = realloc(p, want * size);
    if (p)
        *room = want;
    return p;
}

void model_expect(struct model *m, size_t n)
{
    index_expect(&m->by_name, n);
    if (m->tensors || n == 0 || n >= UINT32_MAX / 2)
        return;
    m->tensors = in_huge_pages(malloc(n * sizeof *m->tensors), n * sizeof *m->tensors);
    m->room_tensors = m->tensors ? n : 0; /* else it grows by and by */
}

int model_add_tensor(struct model *m, struct tensor **out)
{
    struct tensor *t = more(m->tensors, m->n_tensors, &m->room_tensors, sizeof *t);
    if (!t)
        return -ENOMEM;
    m->tensors = t;
    *out = &t[m->n_tensors++];
    **out = (struct tensor){.source = m->source};
    return 0;
}

int model_add_metadata(struct model *m, struct json_text key, struct json_text value)
{
    struct metadata *d = more(m->metadata, m->n_metadata, &m->room_metadata, sizeof *d);
    if (!d)
        return -ENOMEM;
    m->metadata = d;
    d[m->n_metadata++] = (struct metadata){key, value};
    return 0;
}

static bool has_name(const void *ctx, uint32_t number, const void *key, size_t len)
{
    const struct tensor *t = &((const struct model *)ctx)->tensors[number];
    return t->name_len == len && memcmp(t->name, key, len) == 0;
}

uint32_t model_find(const struct model *m, uint64_t hash, const char *name, size_t len)
{
    if (!(m->lengths >> len % 64 &
          1)) /* spares most of the questions about prefixes of names a look at memory */
        return INDEX_NONE;
    return index_find(&m->by_name, hash, has_name, m, name, len);
}

uint64_t model_hash(const struct model *m, const char *name, size_t len)
{
    uint64_t hash = hash_bytes(0, name, len);
    index_prefetch(&m->by_name, hash);
    return hash;
}

int model_index_hashed(struct model *m, uint32_t number, uint64_t hash)
{
    const struct tensor *t = &m->tensors[number];
    m->lengths |= UINT64_C(1) << t->name_len % 64;
    return index_add_new(&m->by_name, hash, number, has_name, m, t->name, t->name_len);
}

int model_index(struct model *m, uint32_t number)
{
    const struct tensor *t = &m->tensors[number];
    return model_index_hashed(m, number, hash_bytes(0, t->name, t->name_len));
}

bool model_changed(const struct model *m)
{
    bool changed = m->source->changed;
    for (size_t i = 0; i < m->n_parts; i++)
        changed |= m->part[i]->source->changed;
    return changed;
}

const char *tensor_code(const struct tensor *t)
{
    return t->dtype == DTYPE_OTHER ? t->page->code : tm_dtype_name(t->dtype);
}

int model_extents(const struct model *m, const struct tensor *t, struct extents *x)
{
    (void)m;
    if (t->view)
        return view_extents(t->view, x);
    return extents_add_source(x, t->source, t->offset, t->nbytes);
}
