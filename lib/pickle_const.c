/* SPDX-License-Identifier: MIT
 * Opcodes for constants: numbers, text, bytes. */
#include <errno.h>
#include <string.h>

#include "number.h"
#include "pickle_i.h"
#include "utf8.h"

/* Bytes longer than this are not copied where they can be read from their place in the file. */
enum { KEPT = 65536 };

int pickle_number(struct pickle *p, unsigned bytes, uint64_t *out)
{
    *out = 0;
    for (unsigned i = 0; i < bytes; i++) {
        int c = bytes_in_byte(p->in);
        if (c < 0)
            return pickle_cut(p);
        *out |= (uint64_t)c << (8 * i);
    }
    return 0;
}

int pickle_line(struct pickle *p, char line[PICKLE_LINE], size_t *len)
{
    *len = 0;
    for (;;) {
        int c = bytes_in_byte(p->in);
        if (c < 0)
            return pickle_cut(p);
        if (c == '\n')
            return 0;
        if (*len == PICKLE_LINE)
            return pickle_refuse(p, "a line of more than %d bytes", PICKLE_LINE);
        line[(*len)++] = (char)c;
    }
}

int pickle_index(struct pickle *p, uint64_t *out)
{
    char line[PICKLE_LINE];
    size_t len;
    int err = pickle_line(p, line, &len);
    if (err < 0)
        return err;
    *out = 0;
    for (size_t i = 0; i < len; i++) {
        if (line[i] < '0' || line[i] > '9' || *out > PICKLE_MEMO)
            return pickle_refuse(p, "a memo number that is none");
        *out = *out * 10 + (uint64_t)(line[i] - '0');
    }
    return len ? 0 : pickle_refuse(p, "a memo number that is none");
}

static int enough(struct pickle *p, uint64_t len)
{
    uint64_t left = bytes_in_left(p->in);
    if (len <= left)
        return 0;
    return pickle_refuse(p, "a length of %llu bytes, %llu are left", (unsigned long long)len,
                         (unsigned long long)left);
}

int pickle_copy(struct pickle *p, uint64_t len, char **out)
{
    int err = enough(p, len);
    if (err < 0)
        return err;
    if (len > p->values->most - p->values->used || len >= UINT32_MAX)
        return pickle_failed(p, len >= UINT32_MAX ? -E2BIG : -ENOMEM);
    *out = arena_alloc(&p->values->arena, (size_t)len, false);
    if (!*out)
        return pickle_failed(p, -ENOMEM);
    p->values->used += len;
    return bytes_in_take(p->in, *out, len) < 0 ? pickle_cut(p) : 0;
}

static int push_int(struct pickle *p, int64_t i)
{
    return pickle_push(p, i >= 0 && i < 256 ? p->small[i] : value_int(p->values, i));
}

int pickle_op_binint(struct pickle *p)
{
    uint64_t i;
    int err = pickle_number(p, 4, &i);
    return err < 0 ? err : push_int(p, (int32_t)(uint32_t)i);
}

int pickle_op_binint1(struct pickle *p)
{
    uint64_t i;
    int err = pickle_number(p, 1, &i);
    return err < 0 ? err : push_int(p, (int64_t)i);
}

int pickle_op_binint2(struct pickle *p)
{
    uint64_t i;
    int err = pickle_number(p, 2, &i);
    return err < 0 ? err : push_int(p, (int64_t)i);
}

/* n bytes of two's complement, at `b` among the values if n > 8. */
static int push_big(struct pickle *p, const unsigned char *b, size_t n)
{
    uint64_t bits = n && (b[n - 1] & 0x80) ? UINT64_MAX : 0;
    while (n > 1 && b[n - 1] == (unsigned char)bits && ((b[n - 2] ^ bits) & 0x80) == 0)
        n--; /* bytes that only repeat the sign */
    if (n <= 8) {
        for (size_t i = n; i-- > 0;)
            bits = bits << 8 | b[i];
        return push_int(p, (int64_t)bits);
    }
    struct value *v = value_new(p->values, VALUE_BIG);
    if (v) {
        v->text = (const char *)b;
        v->n = (uint32_t)n;
    }
    return pickle_push(p, v);
}

static int push_long(struct pickle *p, uint64_t n)
{
    char *b;
    if (n > PICKLE_INTEGER)
        return pickle_refuse(p, "an integer of %llu bytes", (unsigned long long)n);
    int err = pickle_copy(p, n, &b);
    return err < 0 ? err : push_big(p, (const unsigned char *)b, (size_t)n);
}

int pickle_op_long1(struct pickle *p)
{
    uint64_t n;
    int err = pickle_number(p, 1, &n);
    return err < 0 ? err : push_long(p, n);
}

int pickle_op_long4(struct pickle *p)
{
    uint64_t n;
    int err = pickle_number(p, 4, &n);
    if (err == 0 && n > INT32_MAX)
        err = pickle_refuse(p, "an integer of negative length");
    return err < 0 ? err : push_long(p, n);
}

