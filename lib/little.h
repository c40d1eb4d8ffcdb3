/* SPDX-License-Identifier: MIT
 * Little-endian numbers from unaligned bytes. */
#ifndef LITTLE_H
#define LITTLE_H

#include <stdint.h>

static inline uint32_t little16(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}

static inline uint32_t little32(const unsigned char *p)
{
    return little16(p) | little16(p + 2) << 16;
}

static inline uint64_t little64(const unsigned char *p)
{
    return little32(p) | (uint64_t)little32(p + 4) << 32;
}

#endif
