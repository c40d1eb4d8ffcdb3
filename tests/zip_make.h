/* SPDX-License-Identifier: MIT
 * Makes small zip archives for tests, by the book and, where a test asks, against it. Every field that a rule
 * is about can be set; a field left 0 gets its right value. */
#ifndef ZIP_MAKE_H
#define ZIP_MAKE_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "buf.h"

struct zip_part {
    const char *name;
    const void *data;
    size_t len;
    int deflate;
    /* Lies. */
    size_t name_len;        /* of a name with NULs */
    const char *local_name; /* another one in the local header */
    unsigned flags, local_flags;
    int method, local_method; /* -1: as it is */
    uint64_t packed, size;    /* in the directory */
    uint64_t header;          /* in the directory */
    size_t local_extra;       /* bytes of padding before the data */
    const void *extra;        /* of the directory's entry */
    size_t extra_len;
    unsigned disk;
    unsigned bad_signature, bad_local_signature;
};

struct zip_end {
    unsigned disk;
    long count;        /* added to both counts */
    long offset, size; /* added to the right values */
    const char *comment;
    int wide;                 /* with a zip64 end record and locator */
    long locator;             /* added to the locator's offset */
    long wide_count;          /* added to the zip64 record's counts */
    const char *after;        /* bytes behind the end */
    const char *in_directory; /* bytes behind the last entry, counted into the directory */
    int ones;                 /* count is all ones */
};

static inline void zip_number(struct buf *b, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        buf_char(b, (char)(v >> (8 * i) & 0xFF));
}

static inline size_t zip_pack(const struct zip_part *p, unsigned char *out, size_t room)
{
    z_stream z = {0};
    deflateInit2(&z, 9, Z_DEFLATED, -15, 9, Z_DEFAULT_STRATEGY);
    z.next_in = (unsigned char *)(uintptr_t)p->data;
    z.avail_in = (unsigned)p->len;
    z.next_out = out;
    z.avail_out = (unsigned)room;
    deflate(&z, Z_FINISH);
    size_t n = room - z.avail_out;
    deflateEnd(&z);
    return n;
}

static inline void zip_make(struct buf *b, const struct zip_part *part, size_t n, const struct zip_end *end)
{
    static const struct zip_end right;
    struct buf directory = {0};
    if (!end)
        end = &right;
    for (size_t i = 0; i < n; i++) {
        const struct zip_part *p = &part[i];
        size_t room = p->len + p->len / 8 + 128;
        unsigned char *packed = malloc(room);
        size_t len = p->deflate ? zip_pack(p, packed, room) : p->len;
        size_t name_len = p->name_len ? p->name_len : strlen(p->name);
        const char *local = p->local_name ? p->local_name : p->name;
        size_t local_len = p->local_name ? strlen(local) : name_len;
        unsigned method = p->deflate ? 8 : 0;
        uint64_t header = b->len;
        uint32_t crc = (uint32_t)crc32(0, p->data, (unsigned)p->len);
        buf_add(b, p->bad_local_signature ? "PK\3\5" : "PK\3\4", 4);
        zip_number(b, 20, 2);
        zip_number(b, p->local_flags, 2);
        zip_number(b, p->local_method ? (unsigned)p->local_method : method, 2);
        zip_number(b, 0, 4);
        zip_number(b, crc, 4);
        zip_number(b, len, 4);
        zip_number(b, p->len, 4);
        zip_number(b, local_len, 2);
        zip_number(b, p->local_extra, 2);
        buf_add(b, local, local_len);
        for (size_t k = 0; k < p->local_extra; k++)
            buf_char(b, 'Z');
        if (len)
            buf_add(b, p->deflate ? packed : p->data, len);
        free(packed);
        buf_add(&directory, p->bad_signature ? "PK\1\3" : "PK\1\2", 4);
        zip_number(&directory, 20, 2);
        zip_number(&directory, 20, 2);
        zip_number(&directory, p->flags, 2);
        zip_number(&directory, p->method ? (unsigned)p->method : method, 2);
        zip_number(&directory, 0, 4);
        zip_number(&directory, crc, 4);
        zip_number(&directory, p->packed ? p->packed : len, 4);
        zip_number(&directory, p->size ? p->size : p->len, 4);
        zip_number(&directory, name_len, 2);
        zip_number(&directory, p->extra_len, 2);
        zip_number(&directory, 0, 2);
        zip_number(&directory, p->disk, 2);
        zip_number(&directory, 0, 6);
        zip_number(&directory, p->header ? p->header : header, 4);
        buf_add(&directory, p->name, name_len);
        if (p->extra_len)
            buf_add(&directory, p->extra, p->extra_len);
    }
    if (end->in_directory)
        buf_str(&directory, end->in_directory);
    uint64_t offset = b->len, count = n + (uint64_t)end->count;
    if (directory.len)
        buf_add(b, directory.p, directory.len);
    if (end->wide) {
        uint64_t at = b->len;
        buf_add(b, "PK\6\6", 4);
        zip_number(b, 44, 8);
        zip_number(b, 45, 2);
        zip_number(b, 45, 2);
        zip_number(b, 0, 8);
        zip_number(b, count + (uint64_t)end->wide_count, 8);
        zip_number(b, count + (uint64_t)end->wide_count, 8);
        zip_number(b, directory.len, 8);
        zip_number(b, offset, 8);
        buf_add(b, "PK\6\7", 4);
        zip_number(b, 0, 4);
        zip_number(b, at + (uint64_t)end->locator, 8);
        zip_number(b, 1, 4);
    }
    buf_add(b, "PK\5\6", 4);
    zip_number(b, end->disk, 2);
    zip_number(b, 0, 2);
    zip_number(b, end->ones ? 0xFFFF : count, 2);
    zip_number(b, end->ones ? 0xFFFF : count, 2);
    zip_number(b, directory.len + (uint64_t)end->size, 4);
    zip_number(b, offset + (uint64_t)end->offset, 4);
    zip_number(b, end->comment ? strlen(end->comment) : 0, 2);
    if (end->comment)
        buf_str(b, end->comment);
    if (end->after)
        buf_str(b, end->after);
    buf_free(&directory);
}

#endif
