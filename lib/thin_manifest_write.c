/* SPDX-License-Identifier: MIT
 * The manifest as text. */
#include <inttypes.h>
#include <string.h>

#include "jtree.h"
#include "thin_manifest.h"
#include "thin_schema.h"

static void write_struct(struct buf *out, const struct thin_table *t, const void *from, unsigned level);

static bool absent(const struct thin_field *f, const void *at)
{
    switch ((enum thin_type)f->type) {
    case THIN_TEXT: /* of the optional kind even an empty text is there */
        return ((const fs_text *)at)->s == NULL ||
               (f->presence == THIN_LIST && ((const fs_text *)at)->len == 0);
    case THIN_JSON:
    case THIN_MAP: return ((const fs_text *)at)->s == NULL;
    case THIN_OPT_U64:
    case THIN_OPT_U32:
    case THIN_OPT_U8: return !((const fs_opt_u64 *)at)->present;
    case THIN_OPT_F64: return !((const fs_opt_f64 *)at)->present;
    case THIN_OPT_BOOL: return !((const fs_opt_bool *)at)->present;
    case THIN_TEXTS: return ((const fs_texts *)at)->n == 0;
    case THIN_BOOLS: return ((const fs_bools *)at)->n == 0;
    default: return false;
    }
}

/* Text of any JSON, its lines moved in; strings in it hold no line ends. */
static void write_json(struct buf *out, const fs_text *t, unsigned level)
{
    const char *p = t->s, *end = t->s + t->len;
    while (p < end) {
        const char *line = memchr(p, '\n', (size_t)(end - p));
        buf_add(out, p, (size_t)((line ? line : end) - p));
        if (!line)
            break;
        jtree_line(out, level);
        p = line + 1;
    }
}

struct array {
    const char *v;
    size_t n;
};

static void write_array(struct buf *out, const struct thin_field *f, const void *at, unsigned level)
{
    struct array a;
    memcpy(&a, at, sizeof a);
    buf_char(out, '[');
    for (size_t i = 0; i < a.n; i++) {
        if (i)
            buf_char(out, ',');
        jtree_line(out, level + 1);
        const fs_text *text = (const fs_text *)(const void *)a.v;
        const uint64_t *size = (const uint64_t *)(const void *)a.v;
        if (f->type == THIN_TEXTS)
            buf_json_string(out, text[i].s, text[i].len);
        else if (f->type == THIN_BOOLS)
            buf_str(out, a.v[i] ? "true" : "false");
        else if (f->type == THIN_SHAPE)
            buf_printf(out, "%" PRIu64, size[i]);
        else
            write_struct(out, f->table, a.v + i * f->table->size, level + 1);
    }
    if (a.n)
        jtree_line(out, level);
    buf_char(out, ']');
}

static void write_value(struct buf *out, const struct thin_field *f, const void *at, unsigned level)
{
    const fs_text *text = at;
    switch ((enum thin_type)f->type) {
    case THIN_TEXT: buf_json_string(out, text->s, text->len); break;
    case THIN_U64:
    case THIN_U32: buf_printf(out, "%" PRIu64, *(const uint64_t *)at); break;
    case THIN_BOOL: buf_str(out, *(const unsigned char *)at ? "true" : "false"); break;
    case THIN_OPT_U64:
    case THIN_OPT_U32:
    case THIN_OPT_U8: buf_printf(out, "%" PRIu64, ((const fs_opt_u64 *)at)->value); break;
    case THIN_OPT_F64: jnumber_write_double(out, ((const fs_opt_f64 *)at)->value); break;
    case THIN_OPT_BOOL: buf_str(out, ((const fs_opt_bool *)at)->value ? "true" : "false"); break;
    case THIN_JSON:
    case THIN_MAP: write_json(out, text, level); break;
    case THIN_TEXTS:
    case THIN_BOOLS:
    case THIN_SHAPE:
    case THIN_STRUCTS: write_array(out, f, at, level); break;
    case THIN_STRUCT: write_struct(out, f->table, at, level); break;
    }
}

static void write_struct(struct buf *out, const struct thin_table *t, const void *from, unsigned level)
{
    bool any = false;
    buf_char(out, '{');
    for (size_t i = 0; i < t->n; i++) {
        const struct thin_field *f = &t->field[i];
        const char *at = (const char *)from + f->at;
        if ((f->presence == THIN_OPTIONAL || f->presence == THIN_LIST) && absent(f, at))
            continue;
        if (any)
            buf_char(out, ',');
        any = true;
        jtree_line(out, level + 1);
        buf_printf(out, "\"%s\": ", f->key);
        write_value(out, f, at, level + 1);
    }
    if (any)
        jtree_line(out, level);
    buf_char(out, '}');
}

void thin_manifest_write(const struct thin_manifest *m, struct buf *out)
{
    write_struct(out, &thin_manifest_table, m, 0);
}
