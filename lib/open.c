/* SPDX-License-Identifier: MIT
 * Opening by content: one table leads from what a file is to its reader. */
#include <errno.h>
#include <string.h>

#include "header.h"
#include "model.h"
#include "sniff.h"
#include "thin.h"

static int (*const readers[])(struct model *m, struct report *r) = {
    [CONTAINER_SAFETENSORS] = header_read,
    [CONTAINER_THIN] = thin_read_model,
};

int model_open(const char *path, enum source_how how, struct model **out, struct report *r)
{
    struct source *s = NULL;
    struct model *m = NULL;
    unsigned char first[SNIFF_BYTES];
    const char *what = NULL;
    int err = source_open(path, how, &s, r);
    if (err < 0)
        return err;
    size_t n = s->size < sizeof first ? (size_t)s->size : sizeof first;
    err = source_read(s, 0, first, n);
    if (err < 0) {
        report_fatal(r, err, NULL, 0, 0, "cannot be read: %s", strerror(-err));
        goto out;
    }
    enum container c = sniff(first, n, s->size, &what);
    if (c == CONTAINER_OTHER) {
        err = report_fatal(r, -ENOTSUP, NULL, 0, FS_NO_OFFSET, "%s", what);
        goto out;
    }
    m = model_new(s);
    if (!m) {
        err = report_fatal(r, -ENOMEM, NULL, 0, FS_NO_OFFSET, "out of memory");
        goto out;
    }
    err = readers[c](m, r);
    if (err < 0)
        goto out;
    *out = m;
    m = NULL;
out:
    model_free(m);
    source_free(s);
    return err;
}
