/* SPDX-License-Identifier: MIT
 * The directory of a zip archive, read strictly: what two readers could see differently is refused. */
#ifndef ZIP_H
#define ZIP_H

#include "arena.h"
#include "index.h"
#include "source.h"

enum { ZIP_STORED = 0, ZIP_DEFLATED = 8, ZIP_NAME = 1024, ZIP_RATIO = 1032 };

struct zip_entry {
    const char *name; /* whole, with the top folder */
    uint64_t header;  /* where its local header lies */
    uint64_t data;    /* where its bytes lie, packed bytes of them */
    uint64_t packed, size;
    uint32_t name_len, crc;
    uint16_t method;
};

struct zip {
    const struct source *source;
    struct zip_entry *entry; /* in the order of the directory */
    size_t n, room;
    size_t prefix; /* bytes of the top folder's name, without its slash */
    struct index by_name;
    struct arena arena;
};

/* z is zeroed before; release it whatever the result. */
int zip_open(struct zip *z, const struct source *s, struct report *r);
void zip_free(struct zip *z);

/* The record of that name below the top folder; NULL if there is none. */
const struct zip_entry *zip_find(const struct zip *z, const char *name, size_t len);

/* All bytes of a record of at most `most`, in memory from malloc (never NULL on success). */
int zip_read(const struct zip *z, const struct zip_entry *e, uint64_t most, unsigned char **out,
             struct report *r);

#endif
