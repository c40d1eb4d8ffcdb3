/* SPDX-License-Identifier: MIT
 * safetensors-convert: what .export does, where nothing can be mounted. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "canonical.h"
#include "convert.h"
#include "save.h"
#include "say.h"

/* What can be written, by the target's ending. */
static int to_safetensors(const struct convert_job *j);

static const struct form {
    const char *ending;
    int (*convert)(const struct convert_job *j);
} forms[] = {
    {".safetensors", to_safetensors},
    {".thin", convert_to_thin},
};

enum { N_FORMS = sizeof forms / sizeof forms[0] };

static const struct form *form_of(const char *path)
{
    size_t n = strlen(path);
    for (size_t i = 0; i < N_FORMS; i++) {
        size_t e = strlen(forms[i].ending);
        if (n > e && path[n - e - 1] != '/' && strcmp(path + n - e, forms[i].ending) == 0)
            return &forms[i];
    }
    return NULL;
}

/* The signal that asked us to stop. The temporary file must not stay, so all ends in good order. */
static volatile sig_atomic_t stopped;

static void stop(int sig)
{
    stopped = sig;
}

static void catch_signals(void)
{
    static const int caught[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction now = {.sa_handler = stop}, old;
    for (size_t i = 0; i < sizeof caught / sizeof caught[0]; i++)
        if (sigaction(caught[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN) /* nohup */
            sigaction(caught[i], &now, NULL);
    signal(SIGXFSZ, SIG_IGN); /* a limit of file size is an error like a full disk */
}

/* A bar on the terminal, drawn again ten times a second. */
static void draw(struct timespec *last, uint64_t done, uint64_t total)
{
    static const char full[] = "########################################";
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t ms = (now.tv_sec - last->tv_sec) * 1000 + (now.tv_nsec - last->tv_nsec) / 1000000;
    if (ms < 100 && done < total)
        return;
    *last = now;
    double part = total ? (double)done / (double)total : 1;
    fprintf(stderr, "\r[%-40.*s] %3d%% of %.1f MiB", (int)(part * 40), full, (int)(part * 100),
            (double)total / 1048576);
}

int convert_step(void *last, uint64_t done, uint64_t total)
{
    if (last)
        draw(last, done, total);
    return stopped ? -EINTR : 0;
}

void convert_progress(struct save_options *o, struct timespec *last)
{
    *last = (struct timespec){0};
    o->progress = convert_step;
    o->ctx = isatty(2) ? last : NULL;
}

void convert_progress_end(const struct save_options *o)
{
    if (o->ctx)
        fputs("\r\033[K", stderr); /* away with the bar */
}

static int to_safetensors(const struct convert_job *j)
{
    struct report r = {0}, w = {0};
    struct model *m = NULL;
    struct extents x = {0};
    struct timespec last;
    struct save_options o = save_plain;
    convert_progress(&o, &last);
    const char *about = j->from;
    int err = model_open(j->from, SOURCE_MAP, &m, &r);
    if (err == 0) {
        r.what = NULL;
        err = canonical_extents(m, &x, &r);
    }
    if (err == 0) {
        about = j->to;
        err = save_extents(j->to, &x, &o, &w);
        convert_progress_end(&o);
    }
    if (err < 0)
        say(about, "%s", (about == j->to ? &w : &r)->first.message);
    extents_free(&x);
    model_free(m);
    return err < 0 ? EXIT_SYSTEM : EXIT_OK;
}

static int convert(const struct convert_job *j)
{
    const struct form *form = form_of(j->to);
    if (!form) {
        say(j->to, "a target ending in .safetensors or .thin expected");
        return EXIT_USAGE;
    }
    if (form->convert != convert_to_thin && (j->thin.arch || j->thin.no_tokenizer || j->dry_run)) {
        say(j->to, "--arch, --no-tokenizer and --dry-run are for targets ending in .thin");
        return EXIT_USAGE;
    }
    return form->convert(j);
}

static int extract(const struct convert_job *j)
{
    return thin_extract(j->from, j->to);
}

static int repack(const struct convert_job *j)
{
    return thin_repack(j->from, j->to, j->layout);
}

static void usage(FILE *to)
{
    fprintf(to,
            "usage: safetensors-convert SRC DST.safetensors    any model as one canonical safetensors file\n"
            "       safetensors-convert [--arch NAME] [--no-tokenizer] [--dry-run] DIR DST.thin\n"
            "       safetensors-convert --extract SRC.thin DIR\n"
            "       safetensors-convert --pack MANIFEST PAGES_DIR DST.thin\n"
            "       safetensors-convert --repack LAYOUT SRC.thin DST.thin\n"
            "DST is replaced only when all went well.\n"
            "  --arch NAME     the model's architecture, instead of what config.json says\n"
            "  --no-tokenizer  no digests of the tokenizer's files\n"
            "  --dry-run       prints what would be done as JSON, writes nothing\n"
            "  --extract       takes an archive apart: manifest.json and pages/ID.bin\n"
            "  --pack          puts one together\n"
            "  --repack        writes one again: execution_ordered_v1, hot_stream_v1 or fused_decode_v1\n"
            "  -h, --help, -V, --version\n"
            "Exit status: 0 done, 1 usage, 2 could not be read, converted or written.\n");
}

/* The words of the command line. */
struct words {
    const char *word[3];
    int n;
    bool extract, pack;
};

static int run(struct convert_job *j, const struct words *w)
{
    int wanted = w->pack ? 3 : 2;
    if (w->extract + w->pack + (j->layout != NULL) > 1) {
        say(NULL, "--extract, --pack and --repack exclude each other");
        return EXIT_USAGE;
    }
    if (w->n != wanted) {
        say(NULL, wanted == 3 ? "MANIFEST, PAGES_DIR and DST expected; --help tells"
                              : "SRC and DST expected; --help tells");
        return EXIT_USAGE;
    }
    j->from = w->word[0];
    j->to = w->word[1];
    if (w->pack)
        return thin_pack(w->word[0], w->word[1], w->word[2]);
    return w->extract ? extract(j) : j->layout ? repack(j) : convert(j);
}

/* The value of "--name=value" or of "--name" and the next word; NULL if arg is not that option. */
static const char *value_of(const char *name, char **argv, int *i)
{
    size_t n = strlen(name);
    if (strncmp(argv[*i], name, n) != 0)
        return NULL;
    if (argv[*i][n] == '=')
        return argv[*i] + n + 1;
    return argv[*i][n] == 0 && argv[*i + 1] ? argv[++*i] : NULL;
}

int main(int argc, char **argv)
{
    struct convert_job j = {0};
    struct words w = {.n = 0};
    bool words = false;
    const char *value;
    say_init("safetensors-convert");
    for (int i = 1; i < argc; i++) {
        if (words || argv[i][0] != '-' || argv[i][1] == 0) {
            if (w.n < 3)
                w.word[w.n] = argv[i];
            w.n++;
        } else if (strcmp(argv[i], "--") == 0)
            words = true;
        else if ((value = value_of("--arch", argv, &i)) != NULL)
            j.thin.arch = value;
        else if ((value = value_of("--repack", argv, &i)) != NULL)
            j.layout = value;
        else if (strcmp(argv[i], "--no-tokenizer") == 0)
            j.thin.no_tokenizer = true;
        else if (strcmp(argv[i], "--dry-run") == 0)
            j.dry_run = true;
        else if (strcmp(argv[i], "--extract") == 0)
            w.extract = true;
        else if (strcmp(argv[i], "--pack") == 0)
            w.pack = true;
        else if (strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "--help") == 0) {
            usage(stdout);
            return EXIT_OK;
        } else if (strcmp(argv[i], "-V") == 0 || strcmp(argv[i], "--version") == 0) {
            printf("safetensors-convert %s\n", VERSION);
            return EXIT_OK;
        } else {
            bool known = strcmp(argv[i], "--arch") == 0 || strcmp(argv[i], "--repack") == 0;
            say(NULL, known ? "%s needs a value" : "unknown option '%s'; --help lists them", argv[i]);
            return EXIT_USAGE;
        }
    }
    catch_signals();
    int status = run(&j, &w);
    if (stopped && status) { /* the caller shall see that it was a signal */
        signal(stopped, SIG_DFL);
        raise(stopped);
    }
    return status;
}
