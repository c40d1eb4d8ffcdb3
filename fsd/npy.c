/* SPDX-License-Identifier: MIT */
#include "npy.h"

#include <errno.h>
#include <inttypes.h>

enum { ALIGN = 64, V1_MAX = 65535 };

int npy_header(struct buf *out, tm_dtype dtype, const uint64_t *shape, uint32_t rank)
{
    struct buf text = {0};
    const char *descr = tm_dtype_numpy(dtype);
    if (!descr)
        return -ENOENT;
    buf_printf(&text, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (uint32_t i = 0; i < rank; i++)
        buf_printf(&text, i ? ", %" PRIu64 : "%" PRIu64, shape[i]);
    buf_str(&text, rank == 1 ? ",), }" : "), }");
    /* Magic, version and length take 10 bytes in version 1, 12 in version 2, which has a length of 32 bits.
     */
    size_t fixed = text.len + ALIGN > V1_MAX ? 12 : 10;
    while (!text.failed && (fixed + text.len + 1) % ALIGN)
        buf_char(&text, ' ');
    buf_char(&text, '\n');
    buf_add(out, "\x93NUMPY", 6);
    buf_char(out, fixed == 12 ? 2 : 1);
    buf_char(out, 0);
    for (size_t i = 8; i < fixed; i++)
        buf_char(out, (char)(text.len >> (8 * (i - 8)) & 0xFF));
    buf_add(out, text.p, text.len);
    out->failed |= text.failed;
    buf_free(&text);
    return out->failed ? -ENOMEM : 0;
}
