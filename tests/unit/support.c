/* SPDX-License-Identifier: MIT */
#include "support.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tree.h"

int unit_run(const char *suite, void (*add)(TCase *tc))
{
    Suite *s = suite_create(suite);
    TCase *tc = tcase_create(suite);
    tcase_set_timeout(tc, 300);
    add(tc);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}

/* Check's own assertions work inside tests only; this is needed before them as well. */
static void must(bool true_, const char *what)
{
    if (!true_) {
        fprintf(stderr, "unit test support: %s: %s\n", what, strerror(errno));
        exit(99);
    }
}

static void put(int fd, const void *p, size_t len)
{
    must(write(fd, p, len) == (ssize_t)len, "write");
}

struct memfile memfile_new(const void *p, size_t len)
{
    struct memfile f = {.fd = memfd_create("unit", MFD_CLOEXEC)};
    must(f.fd >= 0, "memfd_create");
    snprintf(f.path, sizeof f.path, "/proc/self/fd/%d", f.fd);
    put(f.fd, p, len);
    return f;
}

struct memfile memfile_model(const char *header, size_t len, const void *data, size_t data_len)
{
    unsigned char b[8];
    for (int i = 0; i < 8; i++)
        b[i] = (unsigned char)((uint64_t)len >> (8 * i));
    struct memfile f = memfile_new(b, sizeof b);
    put(f.fd, header, len);
    put(f.fd, data, data_len);
    return f;
}

char *read_whole(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    must(f != NULL, path);
    struct buf b = {0};
    char block[4096];
    size_t n;
    buf_add(&b, "", 0);
    while ((n = fread(block, 1, sizeof block, f)) > 0)
        buf_add(&b, block, n);
    fclose(f);
    must(!b.failed, path);
    *len = b.len;
    return b.p;
}

/* "\u0000" to "\ue000", but not where the backslash is itself escaped. */
static void hide_nuls(char *text)
{
    for (char *p = text; *p; p++)
        if (*p == '\\') {
            if (strncmp(p, "\\u0000", 6) == 0)
                p[2] = 'e';
            p++;
        }
}

cJSON *json_file(const char *path)
{
    size_t len;
    char *text = read_whole(path, &len);
    must(!strstr(text, "\xEE\x80\x80") && !strstr(text, "\\ue000"), "U+E000 is taken");
    hide_nuls(text);
    cJSON *j = cJSON_Parse(text);
    must(j != NULL, path);
    free(text);
    return j;
}

char *text_of(const cJSON *string, size_t *len)
{
    must(cJSON_IsString(string), "a JSON string");
    char *s = strdup(string->valuestring), *to = s;
    for (const char *p = s; *p;) {
        if (strncmp(p, "\xEE\x80\x80", 3) == 0) {
            *to++ = 0;
            p += 3;
        } else {
            *to++ = *p++;
        }
    }
    *to = 0;
    *len = (size_t)(to - s);
    return s;
}

struct model *model_of(const struct names *names)
{
    struct memfile f = memfile_new("x", 1);
    struct source *s;
    must(source_open(f.path, SOURCE_MAP, &s, NULL) == 0, "source_open");
    close(f.fd);
    struct model *m = model_new(s);
    source_free(s);
    uint64_t at = 100;
    for (size_t i = 0; i < names->n; i++) {
        struct tensor *t;
        must(model_add_tensor(m, &t) == 0, "model_add_tensor");
        uint64_t *shape = arena_alloc(&m->arena, sizeof *shape, 1);
        shape[0] = i + 1;
        t->name = arena_text(&m->arena, names->s[i], names->len[i]);
        t->name_len = (uint32_t)names->len[i];
        t->dtype = TM_U8;
        t->shape = shape;
        t->rank = 1;
        t->nbytes = i + 1;
        t->offset = at;
        at += i + 1;
        must(model_index(m, (uint32_t)i) == 0, "model_index");
    }
    m->format = "safetensors";
    return m;
}

uint32_t walk(const struct tree *t, const char *path, size_t len)
{
    uint32_t at = TREE_ROOT;
    const char *end = path + len;
    for (;;) {
        const char *slash = memchr(path, '/', (size_t)(end - path));
        size_t n = (size_t)((slash ? slash : end) - path);
        at = tree_find(t, at, path, n);
        if (at == INDEX_NONE || !slash)
            return at;
        if (!tree_is_dir(t, at))
            return INDEX_NONE;
        path = slash + 1;
    }
}
