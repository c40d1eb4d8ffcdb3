/* SPDX-License-Identifier: MIT
 * The walk over the object of a checkpoint: every tensor gets a name from the keys on the way to it, all else
 * becomes a leaf. Depth-first, in the order of insertion, with a stack of its own. Containers are visited
 * once for every way that leads to them, so visits are counted, not objects. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "leaves.h"
#include "torch.h"

enum { DEPTH = 4096, NAME_MAX_BYTES = 65536, VISITS = 4000000, NAMES_MAX = 256 << 20 };

struct frame {
    struct value *v;
    size_t name_len; /* of v's own name */
    uint32_t stage, next;
    bool module;
};

struct walk {
    struct torch *t;
    struct frame *frame; /* DEPTH of them */
    size_t depth;
    struct buf name;
    uint64_t visits_left, names_left;
    uint32_t *again; /* how often the name of each tensor has come again */
    size_t room_again;
    unsigned how; /* the child at hand is not saved, is extra */
};

static int refuse(struct walk *w, const char *why)
{
    return report_fatal(w->t->r, -EBADMSG, NULL, 0, FS_NO_OFFSET, "%s", why);
}

static int no_memory(struct walk *w)
{
    return report_fatal(w->t->r, -ENOMEM, NULL, 0, FS_NO_OFFSET, "out of memory");
}

static int spend(struct walk *w, size_t bytes)
{
    if (bytes + 32 > w->names_left)
        return refuse(w, "its names and values are longer in all than a file of this size can need");
    w->names_left -= bytes + 32;
    return 0;
}

static bool is_dict(const struct value *v)
{
    return v && v->kind == VALUE_DICT;
}

/* The attributes of an object; NULL if its state is something else. */
static const struct value *attributes(const struct object *o)
{
    if (!o->state)
        return NULL;
    if (o->state->kind == VALUE_TUPLE && o->state->n == 2 && is_dict(o->state->item[0]) &&
        o->state->item[1]->kind == VALUE_NONE)
        return o->state->item[0];
    return is_dict(o->state) ? o->state : NULL;
}

static const char *const module_dicts[] = {"_parameters", "_buffers", "_modules"};

static bool is_module(const struct value *v)
{
    const struct value *state = v->kind == VALUE_OBJECT ? attributes(v->object) : NULL;
    for (int i = 0; state && i < 3; i++)
        if (!is_dict(value_get_text(state, module_dicts[i])))
            return false;
    return state != NULL;
}

/* Is it a buffer that state_dict leaves out? */
static bool not_saved(const struct value *module, const struct value *key)
{
    const struct value *set = value_get_text(attributes(module->object), "_non_persistent_buffers_set");
    for (uint32_t i = 0; set && set->kind == VALUE_SET && i < set->n && i < 4096; i++)
        if (set->item[i]->kind == VALUE_TEXT && key->kind == VALUE_TEXT && set->item[i]->n == key->n &&
            memcmp(set->item[i]->text, key->text, key->n) == 0)
            return true;
    return false;
}

/* Sets the name to that of a child of the top frame. */
static void begin_component(struct walk *w, const struct frame *f)
{
    w->name.len = f->name_len;
    if (w->depth > 1)
        buf_char(&w->name, '.');
}

static void name_key(struct walk *w, const struct frame *f, const struct value *key, const char *before)
{
    begin_component(w, f);
    buf_str(&w->name, before);
    value_component(&w->name, key);
}

static void name_number(struct walk *w, const struct frame *f, uint32_t i)
{
    begin_component(w, f);
    buf_printf(&w->name, "%u", i);
}

static void name_word(struct walk *w, const struct frame *f, const char *word)
{
    begin_component(w, f);
    buf_str(&w->name, word);
}

/* The next pair of a dict; NULL and a new stage if there is none. */
static struct value *next_pair(struct walk *w, struct frame *f, const struct value *dict, const char *before)
{
    if (is_dict(dict) && f->next < dict_len(dict)) {
        const struct value_pair *p = &dict->dict->pair[f->next++];
        name_key(w, f, p->key, before);
        return p->value;
    }
    f->next = 0;
    f->stage++;
    return NULL;
}

static struct value *next_item(struct walk *w, struct frame *f, const struct value *list)
{
    if (list && f->next < list->n) {
        name_number(w, f, f->next);
        return list->item[f->next++];
    }
    f->next = 0;
    f->stage++;
    return NULL;
}

/* Children of a module directly, as state_dict has them, then its other attributes. */
static struct value *next_of_module(struct walk *w, struct frame *f)
{
    const struct value *state = attributes(f->v->object), *key;
    while (f->stage < 4) {
        const struct value *dict = f->stage < 3 ? value_get_text(state, module_dicts[f->stage]) : state;
        unsigned stage = f->stage;
        struct value *child = next_pair(w, f, dict, "");
        if (!child)
            continue;
        key = dict->dict->pair[f->next - 1].key;
        if (stage < 3 && child->kind == VALUE_NONE)
            continue;
        if (stage == 3 && key->kind == VALUE_TEXT && key->n && key->text[0] == '_')
            continue;
        w->how = stage == 1 && not_saved(f->v, key) ? LEAF_NOT_SAVED : stage == 3 ? LEAF_EXTRA : 0;
        return child;
    }
    return NULL;
}

