/* SPDX-License-Identifier: MIT
 * Reading is strict about members the schema knows and indifferent to all others. Structs within structs are
 * as deep as the schema, not as the text: three levels. */
#include "thin_manifest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "jtree.h"
#include "thin_schema.h"

struct reader {
    struct json j;
    struct arena *a;   /* for what stays */
    struct arena keys; /* for what does not */
    unsigned depth;    /* containers around */
    bool no_memory;
};

static int fail(struct reader *r, const char *why)
{
    r->j.why = why;
    return -1;
}

static int no_memory(struct reader *r)
{
    r->no_memory = true;
    return fail(r, "out of memory");
}

static int read_text(struct reader *r, fs_text *out)
{
    struct json_text t;
    int err = json_string(&r->j, r->a, &t);
    if (err == -2)
        return no_memory(r);
    *out = (fs_text){t.s, t.len};
    return err;
}

static int read_integer(struct reader *r, uint64_t most, uint64_t *out)
{
    struct jnumber n;
    const char *from = r->j.p;
    if (jnumber_read(&r->j, &n) < 0)
        return -1;
    if (n.kind == JNUMBER_U64 && n.u <= most) {
        *out = n.u;
        return 0;
    }
    r->j.p = from;
    return fail(r, n.kind == JNUMBER_U64 ? "an integer too large for its member" : "an integer expected");
}

static int read_word(struct reader *r, unsigned char *out)
{
    static const char *const words[] = {"false", "true"};
    json_peek(&r->j);
    for (unsigned char i = 0; i < 2; i++) {
        size_t n = strlen(words[i]);
        if ((size_t)(r->j.end - r->j.p) >= n && memcmp(r->j.p, words[i], n) == 0) {
            r->j.p += n;
            *out = i;
            return 0;
        }
    }
    return fail(r, "true or false expected");
}

/* Any JSON, kept as the text it will be written as. */
static int read_json(struct reader *r, bool map, fs_text *out)
{
    struct buf text = {0};
    if (map && json_peek(&r->j) != '{')
        return fail(r, "an object expected");
    struct jvalue *v = jtree_read(&r->j, &r->keys, r->depth);
    if (!v && r->j.why && strcmp(r->j.why, "out of memory") == 0)
        return no_memory(r);
    if (!v)
        return -1;
    if (map && v->n == 0)
        return 0;
    int err = jtree_write(&text, v, 0);
    char *s = err == 0 ? arena_text(r->a, text.p, text.len) : NULL;
    *out = (fs_text){s, text.len};
    buf_free(&text);
    return s ? 0 : no_memory(r);
}

/* The items of an array, gathered before they are counted. */
struct items {
    unsigned char *p;
    size_t n, room;
};

static void *next_item(struct items *x, size_t size)
{
    if (x->n == x->room) {
        size_t room = x->room ? x->room * 2 : 8;
        unsigned char *p = room <= SIZE_MAX / size ? realloc(x->p, room * size) : NULL;
        if (!p)
            return NULL;
        x->p = p;
        x->room = room;
    }
    return memset(x->p + x->n++ * size, 0, size);
}

static int read_struct(struct reader *r, const struct thin_table *t, void *out);

static int read_item(struct reader *r, const struct thin_field *f, void *item)
{
    switch (f->type) {
    case THIN_TEXTS: return read_text(r, item);
    case THIN_BOOLS: return read_word(r, item);
    case THIN_SHAPE: return read_integer(r, UINT64_MAX, item);
    default: return read_struct(r, f->table, item);
    }
}

static size_t item_size(const struct thin_field *f)
{
    return f->type == THIN_TEXTS   ? sizeof(fs_text)
           : f->type == THIN_BOOLS ? 1
           : f->type == THIN_SHAPE ? sizeof(uint64_t)
                                   : f->table->size;
}

/* What an array is kept as: all of them are a pointer and a number. */
struct array {
    void *v;
    size_t n;
};

static int keep_items(struct reader *r, const struct thin_field *f, struct items *x, void *at)
{
    struct array a = {.n = x->n};
    size_t bytes = x->n * item_size(f);
    if (f->type == THIN_STRUCTS) {
        a.v = x->p;
        x->p = NULL;
    } else if (x->n) {
        a.v = arena_alloc(r->a, bytes, 1);
        if (!a.v)
            return no_memory(r);
        memcpy(a.v, x->p, bytes);
    }
    memcpy(at, &a, sizeof a);
    return 0;
}

