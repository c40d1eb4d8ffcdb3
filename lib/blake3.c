/* SPDX-License-Identifier: MIT
 *
 * Two forms of the compression function: one block at a time, and LANES whole chunks (or parents) side by
 * side, one in each lane of vectors, which the compiler turns into what the machine has. */
#include "blake3.h"

#include <stdbool.h>
#include <string.h>

#include "blake3_lanes.h"

static const uint32_t start_value[8] = {0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
                                        0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19};

enum { PIECE_CHUNKS = BLAKE3_PIECE / BLAKE3_CHUNK };

static uint32_t load32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint32_t turn(uint32_t x, unsigned by)
{
    return x >> by | x << (32 - by);
}

static inline void mix(uint32_t v[16], int a, int b, int c, int d, uint32_t x, uint32_t y)
{
    v[a] += v[b] + x;
    v[d] = turn(v[d] ^ v[a], 16);
    v[c] += v[d];
    v[b] = turn(v[b] ^ v[c], 12);
    v[a] += v[b] + y;
    v[d] = turn(v[d] ^ v[a], 8);
    v[c] += v[d];
    v[b] = turn(v[b] ^ v[c], 7);
}

/* One block onto a chaining value; out may be value. */
static void compress(const uint32_t value[8], const uint32_t m[16], uint64_t counter, unsigned len,
                     unsigned flags, uint32_t out[8])
{
    uint32_t v[16];
    memcpy(v, value, 32);
    memcpy(v + 8, start_value, 16);
    v[12] = (uint32_t)counter;
    v[13] = (uint32_t)(counter >> 32);
    v[14] = len;
    v[15] = flags;
    for (int r = 0; r < BLAKE3_ROUNDS; r++) {
        const unsigned char *s = blake3_schedule[r];
        for (int i = 0; i < 4; i++)
            mix(v, i, 4 + i, 8 + i, 12 + i, m[s[2 * i]], m[s[2 * i + 1]]);
        for (int i = 0; i < 4; i++)
            mix(v, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4, m[s[8 + 2 * i]], m[s[9 + 2 * i]]);
    }
    for (int i = 0; i < 8; i++)
        out[i] = v[i] ^ v[i + 8];
}

static void compress_bytes(const uint32_t value[8], const unsigned char *block, uint64_t counter,
                           unsigned len, unsigned flags, uint32_t out[8])
{
    uint32_t m[16];
    for (int i = 0; i < 16; i++)
        m[i] = load32(block + 4 * i);
    compress(value, m, counter, len, flags, out);
}

static void join(const uint32_t left[8], const uint32_t right[8], unsigned flags, uint32_t out[8])
{
    uint32_t m[16];
    memcpy(m, left, 32);
    memcpy(m + 8, right, 32);
    compress(start_value, m, 0, BLAKE3_BLOCK, flags | BLAKE3_PARENT, out);
}

/* Joins what is complete once `chunks` chunks lie behind: as many subtrees stay as that number has one bits.
 * Done only when more is known to follow, for the last join of all is special. */
static void settle(struct blake3 *b, uint64_t chunks)
{
    unsigned stay = (unsigned)__builtin_popcountll(chunks);
    while (b->depth > stay) {
        b->depth--;
        join(b->stack[b->depth - 1], b->stack[b->depth], 0, b->stack[b->depth - 1]);
    }
}

static void push(struct blake3 *b, const uint32_t value[8], uint64_t chunks_before)
{
    settle(b, chunks_before);
    memcpy(b->stack[b->depth++], value, 32);
}

static void begin_chunk(struct blake3 *b)
{
    memcpy(b->value, start_value, sizeof b->value);
    b->blocks = 0;
    b->len = 0;
}

void blake3_init(struct blake3 *b)
{
    b->depth = 0;
    b->chunk = 0;
    begin_chunk(b);
}

static unsigned start_flag(const struct blake3 *b)
{
    return b->blocks == 0 ? BLAKE3_CHUNK_START : 0;
}

