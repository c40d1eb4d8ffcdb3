/* SPDX-License-Identifier: MIT
 * Opcodes for containers, names and objects. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "pickle_i.h"
#include "utf8.h"

static int push_tuple(struct pickle *p, struct value **item, uint32_t n)
{
    return pickle_push(p, n ? value_tuple(p->values, item, n) : p->empty_tuple);
}

static int small_tuple(struct pickle *p, uint32_t n)
{
    int err = pickle_need(p, n);
    if (err < 0)
        return err;
    p->n_stack -= n;
    return push_tuple(p, p->stack + p->n_stack, n);
}

int pickle_op_tuple1(struct pickle *p)
{
    return small_tuple(p, 1);
}

int pickle_op_tuple2(struct pickle *p)
{
    return small_tuple(p, 2);
}

int pickle_op_tuple3(struct pickle *p)
{
    return small_tuple(p, 3);
}

int pickle_op_tuple(struct pickle *p)
{
    struct value **item;
    uint32_t n;
    int err = pickle_unmark(p, &item, &n);
    return err < 0 ? err : push_tuple(p, item, n);
}

/* The list that items are added to: a list, or those of an object of a class that is one. */
static int list_of(struct pickle *p, struct value *to, struct value **list)
{
    *list = to;
    if (to->kind == VALUE_LIST)
        return 0;
    if (to->kind != VALUE_OBJECT)
        return pickle_refuse(p, "items are added to something that is no list");
    if (!to->object->items)
        to->object->items = value_new(p->values, VALUE_LIST);
    *list = to->object->items;
    return *list ? 0 : pickle_failed(p, -ENOMEM);
}

static int append(struct pickle *p, struct value *to, struct value **item, uint32_t n)
{
    struct value *list;
    int err = list_of(p, to, &list);
    for (uint32_t i = 0; i < n && err == 0; i++)
        err = pickle_failed(p, value_append(p->values, list, item[i]));
    return err;
}

int pickle_op_append(struct pickle *p)
{
    int err = pickle_need(p, 2);
    if (err < 0)
        return err;
    p->n_stack--;
    return append(p, pickle_top(p), p->stack + p->n_stack, 1);
}

/* What lies above the mark is for what lies directly below it. */
static int marked(struct pickle *p, struct value ***item, uint32_t *n)
{
    int err = pickle_unmark(p, item, n);
    return err < 0 ? err : pickle_need(p, 1);
}

int pickle_op_appends(struct pickle *p)
{
    struct value **item;
    uint32_t n;
    int err = marked(p, &item, &n);
    return err < 0 ? err : append(p, pickle_top(p), item, n);
}

int pickle_op_list(struct pickle *p)
{
    struct value **item, *list;
    uint32_t n;
    int err = pickle_unmark(p, &item, &n);
    if (err < 0)
        return err;
    list = value_new(p->values, VALUE_LIST);
    if (!list)
        return pickle_failed(p, -ENOMEM);
    err = append(p, list, item, n);
    return err < 0 ? err : pickle_push(p, list);
}

static int set_items(struct pickle *p, struct value *to, struct value **item, uint32_t n)
{
    int err = 0;
    if (to->kind == VALUE_OBJECT) {
        if (!to->object->dict)
            to->object->dict = value_new(p->values, VALUE_DICT);
        to = to->object->dict;
        if (!to)
            return pickle_failed(p, -ENOMEM);
    }
    if (to->kind != VALUE_DICT)
        return pickle_refuse(p, "keys are set in something that is no dict");
    if (n % 2)
        return pickle_refuse(p, "a key without a value");
    for (uint32_t i = 0; i < n && err == 0; i += 2)
        err = pickle_failed(p, value_set(p->values, to, item[i], item[i + 1]));
    return err;
}

int pickle_op_setitem(struct pickle *p)
{
    int err = pickle_need(p, 3);
    if (err < 0)
        return err;
    p->n_stack -= 2;
    return set_items(p, pickle_top(p), p->stack + p->n_stack, 2);
}

int pickle_op_setitems(struct pickle *p)
{
    struct value **item;
    uint32_t n;
    int err = marked(p, &item, &n);
    return err < 0 ? err : set_items(p, pickle_top(p), item, n);
}

int pickle_op_dict(struct pickle *p)
{
    struct value **item, *dict;
    uint32_t n;
    int err = pickle_unmark(p, &item, &n);
    if (err < 0)
        return err;
    dict = value_new(p->values, VALUE_DICT);
    if (!dict)
        return pickle_failed(p, -ENOMEM);
    err = set_items(p, dict, item, n);
    return err < 0 ? err : pickle_push(p, dict);
}

