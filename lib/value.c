/* SPDX-License-Identifier: MIT */
#include "value.h"

#include <errno.h>
#include <string.h>

#include "index.h"

enum { FEW = 8 }; /* pairs that are searched one by one */

void *values_alloc(struct values *v, size_t size)
{
    if (size > v->most - v->used)
        return NULL;
    v->used += size;
    return arena_alloc(&v->arena, size, true);
}

struct value *value_new(struct values *v, enum value_kind kind)
{
    struct value *x = values_alloc(v, sizeof *x);
    if (x) {
        memset(x, 0, sizeof *x);
        x->kind = (uint8_t)kind;
    }
    return x;
}

struct value *value_int(struct values *v, int64_t i)
{
    struct value *x = value_new(v, VALUE_INT);
    if (x)
        x->i = i;
    return x;
}

struct value *value_text(struct values *v, const char *s, size_t len)
{
    struct value *x = value_new(v, VALUE_TEXT);
    if (x) {
        x->text = s;
        x->n = (uint32_t)len;
    }
    return x;
}

struct value *value_tuple(struct values *v, struct value *const *item, uint32_t n)
{
    struct value *x = value_new(v, VALUE_TUPLE);
    if (!x || n == 0)
        return x;
    x->item = values_alloc(v, n * sizeof *x->item);
    if (!x->item)
        return NULL;
    memcpy(x->item, item, n * sizeof *item);
    x->n = n;
    return x;
}

/* An array in an arena grows whenever its length is a power of two (from 4 on): no room is kept. */
static int grow(struct values *v, struct value *list)
{
    size_t room = list->n < 4 ? 4 : (size_t)list->n * 2;
    if (list->n && (list->n < 4 || (list->n & (list->n - 1)) != 0))
        return 0;
    if (list->n >= UINT32_MAX / 2)
        return -E2BIG;
    struct value **item = values_alloc(v, room * sizeof(struct value *));
    if (!item)
        return -ENOMEM;
    if (list->n)
        memcpy(item, list->item, list->n * sizeof(struct value *));
    list->item = item;
    return 0;
}

int value_append(struct values *v, struct value *list, struct value *item)
{
    int err = grow(v, list);
    if (err == 0)
        list->item[list->n++] = item;
    return err;
}

bool value_is_text(const struct value *v, const char *text)
{
    return v->kind == VALUE_TEXT && v->n == strlen(text) && memcmp(v->text, text, v->n) == 0;
}

/* 1, 1.0 and True are one key. */
static bool as_int(const struct value *x, int64_t *i)
{
    if (x->kind == VALUE_INT || x->kind == VALUE_BOOL) {
        *i = x->kind == VALUE_INT ? x->i : x->truth;
        return true;
    }
    if (x->kind != VALUE_FLOAT || !(x->f >= -9.2e18 && x->f <= 9.2e18) || (double)(int64_t)x->f != x->f)
        return false;
    *i = (int64_t)x->f;
    return true;
}

static uint64_t hash_number(uint64_t h, uint64_t x)
{
    return hash_bytes(h, (const char *)&x, sizeof x);
}

/* Hashing costs: a long text, or a tuple of tuples, may be named as a key again and again. -E2BIG. */
static int spend(struct values *v, uint64_t cost)
{
    if (cost > v->hash_left)
        return -E2BIG;
    v->hash_left -= cost;
    return 0;
}

/* -EINVAL: cannot be a key. */
static int hash_key(struct values *v, const struct value *x, unsigned depth, uint64_t *h)
{
    int64_t i;
    int err = spend(v, 16 + (x->kind == VALUE_TEXT || x->kind == VALUE_BIG ? x->n
                             : x->kind == VALUE_BYTES && x->bytes->p       ? x->bytes->len
                                                                           : 0));
    if (err < 0)
        return err;
    if (as_int(x, &i)) {
        *h = hash_number(*h, (uint64_t)i);
        return 0;
    }
    *h = hash_step(*h, x->kind);
    switch (x->kind) {
    case VALUE_NONE: return 0;
    case VALUE_FLOAT: memcpy(&i, &x->f, sizeof i); break;
    case VALUE_TEXT:
    case VALUE_BIG:
    case VALUE_WORD: *h = hash_bytes(*h, x->text, x->n); return 0;
    case VALUE_BYTES:
        if (!x->bytes->p || (x->flags & VALUE_MUTABLE_BYTES))
            return -EINVAL;
        *h = hash_bytes(*h, (const char *)x->bytes->p, (size_t)x->bytes->len);
        return 0;
    case VALUE_GLOBAL: *h = hash_bytes(*h, x->global->full, strlen(x->global->full)); return 0;
    case VALUE_TUPLE:
        if (depth == VALUE_KEY_DEPTH)
            return -EINVAL;
        for (uint32_t k = 0; k < x->n && err == 0; k++)
            err = hash_key(v, x->item[k], depth + 1, h);
        return err;
    case VALUE_LIST:
    case VALUE_DICT: return -EINVAL;
    case VALUE_SET:
        if (!(x->flags & VALUE_FROZEN))
            return -EINVAL;
        i = (int64_t)(intptr_t)x;
        break;
    case VALUE_COMPLEX: *h = hash_bytes(*h, (const char *)x->pair, 2 * sizeof *x->pair); return 0;
    default: i = (int64_t)(intptr_t)x; break;
    }
    *h = hash_number(*h, (uint64_t)i);
    return 0;
}