static int push_decimal(struct pickle *p, const char *line, size_t len)
{
    unsigned char b[136];
    size_t n = sizeof b;
    char *kept;
    if (number_big(line, len, b, &n) < 0)
        return pickle_refuse(p, "a line that should be an integer is none, or too long");
    kept = values_alloc(p->values, n);
    if (!kept)
        return pickle_failed(p, -ENOMEM);
    memcpy(kept, b, n);
    return push_big(p, (unsigned char *)kept, n);
}

int pickle_op_int(struct pickle *p)
{
    char line[PICKLE_LINE];
    size_t len;
    int err = pickle_line(p, line, &len);
    if (err < 0)
        return err;
    if (len == 2 && line[0] == '0' && (line[1] == '0' || line[1] == '1'))
        return pickle_push(p, line[1] == '1' ? p->yes : p->no);
    return push_decimal(p, line, len);
}

int pickle_op_long(struct pickle *p)
{
    char line[PICKLE_LINE];
    size_t len;
    int err = pickle_line(p, line, &len);
    if (err < 0)
        return err;
    if (len && line[len - 1] == 'L')
        len--;
    return push_decimal(p, line, len);
}

static int push_float(struct pickle *p, double f)
{
    struct value *v = value_new(p->values, VALUE_FLOAT);
    if (v)
        v->f = f;
    return pickle_push(p, v);
}

int pickle_op_binfloat(struct pickle *p)
{
    uint64_t bits;
    double f;
    int err = pickle_number(p, 8, &bits);
    if (err < 0)
        return err;
    bits = __builtin_bswap64(bits); /* the only big-endian number of the format */
    memcpy(&f, &bits, sizeof f);
    return push_float(p, f);
}

int pickle_op_float(struct pickle *p)
{
    char line[PICKLE_LINE];
    size_t len;
    double f;
    int err = pickle_line(p, line, &len);
    if (err < 0)
        return err;
    if (number_float(line, len, &f) < 0)
        return pickle_refuse(p, "a line that should be a number is none");
    return push_float(p, f);
}

/* UTF-8, where Python also writes surrogates by themselves (ED A0..BF xx). */
static bool is_text(const char *s, size_t len)
{
    size_t i = 0;
    for (;;) {
        i += utf8_span(s + i, len - i);
        if (i == len)
            return true;
        const unsigned char *c = (const unsigned char *)s + i;
        if (len - i < 3 || c[0] != 0xED || (c[1] & 0xE0) != 0xA0 || (c[2] & 0xC0) != 0x80)
            return false;
        i += 3;
    }
}

static int push_text(struct pickle *p, unsigned bytes)
{
    uint64_t len;
    char *s;
    int err = pickle_number(p, bytes, &len);
    if (err == 0)
        err = pickle_copy(p, len, &s);
    if (err < 0)
        return err;
    if (!is_text(s, (size_t)len))
        return pickle_refuse(p, "a text that is no UTF-8");
    return pickle_push(p, value_text(p->values, s, (size_t)len));
}

int pickle_op_text1(struct pickle *p)
{
    return push_text(p, 1);
}

int pickle_op_text4(struct pickle *p)
{
    return push_text(p, 4);
}

int pickle_op_text8(struct pickle *p)
{
    return push_text(p, 8);
}

static int push_bytes(struct pickle *p, const char *b, uint64_t len, uint64_t at, uint8_t flags)
{
    struct value *v = value_new(p->values, VALUE_BYTES);
    struct value_bytes *x = values_alloc(p->values, sizeof *x);
    if (!v || !x)
        return pickle_failed(p, -ENOMEM);
    *x = (struct value_bytes){.p = (const unsigned char *)b, .len = len, .at = at};
    v->bytes = x;
    v->flags = flags;
    return pickle_push(p, v);
}

static int read_bytes(struct pickle *p, unsigned bytes, uint8_t flags)
{
    uint64_t len;
    char *b = NULL;
    int err = pickle_number(p, bytes, &len);
    if (err == 0)
        err = enough(p, len);
    if (err < 0)
        return err;
    uint64_t at = p->in->source && !p->packed ? bytes_in_at(p->in) : VALUE_NOWHERE;
    if (at == VALUE_NOWHERE || len <= KEPT)
        err = pickle_copy(p, len, &b);
    else if (bytes_in_take(p->in, NULL, len) < 0)
        err = pickle_cut(p);
    return err < 0 ? err : push_bytes(p, b, len, at, flags);
}

int pickle_op_bytes1(struct pickle *p)
{
    return read_bytes(p, 1, 0);
}

int pickle_op_bytes4(struct pickle *p)
{
    return read_bytes(p, 4, 0);
}

int pickle_op_bytes8(struct pickle *p)
{
    return read_bytes(p, 8, 0);
}

