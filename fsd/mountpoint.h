/* SPDX-License-Identifier: MIT
 * The place where a model is mounted: whether it will do, mounting, and letting go. */
#ifndef MOUNTPOINT_H
#define MOUNTPOINT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A preopened "/dev/fd/N", which the caller has mounted himself. */
bool mountpoint_is_fd(const char *path);

/* Says what is wrong with a mount point, or with mounting at all, and returns the exit status; 0: nothing. */
int mountpoint_check(const char *path, bool nonempty);

/* The device of the safetensors mount that is on top at path (absolute, resolved), 0 if there is none. Asks
 * the kernel's list, never the mount itself. */
dev_t mountpoint_device(const char *path);

/* Detaches the mount at path if it is still the one with that device; open files in it end with the daemon.
 */
void mountpoint_detach(const char *path, dev_t device);

/* Sets how far the kernel reads ahead in that mount. -EACCES for ordinary users. */
int mountpoint_readahead(dev_t device, uint64_t bytes);

#endif
