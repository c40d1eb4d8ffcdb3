/* SPDX-License-Identifier: MIT
 * The zip directory alone, with all records read. Seeds: the archives of tests/fixtures/torch. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "checked.h"
#include "zip.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
    char path[64];
    struct source *s = NULL;
    struct zip z = {0};
    struct report r = {0};
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, p, len) != (ssize_t)len)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (source_open(path, SOURCE_MAP, &s, &r) < 0)
        abort();
    int err = zip_open(&z, s, &r);
    if ((err < 0) != (r.first.code < 0))
        abort();
    for (size_t i = 0; err == 0 && i < z.n; i++) {
        unsigned char *bytes = NULL;
        if (!range_fits(z.entry[i].data, z.entry[i].packed, len))
            abort();
        if (zip_read(&z, &z.entry[i], 1 << 20, &bytes, &r) == 0)
            free(bytes);
    }
    zip_free(&z);
    source_free(s);
    close(fd);
    return 0;
}
