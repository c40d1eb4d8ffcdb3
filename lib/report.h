/* SPDX-License-Identifier: MIT
 * Where readers say what is wrong with a file: either the first finding ends the reading, or all of them are
 * collected (fsck). One message form for the whole project is made here. */
#ifndef REPORT_H
#define REPORT_H

#include <stddef.h>

#include "safetensors/safetensors.h"

struct report {
    fs_error first;   /* code 0 while there is none */
    size_t count;     /* of findings about the content (EBADMSG, ENOTSUP); failures to read it are none */
    const char *what; /* what is being read, "safetensors header": begins each message */
    void (*each)(void *ctx, const fs_error *e); /* called for each of them; NULL: stop at the first */
    void *ctx;
};

/* Adds a finding: "WHAT: 'TENSOR': why (byte OFFSET)". name NULL: none; offset FS_NO_OFFSET: none. Returns 0
 * if reading may go on, else `code` (a negative errno). r may be NULL (then always `code`). */
int report_add(struct report *r, int code, const char *name, size_t len, uint64_t offset, const char *fmt,
               ...) __attribute__((format(printf, 6, 7)));

/* The same for what ends the reading in any case: always `code`. */
int report_fatal(struct report *r, int code, const char *name, size_t len, uint64_t offset, const char *fmt,
                 ...) __attribute__((format(printf, 6, 7)));

#endif
