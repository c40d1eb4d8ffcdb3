/* SPDX-License-Identifier: MIT
 * The processes of a mount. Three, so that each has little to do:
 *
 * - launcher: what the user started; waits until the mount answers, exits with its status. None in the
 *   foreground.
 * - keeper: a small parent for what the server must not do. It detaches the mount when the server was told to
 *   stop, and sets the kernel's read-ahead. It knows nothing of the model.
 * - server: reads the model, mounts, answers requests. Once it answers it opens and executes nothing more, so
 *   that it can be confined.
 *
 * Each passes SIGTERM, SIGINT and SIGHUP on to the next.
 */
#ifndef PROCESSES_H
#define PROCESSES_H

#include <stdbool.h>
#include <sys/types.h>

/* Exit status of a server that was told to stop by a signal: its mount is still there. */
enum { EXIT_STOPPED = 99 };

struct process_hooks {
    int (*serve)(void *ctx, int ready_fd); /* in the server: returns its exit status; see process_ready */
    void (*mounted)(void *ctx);            /* in the keeper, once the mount answers */
    void (*stopped)(void *ctx);            /* in the keeper, after EXIT_STOPPED */
    void *ctx;
};

/* Runs them; returns the exit status of the process it returns in. */
int process_run(const struct process_hooks *h, bool foreground);

/* In the server: the mount answers. Unless in the foreground, stdin, stdout and stderr are let go. */
void process_ready(int ready_fd, bool foreground);

#endif
