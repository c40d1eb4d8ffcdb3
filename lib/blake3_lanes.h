/* SPDX-License-Identifier: MIT
 * BLAKE3 over several chunks side by side; the numbers both forms share. */
#ifndef BLAKE3_LANES_H
#define BLAKE3_LANES_H

#include "blake3.h"

enum { BLAKE3_LANES = 8, BLAKE3_ROUNDS = 7 };
enum { BLAKE3_CHUNK_START = 1, BLAKE3_CHUNK_END = 2, BLAKE3_PARENT = 4, BLAKE3_ROOT = 8 };

/* Which word of the message goes where: each round takes them in the order of the round before, permuted. */
extern const unsigned char blake3_schedule[BLAKE3_ROUNDS][16];

/* Chaining values of BLAKE3_LANES chunks that lie behind each other, the first of them number `counter`. */
void blake3_chunks(const unsigned char *p, uint64_t counter, uint32_t out[BLAKE3_LANES][8]);

/* Chaining values of the parents of BLAKE3_LANES pairs; out may be the beginning of in. */
void blake3_parents(uint32_t in[2 * BLAKE3_LANES][8], uint32_t out[BLAKE3_LANES][8]);

#endif
