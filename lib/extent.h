/* SPDX-License-Identifier: MIT
 * A file as a list of extents: ranges of a mapped source, blocks of memory, ranges computed on demand.
 * Everything that can be opened or written is one of these lists, and there is one way to read them. */
#ifndef EXTENT_H
#define EXTENT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct source;

/* Computes the bytes [off, off + len) of something; 0 or a negative errno. Called from any thread. */
typedef int (*extent_fill)(const void *ctx, uint64_t off, void *buf, size_t len);

enum extent_kind { EXTENT_SOURCE, EXTENT_MEMORY, EXTENT_COMPUTED };

struct extent {
    uint64_t start; /* where it begins in the list as a whole */
    uint64_t len;   /* > 0 */
    uint64_t off;   /* where it begins in the source, or in what is computed */
    enum extent_kind kind;
    union {
        struct source *source; /* EXTENT_SOURCE: a reference is held */
        struct {               /* EXTENT_MEMORY */
            void *memory;
            int owned; /* to be freed with the list */
        };
        struct { /* EXTENT_COMPUTED: ctx is borrowed */
            extent_fill fill;
            const void *ctx;
        };
    };
};

struct extents {
    struct extent *v;
    size_t n, room;
    uint64_t size;
};

/* Each appends; an empty range adds nothing, a range that continues the last one is joined to it. -ENOMEM. */
int extents_add_source(struct extents *x, struct source *s, uint64_t off, uint64_t len);
int extents_add_memory(struct extents *x, const void *p, uint64_t len);   /* copies */
int extents_add_borrowed(struct extents *x, const void *p, uint64_t len); /* p must outlive the list */
int extents_add_computed(struct extents *x, extent_fill fill, const void *ctx, uint64_t len);
/* Appends [off, off + len) of another list, which must hold that; what is memory there must outlive x. */
int extents_add_range(struct extents *x, const struct extents *from, uint64_t off, uint64_t len);
void extents_free(struct extents *x);

/* Describes [off, off + size) for writev: at most *n vectors, whose number is put there. The bytes stay valid
 * while the list does and *scratch is not freed: what is not mapped is computed or read into *scratch
 * (malloc'd here when needed, else NULL; free it in any case). Returns the number of bytes, less than size
 * only at the end of the list, or -EIO if a source has changed, or another negative errno. */
ssize_t extents_iov(const struct extents *x, uint64_t off, size_t size, struct iovec *iov, int *n,
                    void **scratch);

/* Copies [off, off + size) to buf, without touching a mapping. Result as for extents_iov. */
ssize_t extents_read(const struct extents *x, uint64_t off, void *buf, size_t size);

#endif
