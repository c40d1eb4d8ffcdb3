/* SPDX-License-Identifier: MIT
 * What the calls give that make no tensors: containers, bytes, small values. */
#include <errno.h>
#include <string.h>

#include "buf.h"
#include "danger.h"
#include "torch.h"

static struct value *first(const struct value *args)
{
    return args->n ? args->item[0] : NULL;
}

/* dict(), OrderedDict(), with pairs or another dict; Counter; defaultdict, whose factory means nothing here.
 */
int torch_make_dict(struct torch *t, const struct global *f, struct value *args, struct value **out)
{
    uint32_t skip = strcmp(f->full, "collections.defaultdict") == 0;
    struct value *from = args->n > skip ? args->item[skip] : NULL, *d;
    int err = 0;
    if (args->n > skip + 1 ||
        (from && from->kind != VALUE_DICT && from->kind != VALUE_LIST && from->kind != VALUE_TUPLE))
        return torch_refuse(t, "%s with arguments that make no dict", f->full);
    d = value_new(&t->values, VALUE_DICT);
    if (!d)
        return torch_no_memory(t);
    *out = d;
    if (!from)
        return 0;
    uint32_t n = from->kind == VALUE_DICT ? dict_len(from) : from->n;
    for (uint32_t i = 0; i < n && err == 0; i++) {
        struct value *key, *item;
        if (from->kind == VALUE_DICT) {
            key = from->dict->pair[i].key;
            item = from->dict->pair[i].value;
        } else {
            const struct value *pair = from->item[i];
            if ((pair->kind != VALUE_TUPLE && pair->kind != VALUE_LIST) || pair->n != 2)
                return torch_refuse(t, "%s with arguments that make no dict", f->full);
            key = pair->item[0];
            item = pair->item[1];
        }
        err = value_set(&t->values, d, key, item);
    }
    return pickle_failed(&t->pickle, err);
}

static int copy_items(struct torch *t, struct value *args, enum value_kind kind, struct value **out)
{
    struct value *from = first(args), *to = value_new(&t->values, kind);
    int err = 0;
    if (!to)
        return torch_no_memory(t);
    *out = to;
    if (!from)
        return 0;
    if (from->kind != VALUE_LIST && from->kind != VALUE_TUPLE && from->kind != VALUE_SET)
        return torch_refuse(t, "a container is made of something that is none");
    for (uint32_t i = 0; i < from->n && err == 0; i++)
        err = kind == VALUE_SET ? value_set_add(&t->values, to, from->item[i])
                                : value_append(&t->values, to, from->item[i]);
    return pickle_failed(&t->pickle, err);
}

int torch_make_list(struct torch *t, const struct global *f, struct value *args, struct value **out)
{
    (void)f;
    return copy_items(t, args, VALUE_LIST, out);
}

int torch_make_tuple(struct torch *t, const struct global *f, struct value *args, struct value **out)
{
    (void)f;
    return copy_items(t, args, VALUE_TUPLE, out);
}

int torch_make_set(struct torch *t, const struct global *f, struct value *args, struct value **out)
{
    int err = copy_items(t, args, VALUE_SET, out);
    if (err == 0 && strcmp(f->full, "builtins.frozenset") == 0)
        (*out)->flags |= VALUE_FROZEN;
    return err;
}

int torch_make_size(struct torch *t, const struct global *f, struct value *args, struct value **out)
{
    const uint64_t *dims;
    uint32_t rank;
    (void)f;
    if (first(args)) {
        int err = torch_dims(t, first(args), &dims, &rank);
        if (err < 0)
            return err;
    }
    int err = copy_items(t, args, VALUE_TUPLE, out);
    if (err == 0)
        (*out)->flags |= VALUE_SIZE;
    return err;
}

/* "cuda:1", "torch.strided" */
static int make_word(struct torch *t, enum value_word word, struct buf *b, struct value **out)
{
    struct value *v = value_new(&t->values, VALUE_WORD);
    char *s = b->failed ? NULL : values_alloc(&t->values, b->len + 1);
    if (v && s) {
        memcpy(s, b->p ? b->p : "", b->len + 1);
        v->word = (uint8_t)word;
        v->text = s;
        v->n = (uint32_t)b->len;
    }
    buf_free(b);
    *out = v;
    return v && s ? 0 : torch_no_memory(t);
}

int torch_make_device(struct torch *t, const struct global *f, struct value *args, struct value **out)
{
    size_t len;
    const char *type = args->n ? torch_text(args->item[0], &len) : NULL;
    struct buf b = {0};
    (void)f;
    if (!type || len > PICKLE_NAME || args->n > 2 || (args->n == 2 && args->item[1]->kind != VALUE_INT))
        return torch_refuse(t, "a torch.device that is none");
    buf_add(&b, type, len);
    if (args->n == 2)
        buf_printf(&b, ":%lld", (long long)args->item[1]->i);
    return make_word(t, WORD_DEVICE, &b, out);
}

int torch_make_layout(struct torch *t, const struct global *f, struct value *args, struct value **out)
{
    size_t len;
    const char *name = args->n == 1 ? torch_text(args->item[0], &len) : NULL;
    struct buf b = {0};
    (void)f;
    if (!name || len > PICKLE_NAME)
        return torch_refuse(t, "a layout that is none");
    buf_add(&b, name, len);
    return make_word(t, WORD_LAYOUT, &b, out);
}

