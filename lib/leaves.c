/* SPDX-License-Identifier: MIT */
#include "leaves.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "number.h"
#include "torch.h"
#include "utf8.h"

enum { SHOWN = 1024 }; /* bytes of a text, items of a set, ... */

static void hex(struct buf *b, const unsigned char *p, uint64_t len)
{
    for (uint64_t i = 0; i < len; i++)
        buf_printf(b, "%02x", p[i]);
}

/* Text with what is no UTF-8 in it replaced, byte by byte. */
static void replaced(struct buf *b, const char *s, size_t len)
{
    while (len) {
        size_t n = utf8_span(s, len);
        buf_add(b, s, n);
        if (n < len) {
            buf_str(b, "\xEF\xBF\xBD");
            n++;
        }
        s += n;
        len -= n;
    }
}

/* Plain values; false: it is none. */
static bool plain_component(struct buf *b, const struct value *v)
{
    switch (v->kind) {
    case VALUE_NONE: buf_str(b, "None"); return true;
    case VALUE_BOOL: buf_str(b, v->truth ? "True" : "False"); return true;
    case VALUE_INT: buf_printf(b, "%" PRId64, v->i); return true;
    case VALUE_BIG: buf_big(b, (const unsigned char *)v->text, v->n); return true;
    case VALUE_FLOAT: buf_float(b, v->f); return true;
    case VALUE_TEXT: replaced(b, v->text, v->n); return true;
    case VALUE_BYTES:
        buf_str(b, "b:");
        if (v->bytes->p)
            hex(b, v->bytes->p, v->bytes->len);
        return true;
    default: return false;
    }
}

static const char *class_name(const struct value *v)
{
    static const char *const names[] = {
        [VALUE_COMPLEX] = "complex",
        [VALUE_LIST] = "list",
        [VALUE_DICT] = "dict",
        [VALUE_SET] = "frozenset",
        [VALUE_STORAGE] = "torch.storage.UntypedStorage",
        [VALUE_TENSOR] = "torch.Tensor",
        [VALUE_PARTS] = "torch.Tensor",
        [VALUE_DTYPE] = "numpy.dtype",
        [VALUE_SCALAR] = "numpy.generic",
        [VALUE_WORD] = "torch.device",
    };
    return v->kind < sizeof names / sizeof names[0] && names[v->kind] ? names[v->kind] : "object";
}

static void one_component(struct buf *b, const struct value *v)
{
    if (plain_component(b, v))
        return;
    const struct global *g = v->kind == VALUE_GLOBAL   ? v->global
                             : v->kind == VALUE_OBJECT ? v->object->cls
                                                       : NULL;
    if (g)
        buf_printf(b, "<%s.%s>", g->module, g->name);
    else
        buf_printf(b, "<%s>", class_name(v));
}

/* Tuples are nested no deeper than a key can be. */
void value_component(struct buf *b, const struct value *v)
{
    struct {
        const struct value *tuple;
        uint32_t next;
    } up[VALUE_KEY_DEPTH + 2];
    size_t depth = 0;
    for (;;) {
        if (v->kind == VALUE_TUPLE && depth < VALUE_KEY_DEPTH + 2) {
            buf_char(b, '(');
            up[depth].tuple = v;
            up[depth++].next = 0;
        } else {
            one_component(b, v);
        }
        while (depth && up[depth - 1].next == up[depth - 1].tuple->n) {
            depth--;
            buf_char(b, ')');
        }
        if (depth == 0)
            return;
        if (up[depth - 1].next)
            buf_str(b, ", ");
        v = up[depth - 1].tuple->item[up[depth - 1].next++];
        if (b->len > 1U << 20) /* a name far too long, which the walk refuses */
            return;
    }
}

static void begin(struct buf *b, const char *name, size_t len, const char *kind)
{
    buf_str(b, b->len > 1 ? ",\n{\"name\":" : "\n{\"name\":");
    buf_json_string(b, name, len);
    buf_printf(b, ",\"kind\":\"%s\"", kind);
}