static int add_items(struct pickle *p, struct value *set, struct value **item, uint32_t n)
{
    int err = 0;
    if (set->kind != VALUE_SET || (set->flags & VALUE_FROZEN))
        return pickle_refuse(p, "items are added to something that is no set");
    for (uint32_t i = 0; i < n && err == 0; i++)
        err = pickle_failed(p, value_set_add(p->values, set, item[i]));
    return err;
}

int pickle_op_additems(struct pickle *p)
{
    struct value **item;
    uint32_t n;
    int err = marked(p, &item, &n);
    return err < 0 ? err : add_items(p, pickle_top(p), item, n);
}

int pickle_op_frozenset(struct pickle *p)
{
    struct value **item, *set;
    uint32_t n;
    int err = pickle_unmark(p, &item, &n);
    if (err < 0)
        return err;
    set = value_new(p->values, VALUE_SET);
    if (!set)
        return pickle_failed(p, -ENOMEM);
    err = add_items(p, set, item, n);
    set->flags |= VALUE_FROZEN;
    return err < 0 ? err : pickle_push(p, set);
}

struct name {
    const char *module, *name;
    size_t module_len, name_len;
};

static bool same_name(const void *ctx, uint32_t number, const void *key, size_t len)
{
    const struct global *g = ((struct global *const *)ctx)[number];
    const struct name *n = key;
    (void)len;
    return strlen(g->module) == n->module_len && memcmp(g->module, n->module, n->module_len) == 0 &&
           strlen(g->name) == n->name_len && memcmp(g->name, n->name, n->name_len) == 0;
}

/* What Python 2 and older libraries call otherwise today. */
static const char *present_module(const char *module, const char *name, const char **present_name)
{
    static const struct {
        const char *old, *now;
    } modules[] = {
        {"__builtin__", "builtins"},       {"copy_reg", "copyreg"},       {"cPickle", "pickle"},
        {"torch.tensor", "torch._tensor"}, {"pathlib._local", "pathlib"},
    };
    for (size_t i = 0; i < sizeof modules / sizeof modules[0]; i++)
        if (strcmp(module, modules[i].old) == 0)
            module = modules[i].now;
    *present_name = name;
    if (strcmp(module, "builtins") == 0)
        *present_name = strcmp(name, "unicode") == 0  ? "str"
                        : strcmp(name, "long") == 0   ? "int"
                        : strcmp(name, "xrange") == 0 ? "range"
                                                      : name;
    return module;
}

static int full_name(struct pickle *p, struct global *g)
{
    struct buf b = {0};
    const char *name, *module = present_module(g->module, g->name, &name);
    if (strncmp(module, "numpy.core.", 11) == 0) {
        buf_str(&b, "numpy._core.");
        module += 11;
    }
    buf_str(&b, module);
    buf_char(&b, '.');
    buf_str(&b, name);
    char *full = b.failed ? NULL : values_alloc(p->values, b.len + 1);
    if (full)
        memcpy(full, b.p, b.len + 1);
    g->full = full;
    buf_free(&b);
    return full ? 0 : -ENOMEM;
}

static int new_global(struct pickle *p, const struct name *n, struct global **out)
{
    struct global *g = values_alloc(p->values, sizeof *g);
    char *text = values_alloc(p->values, n->module_len + n->name_len + 2);
    if (!g || !text)
        return -ENOMEM;
    memcpy(text, n->module, n->module_len);
    text[n->module_len] = 0;
    memcpy(text + n->module_len + 1, n->name, n->name_len);
    text[n->module_len + 1 + n->name_len] = 0;
    *g = (struct global){.module = text, .name = text + n->module_len + 1};
    if (p->n_names == p->room_names) {
        size_t room = p->room_names ? p->room_names * 2 : 64;
        struct global **names = realloc(p->names, room * sizeof(struct global *));
        if (!names)
            return -ENOMEM;
        p->names = names;
        p->room_names = room;
    }
    *out = g;
    return full_name(p, g);
}

static bool is_name(const char *s, size_t len)
{
    if (len == 0 || len > PICKLE_NAME || utf8_span(s, len) != len)
        return false;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)s[i] < 0x20 || s[i] == 0x7F)
            return false;
    return true;
}

