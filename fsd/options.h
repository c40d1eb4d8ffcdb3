/* SPDX-License-Identifier: MIT
 * The command line of mount.safetensors: mount(8)'s single letters, and one table of options that may each be
 * written
 * `-o name[=value]` or `--name[=value]`. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "buf.h"
#include "names.h"

enum { UNSET = -1, SETTLE_OFF = -1, SETTLE = 1000 };

struct options {
    const char *source, *mountpoint;
    enum layout layout;
    int64_t uid, gid, umask; /* UNSET: as the source has it */
    int allow_other;         /* UNSET: as is usual for the user */
    char *output;            /* NULL: no staging */
    char *dtype;             /* of staged files that have none; NULL: none */
    int64_t settle;          /* milliseconds; SETTLE_OFF */
    bool direct_io, foreground, debug, nonempty;
    int64_t readahead; /* bytes; UNSET: as much as is useful */
    int64_t max_read;  /* bytes; UNSET: the kernel's */
    int64_t max_threads;
    bool fake, sloppy, verbose, help, version;
    struct buf fuse; /* options for libfuse, separated by commas, escaped */
};

/* 0, or an exit status after a message. o is to be released with options_free in any case. */
int options_parse(struct options *o, int argc, char **argv);
void options_free(struct options *o);

/* Prints the table, for --help. */
void options_help(void);

/* Appends a value to a list of options for libfuse: "," and "\" get a "\" before them. */
void options_escape(struct buf *out, const char *value);

#endif
