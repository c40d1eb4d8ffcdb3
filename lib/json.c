/* SPDX-License-Identifier: MIT */
#include "json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "utf8.h"

static int fail(struct json *j, const char *why)
{
    j->why = why;
    return -1;
}

/* Fails, saying what should have been there instead of what is. */
int json_missing(struct json *j, char c)
{
    static const char *const expected[128] = {
        ['{'] = "'{' expected",        ['}'] = "',' or '}' expected", ['['] = "'[' expected",
        [']'] = "',' or ']' expected", [':'] = "':' expected",        ['"'] = "a string expected",
        [','] = "',' expected"};
    return fail(j, j->p == j->end ? "the text ends too early" : expected[c & 127]);
}

/* Moves to the closing quote. *plain: nothing to decode on the way. */
static int scan_string(struct json *j, bool *plain)
{
    *plain = true;
    while (j->p < j->end) {
        unsigned char c = (unsigned char)*j->p;
        if (c == '"')
            return 0;
        if (c < 0x20)
            return fail(j, "a raw control character inside a string");
        if (c == '\\') {
            *plain = false;
            if (++j->p == j->end)
                break;
            j->p++;
        } else if (c < 0x80) {
            j->p++;
        } else {
            size_t n = utf8_char(j->p, (size_t)(j->end - j->p));
            if (n == 0)
                return fail(j, "bytes that are not UTF-8");
            j->p += n;
        }
    }
    j->p = j->end;
    return fail(j, "the text ends inside a string");
}

static int hex4(struct json *j, const char *p, const char *end, unsigned *out)
{
    unsigned v = 0;
    for (int i = 0; i < 4; i++, p++) {
        unsigned c = p < end ? (unsigned char)*p : 0;
        unsigned digit = c - '0' < 10 ? c - '0' : (c | 32) - 'a' < 6 ? (c | 32) - 'a' + 10 : 16;
        if (digit > 15)
            return fail(j, "\\u needs four hexadecimal digits");
        v = v << 4 | digit;
    }
    *out = v;
    return 0;
}

static char *put_utf8(char *to, unsigned c)
{
    if (c < 0x80) {
        *to++ = (char)c;
    } else if (c < 0x800) {
        *to++ = (char)(0xC0 | c >> 6);
        *to++ = (char)(0x80 | (c & 0x3F));
    } else {
        if (c < 0x10000) {
            *to++ = (char)(0xE0 | c >> 12);
        } else {
            *to++ = (char)(0xF0 | c >> 18);
            *to++ = (char)(0x80 | (c >> 12 & 0x3F));
        }
        *to++ = (char)(0x80 | (c >> 6 & 0x3F));
        *to++ = (char)(0x80 | (c & 0x3F));
    }
    return to;
}

/* p is behind "\u"; takes the low half of a surrogate pair as well. */
static int unicode_escape(struct json *j, const char **p, const char *end, char **to)
{
    unsigned c, low;
    if (hex4(j, *p, end, &c) < 0)
        return -1;
    *p += 4;
    if (c >= 0xD800 && c < 0xE000) {
        if (c >= 0xDC00 || end - *p < 6 || (*p)[0] != '\\' || (*p)[1] != 'u')
            return fail(j, "half of a surrogate pair");
        if (hex4(j, *p + 2, end, &low) < 0)
            return -1;
        if (low < 0xDC00 || low >= 0xE000)
            return fail(j, "half of a surrogate pair");
        *p += 6;
        c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
    }
    *to = put_utf8(*to, c);
    return 0;
}

/* Decodes [p, end), all of it scanned, to `to`, which never needs more room. Returns the end of what it
 * wrote. */
static char *unescape(struct json *j, const char *p, const char *end, char *to)
{
    static const char from[] = "\"\\/bfnrt", meaning[] = "\"\\/\b\f\n\r\t";
    while (p < end) {
        const char *run = memchr(p, '\\', (size_t)(end - p));
        size_t n = (size_t)((run ? run : end) - p);
        memcpy(to, p, n);
        to += n;
        p += n;
        if (!run)
            break;
        const char *at = p, *known = p[1] ? strchr(from, p[1]) : NULL;
        p += 2;
        if (known) {
            *to++ = meaning[known - from];
        } else if (at[1] != 'u' || unicode_escape(j, &p, end, &to) < 0) {
            if (at[1] != 'u')
                j->why = "an escape that JSON has not";
            j->p = at;
            return NULL;
        }
    }
    return to;
}

int json_string(struct json *j, struct arena *a, struct json_text *out)
{
    bool plain;
    if (json_take(j, '"') < 0)
        return -1;
    const char *from = j->p;
    if (scan_string(j, &plain) < 0)
        return -1;
    size_t raw = (size_t)(j->p - from);
    char *s = plain ? arena_text(a, from, raw) : arena_alloc(a, raw + 1, 0);
    if (!s) {
        j->why = "out of memory";
        return -2;
    }
    char *end = s + raw;
    if (!plain) {
        end = unescape(j, from, j->p, s);
        if (!end)
            return -1;
        *end = 0;
    }
    *out = (struct json_text){s, (size_t)(end - s)};
    j->p++;
    return 0;
}

