/* SPDX-License-Identifier: MIT
 * Counters of the running daemon, shown in .safetensors/stats. */
#ifndef STATS_H
#define STATS_H

#include <stdatomic.h>

#include "buf.h"

#define STATS(each)                                                                                          \
    each(lookups) each(getattrs) each(readdirs) each(opens) each(reads) each(bytes_read) each(getxattrs)     \
        each(read_errors)

struct stats {
#define STATS_FIELD(name) atomic_ullong name;
    STATS(STATS_FIELD)
};

extern struct stats stats;

static inline void stats_count(atomic_ullong *counter, unsigned long long n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* Appends a line "name value" each. */
void stats_write(struct buf *out);

#endif