static void text_field(struct buf *b, const char *s, size_t len)
{
    size_t shown = len < SHOWN ? len : SHOWN;
    while (shown < len && shown > SHOWN - 4 && ((unsigned char)s[shown] & 0xC0) == 0x80)
        shown--; /* not inside a character */
    if (utf8_span(s, shown) == shown) {
        buf_str(b, ",\"value\":");
        buf_json_string(b, s, shown);
    } else {
        buf_str(b, ",\"wtf8\":\"");
        hex(b, (const unsigned char *)s, shown);
        buf_char(b, '"');
    }
    if (shown < len)
        buf_printf(b, ",\"len\":%zu", len);
}

static void json_float(struct buf *b, double f)
{
    bool quoted = !isfinite(f); /* JSON has no such numbers */
    if (quoted)
        buf_char(b, '"');
    buf_float(b, f);
    if (quoted)
        buf_char(b, '"');
}

static void float_field(struct buf *b, double f)
{
    uint64_t bits;
    memcpy(&bits, &f, sizeof bits);
    buf_str(b, ",\"value\":");
    json_float(b, f);
    buf_printf(b, ",\"bits\":\"%016" PRIx64 "\"", bits);
}

static void bytes_field(struct buf *b, const struct value_bytes *x)
{
    uint64_t shown = !x->p ? 0 : x->len < SHOWN ? x->len : SHOWN;
    buf_str(b, ",\"value\":\"");
    hex(b, x->p, shown);
    buf_char(b, '"');
    if (shown < x->len)
        buf_printf(b, ",\"len\":%" PRIu64, x->len);
}

/* Integers and text of a size or a set as JSON, all else by its component. */
static void items_field(struct buf *b, const struct value *v)
{
    uint32_t i;
    buf_str(b, ",\"value\":[");
    for (i = 0; i < v->n && i < SHOWN; i++) {
        const struct value *x = v->item[i];
        struct buf text = {0};
        if (i)
            buf_char(b, ',');
        if (x->kind == VALUE_INT) {
            buf_printf(b, "%" PRId64, x->i);
            continue;
        }
        if (x->kind == VALUE_TEXT && x->n > SHOWN)
            buf_printf(&text, "(text of %u bytes)", x->n);
        else if (x->kind == VALUE_BYTES && (!x->bytes->p || x->bytes->len > SHOWN))
            buf_printf(&text, "(%" PRIu64 " bytes)", x->bytes->len);
        else if (x->kind == VALUE_TUPLE)
            buf_str(&text, "(tuple)");
        else
            value_component(&text, x);
        buf_json_string(b, text.p ? text.p : "", text.len);
        b->failed |= text.failed;
        buf_free(&text);
    }
    buf_char(b, ']');
    if (i < v->n)
        buf_printf(b, ",\"len\":%u", v->n);
}

static void name_field(struct buf *b, const char *module, const char *name)
{
    struct buf full = {0};
    buf_printf(&full, "%s.%s", module, name);
    text_field(b, full.p ? full.p : "", full.len);
    b->failed |= full.failed;
    buf_free(&full);
}

static void scalar_fields(struct buf *b, const struct numpy_scalar *s)
{
    bool big = s->dtype->order == '>';
    size_t n = (size_t)s->bytes->len, unit = s->dtype->code[0] == 'c' ? n / 2 : n;
    buf_str(b, ",\"value\":\"");
    for (size_t i = 0; i < n; i++)
        buf_printf(b, "%02x", s->bytes->p[big ? i - i % unit + unit - 1 - i % unit : i]);
    buf_printf(b, "\",\"dtype\":\"%s\"", tm_dtype_name((tm_dtype)s->dtype->dtype));
}

static void global_leaf(struct buf *b, const char *name, size_t len, const struct value *v)
{
    const struct meaning *m = torch_meaning(v);
    begin(b, name, len, m && m->kind == MEANS_DTYPE ? "dtype" : "global");
    name_field(b, v->global->module, v->global->name);
}

static void dtype_leaf(struct buf *b, const char *name, size_t len, const struct numpy_dtype *d)
{
    struct buf full = {0};
    begin(b, name, len, "global");
    buf_printf(&full, "numpy.dtype:%c", d->order);
    buf_add(&full, d->code, d->code_len);
    text_field(b, full.p ? full.p : "", full.len);
    b->failed |= full.failed;
    buf_free(&full);
}

