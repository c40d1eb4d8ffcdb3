/* SPDX-License-Identifier: MIT
 * Persistent ids: how a pickle refers to what lies outside of it - storages, and in old files the source text
 * of classes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "checked.h"
#include "torch.h"

enum { KEY_MAX = 64, LOCATION_MAX = 4096 };

const char *torch_text(const struct value *v, size_t *len)
{
    if (v->kind == VALUE_TEXT) {
        *len = v->n;
        return v->text;
    }
    if (v->kind != VALUE_BYTES || !v->bytes->p)
        return NULL;
    *len = (size_t)v->bytes->len;
    return (const char *)v->bytes->p;
}

static bool same_key(const void *ctx, uint32_t number, const void *key, size_t len)
{
    const struct storage *s = ((struct storage *const *)ctx)[number];
    return s->key_len == len && memcmp(s->key, key, len) == 0;
}

struct storage *torch_find_storage(struct torch *t, const char *key, size_t len)
{
    uint32_t i = index_find(&t->by_key, hash_bytes(0, key, len), same_key, t->storage, key, len);
    return i == INDEX_NONE ? NULL : t->storage[i];
}

static int new_storage(struct torch *t, const char *key, size_t len, struct storage **out)
{
    struct storage *s = values_alloc(&t->values, sizeof *s);
    char *copy = values_alloc(&t->values, len + 1);
    if (!s || !copy)
        return torch_no_memory(t);
    memcpy(copy, key, len);
    copy[len] = 0;
    if (t->n_storages == t->room_storages) {
        size_t room = t->room_storages ? t->room_storages * 2 : 16;
        struct storage **more =
            room < UINT32_MAX ? realloc(t->storage, room * sizeof(struct storage *)) : NULL;
        if (!more)
            return torch_no_memory(t);
        t->storage = more;
        t->room_storages = room;
    }
    *s = (struct storage){.key = copy, .key_len = (uint32_t)len};
    t->storage[t->n_storages] = s;
    if (index_add(&t->by_key, hash_bytes(0, key, len), (uint32_t)t->n_storages) < 0)
        return torch_no_memory(t);
    t->n_storages++;
    *out = s;
    return 0;
}

static bool is_byte(const struct storage_class *c)
{
    return c->untyped || c->dtype == TM_U8;
}

int torch_add_storage(struct torch *t, const char *key, size_t len, const struct storage_class *cls,
                      uint64_t numel, struct storage **out)
{
    uint64_t nbytes;
    if (mul_overflows(numel, cls->item, &nbytes) || nbytes > INT64_MAX)
        return torch_refuse(t, "a storage of more bytes than 63 bits can count");
    struct storage *s = torch_find_storage(t, key, len);
    if (!s) {
        int err = new_storage(t, key, len, &s);
        if (err < 0)
            return err;
        s->cls = cls;
        s->numel = numel;
        s->nbytes = nbytes;
    } else if (s->numel != numel || (s->cls != cls && numel && !(is_byte(s->cls) && is_byte(cls)))) {
        /* The same bytes come as untyped and as bytes, an empty storage under any type; nothing else. */
        return torch_refuse(t, "storage %s is described in two ways", s->key);
    }
    *out = s;
    return 0;
}

struct value *torch_storage_value(struct torch *t, struct storage *s, const struct storage_class *cls,
                                  uint64_t first, uint64_t nbytes)
{
    struct value *v = value_new(&t->values, VALUE_STORAGE);
    struct storage_part *p = values_alloc(&t->values, sizeof *p);
    if (!v || !p)
        return NULL;
    *p = (struct storage_part){s, cls, first, nbytes};
    v->any = p;
    return v;
}

static bool is_key(const char *s, size_t len)
{
    if (len == 0 || len > KEY_MAX || (s[0] == '.' && (len == 1 || (len == 2 && s[1] == '.'))))
        return false;
    for (size_t i = 0; i < len; i++)
        if (!((s[i] >= '0' && s[i] <= '9') || ((s[i] | 32) >= 'a' && (s[i] | 32) <= 'z') || s[i] == '_' ||
              s[i] == '.' || s[i] == '-'))
            return false;
    return true;
}

