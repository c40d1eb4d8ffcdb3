/* SPDX-License-Identifier: MIT
 * fsck.safetensors: checks files without mounting them, and lists what is in them. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"
#include "say.h"
#include "thin_stats.h"
#include "tsv.h"
#include "utf8.h"

struct check {
    const char *path;
    bool json, list, stats;
    cJSON *results;  /* with json: one object a file ... */
    cJSON *findings; /* ... and the findings of the present one */
    cJSON *notes;    /* ... and what is no error */
};

static int no_memory(void)
{
    say(NULL, "out of memory");
    return FSCK_UNREADABLE;
}

static void add_finding(cJSON *to, const fs_error *e)
{
    cJSON *f = cJSON_CreateObject();
    cJSON_AddStringToObject(f, "message", e->message);
    if (e->kind[0])
        cJSON_AddStringToObject(f, "kind", e->kind);
    if (e->tensor[0])
        cJSON_AddStringToObject(f, "tensor", e->tensor);
    if (e->offset != FS_NO_OFFSET)
        cJSON_AddNumberToObject(f, "offset", (double)e->offset);
    cJSON_AddItemToArray(to, f);
}

static void found(void *ctx, const fs_error *e)
{
    const struct check *c = ctx;
    if (!c->json) {
        printf("%s: %s\n", c->path, e->message);
        return;
    }
    add_finding(c->findings, e);
}

static void noted(void *ctx, const fs_error *e)
{
    const struct check *c = ctx;
    if (c->json)
        add_finding(c->notes, e);
    else
        printf("%s: note: %s\n", c->path, e->message);
}

static int list(const struct model *m)
{
    struct tree *t = NULL;
    struct tsv v = {0};
    char block[65536];
    int err = tree_build(m, LAYOUT_TREE, &t);
    if (err == 0)
        err = tsv_open(&v, t);
    for (uint64_t at = 0; err == 0 && at < v.size;) {
        size_t n = v.size - at < sizeof block ? (size_t)(v.size - at) : sizeof block;
        err = tsv_fill(&v, at, block, n);
        if (err == 0)
            fwrite(block, 1, n, stdout);
        at += n;
    }
    tsv_close(&v);
    tree_free(t);
    return err < 0 ? no_memory() : FSCK_CLEAN;
}

/* Of an archive; other models have none. */
static int stats(const struct model *m)
{
    struct buf text = {0};
    int err = m->thin ? thin_stats_text(m->thin, &text) : 0;
    if (err == 0 && text.len)
        fwrite(text.p, 1, text.len, stdout);
    buf_free(&text);
    return err < 0 ? no_memory() : FSCK_CLEAN;
}

static void add_stats(cJSON *o, const struct model *m)
{
    struct buf text = {0};
    if (thin_stats_json(m->thin, &text) == 0)
        cJSON_AddRawToObject(o, "stats", text.p);
    buf_free(&text);
}

/* JSON is UTF-8; a path may be any bytes: those that are no UTF-8 are then written as in messages. */
static void add_file(cJSON *o, const char *path)
{
    size_t len = strlen(path);
    struct buf text = {0};
    if (utf8_span(path, len) != len)
        buf_printable(&text, path, len, 0);
    cJSON_AddStringToObject(o, "file", text.p ? text.p : path);
    buf_free(&text);
}

static void add_result(struct check *c, const struct model *m, int status, const fs_error *e)
{
    cJSON *o = cJSON_CreateObject();
    add_file(o, c->path);
    cJSON_AddStringToObject(o, "status",
                            status == FSCK_CLEAN    ? "clean"
                            : status == FSCK_ERRORS ? "errors"
                                                    : "unreadable");
    if (m) {
        cJSON_AddStringToObject(o, "format", m->format);
        cJSON_AddNumberToObject(o, "tensors", (double)m->n_tensors);
    }
    if (m && m->thin && c->stats)
        add_stats(o, m);
    if (status == FSCK_UNREADABLE)
        cJSON_AddStringToObject(o, "error", e->message);
    cJSON_AddItemToObject(o, "findings", c->findings);
    cJSON_AddItemToObject(o, "notes", c->notes);
    cJSON_AddItemToArray(c->results, o);
}

static int check(struct check *c)
{
    struct report r = {.deep = true, .each = found, .note = noted, .ctx = c};
    struct model *m = NULL;
    c->findings = c->json ? cJSON_CreateArray() : NULL;
    c->notes = c->json ? cJSON_CreateArray() : NULL;
    int err = model_open(c->path, SOURCE_MAP, &m, &r);
    int status = r.count ? FSCK_ERRORS : err < 0 ? FSCK_UNREADABLE : FSCK_CLEAN;
    if (status == FSCK_UNREADABLE && !c->json)
        say(c->path, "%s", r.first.message);
    if (status == FSCK_CLEAN && c->list)
        status = list(m);
    if (status == FSCK_CLEAN && c->stats && !c->json)
        status = stats(m);
    if (c->json)
        add_result(c, m, status, &r.first);
    model_free(m);
    return status;
}

static void usage(FILE *to)
{
    fprintf(to, "usage: fsck.safetensors [--json] [--list] [--stats] FILE|DIR...\n"
                "Checks model files and says everything that is wrong with them.\n"
                "  --json     findings as JSON, on stdout\n"
                "  --list     prints the tensors of a sound file, tab-separated\n"
                "  --stats    prints what a sound ThinTensor archive holds, in numbers\n"
                "  -V, --version, -h, --help\n"
                "Exit status: 0 clean, 4 errors found, 8 could not be read, 16 usage; several files: these, "
                "added.\n");
}

/* What fsck(8) may give besides: accepted, they ask for nothing that is not done anyway. */
static bool known_letters(const char *arg)
{
    return arg[0] == '-' && arg[1] && strspn(arg + 1, "aAfnpryvCMTV") == strlen(arg + 1);
}

int main(int argc, char **argv)
{
    struct check c = {0};
    int status = FSCK_CLEAN, files = 0;
    bool words = false;
    say_init("fsck.safetensors");
    for (int i = 1; i < argc; i++) {
        if (words || argv[i][0] != '-')
            argv[++files] = argv[i];
        else if (strcmp(argv[i], "--") == 0)
            words = true;
        else if (strcmp(argv[i], "--json") == 0)
            c.json = true;
        else if (strcmp(argv[i], "--list") == 0)
            c.list = true;
        else if (strcmp(argv[i], "--stats") == 0)
            c.stats = true;
        else if (strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "--help") == 0) {
            usage(stdout);
            return FSCK_CLEAN;
        } else if (strcmp(argv[i], "-V") == 0 || strcmp(argv[i], "--version") == 0) {
            printf("fsck.safetensors %s\n", VERSION);
            return FSCK_CLEAN;
        } else if (!known_letters(argv[i])) {
            say(NULL, "unknown option '%s'; --help lists them", argv[i]);
            return FSCK_USAGE;
        }
    }
    if (files == 0 || (c.json && c.list)) {
        say(NULL, files ? "--json and --list exclude each other" : "no file given; --help tells");
        return FSCK_USAGE;
    }
    c.results = c.json ? cJSON_CreateArray() : NULL;
    for (int i = 1; i <= files; i++) {
        c.path = argv[i];
        status |= check(&c);
    }
    if (c.json) {
        char *text = cJSON_Print(c.results);
        if (!text)
            return no_memory();
        puts(text);
        free(text);
        cJSON_Delete(c.results);
    }
    if (fflush(stdout) != 0 || ferror(stdout)) {
        say("stdout", "%s", strerror(errno));
        return status | FSCK_UNREADABLE;
    }
    return status;
}
