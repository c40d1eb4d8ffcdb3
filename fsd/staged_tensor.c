/* SPDX-License-Identifier: MIT */
#include "staged_tensor.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "canonical.h"
#include "json.h"
#include "npy_read.h"
#include "staged_content.h"

static bool ends_with(const char *s, const char *ending)
{
    size_t n = strlen(s), e = strlen(ending);
    return n > e && strcmp(s + n - e, ending) == 0;
}

/* Its path in the model, without the suffix that a .npy file loses. */
static void tensor_path(const struct staged *n, struct buf *out)
{
    staged_path(n, out);
    if (n->npy && out->len && ends_with(out->p, ".npy"))
        out->p[out->len -= 4] = 0;
}

/* The mounted tensor whose path that is. */
static const struct tensor *mounted_at(const struct staged_rules *r, const char *path)
{
    uint32_t e = TREE_ROOT;
    while (r->mounted && *path) {
        size_t n = strcspn(path, "/");
        e = tree_is_dir(r->mounted, e) ? tree_find(r->mounted, e, path, n) : INDEX_NONE;
        if (e == INDEX_NONE)
            return NULL;
        path += n + (path[n] == '/');
    }
    return r->mounted && !tree_is_dir(r->mounted, e) ? tree_tensor(r->mounted, e) : NULL;
}

/* ---- dtype and shape ---- */

static bool read_npy(const struct staged *n, struct npy *out)
{
    struct extents x = {0};
    char start[12], *head = NULL;
    bool ok = n->size >= sizeof start && content_extents(n, &x) == 0 &&
              extents_read(&x, 0, start, sizeof start) == (ssize_t)sizeof start;
    uint64_t len = ok ? npy_skip(start) : 0;
    if (len && len <= n->size && len <= NPY_MOST)
        head = malloc((size_t)len);
    ok = head && extents_read(&x, 0, head, (size_t)len) == (ssize_t)len && npy_parse(head, (size_t)len, out);
    extents_free(&x);
    free(head);
    return ok;
}

static bool is_text(const char *have, const char *text)
{
    return have && text && strcmp(have, text) == 0;
}

/* False if it could not be, or is nothing new. */
static bool bind_to(struct staged *n, tm_dtype dtype, const uint64_t *shape, uint32_t rank)
{
    struct buf text = {0};
    const char *code = tm_dtype_name(dtype);
    buf_shape(&text, shape, rank);
    if (n->is_bound && is_text(n->bound[0], code) && is_text(n->bound[1], text.p)) {
        buf_free(&text);
        return false;
    }
    bool ok = code && !text.failed && staged_set_text(&n->bound[0], code, strlen(code)) == 0 &&
              staged_set_text(&n->bound[1], text.p, text.len) == 0;
    buf_free(&text);
    return ok;
}

bool staged_bind(const struct staged_rules *r, struct staged *n)
{
    struct npy npy;
    struct buf path = {0};
    bool was = n->npy;
    n->npy = ends_with(n->name, ".npy") && read_npy(n, &npy);
    if (n->npy) {
        n->is_bound &= was; /* else it is news in any case */
        bool changed = bind_to(n, npy.dtype, npy.shape, npy.rank);
        n->is_bound |= changed;
        return changed;
    }
    if (n->is_bound && !was)
        return false; /* bound once, whatever happens to it */
    bool unbound =
        was && (staged_set_text(&n->bound[0], NULL, 0), staged_set_text(&n->bound[1], NULL, 0), true);
    if (n->origin && n->origin->nbytes == n->size)
        n->is_bound = bind_to(n, n->origin->dtype, n->origin->shape, n->origin->rank);
    else {
        tensor_path(n, &path);
        const struct tensor *t = path.len ? mounted_at(r, path.p) : NULL;
        n->is_bound = t && t->nbytes == n->size && bind_to(n, t->dtype, t->shape, t->rank);
        buf_free(&path);
    }
    return n->is_bound || unbound;
}

const char *staged_value(const struct staged *n, enum attribute a)
{
    if (a == ATTR_NAME)
        return n->attr[a];
    if (n->npy)
        return n->bound[a];
    return n->attr[a] ? n->attr[a] : n->bound[a];
}

static int parse_shape(const char *text, struct staged_item *out)
{
    struct json j = {.start = text, .p = text, .end = text + strlen(text)};
    size_t room = 8, n = 0;
    uint64_t *v = malloc(room * sizeof *v);
    int ok = v && json_take(&j, '[') == 0;
    if (ok && !json_taken(&j, ']')) {
        do {
            uint64_t *p = n == room ? realloc(v, (room *= 2) * sizeof *v) : v;
            v = p ? p : v;
            ok = p && json_u64(&j, &v[n++]) == 0;
        } while (ok && json_taken(&j, ','));
        ok = ok && json_take(&j, ']') == 0;
    }
    if (!ok || json_end(&j) < 0) {
        free(v);
        return -EINVAL;
    }
    out->shape = v;
    out->rank = (uint32_t)n;
    return 0;
}

