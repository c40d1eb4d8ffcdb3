/* SPDX-License-Identifier: MIT
 * A hash index over things that live elsewhere: it maps a hash to the numbers (0, 1, 2 ...) of the things.
 *
 * The hash is a polynomial over the bytes modulo 2^61 - 1 with a secret base drawn once per process: a file
 * cannot be made to collide, and the hash of a prefix is known on the way to the hash of the whole, so that
 * asking for every prefix of a name costs no more than one walk over it. */
#ifndef INDEX_H
#define INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HASH_PRIME ((UINT64_C(1) << 61) - 1)
#define INDEX_NONE UINT32_MAX

extern uint64_t hash_base, hash_power[5]; /* and its powers; set by index_init */

__extension__ typedef unsigned __int128 hash_u128;

static inline uint64_t hash_step(uint64_t h, unsigned value)
{
    hash_u128 x = (hash_u128)h * hash_base + value + 1;
    h = (uint64_t)(x & HASH_PRIME) + (uint64_t)(x >> 61);
    return h >= HASH_PRIME ? h - HASH_PRIME : h;
}

/* Four steps at once, which need not wait for each other. */
static inline uint64_t hash_4(uint64_t h, const unsigned char *p)
{
    hash_u128 x = (hash_u128)h * hash_power[4] + (hash_u128)(p[0] + 1u) * hash_power[3] +
                  (hash_u128)(p[1] + 1u) * hash_power[2] + (hash_u128)(p[2] + 1u) * hash_power[1] + p[3] + 1u;
    h = (uint64_t)(x & HASH_PRIME) + (uint64_t)(x >> 61);
    h = (h & HASH_PRIME) + (h >> 61);
    return h >= HASH_PRIME ? h - HASH_PRIME : h;
}

static inline uint64_t hash_bytes(uint64_t h, const char *p, size_t len)
{
    const unsigned char *s = (const unsigned char *)p;
    for (; len >= 4; s += 4, len -= 4)
        h = hash_4(h, s);
    for (; len; s++, len--)
        h = hash_step(h, *s);
    return h;
}

struct index_slot {
    uint32_t number, tag;
};
struct index {
    struct index_slot *slot;
    size_t mask; /* slots - 1 */
    size_t used;
};

/* Does thing `number` equal the key? */
typedef bool (*index_equal)(const void *ctx, uint32_t number, const void *key, size_t len);

/* Must be called before any hash is computed; may be called again and from any thread. */
void index_init(void);

/* The number of the thing that equals the key, INDEX_NONE if there is none. */
uint32_t index_find(const struct index *x, uint64_t hash, index_equal equal, const void *ctx, const void *key,
                    size_t len);

/* Adds a thing known not to be there. -ENOMEM. */
int index_add(struct index *x, uint64_t hash, uint32_t number);

/* Adds a thing unless one that equals its key is there: -EEXIST. -ENOMEM. */
int index_add_new(struct index *x, uint64_t hash, uint32_t number, index_equal equal, const void *ctx,
                  const void *key, size_t len);

/* Brings the place of that hash nearer to the processor, for who will ask for it soon. */
void index_prefetch(const struct index *x, uint64_t hash);

/* An empty index about to get about n things: makes room at once. */
void index_expect(struct index *x, size_t n);

/* Puts another thing, equal by key, in the place of one that is there. */
void index_replace(struct index *x, uint64_t hash, uint32_t old, uint32_t now);

/* Forgets all things. */
void index_clear(struct index *x);
void index_free(struct index *x);

#endif
