/* SPDX-License-Identifier: MIT */
#include "npy_read.h"

#include <stdlib.h>
#include <string.h>

/* The header is a Python literal; of that language only what NumPy writes is understood. */
struct literal {
    const char *p, *end;
};

static void space(struct literal *l)
{
    while (l->p < l->end && (*l->p == ' ' || *l->p == '\n' || *l->p == '\t' || *l->p == '\r'))
        l->p++;
}

static bool take(struct literal *l, const char *word)
{
    size_t n = strlen(word);
    space(l);
    if ((size_t)(l->end - l->p) < n || memcmp(l->p, word, n) != 0)
        return false;
    l->p += n;
    return true;
}

/* 'text' or "text", without escapes. */
static bool string(struct literal *l, char *out, size_t room)
{
    space(l);
    char quote = l->p < l->end ? *l->p : 0;
    if (quote != '\'' && quote != '"')
        return false;
    const char *from = ++l->p, *to = memchr(from, quote, (size_t)(l->end - from));
    if (!to || (size_t)(to - from) >= room || memchr(from, '\\', (size_t)(to - from)))
        return false;
    memcpy(out, from, (size_t)(to - from));
    out[to - from] = 0;
    l->p = to + 1;
    return true;
}

static bool integer(struct literal *l, uint64_t *out)
{
    space(l);
    const char *from = l->p;
    *out = 0;
    for (; l->p < l->end && *l->p >= '0' && *l->p <= '9'; l->p++)
        if (__builtin_mul_overflow(*out, 10, out) ||
            __builtin_add_overflow(*out, (uint64_t)(*l->p - '0'), out))
            return false;
    if (l->p > from && l->p < l->end && *l->p == 'L') /* Python 2 */
        l->p++;
    return l->p > from;
}

static bool tuple(struct literal *l, struct npy *out)
{
    if (!take(l, "("))
        return false;
    out->rank = 0;
    while (!take(l, ")")) {
        if (out->rank == NPY_RANK || !integer(l, &out->shape[out->rank++]))
            return false;
        if (!take(l, ","))
            return take(l, ")");
    }
    return true;
}

/* "<f4" and the like. */
static bool descr(const char *s, struct npy *out)
{
    static const struct {
        const char *code;
        tm_dtype dtype;
    } types[] = {{"f8", TM_F64}, {"f4", TM_F32},  {"f2", TM_F16}, {"i8", TM_I64}, {"i4", TM_I32},
                 {"i2", TM_I16}, {"i1", TM_I8},   {"u8", TM_U64}, {"u4", TM_U32}, {"u2", TM_U16},
                 {"u1", TM_U8},  {"b1", TM_BOOL}, {"c8", TM_C64}, {"?", TM_BOOL}};
    if (s[0] && strchr("<>|=", s[0]))
        out->swapped = *s++ == '>';
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(types[i].code, s) == 0) {
            out->dtype = types[i].dtype;
            return true;
        }
    return false;
}

static bool dictionary(struct literal *l, struct npy *out)
{
    enum { DESCR = 1, FORTRAN = 2, SHAPE = 4 };
    unsigned seen = 0;
    char key[32], text[32];
    if (!take(l, "{"))
        return false;
    while (!take(l, "}")) {
        if (!string(l, key, sizeof key) || !take(l, ":"))
            return false;
        if (strcmp(key, "descr") == 0 && string(l, text, sizeof text) && descr(text, out))
            seen |= DESCR;
        else if (strcmp(key, "fortran_order") == 0 && ((out->fortran = take(l, "True")) || take(l, "False")))
            seen |= FORTRAN;
        else if (strcmp(key, "shape") == 0 && tuple(l, out))
            seen |= SHAPE;
        else
            return false;
        if (!take(l, ",")) {
            if (!take(l, "}"))
                return false;
            break;
        }
    }
    space(l);
    return seen == (DESCR | FORTRAN | SHAPE) && l->p == l->end;
}

static size_t fixed_part(const char *p)
{
    return p[6] == 1 ? 10 : 12;
}

uint64_t npy_skip(const char *p)
{
    const unsigned char *b = (const unsigned char *)p;
    uint64_t n = 0;
    if (memcmp(p, "\x93NUMPY", 6) != 0 || b[6] < 1 || b[6] > 3 || b[7] != 0)
        return 0;
    for (size_t i = fixed_part(p); i-- > 8;)
        n = n << 8 | b[i];
    return fixed_part(p) + n;
}

bool npy_parse(const char *p, size_t len, struct npy *out)
{
    *out = (struct npy){.skip = len >= 12 ? npy_skip(p) : 0};
    if (out->skip == 0 || out->skip > len)
        return false;
    struct literal l = {p + fixed_part(p), p + out->skip};
    return dictionary(&l, out);
}