/* A state that is no dict: that of slots is two, anything else is one thing. */
static struct value *next_of_state(struct walk *w, struct frame *f, const struct object *o)
{
    struct value *s = o->state;
    bool slots = s && s->kind == VALUE_TUPLE && s->n == 2 &&
                 (is_dict(s->item[0]) || s->item[0]->kind == VALUE_NONE) &&
                 (is_dict(s->item[1]) || s->item[1]->kind == VALUE_NONE);
    if (f->stage == 4)
        return next_pair(w, f, slots ? s->item[0] : is_dict(s) ? s : NULL, "");
    if (f->stage == 5)
        return next_pair(w, f, slots ? s->item[1] : NULL, "");
    f->stage++;
    if (!s || slots || is_dict(s) || s->kind == VALUE_NONE)
        return NULL;
    name_word(w, f, "@state");
    return s;
}

static struct value *next_of_object(struct walk *w, struct frame *f)
{
    const struct object *o = f->v->object;
    struct value *child = NULL;
    while (!child && f->stage < 7) {
        switch (f->stage) {
        case 0: child = next_item(w, f, o->args); break;
        case 1: child = next_pair(w, f, o->keywords, ""); break;
        case 2: child = next_item(w, f, o->items); break;
        case 3: child = next_pair(w, f, o->dict, ""); break;
        default: child = next_of_state(w, f, o); break;
        }
    }
    return child;
}

static struct value *next_part(struct walk *w, struct frame *f, const struct parts *p)
{
    if (p && f->next < p->n) {
        name_word(w, f, p->part[f->next].name);
        return p->part[f->next++].value;
    }
    f->next = 0;
    f->stage++;
    return NULL;
}

static struct value *next_of_tensor(struct walk *w, struct frame *f)
{
    const struct torch_tensor *x = f->v->any;
    struct value *child = f->stage == 0 ? next_part(w, f, x->parts) : NULL;
    return child || f->stage > 1 ? child : next_pair(w, f, x->attributes, "@");
}

/* The next child of the top frame, its name set; NULL: no more. */
static struct value *next_child(struct walk *w, struct frame *f)
{
    w->how = 0;
    if (f->module)
        return next_of_module(w, f);
    switch (f->v->kind) {
    case VALUE_DICT: return f->stage ? NULL : next_pair(w, f, f->v, "");
    case VALUE_LIST:
    case VALUE_TUPLE: return f->stage ? NULL : next_item(w, f, f->v);
    case VALUE_OBJECT: return next_of_object(w, f);
    case VALUE_PARTS: return f->stage ? NULL : next_part(w, f, f->v->any);
    case VALUE_TENSOR: return next_of_tensor(w, f);
    default: return NULL;
    }
}

static int push(struct walk *w, struct value *v)
{
    if (w->depth == DEPTH)
        return refuse(w, "its values are nested more than 4096 deep");
    v->flags |= VALUE_ON_PATH;
    w->frame[w->depth++] = (struct frame){.v = v, .name_len = w->name.len, .module = is_module(v)};
    return 0;
}

/* Puts a name into the index; one that is taken becomes NAME#2, NAME#3, ... */
static int index_name(struct walk *w, struct tensor *t)
{
    struct model *m = w->t->m;
    uint32_t number = (uint32_t)m->n_tensors - 1;
    if (w->room_again < m->room_tensors) {
        uint32_t *more = realloc(w->again, m->room_tensors * sizeof *more);
        if (!more)
            return -ENOMEM;
        w->again = more;
        w->room_again = m->room_tensors;
    }
    w->again[number] = 1;
    int err = model_index(m, number);
    if (err != -EEXIST)
        return err;
    uint32_t first = model_find(m, hash_bytes(0, t->name, t->name_len), t->name, t->name_len);
    size_t len = t->name_len;
    struct buf b = {0};
    buf_add(&b, t->name, len);
    while (err == -EEXIST) {
        b.len = len;
        buf_printf(&b, "#%u", ++w->again[first]);
        t->name = b.failed ? NULL : b.p;
        t->name_len = (uint32_t)b.len;
        err = b.failed ? -ENOMEM : model_index(m, number);
    }
    t->name = err == 0 ? arena_text(&m->arena, b.p, b.len) : NULL;
    buf_free(&b);
    return err == 0 && !t->name ? -ENOMEM : err;
}

static int list_tensor(struct walk *w, struct value *v)
{
    struct torch_tensor *x = v->any;
    struct model *m = w->t->m;
    struct tensor *out;
    bool root = w->depth == 0;
    const char *name = root ? "tensor" : w->name.p;
    size_t len = root ? 6 : w->name.len;
    int err = spend(w, len);
    if (err < 0)
        return err;
    if (torch_place(w->t, x) < 0 || model_add_tensor(m, &out) < 0)
        return no_memory(w);
    out->name = arena_text(&m->arena, name, len);
    out->name_len = (uint32_t)len;
    out->shape = x->shape;
    out->rank = x->rank;
    out->dtype = (uint8_t)torch_shown(x->dtype);
    out->nbytes = x->nbytes;
    out->offset = x->at;
    out->view = x->view;
    if (!out->name || index_name(w, out) < 0)
        return no_memory(w);
    leaf_tensor(&m->leaves, out->name, out->name_len, x, w->how);
    return x->parts || x->attributes ? push(w, v) : 0;
}

