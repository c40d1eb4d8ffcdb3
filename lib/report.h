/* SPDX-License-Identifier: MIT
 * Where readers say what is wrong with a file: either the first finding ends the reading, or all of them are
 * collected (fsck). One message form for the whole project is made here. */
#ifndef REPORT_H
#define REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "safetensors/safetensors.h"

struct report {
    fs_error first;   /* code 0 while there is none */
    size_t count;     /* of findings about the content (EBADMSG, ENOTSUP); failures to read it are none */
    bool deep;        /* look at the tensors' bytes as well, where there are digests of them */
    const char *part; /* which file of several it is, or NULL: stands before all else */
    const char *what; /* what is being read, "safetensors header": begins each message */
    void (*each)(void *ctx, const fs_error *e); /* called for each of them; NULL: stop at the first */
    void (*note)(void *ctx, const fs_error *e); /* what is worth saying and no error; may be NULL */
    void *ctx;
};

/* Adds a finding: "WHAT: 'TENSOR': why (byte OFFSET)". name NULL: none; offset FS_NO_OFFSET: none. Returns 0
 * if reading may go on, else `code` (a negative errno). r may be NULL (then always `code`). */
int report_add(struct report *r, int code, const char *name, size_t len, uint64_t offset, const char *fmt,
               ...) __attribute__((format(printf, 6, 7)));

/* The same for what ends the reading in any case: always `code`. */
int report_fatal(struct report *r, int code, const char *name, size_t len, uint64_t offset, const char *fmt,
                 ...) __attribute__((format(printf, 6, 7)));

/* report_add for formats whose rules have names: "WHAT: 'TENSOR': KIND: why". `why` may be empty. */
int report_kind(struct report *r, const char *kind, int code, const char *name, size_t len, uint64_t offset,
                const char *fmt, ...) __attribute__((format(printf, 7, 8)));

/* Says something that is no error. r may be NULL. */
void report_note(struct report *r, const char *kind, const char *name, size_t len, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

#endif
