/* SPDX-License-Identifier: MIT */
#include "zip.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bytes_in.h"
#include "checked.h"
#include "little.h"
#include "unpack.h"

enum {
    END_SIZE = 22,
    END64_SIZE = 56,
    LOCATOR_SIZE = 20,
    CENTRAL_SIZE = 46,
    LOCAL_SIZE = 30,
    COMMENT_MAX = 65535,
    BAD_FLAGS = 0x1 | 0x20 | 0x40 | 0x2000, /* encrypted, patch, strong encryption, masked headers */
};

struct end {
    uint64_t at; /* where the directory must end */
    uint64_t disk, first_disk, here, count, size, offset;
};

static int bad(struct report *r, uint64_t at, const char *why)
{
    return report_fatal(r, -EBADMSG, NULL, 0, at, "%s", why);
}

static int failed(struct report *r, int err, uint64_t at)
{
    return report_fatal(r, err, NULL, 0, at, "cannot be read: %s", strerror(-err));
}

/* The last end record, which must reach to the last byte of the file. */
static int find_end(const struct source *s, uint64_t *at, unsigned char end[END_SIZE], struct report *r)
{
    size_t n = s->size < END_SIZE + COMMENT_MAX ? (size_t)s->size : END_SIZE + COMMENT_MAX, i;
    unsigned char *tail = malloc(n ? n : 1);
    int err = tail ? source_read(s, s->size - n, tail, n) : -ENOMEM;
    if (err < 0) {
        failed(r, err, s->size - n);
        goto out;
    }
    for (i = n < END_SIZE ? 0 : n - END_SIZE + 1; i > 0; i--)
        if (memcmp(tail + i - 1, "PK\5\6", 4) == 0)
            break;
    if (i == 0) {
        err = bad(r, FS_NO_OFFSET, "the end record is missing; truncated download?");
        goto out;
    }
    *at = s->size - n + (i - 1);
    memcpy(end, tail + i - 1, END_SIZE);
    if (*at + END_SIZE + little16(end + 20) != s->size)
        err = bad(r, *at, "the end record and its comment do not end where the file ends");
out:
    free(tail);
    return err;
}

/* The classic field repeats the 64-bit one or says, by all ones, to look there. */
static bool agrees(uint64_t classic, uint64_t ones, uint64_t wide)
{
    return classic == ones || classic == wide;
}

static int read_end64(const struct source *s, struct end *e, uint64_t at, struct report *r)
{
    unsigned char b[END64_SIZE];
    struct end w = {.at = at};
    uint64_t locator = e->at - LOCATOR_SIZE, len, next;
    if (!range_fits(at, END64_SIZE, locator))
        return bad(r, locator, "the zip64 locator points outside the file");
    int err = source_read(s, at, b, sizeof b);
    if (err < 0)
        return failed(r, err, at);
    len = little64(b + 4);
    if (memcmp(b, "PK\6\6", 4) != 0 || add_overflows(at + 12, len, &next) || next != locator)
        return bad(r, at, "no zip64 end record where the locator points");
    w.disk = little32(b + 16);
    w.first_disk = little32(b + 20);
    w.here = little64(b + 24);
    w.count = little64(b + 32);
    w.size = little64(b + 40);
    w.offset = little64(b + 48);
    if (!agrees(e->disk, 0xFFFF, w.disk) || !agrees(e->first_disk, 0xFFFF, w.first_disk) ||
        !agrees(e->here, 0xFFFF, w.here) || !agrees(e->count, 0xFFFF, w.count) ||
        !agrees(e->size, 0xFFFFFFFF, w.size) || !agrees(e->offset, 0xFFFFFFFF, w.offset))
        return bad(r, at, "the zip64 end record and the plain one disagree");
    *e = w;
    return 0;
}

static int read_end(const struct source *s, struct end *e, struct report *r)
{
    unsigned char b[END_SIZE] = {0}, locator[LOCATOR_SIZE];
    int err = find_end(s, &e->at, b, r);
    if (err < 0)
        return err;
    e->disk = little16(b + 4);
    e->first_disk = little16(b + 6);
    e->here = little16(b + 8);
    e->count = little16(b + 10);
    e->size = little32(b + 12);
    e->offset = little32(b + 16);
    bool wide = false;
    if (e->at >= LOCATOR_SIZE) {
        err = source_read(s, e->at - LOCATOR_SIZE, locator, LOCATOR_SIZE);
        if (err < 0)
            return failed(r, err, e->at - LOCATOR_SIZE);
        wide = memcmp(locator, "PK\6\7", 4) == 0;
    }
    if (wide && (little32(locator + 4) != 0 || little32(locator + 16) > 1))
        return bad(r, e->at - LOCATOR_SIZE, "the archive is spread over several disks");
    if (wide)
        err = read_end64(s, e, little64(locator + 8), r);
    else if (e->here == 0xFFFF || e->count == 0xFFFF || e->size == 0xFFFFFFFF || e->offset == 0xFFFFFFFF)
        err = bad(r, e->at, "the end record refers to a zip64 one that is not there");
    return err;
}

