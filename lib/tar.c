/* SPDX-License-Identifier: MIT */
#include "tar.h"

#include <errno.h>
#include <string.h>

#include "checked.h"

enum {
    BLOCK = 512,
    PAX_MAX = 65536,
    NAME = 100,
    SIZE_AT = 124,
    SIZE_LEN = 12,
    SUM_AT = 148,
    SUM_LEN = 8,
    TYPE_AT = 156
};

/* An octal field, ended by a NUL or a space. -1: it is none (base-256, for instance). */
static int octal(const unsigned char *p, size_t len, uint64_t *out)
{
    size_t i = 0, digits = 0;
    *out = 0;
    while (i < len && p[i] == ' ')
        i++;
    for (; i < len && p[i] >= '0' && p[i] <= '7'; i++, digits++)
        *out = *out * 8 + (uint64_t)(p[i] - '0');
    if (digits == 0)
        return -1;
    for (; i < len; i++)
        if (p[i] != 0 && p[i] != ' ')
            return -1;
    return 0;
}

bool tar_is(const unsigned char *b, size_t n)
{
    uint64_t stated, sum = 0;
    if (n < BLOCK || b[0] == 0 || octal(b + SUM_AT, SUM_LEN, &stated) < 0)
        return false;
    for (int i = 0; i < BLOCK; i++)
        sum += i >= SUM_AT && i < SUM_AT + SUM_LEN ? ' ' : b[i];
    return sum == stated;
}

static int bad(struct report *r, uint64_t at, const char *why)
{
    return report_fatal(r, -EBADMSG, NULL, 0, at, "%s", why);
}

static int read_at(const struct tar *t, uint64_t at, void *p, size_t len, struct report *r)
{
    int err = source_read(t->source, at, p, len);
    return err < 0 ? report_fatal(r, err, NULL, 0, at, "cannot be read: %s", strerror(-err)) : 0;
}

/* "LEN KEY=VALUE\n" again and again: path and size override what the next header says. */
static int read_pax(const char *text, size_t len, uint64_t at, struct tar_member *m, bool *has_name,
                    bool *has_size, struct report *r)
{
    while (len) {
        size_t size = 0, i = 0;
        while (i < len && i < 6 && text[i] >= '0' && text[i] <= '9')
            size = size * 10 + (size_t)(text[i++] - '0');
        if (i == 0 || i == len || text[i] != ' ' || size > len || size < i + 3 || text[size - 1] != '\n')
            return bad(r, at, "a PAX header with a record of a wrong length");
        const char *key = text + i + 1, *value = memchr(key, '=', size - i - 2);
        if (!value)
            return bad(r, at, "a PAX header with a record without a value");
        size_t key_len = (size_t)(value - key), value_len = (size_t)(text + size - 1 - ++value);
        if (key_len == 4 && memcmp(key, "path", 4) == 0) {
            if (value_len > NAME)
                return bad(r, at, "a member's name is too long");
            memcpy(m->name, value, value_len);
            m->name[value_len] = 0;
            *has_name = true;
        } else if (key_len == 4 && memcmp(key, "size", 4) == 0) {
            m->size = 0;
            for (size_t k = 0; k < value_len; k++)
                if (value[k] < '0' || value[k] > '9' || mul_overflows(m->size, 10, &m->size) ||
                    add_overflows(m->size, (uint64_t)(value[k] - '0'), &m->size))
                    return bad(r, at, "a PAX header with a size that is none");
            *has_size = true;
        }
        text += size;
        len -= size;
    }
    return 0;
}

/* Takes the header at t->next: name, size and type; moves to what follows it. 0 at the end. */
static int read_header(struct tar *t, struct tar_member *m, unsigned char *type, struct report *r)
{
    unsigned char b[BLOCK];
    uint64_t at = t->next, padded;
    if (at >= t->source->size)
        return 0;
    if (!range_fits(at, BLOCK, t->source->size))
        return bad(r, at, "the archive is cut off in a header");
    int err = read_at(t, at, b, BLOCK, r);
    if (err < 0)
        return err;
    if (b[0] == 0)
        return 0;
    if (!tar_is(b, BLOCK))
        return bad(r, at, "a header with a wrong checksum");
    memcpy(m->name, b, NAME);
    m->name[NAME] = 0;
    *type = b[TYPE_AT];
    if (octal(b + SIZE_AT, SIZE_LEN, &m->size) < 0)
        return bad(r, at, "a member with a size that is none");
    m->at = at + BLOCK;
    if (!range_fits(m->at, m->size, t->source->size))
        return bad(r, at, "a member reaches past the end of the file");
    padded = (m->size + BLOCK - 1) / BLOCK * BLOCK;
    t->next = m->at + padded;
    return 1;
}

int tar_next(struct tar *t, struct tar_member *m, struct report *r)
{
    char text[PAX_MAX];
    struct tar_member pax = {0};
    bool has_name = false, has_size = false;
    for (;;) {
        unsigned char type = 0;
        uint64_t at = t->next;
        int got = read_header(t, m, &type, r);
        if (got <= 0)
            return got;
        if (type == 'x' || type == 'g') {
            if (m->size > PAX_MAX)
                return bad(r, at, "a PAX header that is too long");
            int err = read_at(t, m->at, text, (size_t)m->size, r);
            if (err == 0)
                err = read_pax(text, (size_t)m->size, m->at, &pax, &has_name, &has_size, r);
            if (err < 0)
                return err;
            continue;
        }
        if (type != '0' && type != 0)
            return bad(r, at, "a member that is no plain file");
        if (has_name)
            memcpy(m->name, pax.name, sizeof m->name);
        if (has_size) {
            m->size = pax.size;
            if (!range_fits(m->at, m->size, t->source->size))
                return bad(r, at, "a member reaches past the end of the file");
            t->next = m->at + (m->size + BLOCK - 1) / BLOCK * BLOCK;
        }
        return 1;
    }
}
