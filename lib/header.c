/* SPDX-License-Identifier: MIT */
#include "header.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "checked.h"
#include "huge.h"
#include "safetensors/tensor.h"

enum { ENTRY_BYTES = 96 }; /* of a tensor in a usual header: a guess at how many there will be */

enum { DTYPE = 1, SHAPE = 2, OFFSETS = 4 }; /* fields seen */

struct header {
    struct model *m;
    struct report *r;
    struct json j;
    struct arena keys; /* what need not outlive one object: keys of fields, dtype codes */
    struct json_text
        *seen; /* unknown fields of this tensor, or keys of __metadata__ so far, found by seen_index */
    size_t n_seen, room_seen;
    struct index seen_index;
    uint64_t *dims; /* of the shape being read */
    size_t room_dims;
    bool has_metadata;
    uint8_t dtype; /* of the tensor before, and its code */
    const char *dtype_name;
    size_t bad; /* values that could not be used; what follows from them is not reported */
};

static uint64_t here(const struct header *h)
{
    return 8 + json_at(&h->j);
}

static int syntax(struct header *h, struct json_text in)
{
    return report_fatal(h->r, strcmp(h->j.why, "out of memory") == 0 ? -ENOMEM : -EBADMSG, in.s, in.len,
                        here(h), "%s", h->j.why);
}

static int no_memory(struct header *h)
{
    return report_fatal(h->r, -ENOMEM, NULL, 0, FS_NO_OFFSET, "out of memory");
}

static const struct json_text nobody = {NULL, 0};

/* A value of the wrong kind, `why` set: said, then skipped, so that what follows is checked too. */
static int mistaken(struct header *h, struct json_text in, unsigned depth)
{
    h->bad++;
    int err = report_add(h->r, -EBADMSG, in.s, in.len, here(h), "%s", h->j.why);
    if (err < 0)
        return err;
    return json_skip(&h->j, depth) < 0 ? syntax(h, in) : 0;
}

/* Is the next value one that begins with c? If not, `why` is set. */
static bool expected(struct header *h, char c, const char *why)
{
    if (json_peek(&h->j) == c)
        return true;
    h->j.why = why;
    return false;
}

static bool is(struct json_text t, const char *word)
{
    return t.len == strlen(word) && memcmp(t.s, word, t.len) == 0;
}

enum { SHOWN = 160 };

/* The beginning of a text from the file, fit for a message, in a buffer of SHOWN bytes. */
static const char *shown(struct json_text t, char *out)
{
    struct buf b = {0};
    buf_printable(&b, t.s, t.len, 32);
    snprintf(out, SHOWN, "%s", b.p ? b.p : "");
    buf_free(&b);
    return out;
}

static bool same_key(const void *ctx, uint32_t number, const void *key, size_t len)
{
    const struct json_text *k = &((const struct json_text *)ctx)[number];
    return k->len == len && memcmp(k->s, key, len) == 0;
}

/* Has this key been seen in the present object? Remembers it. 1: yes, 0: no, or -ENOMEM. */
static int seen_before(struct header *h, struct json_text key)
{
    uint64_t hash = hash_bytes(0, key.s, key.len);
    if (index_find(&h->seen_index, hash, same_key, h->seen, key.s, key.len) != INDEX_NONE)
        return 1;
    if (h->n_seen == h->room_seen) {
        size_t room = h->room_seen ? h->room_seen * 2 : 16;
        struct json_text *p = realloc(h->seen, room * sizeof *p);
        if (!p)
            return -ENOMEM;
        h->seen = p;
        h->room_seen = room;
    }
    h->seen[h->n_seen] = key;
    return index_add(&h->seen_index, hash, (uint32_t)h->n_seen++);
}

static void forget_seen(struct header *h)
{
    h->n_seen = 0;
    index_clear(&h->seen_index);
}

/* "__metadata__": an object of text to text, or null. */
static int read_metadata(struct header *h)
{
    struct json_text in = {"__metadata__", 12}, key, value;
    if (json_peek(&h->j) == 'n')
        return json_null(&h->j) < 0 ? syntax(h, in) : 0;
    if (!expected(h, '{', "it must be an object of strings"))
        return mistaken(h, in, 1);
    h->j.p++;
    forget_seen(h);
    if (json_taken(&h->j, '}'))
        return 0;
    do {
        json_peek(&h->j);
        uint64_t at = here(h);
        if (json_string(&h->j, &h->m->arena, &key) < 0 || json_take(&h->j, ':') < 0)
            return syntax(h, in);
        int err = seen_before(h, key);
        if (err == 1)
            err = report_add(h->r, -EBADMSG, in.s, in.len, at, "a key twice");
        if (err < 0)
            return err == -ENOMEM ? no_memory(h) : err;
        if (!expected(h, '"', "every value must be a string")) {
            err = mistaken(h, in, 2);
            if (err < 0)
                return err;
            continue;
        }
        if (json_string(&h->j, &h->m->arena, &value) < 0)
            return syntax(h, in);
        if (model_add_metadata(h->m, key, value) < 0)
            return no_memory(h);
    } while (json_taken(&h->j, ','));
    return json_take(&h->j, '}') < 0 ? syntax(h, in) : 0;
}

