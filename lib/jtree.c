/* SPDX-License-Identifier: MIT */
#include "jtree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* While reading: a value that may still lack its following one. */
struct link {
    struct jvalue value;
    struct link *next;
};

/* A container that is not closed yet. */
struct open {
    struct link *at, *first, **last;
};

struct reader {
    struct json *j;
    struct arena *a;
    struct open open[JSON_DEPTH + 1];
    unsigned n;
};

static int out_of_memory(struct json *j)
{
    j->why = "out of memory";
    return -1;
}

static int word(struct json *j, const char *text)
{
    size_t n = strlen(text);
    if ((size_t)(j->end - j->p) < n || memcmp(j->p, text, n) != 0) {
        j->why = "no JSON value";
        return -1;
    }
    j->p += n;
    return 0;
}

static int read_scalar(struct reader *r, char c, struct jvalue *v)
{
    switch (c) {
    case '"': v->type = J_TEXT; return json_string(r->j, r->a, &v->text) < 0 ? -1 : 0;
    case 't': v->type = J_TRUE; return word(r->j, "true");
    case 'f': v->type = J_FALSE; return word(r->j, "false");
    case 'n': v->type = J_NULL; return word(r->j, "null");
    default:
        v->type = J_NUMBER;
        if (c == '-' || (c >= '0' && c <= '9'))
            return jnumber_read(r->j, &v->number);
        r->j->why = r->j->p == r->j->end ? "the text ends too early" : "no JSON value";
        return -1;
    }
}

static int by_key(const void *a, const void *b)
{
    const struct jvalue *x = *(struct jvalue *const *)a, *y = *(struct jvalue *const *)b;
    size_t n = x->key.len < y->key.len ? x->key.len : y->key.len;
    int c = n ? memcmp(x->key.s, y->key.s, n) : 0;
    if (c == 0)
        c = (x->key.len > y->key.len) - (x->key.len < y->key.len);
    return c ? c : (x->place > y->place) - (x->place < y->place);
}

/* Sorts the members; of those with one key the last stays. */
static void settle_members(struct jvalue *object)
{
    struct jvalue **v = object->item;
    uint32_t kept = 0;
    qsort(v, object->n, sizeof(struct jvalue *), by_key);
    for (uint32_t i = 0; i < object->n; i++) {
        bool same = kept && v[kept - 1]->key.len == v[i]->key.len &&
                    memcmp(v[kept - 1]->key.s, v[i]->key.s, v[i]->key.len) == 0;
        v[same ? kept - 1 : kept++] = v[i];
    }
    object->n = kept;
}

/* The container is complete: from a list to an array. */
static int close_container(struct reader *r)
{
    struct open *o = &r->open[--r->n];
    struct jvalue *v = &o->at->value;
    if (v->n == 0)
        return 0;
    v->item = arena_alloc(r->a, v->n * sizeof(struct jvalue *), 1);
    if (!v->item)
        return out_of_memory(r->j);
    uint32_t i = 0;
    for (struct link *l = o->first; l; l = l->next, i++)
        v->item[i] = &l->value;
    if (v->type == J_OBJECT)
        settle_members(v);
    return 0;
}

/* A new value in the innermost open container, its key taken first where that is an object. */
static struct link *new_value(struct reader *r)
{
    struct open *o = r->n ? &r->open[r->n - 1] : NULL;
    struct link *l = arena_alloc(r->a, sizeof *l, 1);
    if (!l) {
        out_of_memory(r->j);
        return NULL;
    }
    *l = (struct link){.next = NULL};
    if (!o)
        return l;
    if (o->at->value.n == UINT32_MAX) {
        r->j->why = "more than 2^32 values in one array";
        return NULL;
    }
    if (o->at->value.type == J_OBJECT &&
        (json_string(r->j, r->a, &l->value.key) < 0 || json_take(r->j, ':') < 0))
        return NULL;
    l->value.place = o->at->value.n++;
    *o->last = l;
    o->last = &l->next;
    return l;
}

