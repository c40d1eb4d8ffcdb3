/* SPDX-License-Identifier: MIT
 * From a model directory to a ThinTensor archive. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "convert.h"
#include "say.h"
#include "thin.h"

static void say_warnings(const char *from, const struct thin_build *b)
{
    for (size_t i = 0; i < b->n_warnings; i++)
        say(from, b->warnings[i].detail.len ? "note: %s: %s" : "note: %s", b->warnings[i].kind,
            b->warnings[i].detail.s);
}

struct hashing {
    struct thin_export *x;
    struct timespec last;
};

/* Draws how far the hashing is; true after a signal. */
static bool hashing_step(void *ctx)
{
    struct hashing *h = ctx;
    uint64_t done, total;
    thin_export_progress(h->x, &done, &total);
    return convert_step(isatty(2) ? &h->last : NULL, done, total) < 0;
}

static int write_archive(const struct convert_job *j, struct thin_export *x)
{
    struct extents list = {0};
    int err = thin_export_extents(x, &list);
    if (err < 0)
        say(j->to, "out of memory");
    else
        err = convert_save(j->to, &list, thin_approve);
    extents_free(&list);
    return err;
}

/* Which shard is to blame. */
static void say_changed(const char *from, const struct thin_build *b, int err)
{
    for (size_t i = 0; i < b->n_tensors; i++)
        if (source_check(b->tensors[i].tensor->source) < 0) {
            say(from, "io: %s changed or cannot be read", b->tensors[i].tensor->source->name);
            return;
        }
    say(from, "io: %s", strerror(-err));
}

int convert_to_thin(const struct convert_job *j)
{
    struct report r = {0};
    struct thin_export *x = NULL;
    int err = thin_export_open(j->from, &j->thin, &x, &r);
    if (err < 0) {
        say(j->from, "%s",
            err == -ENOTDIR ? "is no directory: an archive is made of a model directory" : r.first.message);
        return EXIT_SYSTEM;
    }
    struct hashing h = {.x = x};
    err = thin_export_hash(x, hashing_step, &h);
    if (err < 0)
        say_changed(j->from, thin_export_build(x), err);
    else if (j->dry_run)
        err = convert_report(j, x);
    else
        err = write_archive(j, x);
    if (err == 0 && !j->dry_run)
        say_warnings(j->from, thin_export_build(x));
    thin_export_free(x);
    return err < 0 ? EXIT_SYSTEM : EXIT_OK;
}