static int read_dtype(struct header *h, struct tensor *t, struct json_text name)
{
    struct json_text code;
    tm_dtype d;
    if (!expected(h, '"', "dtype must be a string"))
        return mistaken(h, name, 2);
    uint64_t at = here(h);
    if (json_string(&h->j, &h->keys, &code) < 0)
        return syntax(h, name);
    if (h->dtype_name && strcmp(h->dtype_name, code.s) == 0 && code.len == strlen(code.s)) {
        t->dtype = h->dtype; /* most tensors have the type of the one before */
        return 0;
    }
    if (strlen(code.s) == code.len && tm_dtype_from_name(code.s, &d) == 0 && d < TM_SAFETENSORS_CODES) {
        t->dtype = h->dtype = (uint8_t)d;
        h->dtype_name = tm_dtype_name(d);
        return 0;
    }
    h->bad++;
    return report_add(h->r, -EBADMSG, name.s, name.len, at, "unknown dtype '%s'",
                      shown(code, (char[SHOWN]){0}));
}

/* An array of integers into h->dims; *n of them. */
static int read_integers(struct header *h, struct json_text name, size_t *n)
{
    int err;
    *n = 0;
    if (!expected(h, '[', "shape and data_offsets must be arrays of integers"))
        return mistaken(h, name, 2);
    h->j.p++;
    if (json_taken(&h->j, ']'))
        return 0;
    do {
        if (*n == h->room_dims) {
            size_t room = h->room_dims ? h->room_dims * 2 : 16;
            uint64_t *p = realloc(h->dims, room * sizeof *p);
            if (!p)
                return no_memory(h);
            h->dims = p;
            h->room_dims = room;
        }
        h->dims[*n] = 0;
        if (json_u64(&h->j, &h->dims[(*n)++]) < 0 && (err = mistaken(h, name, 3)) < 0)
            return err;
    } while (json_taken(&h->j, ','));
    return json_take(&h->j, ']') < 0 ? syntax(h, name) : 0;
}

static int read_shape(struct header *h, struct tensor *t, struct json_text name)
{
    size_t n;
    int err = read_integers(h, name, &n);
    if (err < 0)
        return err;
    uint64_t *shape = arena_alloc(&h->m->arena, n * sizeof *shape, 1);
    if (!shape)
        return no_memory(h);
    if (n)
        memcpy(shape, h->dims, n * sizeof *shape);
    t->shape = shape;
    t->rank = (uint32_t)n;
    return 0;
}

/* The end is kept in nbytes until the size is known to be right. */
static int read_offsets(struct header *h, struct tensor *t, struct json_text name)
{
    size_t n;
    json_peek(&h->j);
    uint64_t at = here(h);
    int err = read_integers(h, name, &n);
    if (err < 0)
        return err;
    if (n != 2) {
        h->bad++;
        return report_add(h->r, -EBADMSG, name.s, name.len, at, "data_offsets must be two numbers, not %zu",
                          n);
    }
    t->offset = h->dims[0];
    t->nbytes = h->dims[1];
    return 0;
}

static int read_field(struct header *h, struct tensor *t, struct json_text name, unsigned *fields)
{
    struct json_text key;
    json_peek(&h->j);
    uint64_t at = here(h);
    if (json_string(&h->j, &h->keys, &key) < 0 || json_take(&h->j, ':') < 0)
        return syntax(h, name);
    unsigned field = is(key, "dtype")          ? DTYPE
                     : is(key, "shape")        ? SHAPE
                     : is(key, "data_offsets") ? OFFSETS
                                               : 0;
    int twice = field ? (*fields & field) != 0 : seen_before(h, key);
    if (twice < 0)
        return no_memory(h);
    if (twice) {
        int err = report_add(h->r, -EBADMSG, name.s, name.len, at, "the field '%s' twice",
                             shown(key, (char[SHOWN]){0}));
        if (err < 0)
            return err;
    }
    *fields |= field;
    switch (field) {
    case DTYPE: return read_dtype(h, t, name);
    case SHAPE: return read_shape(h, t, name);
    case OFFSETS: return read_offsets(h, t, name);
    default: return json_skip(&h->j, 2) < 0 ? syntax(h, name) : 0;
    }
}

