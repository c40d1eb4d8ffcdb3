/* SPDX-License-Identifier: MIT
 * Archives taken apart, put together, and written again in another order. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convert.h"
#include "say.h"
#include "thin_repack.h"

/* Opened and verified, its pages' bytes too. */
static int open_archive(const char *path, struct model **m)
{
    struct report r = {.deep = true};
    int err = model_open(path, SOURCE_MAP, m, &r);
    if (err == 0 && !(*m)->thin) {
        model_free(*m);
        *m = NULL;
        say(path, "is no ThinTensor archive");
        return -EINVAL;
    }
    if (err < 0)
        say(path, "%s", r.first.message);
    return err;
}

int convert_save(const char *path, const struct extents *x, int (*approve)(int fd, struct report *r))
{
    struct report w = {0};
    struct save_options o = save_plain;
    struct timespec last;
    convert_progress(&o, &last);
    o.approve = approve;
    o.parents = true;
    int err = save_extents(path, x, &o, &w);
    convert_progress_end(&o);
    if (err < 0)
        say(path, "%s", w.first.message);
    return err;
}

static int save_page(const struct thin *t, const struct thin_record *p, const char *dir)
{
    struct extents x = {0};
    struct buf path = {0};
    buf_str(&path, dir);
    buf_add(&path, p->id.s, p->id.len);
    buf_str(&path, ".bin");
    int err = path.failed ? -ENOMEM : memchr(p->id.s, 0, p->id.len) ? -EINVAL : 0;
    if (err == 0)
        err = extents_add_source(&x, t->source, p->offset, p->stored);
    if (err < 0)
        say(dir, "a page cannot be written: %s", strerror(-err));
    else
        err = convert_save(path.p, &x, NULL);
    extents_free(&x);
    buf_free(&path);
    return err;
}

static int save_manifest(const struct thin *t, const char *dir)
{
    struct extents x = {0};
    struct buf text = {0}, path = {0};
    buf_printf(&path, "%s/manifest.json", dir);
    thin_manifest_write(&t->manifest, &text);
    int err = path.failed || text.failed ? -ENOMEM : extents_add_memory(&x, text.p, text.len);
    if (err < 0)
        say(dir, "%s", strerror(-err));
    else
        err = convert_save(path.p, &x, NULL);
    extents_free(&x);
    buf_free(&text);
    buf_free(&path);
    return err;
}

int thin_extract(const char *from, const char *dir)
{
    struct model *m = NULL;
    struct buf pages = {0};
    int err = open_archive(from, &m);
    if (err < 0)
        return EXIT_SYSTEM;
    buf_printf(&pages, "%s/pages/", dir);
    err = pages.failed ? -ENOMEM : save_make_parents(AT_FDCWD, pages.p);
    if (err < 0)
        say(dir, "%s", strerror(-err));
    else
        err = save_manifest(m->thin, dir);
    for (size_t i = 0; i < m->thin->n_records && err == 0; i++)
        err = save_page(m->thin, &m->thin->records[i], pages.p);
    buf_free(&pages);
    model_free(m);
    return err < 0 ? EXIT_SYSTEM : EXIT_OK;
}

int thin_pack(const char *manifest, const char *pages, const char *to)
{
    struct extents x = {0};
    struct report r = {0};
    int err = thin_pack_extents(manifest, pages, &x, &r);
    if (err < 0)
        say(manifest, "%s", r.first.message);
    else
        err = convert_save(to, &x, thin_approve);
    extents_free(&x);
    return err < 0 ? EXIT_SYSTEM : EXIT_OK;
}

int thin_repack(const char *from, const char *to, const char *layout)
{
    struct model *m = NULL;
    struct extents x = {0};
    struct report r = {0};
    if (strcmp(from, to) == 0) {
        say(from, "repack-same-path: source and target must differ");
        return EXIT_SYSTEM;
    }
    int err = open_archive(from, &m);
    if (err < 0)
        return EXIT_SYSTEM;
    err = thin_repack_extents(m->thin, layout, &x, &r);
    if (err < 0)
        say(from, "%s", r.first.message);
    else
        err = convert_save(to, &x, thin_approve);
    extents_free(&x);
    model_free(m);
    return err < 0 ? EXIT_SYSTEM : EXIT_OK;
}
