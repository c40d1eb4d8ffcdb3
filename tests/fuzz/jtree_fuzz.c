/* SPDX-License-Identifier: MIT
 * Any text as JSON: what is read is written, read again and written as the same; what is read as a tree can
 * also be skipped. */
#include <stdlib.h>
#include <string.h>

#include "jtree.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static struct jvalue *read_text(const char *text, size_t len, struct arena *a)
{
    struct json j = {.start = text, .p = text, .end = text + len};
    struct jvalue *v = jtree_document(&j, a);
    if (!v && (!j.why || json_at(&j) > len))
        abort();
    return v;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct arena a = {0};
    struct buf one = {0}, two = {0};
    char *copy = malloc(n ? n : 1);
    if (!copy)
        abort();
    if (n)
        memcpy(copy, p, n);
    struct json j = {.start = copy, .p = copy, .end = copy + n};
    int skipped = jtree_ignore(&j);
    if (skipped == 0)
        skipped = json_end(&j);
    struct jvalue *v = read_text(copy, n, &a);
    if (v) {
        if (skipped < 0 || jtree_write(&one, v, 0) < 0)
            abort();
        struct jvalue *again = read_text(one.p, one.len, &a);
        if (!again || jtree_write(&two, again, 0) < 0)
            abort();
        /* Reading is not correctly rounded, so that a float may come back as another. */
        if (!memchr(one.p, '.', one.len) && !memchr(one.p, 'e', one.len) &&
            (one.len != two.len || memcmp(one.p, two.p, one.len) != 0))
            abort();
        (void)jtree_get(v, "a");
    }
    buf_free(&one);
    buf_free(&two);
    arena_free(&a);
    free(copy);
    return 0;
}
