/* SPDX-License-Identifier: MIT
 * Opening by content: one table leads from what a file is to its reader. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "directory.h"
#include "header.h"
#include "model.h"
#include "sniff.h"
#include "thin.h"
#include "torch.h"

static int (*const readers[])(struct model *m, struct report *r) = {
    [CONTAINER_SAFETENSORS] = header_read,        [CONTAINER_THIN] = thin_read_model,
    [CONTAINER_TORCH_ZIP] = torch_zip_read,       [CONTAINER_TORCH_TAR] = torch_tar_read,
    [CONTAINER_TORCH_LEGACY] = torch_legacy_read,
};

static int read_first(const struct source *s, unsigned char *first, size_t *n, struct report *r)
{
    *n = s->size < SNIFF_BYTES ? (size_t)s->size : SNIFF_BYTES;
    int err = source_read(s, 0, first, *n);
    return err < 0 ? report_fatal(r, err, NULL, 0, 0, "cannot be read: %s", strerror(-err)) : 0;
}

static int read_as(enum container c, struct source *s, const char *what, struct model **out, struct report *r)
{
    if (c == CONTAINER_OTHER || c == CONTAINER_JSON)
        return report_fatal(r, -ENOTSUP, NULL, 0, FS_NO_OFFSET, "%s", what);
    struct model *m = model_new(s);
    if (!m)
        return report_fatal(r, -ENOMEM, NULL, 0, FS_NO_OFFSET, "out of memory");
    int err = readers[c](m, r);
    if (err < 0)
        model_free(m);
    else
        *out = m;
    return err;
}

int model_read(struct source *s, struct model **out, struct report *r)
{
    unsigned char first[SNIFF_BYTES];
    const char *what = NULL;
    size_t n;
    int err = read_first(s, first, &n, r);
    if (err < 0)
        return err;
    enum container c = sniff(first, n, s->size, &what);
    return read_as(c, s, what, out, r);
}

/* JSON text may be the index of a model directory. */
static bool is_index(const struct source *s)
{
    unsigned char first[SNIFF_BYTES];
    const char *what;
    size_t n;
    return read_first(s, first, &n, NULL) == 0 && sniff(first, n, s->size, &what) == CONTAINER_JSON &&
           directory_is_index(s);
}

int model_open(const char *path, enum source_how how, struct model **out, struct report *r)
{
    struct source *s = NULL;
    struct stat st;
    struct report unread = {0}; /* readers keep count in it, whether anybody asks or not */
    r = r ? r : &unread;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return directory_open(path, NULL, how, out, r);
    int err = source_open(path, how, &s, r);
    if (err < 0)
        return err;
    err = is_index(s) ? directory_open_index(path, how, out, r) : model_read(s, out, r);
    source_free(s);
    return err;
}