int pickle_op_bytearray8(struct pickle *p)
{
    return read_bytes(p, 8, VALUE_MUTABLE_BYTES);
}

/* A str of Python 2: text if it can be, else bytes. */
static int push_string(struct pickle *p, const char *s, size_t len)
{
    if (utf8_span(s, len) == len)
        return pickle_push(p, value_text(p->values, s, len));
    return push_bytes(p, s, len, VALUE_NOWHERE, 0);
}

static int read_string(struct pickle *p, unsigned bytes)
{
    uint64_t len;
    char *s = NULL;
    int err = pickle_number(p, bytes, &len);
    if (err == 0 && bytes == 4 && len > INT32_MAX)
        err = pickle_refuse(p, "a string of negative length");
    if (err == 0)
        err = pickle_copy(p, len, &s);
    return err < 0 ? err : push_string(p, s, (size_t)len);
}

int pickle_op_string1(struct pickle *p)
{
    return read_string(p, 1);
}

int pickle_op_string4(struct pickle *p)
{
    return read_string(p, 4);
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* \xHH, \uHHHH or \UHHHHHHHH behind its letter: `digits` of them. -1: they are none. */
static long hex_number(const char *s, const char *end, int digits)
{
    long n = 0;
    if (end - s < digits)
        return -1;
    for (int i = 0; i < digits; i++) {
        int d = hex_digit(s[i]);
        if (d < 0)
            return -1;
        n = n << 4 | d;
    }
    return n;
}

/* As UTF-8, surrogates too. */
static size_t put_char(char *to, unsigned long c)
{
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, c >>= 6)
        to[i] = (char)(0x80 | (c & 0x3F));
    to[0] = (char)(c | (n == 2 ? 0xC0U : n == 3 ? 0xE0U : 0xF0U));
    return n;
}

/* Of a raw-unicode-escape line: bytes are Latin-1, \u and \U are characters. */
int pickle_op_text_line(struct pickle *p)
{
    char line[PICKLE_LINE], *to, *start;
    size_t len;
    int err = pickle_line(p, line, &len);
    if (err < 0)
        return err;
    start = to = values_alloc(p->values, len * 2 + 1);
    if (!to)
        return pickle_failed(p, -ENOMEM);
    for (const char *s = line, *end = line + len; s < end;) {
        int digits = *s != '\\' || s + 1 == end ? 0 : s[1] == 'u' ? 4 : s[1] == 'U' ? 8 : 0;
        long c = digits ? hex_number(s + 2, end, digits) : (unsigned char)*s;
        if (c < 0 || c > 0x10FFFF)
            return pickle_refuse(p, "a text with a bad escape");
        s += digits ? digits + 2 : 1;
        to += put_char(to, (unsigned long)c);
    }
    return pickle_push(p, value_text(p->values, start, (size_t)(to - start)));
}

/* One escaped character of a Python 2 string; returns how many bytes it took, 0: it is bad. */
static size_t unescape(const char *s, const char *end, char *out, size_t *n)
{
    static const char from[] = "\\'\"abfnrtv", into[] = "\\'\"\a\b\f\n\r\t\v";
    const char *at = strchr(from, s[0]);
    *n = 1;
    if (s[0] == 0)
        return 0;
    if (at) {
        *out = into[at - from];
        return 1;
    }
    if (s[0] == 'x') {
        long c = hex_number(s + 1, end, 2);
        *out = (char)c;
        return c < 0 ? 0 : 3;
    }
    if (s[0] < '0' || s[0] > '7') { /* Python keeps what it does not know */
        out[0] = '\\';
        out[1] = s[0];
        *n = 2;
        return 1;
    }
    unsigned c = 0;
    size_t i = 0;
    for (; i < 3 && s + i < end && s[i] >= '0' && s[i] <= '7'; i++)
        c = c * 8 + (unsigned)(s[i] - '0');
    *out = (char)c;
    return i;
}

int pickle_op_string_line(struct pickle *p)
{
    char line[PICKLE_LINE], *to, *start;
    size_t len, n;
    int err = pickle_line(p, line, &len);
    if (err < 0)
        return err;
    while (len && (line[len - 1] == ' ' || line[len - 1] == '\r'))
        len--;
    if (len < 2 || (line[0] != '\'' && line[0] != '"') || line[len - 1] != line[0])
        return pickle_refuse(p, "a string without its quotes");
    start = to = values_alloc(p->values, len);
    if (!to)
        return pickle_failed(p, -ENOMEM);
    for (const char *s = line + 1, *end = line + len - 1; s < end;) {
        if (*s != '\\') {
            *to++ = *s++;
            continue;
        }
        size_t took = s + 1 < end ? unescape(s + 1, end, to, &n) : 0;
        if (took == 0)
            return pickle_refuse(p, "a string with a bad escape");
        s += 1 + took;
        to += n;
    }
    return push_string(p, start, (size_t)(to - start));
}