static int check_end(const struct end *e, struct report *r)
{
    uint64_t end, least;
    if (e->disk != 0 || e->first_disk != 0 || e->here != e->count)
        return bad(r, e->at, "the archive is spread over several disks");
    if (add_overflows(e->offset, e->size, &end) || end != e->at)
        return bad(r, e->at, "the directory does not end where the end record begins");
    if (mul_overflows(e->count, CENTRAL_SIZE, &least) || least > e->size)
        return bad(r, e->at, "more entries than the directory can hold");
    if (e->count == 0)
        return bad(r, e->at, "the archive is empty");
    return 0;
}

/* 64-bit sizes and offset, in the order in which the short fields are all ones. */
static int wide_fields(struct zip_entry *e, const unsigned char *extra, size_t len, uint64_t at,
                       struct report *r)
{
    uint64_t *field[3];
    size_t n = 0;
    if (e->size == 0xFFFFFFFF)
        field[n++] = &e->size;
    if (e->packed == 0xFFFFFFFF)
        field[n++] = &e->packed;
    if (e->header == 0xFFFFFFFF)
        field[n++] = &e->header;
    for (size_t i = 0; n && len - i >= 4;) {
        size_t id = little16(extra + i), size = little16(extra + i + 2);
        i += 4;
        if (size > len - i)
            break;
        if (id == 1) {
            if (size < 8 * n)
                return bad(r, at, "a zip64 field that is too short");
            for (size_t k = 0; k < n; k++)
                *field[k] = little64(extra + i + 8 * k);
            return 0;
        }
        i += size;
    }
    return n ? bad(r, at, "a size or offset of all ones without a zip64 field") : 0;
}

static bool is_part(const char *s, size_t len)
{
    return len != 0 && !(len == 1 && s[0] == '.') && !(len == 2 && s[0] == '.' && s[1] == '.');
}

