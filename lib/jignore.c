/* SPDX-License-Identifier: MIT
 * jtree_ignore: values nobody reads, as the ThinTensor tool's parser skips them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "jtree.h"

/* Which of the open containers are objects; there may be as many as the text has bytes. */
struct nest {
    unsigned char *object; /* a bit each */
    size_t n, room;        /* room in bytes */
};

static int fail(struct json *j, const char *why)
{
    j->why = why;
    return -1;
}

static int push(struct json *j, struct nest *s, bool object)
{
    if (s->n / 8 == s->room) {
        size_t room = s->room ? s->room * 2 : 32;
        unsigned char *p = realloc(s->object, room);
        if (!p)
            return fail(j, "out of memory");
        s->object = p;
        s->room = room;
    }
    unsigned bit = 1u << s->n % 8;
    s->object[s->n / 8] = (unsigned char)((s->object[s->n / 8] & ~bit) | (object ? bit : 0));
    s->n++;
    return 0;
}

static bool in_object(const struct nest *s)
{
    return s->object[(s->n - 1) / 8] >> (s->n - 1) % 8 & 1;
}

static bool hex(char c)
{
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'f');
}

static int ignore_escape(struct json *j)
{
    char c = j->p < j->end ? *j->p++ : 0;
    if (c && c != 'u')
        return strchr("\"\\/bfnrt", c) ? 0 : fail(j, "an escape that JSON has not");
    for (int i = 0; c && i < 4; i++, j->p++)
        if (j->p == j->end || !hex(*j->p))
            return fail(j, "\\u needs four hexadecimal digits");
    return c ? 0 : fail(j, "the text ends inside a string");
}

static int ignore_string(struct json *j)
{
    if (json_take(j, '"') < 0)
        return -1;
    while (j->p < j->end) {
        unsigned char c = (unsigned char)*j->p++;
        if (c == '"')
            return 0;
        if (c < 0x20)
            return fail(j, "a raw control character inside a string");
        if (c == '\\' && ignore_escape(j) < 0)
            return -1;
    }
    return fail(j, "the text ends inside a string");
}

static int ignore_scalar(struct json *j, char c)
{
    if (c == '"')
        return ignore_string(j);
    if (c == '-' || (c >= '0' && c <= '9'))
        return json_number(j);
    const char *word = c == 't' ? "true" : c == 'f' ? "false" : "null";
    size_t n = strlen(word);
    if ((size_t)(j->end - j->p) < n || memcmp(j->p, word, n) != 0)
        return fail(j, "no JSON value");
    j->p += n;
    return 0;
}

/* Behind a value: closes what ends here. *more: another value follows, its key taken. */
static int after_value(struct json *j, struct nest *s, bool *more)
{
    *more = false;
    while (s->n) {
        bool object = in_object(s);
        if (json_taken(j, ',')) {
            *more = true;
            return object && (ignore_string(j) < 0 || json_take(j, ':') < 0) ? -1 : 0;
        }
        if (json_take(j, object ? '}' : ']') < 0)
            return -1;
        s->n--;
    }
    return 0;
}

int jtree_ignore(struct json *j)
{
    struct nest s = {0};
    bool more = true;
    int err = 0;
    while (more && err == 0) {
        char c = json_peek(j);
        if (c == '{' || c == '[') {
            j->p++;
            if (json_peek(j) != (c == '{' ? '}' : ']')) {
                err = push(j, &s, c == '{');
                if (err == 0 && c == '{' && (ignore_string(j) < 0 || json_take(j, ':') < 0))
                    err = -1;
                continue;
            }
            j->p++;
        } else {
            err = ignore_scalar(j, c);
        }
        if (err == 0)
            err = after_value(j, &s, &more);
    }
    free(s.object);
    return err;
}
