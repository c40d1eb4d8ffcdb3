/* SPDX-License-Identifier: MIT */
#include "blake3_lanes.h"

#include <string.h>

const unsigned char blake3_schedule[BLAKE3_ROUNDS][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8},
    {3, 4, 10, 12, 13, 2, 7, 14, 6, 5, 9, 0, 11, 15, 8, 1},
    {10, 7, 12, 9, 14, 3, 13, 15, 4, 0, 11, 2, 5, 8, 1, 6},
    {12, 13, 9, 11, 15, 10, 14, 8, 7, 2, 5, 3, 0, 1, 6, 4},
    {9, 14, 11, 5, 8, 12, 15, 1, 13, 3, 0, 10, 2, 6, 4, 7},
    {11, 15, 5, 0, 1, 9, 8, 6, 14, 10, 2, 12, 3, 4, 7, 13},
};

#if defined(__x86_64__) && defined(__GNUC__)
#define HAVE_WIDER 1
#endif

#define INLINE static inline __attribute__((always_inline))

typedef uint32_t lanes __attribute__((vector_size(4 * BLAKE3_LANES)));

static const uint32_t start_value[8] = {0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
                                        0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19};

/* Rotation by whole bytes is one shuffle where there is one. */
typedef unsigned char bytes __attribute__((vector_size(4 * BLAKE3_LANES)));
#define BYTES4(a, b, c, d, at) at + a, at + b, at + c, at + d
#define EACH4(a, b, c, d)                                                                                    \
    BYTES4(a, b, c, d, 0), BYTES4(a, b, c, d, 4), BYTES4(a, b, c, d, 8), BYTES4(a, b, c, d, 12),             \
        BYTES4(a, b, c, d, 16), BYTES4(a, b, c, d, 20), BYTES4(a, b, c, d, 24), BYTES4(a, b, c, d, 28)
#define TURN16(x)   ((lanes)__builtin_shufflevector((bytes)(x), (bytes)(x), EACH4(2, 3, 0, 1)))
#define TURN8(x)    ((lanes)__builtin_shufflevector((bytes)(x), (bytes)(x), EACH4(1, 2, 3, 0)))
#define TURN(x, by) ((x) >> (by) | (x) << (32 - (by)))

INLINE void mix(lanes v[16], int a, int b, int c, int d, const lanes *x, const lanes *y)
{
    v[a] += v[b] + *x;
    v[d] ^= v[a];
    v[d] = TURN16(v[d]);
    v[c] += v[d];
    v[b] ^= v[c];
    v[b] = TURN(v[b], 12);
    v[a] += v[b] + *y;
    v[d] ^= v[a];
    v[d] = TURN8(v[d]);
    v[c] += v[d];
    v[b] ^= v[c];
    v[b] = TURN(v[b], 7);
}

#define ROUND(r)                                                                                             \
    do {                                                                                                     \
        const unsigned char *s = blake3_schedule[r];                                                         \
        mix(v, 0, 4, 8, 12, &m[s[0]], &m[s[1]]);                                                             \
        mix(v, 1, 5, 9, 13, &m[s[2]], &m[s[3]]);                                                             \
        mix(v, 2, 6, 10, 14, &m[s[4]], &m[s[5]]);                                                            \
        mix(v, 3, 7, 11, 15, &m[s[6]], &m[s[7]]);                                                            \
        mix(v, 0, 5, 10, 15, &m[s[8]], &m[s[9]]);                                                            \
        mix(v, 1, 6, 11, 12, &m[s[10]], &m[s[11]]);                                                          \
        mix(v, 2, 7, 8, 13, &m[s[12]], &m[s[13]]);                                                           \
        mix(v, 3, 4, 9, 14, &m[s[14]], &m[s[15]]);                                                           \
    } while (0)

/* Counters differ by lane, low and high words. */
INLINE void compress(lanes value[8], const lanes m[16], const lanes counter[2], uint32_t flags)
{
    lanes v[16], zero = {0};
    for (int i = 0; i < 8; i++)
        v[i] = value[i];
    for (int i = 0; i < 4; i++)
        v[8 + i] = zero + start_value[i];
    v[12] = counter[0];
    v[13] = counter[1];
    v[14] = zero + (uint32_t)BLAKE3_BLOCK;
    v[15] = zero + flags;
    ROUND(0);
    ROUND(1);
    ROUND(2);
    ROUND(3);
    ROUND(4);
    ROUND(5);
    ROUND(6);
    for (int i = 0; i < 8; i++)
        value[i] = v[i] ^ v[i + 8];
}

#define PICK(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)

