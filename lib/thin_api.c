/* SPDX-License-Identifier: MIT
 * The public calls about ThinTensor archives. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "save.h"
#include "thin.h"
#include "thin_export.h"

struct fs_thin_model {
    struct model *archive;     /* either */
    struct thin_export *would; /* or */
};

static int answer(const struct report *r, int err, fs_error *e)
{
    if (e)
        *e = err < 0 ? r->first : (fs_error){0};
    return err;
}

static int describe(struct fs_thin_model *m, const char *path, struct report *r)
{
    static const struct thin_options plain = {.arch = NULL};
    struct stat st;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return thin_export_open(path, &plain, &m->would, r);
    int err = model_open(path, SOURCE_MAP, &m->archive, r);
    if (err == 0 && !m->archive->thin)
        err = report_fatal(r, -ENOTSUP, NULL, 0, FS_NO_OFFSET,
                           "neither a ThinTensor archive nor a model directory");
    return err;
}

fs_thin_model *fs_thin_describe(const char *path, fs_error *e)
{
    struct report r = {0};
    fs_thin_model *m = calloc(1, sizeof *m);
    int err = m ? describe(m, path, &r) : report_fatal(&r, -ENOMEM, NULL, 0, FS_NO_OFFSET, "out of memory");
    if (answer(&r, err, e) < 0) {
        fs_thin_model_free(m);
        errno = -err;
        return NULL;
    }
    return m;
}

void fs_thin_model_free(fs_thin_model *m)
{
    if (!m)
        return;
    model_free(m->archive);
    thin_export_free(m->would);
    free(m);
}

const fs_thin_spec *fs_thin_model_spec(const fs_thin_model *m)
{
    return m->archive ? &m->archive->thin->manifest.model : &thin_export_build(m->would)->manifest.model;
}

int fs_thin_verify(const char *path, void (*found)(void *ctx, const fs_error *what),
                   void (*note)(void *ctx, const fs_error *what), void *ctx, fs_error *e)
{
    struct report r = {.deep = true, .each = found, .note = note, .ctx = ctx};
    struct model *m = NULL;
    int err = model_open(path, SOURCE_MAP, &m, &r);
    if (err == 0 && !m->thin)
        err = report_fatal(&r, -ENOTSUP, NULL, 0, FS_NO_OFFSET, "no ThinTensor archive");
    model_free(m);
    if (err < 0 && err != -EBADMSG)
        return answer(&r, err, e);
    answer(&r, err, e);
    return (int)r.count;
}

static int write_archive(struct thin_export *x, const char *to, struct report *r)
{
    struct extents list = {0};
    struct save_options o = save_plain;
    o.approve = thin_approve;
    o.parents = true;
    int err = thin_export_hash(x, NULL, NULL);
    if (err < 0) {
        report_kind(r, "io", err, NULL, 0, FS_NO_OFFSET, "a shard changed or cannot be read");
        return err;
    }
    err = thin_export_extents(x, &list);
    err = err < 0 ? report_fatal(r, err, NULL, 0, FS_NO_OFFSET, "out of memory")
                  : save_extents(to, &list, &o, r);
    extents_free(&list);
    return err;
}

int fs_thin_convert(const char *dir, const char *to, const fs_thin_options *o, fs_error *e)
{
    static const fs_thin_options usual = {.arch = NULL};
    struct report r = {0};
    struct thin_export *x = NULL;
    if (!o)
        o = &usual;
    struct thin_options options = {.arch = o->arch, .no_tokenizer = o->no_tokenizer != 0};
    int err = thin_export_open(dir, &options, &x, &r);
    if (err == 0)
        err = write_archive(x, to, &r);
    for (size_t i = 0; err == 0 && o->warning && i < thin_export_build(x)->n_warnings; i++) {
        const struct thin_warning *w = &thin_export_build(x)->warnings[i];
        o->warning(o->ctx, w->kind, w->detail.s);
    }
    thin_export_free(x);
    return answer(&r, err, e);
}
