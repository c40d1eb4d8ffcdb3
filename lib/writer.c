/* SPDX-License-Identifier: MIT
 * The public writing calls. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "canonical.h"
#include "header.h"
#include "save.h"
#include "tensor_i.h"
#include "utf8.h"

struct fs_writer {
    char *path;
    struct { /* what was added, names in the arena */
        struct canonical_item *v;
        size_t n, room;
    } items;
    struct metadata *metadata;
    size_t n_metadata, room_metadata;
    struct index by_name, by_key;
    struct arena arena;
};

static int answer(const struct report *r, int err, fs_error *e)
{
    if (e)
        *e = err < 0 ? r->first : (fs_error){0};
    return err;
}

static int no_memory(struct report *r)
{
    return report_fatal(r, -ENOMEM, NULL, 0, FS_NO_OFFSET, "out of memory");
}

fs_writer *fs_writer_new(const char *path)
{
    fs_writer *w = calloc(1, sizeof *w);
    index_init();
    if (w)
        w->path = strdup(path);
    if (w && !w->path) {
        free(w);
        w = NULL;
    }
    return w;
}

void fs_writer_free(fs_writer *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->items.n; i++)
        tm_tensor_free((tm_tensor *)(uintptr_t)w->items.v[i].who);
    free(w->items.v);
    free(w->metadata);
    index_free(&w->by_name);
    index_free(&w->by_key);
    arena_free(&w->arena);
    free(w->path);
    free(w);
}

/* Room for one more element; false: no memory. */
static bool grow(void **v, size_t n, size_t *room, size_t size)
{
    if (n < *room)
        return true;
    size_t want = *room ? *room * 2 : 16;
    void *p = want < UINT32_MAX ? realloc(*v, want * size) : NULL;
    if (!p)
        return false;
    *v = p;
    *room = want;
    return true;
}

static bool has_name(const void *ctx, uint32_t number, const void *name, size_t len)
{
    const struct canonical_item *i = &((const fs_writer *)ctx)->items.v[number];
    return i->name_len == len && memcmp(i->name, name, len) == 0;
}

static int add(fs_writer *w, const char *name, size_t len, tm_tensor *t, struct report *r)
{
    if (len > HEADER_MAX) /* keeps it within 32 bits as well */
        return report_fatal(r, -EFBIG, name, len, FS_NO_OFFSET, "the name is longer than a header may be");
    if (!t) /* what tm_tensor_new gave for a bad shape, handed on unseen */
        return report_fatal(r, -EINVAL, name, len, FS_NO_OFFSET, "no tensor: it could not be made");
    int err = canonical_name(name, len, r);
    if (err == 0)
        err = canonical_dtype(tm_tensor_dtype(t), name, len, r);
    if (err < 0)
        return err;
    uint64_t hash = hash_bytes(0, name, len);
    if (index_find(&w->by_name, hash, has_name, w, name, len) != INDEX_NONE)
        return report_fatal(r, -EEXIST, name, len, FS_NO_OFFSET, "a tensor of this name was added before");
    void *v = w->items.v;
    if (!grow(&v, w->items.n, &w->items.room, sizeof *w->items.v))
        return no_memory(r);
    w->items.v = v;
    struct canonical_item item = {.name = arena_text(&w->arena, name, len),
                                  .name_len = (uint32_t)len,
                                  .shape = tm_tensor_shape(t),
                                  .rank = (uint32_t)tm_tensor_rank(t),
                                  .dtype = (uint8_t)tm_tensor_dtype(t),
                                  .nbytes = tm_tensor_nbytes(t),
                                  .who = t};
    if (!item.name || index_add(&w->by_name, hash, (uint32_t)w->items.n) < 0)
        return no_memory(r);
    w->items.v[w->items.n++] = item;
    tm_tensor_ref(t);
    return 0;
}

int fs_add_tensor_e(fs_writer *w, const char *name, size_t len, tm_tensor *t, fs_error *e)
{
    struct report r = {0};
    return answer(&r, add(w, name, len, t, &r), e);
}

int fs_add_tensor_n(fs_writer *w, const char *name, size_t len, tm_tensor *t)
{
    return fs_add_tensor_e(w, name, len, t, NULL);
}

int fs_add_tensor(fs_writer *w, const char *name, tm_tensor *t)
{
    return fs_add_tensor_e(w, name, strlen(name), t, NULL);
}

static bool has_key(const void *ctx, uint32_t number, const void *key, size_t len)
{
    const struct json_text *k = &((const fs_writer *)ctx)->metadata[number].key;
    return k->len == len && memcmp(k->s, key, len) == 0;
}

/* A new entry, without a value yet. */
static int add_key(fs_writer *w, uint64_t hash, struct json_text key, uint32_t *number)
{
    void *v = w->metadata;
    if (!grow(&v, w->n_metadata, &w->room_metadata, sizeof *w->metadata))
        return -ENOMEM;
    w->metadata = v;
    key.s = arena_text(&w->arena, key.s, key.len);
    if (!key.s || index_add(&w->by_key, hash, (uint32_t)w->n_metadata) < 0)
        return -ENOMEM;
    *number = (uint32_t)w->n_metadata++;
    w->metadata[*number].key = key;
    return 0;
}

static int set_metadata(fs_writer *w, struct json_text key, struct json_text value, struct report *r)
{
    if (utf8_span(key.s, key.len) != key.len || utf8_span(value.s, value.len) != value.len)
        return report_fatal(r, -EINVAL, NULL, 0, FS_NO_OFFSET, "metadata must be UTF-8");
    struct json_text copy = {arena_text(&w->arena, value.s, value.len), value.len};
    uint64_t hash = hash_bytes(0, key.s, key.len);
    uint32_t number = index_find(&w->by_key, hash, has_key, w, key.s, key.len);
    if (!copy.s || (number == INDEX_NONE && add_key(w, hash, key, &number) < 0))
        return no_memory(r);
    w->metadata[number].value = copy;
    return 0;
}

int fs_set_metadata_e(fs_writer *w, const char *key, size_t key_len, const char *value, size_t value_len,
                      fs_error *e)
{
    struct report r = {0};
    return answer(
        &r, set_metadata(w, (struct json_text){key, key_len}, (struct json_text){value, value_len}, &r), e);
}

int fs_set_metadata(fs_writer *w, const char *key, const char *value)
{
    return fs_set_metadata_e(w, key, strlen(key), value, strlen(value), NULL);
}

static int write_all(fs_writer *w, struct report *r)
{
    struct buf header = {0};
    struct extents x = {0};
    struct canonical_item *sorted = malloc((w->items.n ? w->items.n : 1) * sizeof *sorted);
    if (!sorted)
        return no_memory(r);
    if (w->items.n)
        memcpy(sorted, w->items.v, w->items.n * sizeof *sorted);
    int err = canonical_header(sorted, w->items.n, w->metadata, w->n_metadata, &header, r);
    if (err < 0)
        goto out;
    err = extents_add_borrowed(&x, header.p, header.len);
    for (size_t i = 0; i < w->items.n && err == 0; i++)
        err = tensor_extents((tm_tensor *)(uintptr_t)sorted[i].who, &x);
    err = err < 0 ? no_memory(r) : save_extents(w->path, &x, &save_plain, r);
out:
    extents_free(&x);
    buf_free(&header);
    free(sorted);
    return err;
}

int fs_write_e(fs_writer *w, fs_error *e)
{
    struct report r = {0};
    return answer(&r, write_all(w, &r), e);
}

int fs_write(fs_writer *w)
{
    return fs_write_e(w, NULL);
}
