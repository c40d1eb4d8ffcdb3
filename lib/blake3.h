/* SPDX-License-Identifier: MIT
 * BLAKE3, unkeyed, 32 bytes of digest; written from the published description of the algorithm.
 *
 * The input is cut into chunks of 1024 bytes, the leaves of a binary tree of chaining values. What lies in an
 * aligned piece of a power of two of chunks is a subtree of its own: pieces of one input can be hashed by
 * several threads and put together afterwards. */
#ifndef BLAKE3_H
#define BLAKE3_H

#include <stddef.h>
#include <stdint.h>

enum {
    BLAKE3_OUT = 32,
    BLAKE3_BLOCK = 64,
    BLAKE3_CHUNK = 1024,
    BLAKE3_PIECE = 512 * 1024, /* bytes: of what is given to blake3_piece */
};

struct blake3 {
    uint32_t stack[54][8]; /* of subtrees not joined yet, large ones first: 2^64 bytes are 2^54 chunks */
    unsigned depth;
    uint64_t chunk;    /* number of the present chunk */
    uint32_t value[8]; /* chaining value within it ... */
    unsigned blocks;   /* ... after so many of its blocks */
    unsigned char block[BLAKE3_BLOCK];
    unsigned len; /* bytes in block; it is compressed once more follow, for the last one is special */
};

void blake3_init(struct blake3 *b);
void blake3_update(struct blake3 *b, const void *p, size_t len);
void blake3_final(const struct blake3 *b, unsigned char out[BLAKE3_OUT]);

/* The whole of a short input. */
void blake3_hash(const void *p, size_t len, unsigned char out[BLAKE3_OUT]);

/* The two halves of the subtree over piece `number` (0, 1 ...) of an input, BLAKE3_PIECE bytes. To be added
 * in their order before anything else is; blake3_update then takes what follows the last whole piece. */
struct blake3_pair {
    uint32_t half[2][8];
};
void blake3_piece(const void *p, uint64_t number, struct blake3_pair *out);
void blake3_add_piece(struct blake3 *b, const struct blake3_pair *piece);

#endif
