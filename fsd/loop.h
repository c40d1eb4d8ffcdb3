/* SPDX-License-Identifier: MIT
 * The loop of the daemon: threads that take requests and answer them, until it is unmounted or told to stop.
 */
#ifndef LOOP_H
#define LOOP_H

#include "ops.h"

/* Blocks the signals that stop the loop, so that none is lost before it runs. */
void loop_block_signals(void);

/* Serves with that many threads. 0: unmounted; the number of the signal that stopped it; or a negative errno.
 */
int loop_run(struct fuse_session *se, unsigned threads);

#endif