static bool digit(const struct json *j)
{
    return j->p < j->end && *j->p >= '0' && *j->p <= '9';
}

int json_u64(struct json *j, uint64_t *out)
{
    uint64_t v = 0;
    char first = json_peek(j);
    const char *from = j->p;
    if (first == '-')
        return fail(j, "a negative number where none may be");
    if (!digit(j))
        return fail(j, "an integer expected");
    for (; digit(j); j->p++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, (uint64_t)(*j->p - '0'), &v)) {
            j->p = from;
            return fail(j, "a number over 2^64 - 1");
        }
    if (first == '0' && j->p - from > 1) {
        j->p = from;
        return fail(j, "a number with a leading zero");
    }
    if (j->p < j->end && (*j->p == '.' || *j->p == 'e' || *j->p == 'E')) {
        j->p = from;
        return fail(j, "an integer expected, not a number with a point or an exponent");
    }
    *out = v;
    return 0;
}

static int word(struct json *j, const char *text)
{
    size_t n = strlen(text);
    if ((size_t)(j->end - j->p) < n || memcmp(j->p, text, n) != 0)
        return fail(j, "no JSON value");
    j->p += n;
    return 0;
}

int json_null(struct json *j)
{
    json_peek(j);
    return word(j, "null");
}

static int digits(struct json *j)
{
    if (!digit(j))
        return fail(j, "a digit expected");
    while (digit(j))
        j->p++;
    return 0;
}

int json_number(struct json *j)
{
    if (*j->p == '-')
        j->p++;
    if (j->p < j->end && *j->p == '0')
        j->p++;
    else if (digits(j) < 0)
        return -1;
    if (j->p < j->end && *j->p == '.') {
        j->p++;
        if (digits(j) < 0)
            return -1;
    }
    if (j->p < j->end && (*j->p | 32) == 'e') {
        j->p++;
        if (j->p < j->end && (*j->p == '+' || *j->p == '-'))
            j->p++;
        if (digits(j) < 0)
            return -1;
    }
    return 0;
}

/* One too large for a double is refused, as the reference does. */
static int skip_number(struct json *j)
{
    const char *from = j->p;
    char text[64];
    if (json_number(j) < 0)
        return -1;
    size_t n = (size_t)(j->p - from);
    if (n < sizeof text) { /* longer ones are let through: nothing reads their value */
        memcpy(text, from, n);
        text[n] = 0;
        if (isinf(strtod(text, NULL))) {
            j->p = from;
            return fail(j, "a number too large");
        }
    }
    return 0;
}

static int skip_scalar(struct json *j, char c)
{
    bool plain;
    if (c == '"') {
        const char *from = ++j->p;
        if (scan_string(j, &plain) < 0)
            return -1;
        if (!plain) {
            char *room = malloc((size_t)(j->p - from) + 1);
            char *end = room ? unescape(j, from, j->p, room) : NULL;
            free(room);
            if (!room)
                j->why = "out of memory";
            if (!end)
                return -1;
        }
        j->p++;
        return 0;
    }
    if (c == '-' || (c >= '0' && c <= '9'))
        return skip_number(j);
    return word(j, c == 't' ? "true" : c == 'f' ? "false" : "null");
}

static int skip_key(struct json *j)
{
    if (json_peek(j) != '"')
        return json_take(j, '"');
    return skip_scalar(j, '"') < 0 ? -1 : json_take(j, ':');
}

/* Behind a value: the ends of the containers that it closes, or the comma before the next value. */
static int skip_after(struct json *j, const bool *object, unsigned *depth, unsigned floor)
{
    while (*depth > floor) {
        char close = object[*depth] ? '}' : ']';
        if (json_taken(j, ',')) {
            if (object[*depth])
                return skip_key(j);
            return 0;
        }
        if (json_take(j, close) < 0)
            return -1;
        --*depth;
    }
    return 0;
}

int json_skip(struct json *j, unsigned depth)
{
    bool object[JSON_DEPTH + 1];
    unsigned floor = depth;
    do {
        char c = json_peek(j);
        if (c == '{' || c == '[') {
            if (++depth > JSON_DEPTH)
                return fail(j, "more than 127 arrays and objects inside each other");
            object[depth] = c == '{';
            j->p++;
            char next = json_peek(j);
            if (next != (object[depth] ? '}' : ']')) {
                if (object[depth] && skip_key(j) < 0)
                    return -1;
                continue;
            }
            j->p++;
            depth--;
        } else if (skip_scalar(j, c) < 0) {
            return -1;
        }
        if (skip_after(j, object, &depth, floor) < 0)
            return -1;
    } while (depth > floor);
    return 0;
}

int json_end(struct json *j)
{
    json_peek(j);
    return j->p == j->end ? 0 : fail(j, "text after the end of the object");
}
