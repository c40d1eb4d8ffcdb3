/* SPDX-License-Identifier: MIT */
#include "stats.h"

struct stats stats;

void stats_write(struct buf *out)
{
#define STATS_LINE(name)                                                                                     \
    buf_printf(out, #name " %llu\n", atomic_load_explicit(&stats.name, memory_order_relaxed));
    STATS(STATS_LINE)
}
