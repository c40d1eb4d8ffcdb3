/* SPDX-License-Identifier: MIT
 * What the fuzz targets share. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

/* A finding, with the line that found it. */
#define must(true_)                                                                                          \
    do {                                                                                                     \
        if (!(true_)) {                                                                                      \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #true_);                              \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

#endif