/* Size by shape and dtype against size by offsets. */
static int check_size(struct header *h, struct tensor *t, struct json_text name, uint64_t at)
{
    uint64_t begin = t->offset, end = t->nbytes, size = 0;
    const char *code = tm_dtype_name(t->dtype);
    int err = tm_nbytes(t->dtype, (int)t->rank, t->shape, &size);
    if (err == -EOVERFLOW)
        return report_add(h->r, -EBADMSG, name.s, name.len, at, "the size of its shape overflows 64 bits");
    if (err < 0)
        return report_add(h->r, -EBADMSG, name.s, name.len, at, "its elements of %u bits fill no whole byte",
                          tm_dtype_bits(t->dtype));
    if (end < begin)
        return report_add(h->r, -EBADMSG, name.s, name.len, at,
                          "data_offsets [%" PRIu64 ",%" PRIu64 "]: the end lies before the begin", begin,
                          end);
    if (end - begin != size)
        return report_add(h->r, -EBADMSG, name.s, name.len, at,
                          "its shape of %s needs %" PRIu64 " bytes, data_offsets [%" PRIu64 ",%" PRIu64
                          "] give %" PRIu64,
                          code, size, begin, end, end - begin);
    return 0;
}

static int read_fields(struct header *h, struct tensor *t, struct json_text name, uint64_t at)
{
    unsigned fields = 0;
    size_t bad = h->bad;
    if (!expected(h, '{', "a tensor must be an object with dtype, shape and data_offsets"))
        return mistaken(h, name, 1);
    h->j.p++;
    forget_seen(h);
    if (!json_taken(&h->j, '}')) {
        do {
            int err = read_field(h, t, name, &fields);
            if (err < 0)
                return err;
        } while (json_taken(&h->j, ','));
        if (json_take(&h->j, '}') < 0)
            return syntax(h, name);
    }
    if (fields != (DTYPE | SHAPE | OFFSETS)) {
        h->bad++;
        return report_add(h->r, -EBADMSG, name.s, name.len, at, "no %s",
                          !(fields & DTYPE)   ? "dtype"
                          : !(fields & SHAPE) ? "shape"
                                              : "data_offsets");
    }
    return h->bad > bad ? 0 : check_size(h, t, name, at);
}

static int read_tensor(struct header *h, struct json_text name, uint64_t at)
{
    struct tensor *t;
    int err = model_add_tensor(h->m, &t);
    if (err < 0)
        return no_memory(h);
    t->name = name.s;
    t->name_len = (uint32_t)name.len;
    uint64_t hash = model_hash(h->m, name.s, name.len);
    err = read_fields(h, t, name, at);
    if (err < 0)
        return err;
    err = model_index_hashed(h->m, (uint32_t)(h->m->n_tensors - 1), hash);
    if (err == -EEXIST)
        err = report_add(h->r, -EBADMSG, name.s, name.len, at, "a tensor of this name for the second time");
    return err == -ENOMEM ? no_memory(h) : err;
}

static int read_entry(struct header *h)
{
    struct json_text name;
    json_peek(&h->j);
    uint64_t at = here(h);
    if (json_string(&h->j, &h->m->arena, &name) < 0 || json_take(&h->j, ':') < 0)
        return syntax(h, nobody);
    if (!is(name, "__metadata__"))
        return read_tensor(h, name, at);
    if (h->has_metadata) {
        int err = report_add(h->r, -EBADMSG, NULL, 0, at, "__metadata__ for the second time");
        if (err < 0)
            return err;
    }
    h->has_metadata = true;
    return read_metadata(h);
}

static int read_object(struct header *h)
{
    if (!expected(h, '{', "the header must be a JSON object"))
        return syntax(h, nobody);
    h->j.p++;
    if (!json_taken(&h->j, '}')) {
        do {
            int err = read_entry(h);
            if (err < 0)
                return err;
            arena_reset(&h->keys);
        } while (json_taken(&h->j, ','));
        if (json_take(&h->j, '}') < 0)
            return syntax(h, nobody);
    }
    return json_end(&h->j) < 0 ? syntax(h, nobody) : 0;
}

static int by_place(const void *a, const void *b)
{
    const struct tensor *x = *(struct tensor *const *)a, *y = *(struct tensor *const *)b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return x->nbytes < y->nbytes ? -1 : x->nbytes > y->nbytes;
}

/* All tensors by begin and end of their bytes; NULL if they are so already. */
static int sort_by_place(struct model *m, struct tensor ***out)
{
    size_t i = 1;
    *out = NULL;
    while (i < m->n_tensors &&
           by_place(&(struct tensor *){&m->tensors[i - 1]}, &(struct tensor *){&m->tensors[i]}) <= 0)
        i++;
    if (i >= m->n_tensors)
        return 0;
    struct tensor **v = malloc(m->n_tensors * sizeof *v);
    if (!v)
        return -ENOMEM;
    for (i = 0; i < m->n_tensors; i++)
        v[i] = &m->tensors[i];
    qsort(v, m->n_tensors, sizeof *v, by_place);
    *out = v;
    return 0;
}

