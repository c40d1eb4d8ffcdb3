/* SPDX-License-Identifier: MIT
 * Large pieces of memory in huge pages: faulting in small pages is a good part of the time to
 * open a model of many tensors, and almost every access to a large table would miss the TLB. */
#ifndef HUGE_H
#define HUGE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

/* Advises the kernel about what malloc gave, NULL included, and returns it. Not for what is to grow: realloc
 * could then only copy it. */
static inline void *in_huge_pages(void *p, size_t bytes)
{
    const uintptr_t page = (uintptr_t)2 << 20, start = ((uintptr_t)p + page - 1) & ~(page - 1);
    uintptr_t end = ((uintptr_t)p + bytes) & ~(page - 1);
    if (p && bytes >= 2 * page && end > start)
        (void)madvise((char *)p + (start - (uintptr_t)p), end - start, MADV_HUGEPAGE);
    return p;
}

#endif
