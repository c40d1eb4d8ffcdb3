/* SPDX-License-Identifier: MIT
 * Pickles: by the bare machine, and as the data.pkl of a right archive with two storages, stored (even
 * length) or deflated. Seeds: the pickles of tests/fixtures/torch. */
#include <string.h>

#include "../zip_make.h"
#include "pickle.h"
#include "torch_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len);

static void bare(const uint8_t *p, size_t len)
{
    struct values values = {.most = 64 << 20, .hash_left = 1 << 20};
    struct report r = {0};
    struct pickle machine = {.values = &values, .r = &r};
    struct bytes_in in;
    struct value *v = NULL;
    bytes_in_memory(&in, p, len);
    int err = pickle_read(&machine, &in, &v);
    if ((err < 0) != (r.first.code < 0))
        abort();
    pickle_free(&machine);
    arena_free(&values.arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
    static const unsigned char bytes[64] = {1, 2, 3, 4, 5, 6, 7, 8};
    const struct zip_part parts[] = {
        {.name = "a/data.pkl", .data = p, .len = len, .deflate = len % 2},
        {.name = "a/version", .data = "3\n", .len = 2},
        {.name = "a/byteorder", .data = len % 3 ? "little" : "big", .len = len % 3 ? 6 : 3},
        {.name = "a/data/0", .data = bytes, .len = 16},
        {.name = "a/data/1", .data = bytes, .len = 64, .deflate = 1},
    };
    struct buf b = {0};
    bare(p, len);
    zip_make(&b, parts, sizeof parts / sizeof parts[0], NULL);
    fuzz_file(b.p, b.len);
    buf_free(&b);
    return 0;
}
