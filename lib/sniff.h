/* SPDX-License-Identifier: MIT
 * What a file is, told from its first bytes; names and endings mean nothing. */
#ifndef SNIFF_H
#define SNIFF_H

#include <stddef.h>
#include <stdint.h>

enum { SNIFF_BYTES = 512 }; /* how many first bytes are enough */

enum container {
    CONTAINER_SAFETENSORS,
    CONTAINER_TORCH_ZIP,
    CONTAINER_TORCH_TAR,
    CONTAINER_TORCH_LEGACY,
    CONTAINER_THIN,
    CONTAINER_JSON,
    CONTAINER_OTHER,
};

/* b holds the first n bytes (SNIFF_BYTES, or all) of a file of `size` bytes. For CONTAINER_OTHER and
 * CONTAINER_JSON (which may be the index of a model directory) *what
 * completes the sentence "FILE ..." and says what it is and, where that is certain, what to do. */
enum container sniff(const unsigned char *b, size_t n, uint64_t size, const char **what);

#endif