/* A storage by itself is a tensor of one dimension. */
static int list_storage(struct walk *w, const struct value *v)
{
    const struct storage_part *s = v->any;
    struct torch_tensor *x;
    struct torch *t = w->t;
    struct value *made = torch_new_tensor(t, &x);
    uint64_t *dims = arena_alloc(&t->m->arena, 2 * sizeof *dims, true);
    if (!made || !dims)
        return no_memory(w);
    dims[0] = s->nbytes / s->cls->item;
    dims[1] = 1;
    *x = (struct torch_tensor){
        .storage = s, .dtype = s->cls->dtype, .rank = 1, .shape = dims, .stride = dims + 1};
    if (tm_dtype_bits(x->dtype) % 8) /* its count is of bytes */
        x->dtype = TM_U8;
    x->nbytes = s->nbytes;
    return list_tensor(w, made);
}

static const char *leaf_name(const struct walk *w)
{
    return w->name.p ? w->name.p : "";
}

static int list_word(struct walk *w, const char *kind, const char *word)
{
    int err = spend(w, w->name.len + strlen(word ? word : ""));
    if (err == 0)
        leaf_word(&w->t->m->leaves, leaf_name(w), w->name.len, kind, word);
    return err;
}

static int list_leaf(struct walk *w, const struct value *v)
{
    size_t before = w->t->m->leaves.len;
    leaf_value(&w->t->m->leaves, leaf_name(w), w->name.len, v, is_module(v));
    return spend(w, w->t->m->leaves.len - before);
}

static int list_container(struct walk *w, struct value *v)
{
    uint32_t n = v->kind == VALUE_DICT ? dict_len(v) : v->n;
    if (v->kind == VALUE_TUPLE && (v->flags & VALUE_SIZE))
        return list_leaf(w, v);
    if (n == 0)
        return list_word(w, "empty",
                         v->kind == VALUE_DICT   ? "dict"
                         : v->kind == VALUE_LIST ? "list"
                                                 : "tuple");
    return push(w, v);
}

static int visit(struct walk *w, struct value *v)
{
    const struct torch_tensor *x = v->any;
    int err;
    if (w->visits_left-- == 0)
        return refuse(w, "it expands to more values than a file of this size can need");
    if (w->name.len > NAME_MAX_BYTES)
        return refuse(w, "a name of more than 65536 bytes");
    if (w->name.failed)
        return no_memory(w);
    if (v->flags & VALUE_ON_PATH)
        return list_word(w, "cycle", NULL);
    switch (v->kind) {
    case VALUE_TENSOR:
        return x->flags & TENSOR_PENDING ? list_word(w, "object", x->cls->full) : list_tensor(w, v);
    case VALUE_STORAGE: return list_storage(w, v);
    case VALUE_DICT:
    case VALUE_LIST:
    case VALUE_TUPLE: return list_container(w, v);
    case VALUE_OBJECT: err = list_leaf(w, v); return err < 0 ? err : push(w, v);
    case VALUE_PARTS:
        err = ((const struct parts *)v->any)->object
                  ? list_word(w, "object", ((const struct parts *)v->any)->object)
                  : 0;
        return err < 0 ? err : push(w, v);
    default: return list_leaf(w, v);
    }
}

/* Shared containers expand, by little in any real file. Where the pickle is compressed, opcodes are cheap,
 * too.
 */
static uint64_t most_visits(const struct torch *t)
{
    uint64_t ops = t->pickle.opcodes,
             by_size = t->pickle_bytes < UINT64_MAX / 256 ? t->pickle_bytes * 256 : UINT64_MAX;
    uint64_t visits = ops * 16 < VISITS ? ops * 16 : VISITS + ops;
    return (visits < by_size ? visits : by_size) + 1024;
}

int torch_walk(struct torch *t, struct value *root)
{
    struct walk w = {.t = t};
    w.visits_left = most_visits(t);
    w.names_left = t->values.most > NAMES_MAX ? NAMES_MAX : t->values.most;
    w.frame = malloc(DEPTH * sizeof *w.frame);
    leaves_begin(&t->m->leaves);
    int err = w.frame ? visit(&w, root) : no_memory(&w);
    while (err == 0 && w.depth) {
        struct frame *f = &w.frame[w.depth - 1];
        struct value *child = next_child(&w, f);
        if (child) {
            err = visit(&w, child);
        } else {
            f->v->flags &= (uint8_t)~VALUE_ON_PATH;
            w.depth--;
        }
    }
    leaves_end(&t->m->leaves);
    if (err == 0 && t->m->leaves.failed)
        err = no_memory(&w);
    free(w.frame);
    free(w.again);
    buf_free(&w.name);
    return err;
}
