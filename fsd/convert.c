/* SPDX-License-Identifier: MIT
 * safetensors-convert: what .export does, where nothing can be mounted. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "canonical.h"
#include "save.h"
#include "say.h"

/* What can be written, by the target's ending. */
static const struct form {
    const char *ending;
    int (*extents)(const struct model *m, struct extents *x, struct report *r);
} forms[] = {
    {".safetensors", canonical_extents},
};

enum { N_FORMS = sizeof forms / sizeof forms[0] };

static const struct form *form_of(const char *path)
{
    size_t n = strlen(path);
    for (size_t i = 0; i < N_FORMS; i++) {
        size_t e = strlen(forms[i].ending);
        if (n > e && strcmp(path + n - e, forms[i].ending) == 0)
            return &forms[i];
    }
    return NULL;
}

/* A bar on the terminal, drawn again ten times a second. */
static int draw(void *ctx, uint64_t done, uint64_t total)
{
    static const char full[] = "########################################";
    struct timespec *last = ctx, now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t ms = (now.tv_sec - last->tv_sec) * 1000 + (now.tv_nsec - last->tv_nsec) / 1000000;
    if (ms < 100 && done < total)
        return 0;
    *last = now;
    double part = total ? (double)done / (double)total : 1;
    fprintf(stderr, "\r[%-40.*s] %3d%% of %.1f MiB", (int)(part * 40), full, (int)(part * 100),
            (double)total / 1048576);
    if (done == total)
        fputs("\r\033[K", stderr);
    return 0;
}

static int convert(const char *from, const char *to)
{
    struct report r = {0}, w = {0};
    struct model *m = NULL;
    struct extents x = {0};
    struct timespec last = {0};
    struct save_options o = save_plain;
    const struct form *form = form_of(to);
    if (!form) {
        say(to, "a target ending in .safetensors expected");
        return EXIT_USAGE;
    }
    if (isatty(2)) {
        o.progress = draw;
        o.ctx = &last;
    }
    const char *about = from;
    int err = model_open(from, SOURCE_MAP, &m, &r);
    if (err == 0) {
        r.what = NULL;
        err = form->extents(m, &x, &r);
    }
    if (err == 0) {
        about = to;
        err = save_extents(to, &x, &o, &w);
    }
    if (err < 0)
        say(about, "%s", (about == to ? &w : &r)->first.message);
    extents_free(&x);
    model_free(m);
    return err < 0 ? EXIT_SYSTEM : EXIT_OK;
}

static void usage(FILE *to)
{
    fprintf(to, "usage: safetensors-convert SRC DST.safetensors\n"
                "Writes a model of any kind as one canonical safetensors file. DST is replaced only when all "
                "went well.\n"
                "  -h, --help, -V, --version\n"
                "Exit status: 0 done, 1 usage, 2 could not be read, converted or written.\n");
}

int main(int argc, char **argv)
{
    const char *word[2] = {NULL, NULL};
    int n = 0;
    bool words = false;
    say_init("safetensors-convert");
    for (int i = 1; i < argc; i++) {
        if (words || argv[i][0] != '-' || argv[i][1] == 0) {
            if (n < 2)
                word[n] = argv[i];
            n++;
        } else if (strcmp(argv[i], "--") == 0)
            words = true;
        else if (strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "--help") == 0) {
            usage(stdout);
            return EXIT_OK;
        } else if (strcmp(argv[i], "-V") == 0 || strcmp(argv[i], "--version") == 0) {
            printf("safetensors-convert %s\n", VERSION);
            return EXIT_OK;
        } else {
            say(NULL, "unknown option '%s'; --help lists them", argv[i]);
            return EXIT_USAGE;
        }
    }
    if (n != 2) {
        say(NULL, "SRC and DST expected; --help tells");
        return EXIT_USAGE;
    }
    return convert(word[0], word[1]);
}