static int open_container(struct reader *r, struct link *l, char c, unsigned most)
{
    if (r->n == most) {
        r->j->why = "more than 127 arrays and objects inside each other";
        return -1;
    }
    l->value.type = c == '{' ? J_OBJECT : J_ARRAY;
    r->j->p++;
    struct open *o = &r->open[r->n++];
    *o = (struct open){.at = l};
    o->last = &o->first;
    return 0;
}

/* Behind a value: closes what ends here. *more: another value follows. */
static int after_value(struct reader *r, bool *more)
{
    while (r->n) {
        char end = r->open[r->n - 1].at->value.type == J_OBJECT ? '}' : ']';
        *more = json_taken(r->j, ',');
        if (*more)
            return 0;
        if (json_take(r->j, end) < 0 || close_container(r) < 0)
            return -1;
    }
    *more = false;
    return 0;
}

struct jvalue *jtree_read(struct json *j, struct arena *a, unsigned depth)
{
    struct reader r = {.j = j, .a = a};
    struct jvalue *top = NULL;
    bool more = true;
    while (more) {
        struct link *l = new_value(&r);
        if (!l)
            return NULL;
        if (!top)
            top = &l->value;
        char c = json_peek(j);
        if (c == '{' || c == '[') {
            if (open_container(&r, l, c, JSON_DEPTH - depth) < 0)
                return NULL;
            if (json_peek(j) != (c == '{' ? '}' : ']'))
                continue;
            j->p++;
            if (close_container(&r) < 0)
                return NULL;
        } else if (read_scalar(&r, c, &l->value) < 0) {
            return NULL;
        }
        if (after_value(&r, &more) < 0)
            return NULL;
    }
    return top;
}

struct jvalue *jtree_document(struct json *j, struct arena *a)
{
    struct jvalue *v = jtree_read(j, a, 0);
    return v && json_end(j) == 0 ? v : NULL;
}

const struct jvalue *jtree_get(const struct jvalue *v, const char *key)
{
    size_t len = strlen(key);
    uint32_t low = 0, high = v && v->type == J_OBJECT ? v->n : 0;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        const struct json_text *k = &v->item[mid]->key;
        size_t n = k->len < len ? k->len : len;
        int c = n ? memcmp(k->s, key, n) : 0;
        if (c == 0 && k->len == len)
            return v->item[mid];
        if (c < 0 || (c == 0 && k->len < len))
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

void jtree_line(struct buf *out, unsigned level)
{
    buf_char(out, '\n');
    for (; level; level--)
        buf_str(out, "  ");
}

static void write_scalar(struct buf *out, const struct jvalue *v)
{
    switch (v->type) {
    case J_NULL: buf_str(out, "null"); break;
    case J_FALSE: buf_str(out, "false"); break;
    case J_TRUE: buf_str(out, "true"); break;
    case J_NUMBER: jnumber_write(out, &v->number); break;
    case J_TEXT: buf_json_string(out, v->text.s, v->text.len); break;
    case J_ARRAY: buf_str(out, "[]"); break; /* the empty ones */
    case J_OBJECT: buf_str(out, "{}"); break;
    }
}

int jtree_write(struct buf *out, const struct jvalue *v, unsigned level)
{
    struct {
        const struct jvalue *v;
        uint32_t at;
    } open[JSON_DEPTH + 1];
    unsigned n = 0;
    for (;;) {
        if ((v->type == J_ARRAY || v->type == J_OBJECT) && v->n) {
            buf_char(out, v->type == J_OBJECT ? '{' : '[');
            open[n].v = v;
            open[n++].at = 0;
        } else {
            write_scalar(out, v);
        }
        while (n && open[n - 1].at == open[n - 1].v->n) {
            n--;
            jtree_line(out, level + n);
            buf_char(out, open[n].v->type == J_OBJECT ? '}' : ']');
        }
        if (n == 0)
            return out->failed ? -ENOMEM : 0;
        if (open[n - 1].at)
            buf_char(out, ',');
        jtree_line(out, level + n);
        v = open[n - 1].v->item[open[n - 1].at++];
        if (open[n - 1].v->type == J_OBJECT) {
            buf_json_string(out, v->key.s, v->key.len);
            buf_str(out, ": ");
        }
    }
}