/* What `-o dtype=` gives a type to has one dimension. */
static int one_dimension(const struct staged *n, struct staged_item *out)
{
    out->shape = malloc(sizeof *out->shape);
    if (!out->shape)
        return -ENOMEM;
    out->shape[0] = n->size / tm_dtype_bits(out->dtype) * 8 +
                    n->size % tm_dtype_bits(out->dtype) * 8 / tm_dtype_bits(out->dtype);
    out->rank = 1;
    return 0;
}

static int find_type(const struct staged_rules *r, const struct staged *n, struct staged_item *out,
                     struct report *why)
{
    const char *dtype = staged_value(n, ATTR_DTYPE), *shape = staged_value(n, ATTR_SHAPE);
    bool by_option = !dtype && r->dtype;
    if (by_option)
        dtype = r->dtype;
    if (!dtype || (!shape && !by_option))
        return report_fatal(why, -ENODATA, out->name, out->name_len, FS_NO_OFFSET, "no %s (set user.%s)",
                            dtype ? "shape" : "dtype", dtype ? "shape" : "dtype");
    if (tm_dtype_from_name(dtype, &out->dtype) < 0 || out->dtype >= TM_SAFETENSORS_CODES)
        return report_fatal(why, -EINVAL, out->name, out->name_len, FS_NO_OFFSET, "unknown dtype '%.32s'",
                            dtype);
    if (!shape)
        return one_dimension(n, out);
    if (parse_shape(shape, out) < 0)
        return report_fatal(why, -EINVAL, out->name, out->name_len, FS_NO_OFFSET,
                            "shape '%.64s' is no list of sizes like [3,4]", shape);
    return 0;
}

static int check_size(const struct staged *n, struct staged_item *out, struct report *why)
{
    uint64_t have = n->size;
    struct npy npy;
    if (n->npy && read_npy(n, &npy)) {
        out->skip = npy.skip;
        out->fortran = npy.fortran && npy.rank > 1;
        out->swapped = npy.swapped && tm_dtype_bits(npy.dtype) > 8;
        have -= npy.skip;
    }
    int err = tm_nbytes(out->dtype, (int)out->rank, out->shape, &out->nbytes);
    if (err < 0)
        return report_fatal(why, err, out->name, out->name_len, FS_NO_OFFSET,
                            err == -EOVERFLOW ? "the size of its shape overflows 64 bits"
                                              : "its elements of %u bits fill no whole byte",
                            tm_dtype_bits(out->dtype));
    if (out->nbytes != have)
        return report_fatal(why, -EINVAL, out->name, out->name_len, FS_NO_OFFSET,
                            "its shape of %s needs %" PRIu64 " bytes, the file has %" PRIu64,
                            tm_dtype_name(out->dtype), out->nbytes, have);
    return 0;
}

/* ---- name ---- */

static int hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The inverse of section 2. */
static void name_of_path(enum layout layout, const char *path, struct buf *out)
{
    for (const char *p = path; *p; p++) {
        bool alone = *p == '%' && (p == path || p[-1] == '/') && (p[1] == 0 || p[1] == '/');
        if (*p == '/')
            buf_char(out, layout == LAYOUT_TREE ? '.' : '/');
        else if (*p == '%' && hex(p[1]) >= 0 && hex(p[2]) >= 0) {
            buf_char(out, (char)(hex(p[1]) << 4 | hex(p[2])));
            p += 2;
        } else if (!alone) /* "%" alone is the empty component */
            buf_char(out, *p);
    }
}

void staged_name(const struct staged_rules *r, const struct staged *n, struct buf *out)
{
    struct buf path = {0};
    staged_path(n, &path);
    if (n->attr[ATTR_NAME] && n->name_path && path.len && strcmp(n->name_path, path.p) == 0) {
        buf_add(out, n->attr[ATTR_NAME], n->name_len);
    } else {
        path.len = 0;
        tensor_path(n, &path);
        const struct tensor *t = path.len ? mounted_at(r, path.p) : NULL;
        if (t)
            buf_add(out, t->name, t->name_len);
        else if (path.len)
            name_of_path(r->layout, path.p, out);
    }
    out->failed |= path.failed;
    buf_free(&path);
}

static bool left_behind(const struct staged *n)
{
    size_t len = strlen(n->name);
    return (n->name[0] == '.' || n->name[len - 1] == '~') && !staged_value(n, ATTR_DTYPE) &&
           !staged_value(n, ATTR_SHAPE);
}

int staged_describe(const struct staged_rules *r, const struct staged *n, struct staged_item *out,
                    struct report *why)
{
    struct buf name = {0};
    *out = (struct staged_item){.file = n};
    if (left_behind(n))
        return 1;
    staged_name(r, n, &name);
    if (!name.p && !name.failed)
        buf_add(&name, "", 0);
    if (name.failed) {
        buf_free(&name);
        return report_fatal(why, -ENOMEM, NULL, 0, FS_NO_OFFSET, "out of memory");
    }
    out->name = name.p;
    out->name_len = name.len;
    int err = canonical_name(out->name, out->name_len, why);
    if (err == 0)
        err = find_type(r, n, out, why);
    if (err == 0)
        err = check_size(n, out, why);
    if (err < 0)
        staged_item_free(out);
    return err;
}

void staged_item_free(struct staged_item *i)
{
    free(i->name);
    free(i->shape);
    *i = (struct staged_item){0};
}