/* Rows become columns. */
INLINE void transpose(lanes r[8])
{
    lanes a[8], b[8];
    for (int i = 0; i < 8; i += 2) {
        a[i] = PICK(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        a[i + 1] = PICK(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int i = 0; i < 8; i += 4) {
        b[i] = PICK(a[i], a[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
        b[i + 1] = PICK(a[i], a[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        b[i + 2] = PICK(a[i + 1], a[i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
        b[i + 3] = PICK(a[i + 1], a[i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
    }
    for (int i = 0; i < 4; i++) {
        r[i] = PICK(b[i], b[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        r[i + 4] = PICK(b[i], b[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

/* A block of each of the LANES inputs that lie `stride` bytes apart: word i of all of them in m[i]. */
INLINE void load(const unsigned char *p, size_t stride, lanes m[16])
{
    for (int half = 0; half < 2; half++) {
        for (int i = 0; i < 8; i++)
            memcpy(&m[8 * half + i], p + (size_t)i * stride + 32 * half, sizeof m[0]);
        transpose(m + 8 * half);
    }
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    for (int i = 0; i < 16; i++)
        m[i] = m[i] << 24 | (m[i] & 0xFF00) << 8 | (m[i] >> 8 & 0xFF00) | m[i] >> 24;
#endif
}

INLINE void start(lanes value[8])
{
    lanes zero = {0};
    for (int i = 0; i < 8; i++)
        value[i] = zero + start_value[i];
}

INLINE void store(lanes value[8], uint32_t out[BLAKE3_LANES][8])
{
    transpose(value);
    memcpy(out, value, sizeof value[0] * 8);
}

INLINE void chunks(const unsigned char *p, uint64_t counter, uint32_t out[BLAKE3_LANES][8])
{
    lanes value[8], m[16], count[2];
    start(value);
    for (unsigned i = 0; i < BLAKE3_LANES; i++) {
        count[0][i] = (uint32_t)(counter + i);
        count[1][i] = (uint32_t)((counter + i) >> 32);
    }
    for (unsigned b = 0; b < BLAKE3_CHUNK / BLAKE3_BLOCK; b++) {
        load(p + (size_t)b * BLAKE3_BLOCK, BLAKE3_CHUNK, m);
        compress(value, m, count,
                 b == 0                                 ? BLAKE3_CHUNK_START
                 : b == BLAKE3_CHUNK / BLAKE3_BLOCK - 1 ? BLAKE3_CHUNK_END
                                                        : 0);
    }
    store(value, out);
}

INLINE void parents(uint32_t in[2 * BLAKE3_LANES][8], uint32_t out[BLAKE3_LANES][8])
{
    lanes value[8], m[16], count[2] = {{0}, {0}};
    start(value);
    for (int half = 0; half < 2; half++) { /* words in the order of this machine already */
        for (int i = 0; i < 8; i++)
            memcpy(&m[8 * half + i], in[2 * i + half], sizeof m[0]);
        transpose(m + 8 * half);
    }
    compress(value, m, count, BLAKE3_PARENT);
    store(value, out);
}

/* The same code for each set of vector instructions. */
#define FORM(name, with)                                                                                     \
    with static void chunks_##name(const unsigned char *p, uint64_t counter, uint32_t out[BLAKE3_LANES][8])  \
    {                                                                                                        \
        chunks(p, counter, out);                                                                             \
    }                                                                                                        \
    with static void parents_##name(uint32_t in[2 * BLAKE3_LANES][8], uint32_t out[BLAKE3_LANES][8])         \
    {                                                                                                        \
        parents(in, out);                                                                                    \
    }

struct form {
    void (*chunks)(const unsigned char *p, uint64_t counter, uint32_t out[BLAKE3_LANES][8]);
    void (*parents)(uint32_t in[2 * BLAKE3_LANES][8], uint32_t out[BLAKE3_LANES][8]);
};

FORM(plain, )
static const struct form plain = {chunks_plain, parents_plain};

#ifdef HAVE_WIDER
FORM(avx2, __attribute__((target("avx2"))))
FORM(avx512, __attribute__((target("avx512f,avx512vl,avx512bw"))))
static const struct form avx2 = {chunks_avx2, parents_avx2}, avx512 = {chunks_avx512, parents_avx512};

/* Of the widest set what is useful here are its rotations, not its width. */
static const struct form *form(void)
{
    if (__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
        return &avx512;
    return __builtin_cpu_supports("avx2") ? &avx2 : &plain;
}
#else
static const struct form *form(void)
{
    return &plain;
}
#endif

void blake3_chunks(const unsigned char *p, uint64_t counter, uint32_t out[BLAKE3_LANES][8])
{
    form()->chunks(p, counter, out);
}

void blake3_parents(uint32_t in[2 * BLAKE3_LANES][8], uint32_t out[BLAKE3_LANES][8])
{
    form()->parents(in, out);
}
