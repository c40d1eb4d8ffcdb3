/* SPDX-License-Identifier: MIT
 * Bytes as the head of a NumPy file. */
#include <string.h>

#include "fuzz.h"
#include "npy_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct npy out;
    char *copy = malloc(n ? n : 1); /* so that reading behind the end is seen */
    memcpy(copy, p, n);
    bool good = npy_parse(copy, n, &out);
    if (n >= 12 && good)
        must(out.skip == npy_skip(copy));
    if (good) {
        must(out.skip <= n && out.rank <= NPY_RANK && out.dtype < TM_SAFETENSORS_CODES);
        must(!npy_parse(copy, (size_t)out.skip - 1, &out));
    }
    free(copy);
    return 0;
}
