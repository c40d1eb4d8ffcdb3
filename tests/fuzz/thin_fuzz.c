/* SPDX-License-Identifier: MIT
 * An archive of any bytes: opened and checked to the last rule; what is read as sound must be readable. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "model.h"
#include "thin.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void found(void *ctx, const fs_error *e)
{
    *(size_t *)ctx += e->message[0] != 0;
}

/* What a manifest is written as is read again, and written as the same. */
static void write_twice(const struct thin_manifest *m)
{
    struct buf one = {0}, two = {0};
    struct thin_manifest again = {0};
    const char *why;
    size_t at;
    thin_manifest_write(m, &one);
    if (thin_manifest_read(&again, one.p, one.len, &why, &at) < 0)
        abort();
    thin_manifest_write(&again, &two);
    /* Reading is not correctly rounded, so that a float may come back as another; its neighbours differ in
     * the last digits only. */
    if (!memchr(one.p, '.', one.len) && !memmem(one.p, one.len, "e+", 2) &&
        !memmem(one.p, one.len, "e-", 2) && (one.len != two.len || memcmp(one.p, two.p, one.len) != 0))
        abort();
    thin_manifest_free(&again);
    buf_free(&one);
    buf_free(&two);
}

static void read_all(const struct model *m)
{
    for (size_t i = 0; i < m->n_tensors; i++) {
        unsigned char byte;
        const struct tensor *t = &m->tensors[i];
        if (t->nbytes && source_read(t->source, t->offset + t->nbytes - 1, &byte, 1) < 0)
            abort();
        tm_tensor_free(NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    char path[40];
    int fd = memfd_create("thin", MFD_CLOEXEC);
    if (fd < 0 || write(fd, p, n) != (ssize_t)n)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    for (int deep = 0; deep < 2; deep++) {
        size_t findings = 0;
        struct report r = {.deep = deep, .each = found, .ctx = &findings};
        struct model *m = NULL;
        int err = model_open(path, SOURCE_COPY, &m, &r);
        if ((err == 0) != (m != NULL) || findings != r.count)
            abort();
        if (m && m->thin) {
            write_twice(&m->thin->manifest);
            read_all(m);
        }
        model_free(m);
    }
    close(fd);
    return 0;
}