/* The block is full and more follows. */
static void finish_block(struct blake3 *b)
{
    if (b->blocks < BLAKE3_CHUNK / BLAKE3_BLOCK - 1) {
        compress_bytes(b->value, b->block, b->chunk, BLAKE3_BLOCK, start_flag(b), b->value);
        b->blocks++;
        b->len = 0;
        return;
    }
    compress_bytes(b->value, b->block, b->chunk, BLAKE3_BLOCK, start_flag(b) | BLAKE3_CHUNK_END, b->value);
    push(b, b->value, b->chunk);
    b->chunk++;
    begin_chunk(b);
}

static bool between_chunks(const struct blake3 *b)
{
    return b->blocks == 0 && b->len == 0;
}

void blake3_update(struct blake3 *b, const void *from, size_t len)
{
    const unsigned char *p = from;
    while (len) {
        if (b->len == BLAKE3_BLOCK)
            finish_block(b);
        if (between_chunks(b) && len > BLAKE3_LANES * BLAKE3_CHUNK) {
            uint32_t values[BLAKE3_LANES][8];
            blake3_chunks(p, b->chunk, values);
            for (int i = 0; i < BLAKE3_LANES; i++)
                push(b, values[i], b->chunk++);
            p += BLAKE3_LANES * BLAKE3_CHUNK;
            len -= BLAKE3_LANES * BLAKE3_CHUNK;
            continue;
        }
        size_t n = BLAKE3_BLOCK - b->len < len ? BLAKE3_BLOCK - b->len : len;
        memcpy(b->block + b->len, p, n);
        b->len += (unsigned)n;
        p += n;
        len -= n;
    }
    if (!between_chunks(b)) /* something follows all that was pushed */
        settle(b, b->chunk);
}

static void store32(unsigned char *p, uint32_t x)
{
    for (int i = 0; i < 4; i++)
        p[i] = (unsigned char)(x >> 8 * i);
}

void blake3_final(const struct blake3 *b, unsigned char out[BLAKE3_OUT])
{
    unsigned depth = b->depth;
    uint32_t value[8];
    if (between_chunks(b) && depth) { /* pieces and nothing after them: their last two halves join last */
        memcpy(value, b->stack[--depth], sizeof value);
    } else {
        unsigned char block[BLAKE3_BLOCK] = {0};
        unsigned flags = start_flag(b) | BLAKE3_CHUNK_END | (depth ? 0 : BLAKE3_ROOT);
        memcpy(block, b->block, b->len);
        compress_bytes(b->value, block, b->chunk, b->len, flags, value);
    }
    while (depth) {
        depth--;
        join(b->stack[depth], value, depth ? 0 : BLAKE3_ROOT, value);
    }
    for (int i = 0; i < 8; i++)
        store32(out + 4 * i, value[i]);
}

void blake3_hash(const void *p, size_t len, unsigned char out[BLAKE3_OUT])
{
    struct blake3 b;
    blake3_init(&b);
    blake3_update(&b, p, len);
    blake3_final(&b, out);
}

void blake3_piece(const void *p, uint64_t number, struct blake3_pair *out)
{
    const unsigned char *bytes = p;
    uint32_t values[PIECE_CHUNKS][8];
    for (unsigned i = 0; i < PIECE_CHUNKS; i += BLAKE3_LANES)
        blake3_chunks(bytes + (size_t)i * BLAKE3_CHUNK, number * PIECE_CHUNKS + i, values + i);
    for (unsigned n = PIECE_CHUNKS / 2; n > 1; n /= 2) {
        unsigned i = 0;
        for (; i + BLAKE3_LANES <= n; i += BLAKE3_LANES)
            blake3_parents(values + (size_t)2 * i, values + i);
        for (; i < n; i++)
            join(values[2 * i], values[2 * i + 1], 0, values[i]);
    }
    memcpy(out->half, values, sizeof out->half);
}

void blake3_add_piece(struct blake3 *b, const struct blake3_pair *piece)
{
    push(b, piece->half[0], b->chunk);
    push(b, piece->half[1], b->chunk + PIECE_CHUNKS / 2);
    b->chunk += PIECE_CHUNKS;
}
