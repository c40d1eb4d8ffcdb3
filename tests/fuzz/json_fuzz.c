/* SPDX-License-Identifier: MIT
 * Any bytes as JSON: skipped, and read as a string and as a number. */
#include <string.h>

#include "buf.h"
#include "fuzz.h"
#include "json.h"
#include "utf8.h"

static struct json scan(const char *p, size_t n)
{
    return (struct json){.start = p, .p = p, .end = p + n};
}

static void inside(const struct json *j, int err)
{
    must(j->p >= j->start && j->p <= j->end);
    must(err == 0 || (err == -1 && j->why));
}

/* What was read as a string is read as the same from the way we write it. */
static void check_string(const char *p, size_t n)
{
    struct arena a = {0};
    struct json_text t, again;
    struct json j = scan(p, n), skipped = j;
    int err = json_string(&j, &a, &t);
    inside(&j, err);
    if (json_peek(&skipped) == '"') {
        must((json_skip(&skipped, 0) == 0) == (err == 0));
        must(skipped.p == j.p);
    }
    if (err == 0) {
        struct buf b = {0};
        must(utf8_span(t.s, t.len) == t.len && t.s[t.len] == 0);
        buf_json_string(&b, t.s, t.len);
        j = scan(b.p, b.len);
        must(json_string(&j, &a, &again) == 0 && json_end(&j) == 0);
        must(again.len == t.len && memcmp(again.s, t.s, t.len) == 0);
        buf_free(&b);
    }
    arena_free(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    char *p = malloc(n ? n : 1);
    uint64_t v;
    memcpy(p, bytes, n);
    struct json j = scan(p, n);
    int err = json_skip(&j, 0);
    inside(&j, err);
    if (err == 0) {
        struct json again = scan(p, (size_t)(j.p - p)); /* the value alone is a value */
        must(json_skip(&again, 0) == 0 && json_end(&again) == 0);
        struct json deeper = scan(p, n);
        inside(&deeper, json_skip(&deeper, 100));
        inside(&j, json_end(&j));
    }
    j = scan(p, n);
    err = json_u64(&j, &v);
    inside(&j, err);
    if (err == 0) {
        char text[24];
        int len = snprintf(text, sizeof text, "%llu", (unsigned long long)v);
        must(j.p - p >= len && memcmp(j.p - len, text, (size_t)len) == 0);
    }
    check_string(p, n);
    free(p);
    return 0;
}
