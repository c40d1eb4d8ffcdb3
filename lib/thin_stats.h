/* SPDX-License-Identifier: MIT
 * What an archive holds, in numbers, as the ThinTensor tool counts it. */
#ifndef THIN_STATS_H
#define THIN_STATS_H

#include "thin.h"

/* Appends the statistics of a sound archive as JSON, or as lines for people. -ENOMEM. */
int thin_stats_json(const struct thin *t, struct buf *out);
int thin_stats_text(const struct thin *t, struct buf *out);

#endif