/* A path below one folder, as a writer means it: nothing that one reader takes for another name. */
static int check_name(struct zip *z, const struct zip_entry *e, uint64_t at, struct report *r)
{
    const char *slash = memchr(e->name, '/', e->name_len);
    size_t prefix = slash ? (size_t)(slash - e->name) : 0, from = 0;
    if (e->name_len == 0 || e->name_len > ZIP_NAME)
        return bad(r, at, "an entry's name is empty or too long");
    if (memchr(e->name, 0, e->name_len) || memchr(e->name, '\\', e->name_len))
        return bad(r, at, "an entry's name with a NUL or a backslash");
    for (size_t i = 0; i <= e->name_len; i++) {
        if (i < e->name_len && e->name[i] != '/')
            continue;
        bool folder = i == e->name_len && from == i && from && e->size == 0;
        if (!folder && !is_part(e->name + from, i - from))
            return bad(r, at, "an entry's name with a component that is empty, '.' or '..'");
        from = i + 1;
    }
    if (!slash)
        return bad(r, at, "an entry outside of the top folder");
    if (z->n == 0)
        z->prefix = prefix;
    else if (prefix != z->prefix || memcmp(e->name, z->entry[0].name, prefix) != 0)
        return bad(r, at, "entries in two top folders");
    return 0;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

static uint64_t hash_name(const char *s, size_t len)
{
    uint64_t h = 0;
    for (size_t i = 0; i < len; i++)
        h = hash_step(h, (unsigned char)lower(s[i]));
    return h;
}

/* PyTorch looks names up without regard to case. */
static bool same_name(const void *ctx, uint32_t number, const void *key, size_t len)
{
    const struct zip_entry *e = &((const struct zip *)ctx)->entry[number];
    if (e->name_len != len)
        return false;
    for (size_t i = 0; i < len; i++)
        if (lower(e->name[i]) != lower(((const char *)key)[i]))
            return false;
    return true;
}

static int add_entry(struct zip *z, const struct zip_entry *e, uint64_t at, struct report *r)
{
    int err = check_name(z, e, at, r);
    if (err < 0)
        return err;
    uint64_t hash = hash_name(e->name, e->name_len);
    if (index_find(&z->by_name, hash, same_name, z, e->name, e->name_len) != INDEX_NONE)
        return bad(r, at, "two entries with one name (upper and lower case count as one)");
    if (z->n == z->room) {
        size_t room = z->room ? z->room * 2 : 16;
        struct zip_entry *more = room < UINT32_MAX ? realloc(z->entry, room * sizeof *more) : NULL;
        if (!more)
            return failed(r, -ENOMEM, at);
        z->entry = more;
        z->room = room;
    }
    z->entry[z->n] = *e;
    err = index_add(&z->by_name, hash, (uint32_t)z->n++);
    return err < 0 ? failed(r, err, at) : 0;
}

static int check_method(const struct zip_entry *e, uint64_t at, struct report *r)
{
    if (e->method != ZIP_STORED && e->method != ZIP_DEFLATED)
        return report_fatal(r, -EBADMSG, NULL, 0, at, "an entry packed with method %u", e->method);
    if (e->method == ZIP_STORED && e->packed != e->size)
        return bad(r, at, "a stored entry with two sizes");
    if (e->method == ZIP_DEFLATED && e->size / ZIP_RATIO > e->packed)
        return bad(r, at, "an entry that claims to unpack to more than deflate can hold");
    return 0;
}

static int read_entry(struct zip *z, struct bytes_in *in, struct report *r)
{
    unsigned char b[CENTRAL_SIZE], extra[65535];
    struct zip_entry e = {0};
    uint64_t at = bytes_in_at(in);
    if (bytes_in_take(in, b, sizeof b) < 0 || memcmp(b, "PK\1\2", 4) != 0)
        return in->err < 0 ? failed(r, in->err, at) : bad(r, at, "no directory entry where one must be");
    e.method = (uint16_t)little16(b + 10);
    e.crc = little32(b + 16);
    e.packed = little32(b + 20);
    e.size = little32(b + 24);
    e.name_len = little16(b + 28);
    e.header = little32(b + 42);
    size_t extra_len = little16(b + 30), comment_len = little16(b + 32);
    char *name = arena_alloc(&z->arena, e.name_len, false);
    if (!name)
        return failed(r, -ENOMEM, at);
    e.name = name;
    if (bytes_in_take(in, name, e.name_len) < 0 || bytes_in_take(in, extra, extra_len) < 0 ||
        bytes_in_take(in, NULL, comment_len) < 0)
        return in->err < 0 ? failed(r, in->err, at) : bad(r, at, "an entry that reaches past the directory");
    if (little16(b + 8) & BAD_FLAGS)
        return bad(r, at, "an entry flagged as encrypted, patched or masked");
    if (little16(b + 34) != 0)
        return bad(r, at, "the archive is spread over several disks");
    int err = wide_fields(&e, extra, extra_len, at, r);
    if (err == 0)
        err = check_method(&e, at, r);
    return err < 0 ? err : add_entry(z, &e, at, r);
}

/* A part of the file that holds local headers. */
struct locals {
    uint64_t at;
    size_t have;
    unsigned char b[65536];
};

static size_t local_size(const struct zip_entry *e)
{
    return LOCAL_SIZE + (size_t)e->name_len;
}

/* The local header of entry i, which fits into the file. With it those behind it that lie close are read: of
 * small records a checkpoint may have thousands. */
static int find_local(const struct zip *z, size_t i, struct locals *l, const unsigned char **b)
{
    const struct zip_entry *e = &z->entry[i];
    if (e->header < l->at || !range_fits(e->header - l->at, local_size(e), l->have)) {
        size_t n = local_size(e);
        for (const struct zip_entry *f = e + 1; f < z->entry + z->n && f->header >= e->header + n &&
                                                range_fits(f->header, local_size(f), z->source->size) &&
                                                range_fits(f->header - e->header, local_size(f), sizeof l->b);
             f++)
            n = (size_t)(f->header - e->header) + local_size(f);
        l->have = 0;
        int err = source_read(z->source, e->header, l->b, n);
        if (err < 0)
            return err;
        l->at = e->header;
        l->have = n;
    }
    *b = l->b + (e->header - l->at);
    return 0;
}

/* The local header must tell the same; where the data lie is known only from it. */
static int read_local(const struct zip *z, size_t i, struct locals *l, uint64_t end, struct report *r)
{
    struct zip_entry *e = &z->entry[i];
    const unsigned char *b;
    uint64_t at = e->header;
    if (!range_fits(at, local_size(e), end))
        return bad(r, at, "an entry lies outside the file");
    int err = find_local(z, i, l, &b);
    if (err < 0)
        return failed(r, err, at);
    if (memcmp(b, "PK\3\4", 4) != 0)
        return bad(r, at, "no local header where the directory points");
    if (little16(b + 6) & BAD_FLAGS)
        return bad(r, at, "an entry flagged as encrypted, patched or masked in its local header");
    if (little16(b + 8) != e->method || little16(b + 26) != e->name_len ||
        memcmp(b + LOCAL_SIZE, e->name, e->name_len) != 0)
        return bad(r, at, "a local header with another name or method than the directory");
    e->data = at + LOCAL_SIZE + e->name_len + little16(b + 28);
    if (!range_fits(e->data, e->packed, end))
        return bad(r, at, "an entry reaches past the directory's begin");
    return 0;
}

static int read_locals(const struct zip *z, uint64_t end, struct report *r)
{
    struct locals *l = calloc(1, sizeof *l);
    int err = l ? 0 : failed(r, -ENOMEM, FS_NO_OFFSET);
    for (size_t i = 0; i < z->n && err == 0; i++)
        err = read_local(z, i, l, end, r);
    free(l);
    return err;
}

static int by_header(const void *a, const void *b)
{
    const struct zip_entry *x = *(struct zip_entry *const *)a, *y = *(struct zip_entry *const *)b;
    return x->header < y->header ? -1 : x->header > y->header;
}

static int check_overlap(struct zip *z, struct report *r)
{
    int err = 0;
    struct zip_entry **sorted = malloc(z->n * sizeof(struct zip_entry *));
    if (!sorted)
        return failed(r, -ENOMEM, FS_NO_OFFSET);
    for (size_t i = 0; i < z->n; i++)
        sorted[i] = &z->entry[i];
    qsort(sorted, z->n, sizeof(struct zip_entry *), by_header);
    for (size_t i = 1; i < z->n && err == 0; i++)
        if (sorted[i]->header < sorted[i - 1]->data + sorted[i - 1]->packed)
            err = bad(r, sorted[i]->header, "two entries overlap");
    free(sorted);
    return err;
}

int zip_open(struct zip *z, const struct source *s, struct report *r)
{
    struct end e = {0};
    struct bytes_in in = {0};
    index_init();
    z->source = s;
    int err = read_end(s, &e, r);
    if (err == 0)
        err = check_end(&e, r);
    if (err < 0)
        return err;
    if (bytes_in_source(&in, s, e.offset, e.offset + e.size) < 0)
        return failed(r, -ENOMEM, e.offset);
    for (uint64_t i = 0; i < e.count && err == 0; i++)
        err = read_entry(z, &in, r);
    if (err == 0 && bytes_in_left(&in))
        err = bad(r, bytes_in_at(&in), "the directory holds more than its entries");
    bytes_in_free(&in);
    if (err == 0)
        err = read_locals(z, e.offset, r);
    return err < 0 ? err : check_overlap(z, r);
}

void zip_free(struct zip *z)
{
    free(z->entry);
    index_free(&z->by_name);
    arena_free(&z->arena);
}

const struct zip_entry *zip_find(const struct zip *z, const char *name, size_t len)
{
    char whole[ZIP_NAME];
    size_t n = z->prefix + 1 + len;
    if (z->n == 0 || n > sizeof whole)
        return NULL;
    memcpy(whole, z->entry[0].name, z->prefix + 1);
    memcpy(whole + z->prefix + 1, name, len);
    uint32_t i = index_find(&z->by_name, hash_name(whole, n), same_name, z, whole, n);
    if (i == INDEX_NONE || memcmp(z->entry[i].name, whole, n) != 0)
        return NULL;
    return &z->entry[i];
}

int zip_read(const struct zip *z, const struct zip_entry *e, uint64_t most, unsigned char **out,
             struct report *r)
{
    unsigned char *p = NULL;
    *out = NULL;
    if (e->size > most)
        return report_fatal(r, -EBADMSG, NULL, 0, e->header,
                            "a record of %llu bytes, at most %llu are expected", (unsigned long long)e->size,
                            (unsigned long long)most);
    p = malloc(e->size ? (size_t)e->size : 1);
    if (!p)
        return failed(r, -ENOMEM, e->header);
    int err = e->method == ZIP_STORED ? source_read(z->source, e->data, p, (size_t)e->size)
                                      : unpack(z->source, e->data, e->packed, e->size, unpack_to_memory, p);
    if (err == -EBADMSG)
        bad(r, e->data, "the compressed bytes are damaged");
    else if (err < 0)
        failed(r, err, e->data);
    if (err < 0)
        free(p);
    else
        *out = p;
    return err;
}
