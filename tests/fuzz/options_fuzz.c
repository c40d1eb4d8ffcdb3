/* SPDX-License-Identifier: MIT
 * Lines as the arguments of mount.safetensors. */
#include <string.h>

#include "fuzz.h"
#include "options.h"
#include "say.h"

/* In place of the real one: it must be given sense, and says nothing. */
void say(const char *object, const char *fmt, ...)
{
    (void)object;
    must(fmt && fmt[0]);
}

enum { MOST = 32 };

static void check(const struct options *o, int err)
{
    must(err == 0 || err == EXIT_USAGE);
    if (err)
        return;
    must(o->help || o->version || (o->source && o->mountpoint));
    must(o->layout == LAYOUT_TREE || o->layout == LAYOUT_FLAT);
    must(o->uid >= UNSET && o->uid < UINT32_MAX && o->gid >= UNSET && o->gid < UINT32_MAX);
    must(o->umask >= UNSET && o->umask <= 0777);
    must(o->allow_other >= UNSET && o->allow_other <= 1);
    must(o->readahead >= UNSET);
    must(o->max_threads == UNSET || (o->max_threads >= 1 && o->max_threads <= 1000));
    must(!o->debug || o->foreground || o->help || o->version);
    must(o->fuse.len == 0 || (o->fuse.p[0] != ',' && strlen(o->fuse.p) == o->fuse.len));
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    char *text = malloc(n + 1), *argv[MOST + 1] = {(char *)(uintptr_t) "mount.safetensors"}, *rest = text;
    int argc = 1;
    struct options o;
    memcpy(text, p, n);
    text[n] = 0;
    while (argc < MOST && rest)
        argv[argc++] = strsep(&rest, "\n");
    check(&o, options_parse(&o, argc, argv));
    options_free(&o);
    free(text);
    return 0;
}