void leaf_value(struct buf *b, const char *name, size_t len, const struct value *v, bool module)
{
    static const char *const kinds[] = {
        [VALUE_NONE] = "none", [VALUE_BOOL] = "bool",     [VALUE_INT] = "int",
        [VALUE_BIG] = "int",   [VALUE_FLOAT] = "float",   [VALUE_COMPLEX] = "complex",
        [VALUE_TEXT] = "str",  [VALUE_BYTES] = "bytes",   [VALUE_TUPLE] = "size",
        [VALUE_SET] = "set",   [VALUE_OBJECT] = "object", [VALUE_SCALAR] = "np_scalar",
    };
    if (v->kind == VALUE_GLOBAL)
        global_leaf(b, name, len, v);
    else if (v->kind == VALUE_DTYPE)
        dtype_leaf(b, name, len, v->any);
    else if (v->kind == VALUE_WORD)
        begin(b, name, len, v->word == WORD_LAYOUT ? "layout" : "device");
    else
        begin(b, name, len,
              v->kind < sizeof kinds / sizeof kinds[0] && kinds[v->kind] ? kinds[v->kind] : "object");
    switch (v->kind) {
    case VALUE_BOOL: buf_printf(b, ",\"value\":%s", v->truth ? "true" : "false"); break;
    case VALUE_INT: buf_printf(b, ",\"value\":%" PRId64, v->i); break;
    case VALUE_BIG:
        buf_str(b, ",\"value\":\"");
        buf_big(b, (const unsigned char *)v->text, v->n);
        buf_str(b, "\",\"big\":true");
        break;
    case VALUE_FLOAT: float_field(b, v->f); break;
    case VALUE_COMPLEX:
        buf_str(b, ",\"value\":[");
        json_float(b, v->pair[0]);
        buf_char(b, ',');
        json_float(b, v->pair[1]);
        buf_char(b, ']');
        break;
    case VALUE_TEXT:
    case VALUE_WORD: text_field(b, v->text, v->n); break;
    case VALUE_BYTES: bytes_field(b, v->bytes); break;
    case VALUE_TUPLE:
    case VALUE_SET: items_field(b, v); break;
    case VALUE_OBJECT: name_field(b, v->object->cls->module, v->object->cls->name); break;
    case VALUE_SCALAR: scalar_fields(b, v->any); break;
    default: break;
    }
    buf_str(b, module ? ",\"module\":true}" : "}");
}

void leaf_word(struct buf *b, const char *name, size_t len, const char *kind, const char *word)
{
    begin(b, name, len, kind);
    if (word)
        text_field(b, word, strlen(word));
    buf_char(b, '}');
}

void leaf_tensor(struct buf *b, const char *name, size_t len, const struct torch_tensor *x, unsigned how)
{
    if (!(x->flags & (TENSOR_CONJUGATE | TENSOR_NEGATED)) && !x->nothing && !how)
        return;
    begin(b, name, len, "tensor");
    if (x->flags & TENSOR_CONJUGATE)
        buf_str(b, ",\"conj\":true");
    if (x->flags & TENSOR_NEGATED)
        buf_str(b, ",\"neg\":true");
    if (x->nothing)
        buf_printf(b, ",\"nodata\":\"%s\"", x->nothing);
    if (how & LEAF_NOT_SAVED)
        buf_str(b, ",\"persistent\":false");
    if (how & LEAF_EXTRA)
        buf_str(b, ",\"extra\":true");
    buf_char(b, '}');
}

void leaves_begin(struct buf *b)
{
    buf_char(b, '[');
}

void leaves_join(struct buf *to, const struct buf *array)
{
    enum { FRAME = 4 }; /* "[" before and "\n]\n" after */
    if (array->len <= FRAME)
        return;
    if (to->len > 1)
        buf_char(to, ',');
    buf_add(to, array->p + 1, array->len - FRAME);
}

void leaves_end(struct buf *b)
{
    buf_str(b, b->len > 1 ? "\n]\n" : "]\n");
}
