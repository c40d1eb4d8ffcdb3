/* SPDX-License-Identifier: MIT */
#include "names.h"

#include <inttypes.h>
#include <string.h>

#include "index.h"
#include "utf8.h"

const char *const reserved_names[] = {".safetensors", ".export", ".staging"};

uint64_t name_fnv(const char *s, size_t len)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)s[i]) * UINT64_C(0x100000001b3);
    return h;
}

/* Rule 1: does the character at i separate, as far as its neighbours are concerned? */
static bool separates(const struct name_walk *w, size_t i)
{
    if (w->name[i] == '/')
        return true;
    if (w->name[i] != '.' || w->layout == LAYOUT_FLAT || i == 0 || i + 1 == w->len)
        return false;
    char before = w->name[i - 1], after = w->name[i + 1];
    return before != '.' && before != '/' && after != '.' && after != '/';
}

bool name_next(struct name_walk *w, name_is_tensor is_tensor, const void *ctx)
{
    w->from = w->at;
    for (size_t i = w->at; i < w->len && !w->stopped; i++) {
        bool sep = separates(w, i);
        if (sep && is_tensor(ctx, w->hash, w->name, i)) { /* rule 2 */
            w->stopped = true;
            break;
        }
        w->hash = hash_step(w->hash, (unsigned char)w->name[i]);
        if (sep) {
            w->to = i;
            w->at = i + 1;
            return true;
        }
    }
    w->at = w->to = w->len;
    return false;
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F');
}

/* Length of the longest beginning of a written component of at most `most` bytes that cuts no character and
 * no %XX. */
static size_t cut(const char *s, size_t len, size_t most)
{
    size_t i = 0;
    while (i < len) {
        bool code = s[i] == '%' && i + 2 < len && is_hex(s[i + 1]) && is_hex(s[i + 2]);
        size_t n = code ? 3 : utf8_char(s + i, len - i);
        if (n == 0)
            n = 1;
        if (i + n > most)
            break;
        i += n;
    }
    return i;
}

void name_suffix(struct buf *out, const char *written, size_t len, uint64_t hash)
{
    buf_add(out, written, cut(written, len, COMPONENT_CUT));
    buf_printf(out, "%%~%016" PRIx64, hash);
}

static bool is_reserved(const char *s, size_t len)
{
    for (size_t i = 0; i < sizeof reserved_names / sizeof reserved_names[0]; i++)
        if (strlen(reserved_names[i]) == len && memcmp(reserved_names[i], s, len) == 0)
            return true;
    return false;
}

static void write_whole(struct buf *out, const char *s, size_t len, bool first)
{
    if (len == 0)
        buf_char(out, '%');
    else if (len == 1 && s[0] == '.')
        buf_str(out, "%2E");
    else if (len == 2 && s[0] == '.' && s[1] == '.')
        buf_str(out, "%2E%2E");
    else if (first && is_reserved(s, len)) {
        buf_str(out, "%2E");
        buf_add(out, s + 1, len - 1);
    } else {
        size_t done = 0;
        for (size_t i = 0; i < len; i++) {
            unsigned char c = (unsigned char)s[i];
            if (c != '/' && c != '%' && c >= 0x20 && c != 0x7F)
                continue;
            buf_add(out, s + done, i - done);
            buf_printf(out, "%%%02X", c);
            done = i + 1;
        }
        buf_add(out, s + done, len - done);
    }
}

void name_write(struct buf *out, const char *component, size_t len, bool first)
{
    size_t start = out->len;
    write_whole(out, component, len, first);
    if (out->failed || out->len - start <= COMPONENT_MAX)
        return;
    struct buf whole = {0};
    buf_add(&whole, out->p + start, out->len - start);
    out->len = start;
    name_suffix(out, whole.p, whole.len, name_fnv(whole.p, whole.len));
    out->failed |= whole.failed;
    buf_free(&whole);
}