static int read_array(struct reader *r, const struct thin_field *f, void *at)
{
    struct items x = {0};
    int err = 0;
    if (json_peek(&r->j) != '[')
        return fail(r, "an array expected");
    r->j.p++;
    r->depth++;
    bool more = !json_taken(&r->j, ']');
    while (more && err == 0) {
        void *item = next_item(&x, item_size(f));
        err = item ? read_item(r, f, item) : no_memory(r);
        more = err == 0 && json_taken(&r->j, ',');
        if (err == 0 && !more)
            err = json_take(&r->j, ']');
    }
    r->depth--;
    if (err == 0)
        err = keep_items(r, f, &x, at);
    free(x.p);
    return err;
}

static int read_optional(struct reader *r, const struct thin_field *f, void *at)
{
    fs_opt_u64 *u = at;
    fs_opt_f64 *d = at;
    fs_opt_bool *b = at;
    struct jnumber n;
    uint64_t most = f->type == THIN_OPT_U8 ? UINT8_MAX : f->type == THIN_OPT_U32 ? UINT32_MAX : UINT64_MAX;
    if (f->type == THIN_OPT_BOOL) {
        b->present = 1;
        return read_word(r, &b->value);
    }
    if (f->type == THIN_OPT_F64) {
        if (jnumber_read(&r->j, &n) < 0)
            return -1;
        *d = (fs_opt_f64){jnumber_double(&n), 1};
        return 0;
    }
    u->present = 1;
    return read_integer(r, most, &u->value);
}

static int read_value(struct reader *r, const struct thin_field *f, void *at)
{
    switch ((enum thin_type)f->type) {
    case THIN_TEXT: return read_text(r, at);
    case THIN_U64: return read_integer(r, UINT64_MAX, at);
    case THIN_U32: return read_integer(r, UINT32_MAX, at);
    case THIN_BOOL: return read_word(r, at);
    case THIN_OPT_U64:
    case THIN_OPT_U32:
    case THIN_OPT_U8:
    case THIN_OPT_F64:
    case THIN_OPT_BOOL: return read_optional(r, f, at);
    case THIN_JSON: return read_json(r, false, at);
    case THIN_MAP: return read_json(r, true, at);
    case THIN_TEXTS:
    case THIN_BOOLS:
    case THIN_SHAPE:
    case THIN_STRUCTS: return read_array(r, f, at);
    case THIN_STRUCT: return read_struct(r, f->table, at);
    }
    return -1;
}

static int read_member(struct reader *r, const struct thin_table *t, unsigned char *seen, void *out)
{
    struct json_text key;
    int err = json_string(&r->j, &r->keys, &key);
    if (err < 0)
        return err == -2 ? no_memory(r) : -1;
    if (json_take(&r->j, ':') < 0)
        return -1;
    for (size_t i = 0; i < t->n; i++) {
        const struct thin_field *f = &t->field[i];
        if (strlen(f->key) != key.len || memcmp(f->key, key.s, key.len) != 0)
            continue;
        if (seen[i])
            return fail(r, "a member for the second time");
        seen[i] = 1;
        if (f->presence == THIN_OPTIONAL && json_peek(&r->j) == 'n')
            return json_null(&r->j);
        return read_value(r, f, (char *)out + f->at);
    }
    return jtree_ignore(&r->j);
}

enum { MOST_FIELDS = 80 };

static int read_struct(struct reader *r, const struct thin_table *t, void *out)
{
    unsigned char seen[MOST_FIELDS] = {0};
    int err = 0;
    if (json_peek(&r->j) != '{')
        return fail(r, "an object expected");
    r->j.p++;
    r->depth++;
    bool more = !json_taken(&r->j, '}');
    while (more && err == 0) {
        err = read_member(r, t, seen, out);
        more = err == 0 && json_taken(&r->j, ',');
        if (err == 0 && !more)
            err = json_take(&r->j, '}');
    }
    r->depth--;
    arena_reset(&r->keys);
    for (size_t i = 0; i < t->n && err == 0; i++)
        if (!seen[i] && t->field[i].presence == THIN_REQUIRED)
            err = fail(r, "a required member is missing before this");
    return err;
}

int thin_manifest_read(struct thin_manifest *m, const char *text, size_t len, const char **why, size_t *at)
{
    struct reader r = {.j = {.start = text, .p = text, .end = text + len}, .a = &m->arena};
    int err = read_struct(&r, &thin_manifest_table, m);
    if (err == 0)
        err = json_end(&r.j);
    arena_free(&r.keys);
    *why = r.j.why;
    *at = json_at(&r.j);
    return err == 0 ? 0 : r.no_memory ? -ENOMEM : -EBADMSG;
}

void thin_manifest_free(struct thin_manifest *m)
{
    free(m->stages);
    free(m->pages);
    arena_free(&m->arena);
    *m = (struct thin_manifest){0};
}