/* What a legacy view adds: a key of its own and a range of the root, which always is the same. */
static int take_view(struct torch *t, struct storage *root, const struct storage_class *cls,
                     const struct value *view, struct value **out)
{
    size_t len;
    const char *key = view->kind == VALUE_TUPLE && view->n == 3 ? torch_text(view->item[0], &len) : NULL;
    if (!key || !is_key(key, len) || view->item[1]->kind != VALUE_INT || view->item[2]->kind != VALUE_INT)
        return torch_refuse(t, "a view of a storage that is none");
    int64_t first = view->item[1]->i, n = view->item[2]->i;
    if (first < 0 || n < 0 || !range_fits((uint64_t)first, (uint64_t)n, root->numel))
        return torch_refuse(t, "a view that reaches past its storage");
    char name[KEY_MAX + 2];
    struct storage *seen;
    name[0] = '/'; /* no storage's key has one: views are kept apart from roots */
    memcpy(name + 1, key, len);
    seen = torch_find_storage(t, name, len + 1);
    if (!seen) {
        int err = new_storage(t, name, len + 1, &seen);
        if (err < 0)
            return err;
        seen->cls = cls;
        seen->numel = (uint64_t)n;
        seen->at = (uint64_t)first;
        seen->packed = NULL;
        seen->placed = true;
    } else if (seen->numel != (uint64_t)n || seen->at != (uint64_t)first || seen->cls != cls) {
        return torch_refuse(t, "one view of a storage is described in two ways");
    }
    *out = torch_storage_value(t, root, cls, (uint64_t)first * cls->item, (uint64_t)n * cls->item);
    return *out ? 0 : torch_no_memory(t);
}

/* ("storage", class, key, location, numel[, view]) */
static int take_storage(struct torch *t, const struct value *id, struct value **out)
{
    size_t key_len = 0, where_len = 0;
    const struct meaning *m = torch_meaning(id->item[1]);
    const char *key = torch_text(id->item[2], &key_len), *where = torch_text(id->item[3], &where_len);
    struct storage *s;
    if (id->n != (t->form == TORCH_ZIP ? 5 : 6))
        return torch_refuse(t, "a persistent id of %u items", id->n);
    if (!m || m->kind != MEANS_STORAGE)
        return torch_refuse(t, "a storage of a class that is none");
    if (!key || !is_key(key, key_len))
        return torch_refuse(t, "a storage with a key that is none");
    if (!where || where_len > LOCATION_MAX)
        return torch_refuse(t, "a storage with a location that is none");
    if (id->item[4]->kind != VALUE_INT || id->item[4]->i < 0)
        return torch_refuse(t, "a storage with an element count that is none");
    int err = torch_add_storage(t, key, key_len, m->cls, (uint64_t)id->item[4]->i, &s);
    if (err < 0)
        return err;
    if (t->form == TORCH_LEGACY && id->item[5]->kind != VALUE_NONE)
        return take_view(t, s, m->cls, id->item[5], out);
    *out = torch_storage_value(t, s, m->cls, 0, s->nbytes);
    return *out ? 0 : torch_no_memory(t);
}

int torch_persistent(struct pickle *p, struct value *id, struct value **out)
{
    struct torch *t = p->ctx;
    size_t len;
    const char *text = torch_text(id, &len);
    if (t->form == TORCH_TAR && text) {
        *out = t->by_id(t, text, len);
        return *out ? 0 : torch_refuse(t, "a persistent id that nothing belongs to");
    }
    if (id->kind != VALUE_TUPLE || id->n < 3)
        return torch_refuse(t, "a persistent id that is none");
    if (t->form == TORCH_TAR && id->n == 3 && id->item[0]->kind == VALUE_GLOBAL) {
        *out = id->item[0]; /* the class; its source text means nothing here */
        return 0;
    }
    text = torch_text(id->item[0], &len);
    if (t->form == TORCH_LEGACY && text && len == 6 && memcmp(text, "module", 6) == 0) {
        if (id->n != 4 || id->item[1]->kind != VALUE_GLOBAL)
            return torch_refuse(t, "a module's persistent id that is none");
        *out = id->item[1];
        return 0;
    }
    if (t->form == TORCH_TAR || !text || len != 7 || memcmp(text, "storage", 7) != 0 || id->n < 5)
        return torch_refuse(t, "a persistent id that is none");
    return take_storage(t, id, out);
}
