/* SPDX-License-Identifier: MIT
 * Messages: one line each, "COMMAND: OBJECT: what: why", on stderr, or in the system log once the daemon has
 * detached. */
#ifndef SAY_H
#define SAY_H

#include <stdbool.h>

/* Exit statuses: those of mount(8), and those of fsck(8). */
enum {
    EXIT_OK = 0,
    EXIT_USAGE = 1,  /* usage or permission */
    EXIT_SYSTEM = 2, /* no memory, no /dev/fuse, fork */
    EXIT_BUG = 4,
    EXIT_INTERRUPTED = 8,
    EXIT_MOUNT = 32,
};
enum { FSCK_CLEAN = 0, FSCK_ERRORS = 4, FSCK_UNREADABLE = 8, FSCK_USAGE = 16 };

/* Names the command for all messages to come, and keeps descriptors 0 to 2 occupied, so that no file gets
 * them. */
void say_init(const char *command);

/* From now on to the system log (opened here, so that nothing need be opened later). */
void say_to_log(void);

/* Prints "COMMAND: OBJECT: text". object is escaped for display; NULL: none. */
void say(const char *object, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