/* The tensors must cover the data without holes and overlaps, from its first byte to the end of the file. */
static int check_places(struct header *h, uint64_t data, uint64_t size)
{
    struct model *m = h->m;
    struct tensor **order;
    uint64_t reached = 0;
    int err = sort_by_place(m, &order);
    if (err < 0)
        return no_memory(h);
    for (size_t i = 0; i < m->n_tensors && err == 0; i++) {
        const struct tensor *t = order ? order[i] : &m->tensors[i];
        uint64_t end = t->nbytes;
        if (t->offset > reached)
            err = report_add(h->r, -EBADMSG, t->name, t->name_len, data + reached,
                             "%" PRIu64 " bytes before it belong to no tensor", t->offset - reached);
        else if (t->offset < reached)
            err = report_add(h->r, -EBADMSG, t->name, t->name_len, data + t->offset,
                             "overlaps the tensor before it by %" PRIu64 " bytes", reached - t->offset);
        if (err == 0 && end > size - data && end > reached)
            err = report_add(h->r, -EBADMSG, t->name, t->name_len, size,
                             "the file ends here: data_offsets [%" PRIu64 ",%" PRIu64 "], but only %" PRIu64
                             " bytes of data; truncated download?",
                             t->offset, end, size - data);
        if (end > reached)
            reached = end;
    }
    free(order);
    if (err == 0 && reached < size - data)
        err = report_add(h->r, -EBADMSG, NULL, 0, data + reached,
                         "%" PRIu64 " bytes at the end belong to no tensor", size - data - reached);
    return err;
}

/* From offsets in the data to offsets in the file, from ends to sizes. */
static void settle(struct model *m, uint64_t data)
{
    for (size_t i = 0; i < m->n_tensors; i++) {
        struct tensor *t = &m->tensors[i];
        t->nbytes -= t->offset;
        t->offset += data;
    }
}

static uint64_t little64(const unsigned char *p)
{
    uint64_t v = 0;
    for (int i = 7; i >= 0; i--)
        v = v << 8 | p[i];
    return v;
}

static int read_length(struct model *m, struct report *r, uint64_t *len)
{
    unsigned char b[8];
    uint64_t size = m->source->size;
    if (size < 8)
        return report_fatal(r, -EBADMSG, NULL, 0, FS_NO_OFFSET,
                            "the file has %" PRIu64 " bytes, the length of the header alone takes 8", size);
    int err = source_read(m->source, 0, b, 8);
    if (err < 0)
        return report_fatal(r, err, NULL, 0, 0, "cannot be read: %s", strerror(-err));
    *len = little64(b);
    if (*len > HEADER_MAX)
        return report_fatal(r, -EBADMSG, NULL, 0, 0,
                            "a header of %" PRIu64 " bytes, the format allows %d; perhaps no model at all",
                            *len, HEADER_MAX);
    if (*len > size - 8)
        return report_fatal(r, -EBADMSG, NULL, 0, 0,
                            "a header of %" PRIu64 " bytes in a file of %" PRIu64 "; truncated download?",
                            *len, size);
    if (*len == 0)
        return report_fatal(r, -EBADMSG, NULL, 0, 0, "a header of 0 bytes");
    return 0;
}

int header_read(struct model *m, struct report *r)
{
    struct header h = {.m = m, .r = r};
    uint64_t len = 0;
    r->what = "safetensors header";
    int err = read_length(m, r, &len);
    if (err < 0)
        return err;
    char *text = in_huge_pages(malloc((size_t)len), (size_t)len);
    if (!text)
        return no_memory(&h);
    err = source_read(m->source, 8, text, (size_t)len);
    if (err < 0) {
        report_fatal(r, err, NULL, 0, 8, "cannot be read: %s", strerror(-err));
        goto out;
    }
    model_expect(m, (size_t)len / ENTRY_BYTES);
    h.j = (struct json){.start = text, .p = text, .end = text + len};
    err = read_object(&h);
    if (err == 0 && h.bad == 0)
        err = check_places(&h, 8 + len, m->source->size);
    if (err == 0 && r->count)
        err = r->first.code;
    if (err == 0)
        settle(m, 8 + len);
    m->format = "safetensors";
    m->header_off = 8;
    m->header_len = len;
out:
    free(text);
    free(h.seen);
    free(h.dims);
    index_free(&h.seen_index);
    arena_free(&h.keys);
    return err;
}