int torch_make_complex(struct torch *t, const struct global *f, struct value *args, struct value **out)
{
    struct value *v = value_new(&t->values, VALUE_COMPLEX);
    double *pair = values_alloc(&t->values, 2 * sizeof *pair);
    (void)f;
    if (!v || !pair)
        return torch_no_memory(t);
    for (uint32_t i = 0; i < 2; i++) {
        const struct value *x = i < args->n ? args->item[i] : NULL;
        if (args->n > 2 || (x && x->kind != VALUE_FLOAT && x->kind != VALUE_INT))
            return torch_refuse(t, "a complex number that is none");
        pair[i] = !x ? 0 : x->kind == VALUE_FLOAT ? x->f : (double)x->i;
    }
    v->pair = pair;
    *out = v;
    return 0;
}

/* Text whose characters are bytes. -1: it has others. */
static int from_latin1(const struct value *text, unsigned char *to, size_t *n)
{
    const unsigned char *s = (const unsigned char *)text->text;
    *n = 0;
    for (uint32_t i = 0; i < text->n; i++) {
        if (s[i] < 0x80) {
            to[(*n)++] = s[i];
            continue;
        }
        if ((s[i] != 0xC2 && s[i] != 0xC3) || i + 1 == text->n)
            return -1;
        to[(*n)++] = (unsigned char)(s[i] << 6 | (s[i + 1] & 0x3F));
        i++;
    }
    return 0;
}

/* Protocol 2 has no bytes: they are written as text and a call that turns it back. */
int torch_make_bytes(struct torch *t, const struct global *f, struct value *args, struct value **out)
{
    struct value *from = first(args), *v;
    size_t codec_len, n = 0;
    const char *codec = args->n == 2 ? torch_text(args->item[1], &codec_len) : NULL;
    bool encode = strcmp(f->full, "_codecs.encode") == 0;
    bool array = strcmp(f->full, "builtins.bytearray") == 0;
    if (args->n > 2 || (args->n == 2 && !codec) || (encode && args->n != 2) ||
        (codec && !(codec_len == 6 && memcmp(codec, "latin1", 6) == 0) &&
         !(codec_len == 7 && memcmp(codec, "latin-1", 7) == 0)))
        return torch_refuse(t, "%s with other arguments than a text and latin1", f->full);
    if (from && from->kind != VALUE_BYTES && (from->kind != VALUE_TEXT || !codec))
        return torch_refuse(t, "%s of something that is no text", f->full);
    v = value_new(&t->values, VALUE_BYTES);
    struct value_bytes *b = values_alloc(&t->values, sizeof *b);
    if (!v || !b)
        return torch_no_memory(t);
    *b = (struct value_bytes){.p = (const unsigned char *)"", .at = VALUE_NOWHERE};
    if (from && from->kind == VALUE_BYTES)
        *b = *from->bytes;
    else if (from) {
        unsigned char *p = values_alloc(&t->values, (size_t)from->n + 1);
        if (!p)
            return torch_no_memory(t);
        if (from_latin1(from, p, &n) < 0)
            return torch_refuse(t, "a text that should be bytes has other characters");
        b->p = p;
        b->len = n;
    }
    v->bytes = b;
    v->flags = array ? VALUE_MUTABLE_BYTES : 0;
    *out = v;
    return 0;
}

/* Memory formats are pickled as getattr(torch, "channels_last"). Any other stays a record, and what it gives
 * can never be called. */
int torch_make_getattr(struct torch *t, const struct global *f, struct value *args, struct value **out)
{
    static const char *const formats[] = {"channels_last", "channels_last_3d", "contiguous_format",
                                          "preserve_format"};
    (void)f;
    if (args->n < 2 || args->item[1]->kind != VALUE_TEXT)
        return torch_refuse(t, "getattr of what is no name");
    const struct value *name = args->item[1];
    const char *full = args->item[0]->kind == VALUE_GLOBAL ? args->item[0]->global->full : "object";
    struct buf b = {0};
    buf_str(&b, full);
    buf_char(&b, '.');
    buf_add(&b, name->text, name->n);
    bool failed = b.failed, danger = !failed && (memchr(b.p, 0, b.len) || danger_named(b.p));
    buf_free(&b);
    if (failed)
        return torch_no_memory(t);
    if (danger)
        return torch_refuse(t, "reaches for a forbidden attribute of %s: looks like a code-execution payload",
                            full);
    if (strcmp(full, "torch") != 0 && strcmp(full, "torch._utils.torch") != 0)
        return 0;
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        if (!value_is_text(name, formats[i]))
            continue;
        struct value *v = value_new(&t->values, VALUE_GLOBAL);
        struct global *g = values_alloc(&t->values, sizeof *g);
        if (!v || !g)
            return torch_no_memory(t);
        *g = (struct global){.module = "torch", .name = formats[i], .full = formats[i]};
        v->global = g;
        *out = v;
        break;
    }
    return 0;
}

/* torch.jit._pickle.build_intlist and its like. */
int torch_give_first(struct torch *t, const struct global *f, struct value *args, struct value **out)
{
    if (args->n < 1)
        return torch_refuse(t, "%s without arguments", f->full);
    *out = args->item[0];
    return 0;
}

int torch_from_elsewhere(struct torch *t, const struct global *f, struct value *args, struct value **out)
{
    (void)args;
    (void)out;
    return torch_refuse(t, "%s, which refers to what is not in the file", f->full);
}
