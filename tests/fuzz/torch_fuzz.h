/* SPDX-License-Identifier: MIT
 * What the fuzz targets of PyTorch files share: a file in memory is opened as the mount opens it, and every
 * tensor in it is read, at a few places and up to a cap. */
#ifndef TORCH_FUZZ_H
#define TORCH_FUZZ_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "model.h"

enum { FUZZ_READ = 4096, FUZZ_TENSORS = 256 };

static void read_some(const struct model *m, const struct tensor *t, char *buf)
{
    struct extents x = {0};
    if (model_extents(m, t, &x) == 0 && x.size != t->nbytes)
        abort();
    const uint64_t places[] = {0, 1, t->nbytes / 2, t->nbytes > 100 ? t->nbytes - 100 : 0};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        ssize_t got = extents_read(&x, places[i], buf, FUZZ_READ);
        if (got > FUZZ_READ)
            abort();
    }
    extents_free(&x);
}

static void fuzz_file(const void *p, size_t len)
{
    char path[64], buf[FUZZ_READ];
    struct model *m = NULL;
    struct report r = {0};
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, p, len) != (ssize_t)len)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int err = model_open(path, SOURCE_MAP, &m, &r);
    if ((err < 0) != (r.first.code < 0)) /* a failure always says why */
        abort();
    for (size_t i = 0; err == 0 && i < m->n_tensors && i < FUZZ_TENSORS; i++)
        read_some(m, &m->tensors[i], buf);
    model_free(m);
    close(fd);
}

#endif