static int push_global(struct pickle *p, const struct name *n)
{
    struct global *g = NULL;
    int err = 0;
    if (!is_name(n->module, n->module_len) || !is_name(n->name, n->name_len))
        return pickle_refuse(p, "the name of a global is empty, too long or no plain text");
    uint64_t hash = hash_bytes(hash_step(hash_bytes(0, n->module, n->module_len), 0), n->name, n->name_len);
    uint32_t have = index_find(&p->name_index, hash, same_name, p->names, n, 0);
    if (have != INDEX_NONE) {
        g = p->names[have];
    } else {
        err = new_global(p, n, &g);
        if (err == 0)
            err = index_add(&p->name_index, hash, (uint32_t)p->n_names);
        if (err < 0)
            return pickle_failed(p, err);
        p->names[p->n_names++] = g;
        if (p->hooks && p->hooks->name)
            err = p->hooks->name(p, g);
    }
    struct value *v = value_new(p->values, VALUE_GLOBAL);
    if (v)
        v->global = g;
    return err < 0 ? err : pickle_push(p, v);
}

int pickle_op_global(struct pickle *p)
{
    char module[PICKLE_LINE], name[PICKLE_LINE];
    struct name n = {.module = module, .name = name};
    int err = pickle_line(p, module, &n.module_len);
    if (err == 0)
        err = pickle_line(p, name, &n.name_len);
    return err < 0 ? err : push_global(p, &n);
}

int pickle_op_stack_global(struct pickle *p)
{
    int err = pickle_need(p, 2);
    if (err < 0)
        return err;
    const struct value *module = p->stack[p->n_stack - 2], *name = p->stack[p->n_stack - 1];
    if (module->kind != VALUE_TEXT || name->kind != VALUE_TEXT)
        return pickle_refuse(p, "the name of a global is no text");
    p->n_stack -= 2;
    struct name n = {module->text, name->text, module->n, name->n};
    return push_global(p, &n);
}

static int push_object(struct pickle *p, const struct global *cls, struct value *args, struct value *keywords)
{
    struct value *v = value_new(p->values, VALUE_OBJECT);
    struct object *o = values_alloc(p->values, sizeof *o);
    if (!v || !o)
        return pickle_failed(p, -ENOMEM);
    *o = (struct object){.cls = cls, .args = args, .keywords = keywords};
    v->object = o;
    return pickle_push(p, v);
}

/* Only what was named can be called, never what came out of a call: exploits chain calls, checkpoints don't.
 */
static int call(struct pickle *p, const struct value *f, struct value *args, struct value *keywords)
{
    struct value *out = NULL;
    int err = 0;
    if (f->kind != VALUE_GLOBAL)
        return pickle_refuse(p, "something is called that is no name but was computed");
    if (args->kind != VALUE_TUPLE)
        return pickle_refuse(p, "arguments that are no tuple");
    if (p->hooks && p->hooks->call)
        err = p->hooks->call(p, f->global, args, keywords, &out);
    if (err < 0)
        return err;
    return out ? pickle_push(p, out) : push_object(p, f->global, args, keywords);
}

int pickle_op_reduce(struct pickle *p)
{
    int err = pickle_need(p, 2);
    if (err < 0)
        return err;
    p->n_stack -= 2;
    return call(p, p->stack[p->n_stack], p->stack[p->n_stack + 1], NULL);
}

int pickle_op_newobj(struct pickle *p)
{
    return pickle_op_reduce(p);
}

int pickle_op_newobj_ex(struct pickle *p)
{
    int err = pickle_need(p, 3);
    if (err < 0)
        return err;
    p->n_stack -= 3;
    struct value **v = p->stack + p->n_stack;
    if (v[2]->kind != VALUE_DICT)
        return pickle_refuse(p, "keywords that are no dict");
    return call(p, v[0], v[1], v[2]);
}

int pickle_op_build(struct pickle *p)
{
    bool done = false;
    int err = pickle_need(p, 2);
    if (err < 0)
        return err;
    struct value *state = p->stack[--p->n_stack], *obj = pickle_top(p);
    if (p->hooks && p->hooks->build)
        err = p->hooks->build(p, obj, state, &done);
    if (err < 0 || done)
        return err;
    if (obj->kind != VALUE_OBJECT)
        return pickle_refuse(p, "a state is given to something that has none");
    obj->object->state = state;
    return 0;
}

int pickle_op_binpersid(struct pickle *p)
{
    struct value *out = NULL;
    int err = pickle_need(p, 1);
    if (err < 0)
        return err;
    if (!p->hooks || !p->hooks->persistent)
        return pickle_refuse(p, "a persistent id where none can be");
    err = p->hooks->persistent(p, p->stack[--p->n_stack], &out);
    return err < 0 ? err : pickle_push(p, out);
}
