/* SPDX-License-Identifier: MIT
 * safetensors-convert, its parts. Each says what is wrong and returns an exit status. */
#ifndef CONVERT_H
#define CONVERT_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "save.h"
#include "thin_export.h"

struct convert_job {
    const char *from, *to;
    struct thin_options thin;
    bool dry_run;
    const char *layout; /* of --repack */
};

/* A progress bar, where stderr is a terminal, and stopping at a signal. convert_step is the callback: -EINTR
 * once a signal has come; last NULL: no bar. */
int convert_step(void *last, uint64_t done, uint64_t total);
void convert_progress(struct save_options *o, struct timespec *last);
void convert_progress_end(const struct save_options *o);

/* Prints what a conversion would do. 0 or a negative errno. */
int convert_report(const struct convert_job *j, struct thin_export *x);

/* Writes what belongs to an archive, making missing directories. approve: see save_options. */
int convert_save(const char *path, const struct extents *x, int (*approve)(int fd, struct report *r));

int convert_to_thin(const struct convert_job *j);
int thin_extract(const char *from, const char *dir);
int thin_pack(const char *manifest, const char *pages, const char *to);
int thin_repack(const char *from, const char *to, const char *layout);

#endif
