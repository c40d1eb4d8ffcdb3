/* SPDX-License-Identifier: MIT
 * Whole files of any PyTorch container. Seeds: tests/fixtures/torch. */
#include "torch_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
    fuzz_file(p, len);
    return 0;
}