/* Of keys that could be hashed. */
static bool equal(const struct value *a, const struct value *b)
{
    int64_t i, j;
    if (a == b)
        return true;
    if (as_int(a, &i) && as_int(b, &j))
        return i == j;
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case VALUE_NONE: return true;
    case VALUE_FLOAT: return memcmp(&a->f, &b->f, sizeof a->f) == 0;
    case VALUE_TEXT:
    case VALUE_BIG:
    case VALUE_WORD: return a->n == b->n && memcmp(a->text, b->text, a->n) == 0;
    case VALUE_BYTES:
        return a->bytes->len == b->bytes->len && memcmp(a->bytes->p, b->bytes->p, (size_t)a->bytes->len) == 0;
    case VALUE_GLOBAL: return strcmp(a->global->full, b->global->full) == 0;
    case VALUE_COMPLEX: return memcmp(a->pair, b->pair, 2 * sizeof *a->pair) == 0;
    case VALUE_TUPLE:
        if (a->n != b->n)
            return false;
        for (uint32_t k = 0; k < a->n; k++)
            if (!equal(a->item[k], b->item[k]))
                return false;
        return true;
    default: return false;
    }
}

static struct value_pair *find(const struct value_dict *d, const struct value *key, uint64_t hash)
{
    if (!d->slot) {
        for (uint32_t k = 0; k < d->n; k++)
            if (equal(d->pair[k].key, key))
                return &d->pair[k];
        return NULL;
    }
    for (uint32_t k = (uint32_t)hash & d->mask; d->slot[k]; k = (k + 1) & d->mask)
        if (equal(d->pair[d->slot[k] - 1].key, key))
            return &d->pair[d->slot[k] - 1];
    return NULL;
}

static void place(struct value_dict *d, uint64_t hash, uint32_t number)
{
    uint32_t k = (uint32_t)hash & d->mask;
    while (d->slot[k])
        k = (k + 1) & d->mask;
    d->slot[k] = number + 1;
}

/* Room for one more pair; twice as many slots as pairs. */
static int make_room(struct values *v, struct value_dict *d)
{
    uint32_t room = d->room ? d->room * 2 : 4;
    if (d->n < d->room)
        return 0;
    if (d->room >= UINT32_MAX / 8)
        return -E2BIG;
    struct value_pair *pair = values_alloc(v, room * sizeof *pair);
    if (!pair)
        return -ENOMEM;
    if (d->n)
        memcpy(pair, d->pair, d->n * sizeof *pair);
    d->pair = pair;
    d->room = room;
    if (room <= FEW)
        return 0;
    uint32_t *slot = values_alloc(v, (size_t)room * 2 * sizeof *slot);
    if (!slot)
        return -ENOMEM;
    memset(slot, 0, (size_t)room * 2 * sizeof *slot);
    d->slot = slot;
    d->mask = room * 2 - 1;
    for (uint32_t k = 0; k < d->n; k++) {
        uint64_t hash = 0;
        int err = hash_key(v, d->pair[k].key, 0, &hash);
        if (err < 0)
            return err;
        place(d, hash, k);
    }
    return 0;
}

int value_set(struct values *v, struct value *dict, struct value *key, struct value *item)
{
    uint64_t hash = 0;
    int err = hash_key(v, key, 0, &hash);
    if (err < 0)
        return err;
    if (!dict->dict) {
        dict->dict = values_alloc(v, sizeof *dict->dict);
        if (!dict->dict)
            return -ENOMEM;
        *dict->dict = (struct value_dict){0};
    }
    struct value_dict *d = dict->dict;
    struct value_pair *have = find(d, key, hash);
    if (have) {
        have->value = item;
        return 0;
    }
    err = make_room(v, d);
    if (err < 0)
        return err;
    d->pair[d->n] = (struct value_pair){key, item};
    if (d->slot)
        place(d, hash, d->n);
    d->n++;
    return 0;
}

struct value *value_get(struct values *v, const struct value *dict, const struct value *key)
{
    uint64_t hash = 0;
    if (!dict->dict || hash_key(v, key, 0, &hash) < 0)
        return NULL;
    const struct value_pair *p = find(dict->dict, key, hash);
    return p ? p->value : NULL;
}

struct value *value_get_text(const struct value *dict, const char *key)
{
    const struct value k = {.kind = VALUE_TEXT, .n = (uint32_t)strlen(key), .text = key};
    struct values v = {.hash_left = 16 + k.n};
    return dict->kind == VALUE_DICT ? value_get(&v, dict, &k) : NULL;
}

/* Sets are only ever printed: a set is a list whose items could be keys. */
int value_set_add(struct values *v, struct value *set, struct value *item)
{
    uint64_t hash = 0;
    int err = hash_key(v, item, 0, &hash);
    return err < 0 ? err : value_append(v, set, item);
}
