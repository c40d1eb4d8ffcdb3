/* SPDX-License-Identifier: MIT
 * ThinTensor archives: every expectation of the fixtures, through the library. */
#include <errno.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support.h"
#include "thin.h"
#include "thin_export.h"

#define FIXTURES "tests/fixtures/thin/"

static cJSON *expected, *converts, *verifies;

static const char *text(const cJSON *o, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, key));
}

static void check_digest(const void *p, size_t len, const char *want)
{
    unsigned char digest[32];
    char hex[65];
    SHA256(p, len, digest);
    thin_hex(digest, hex);
    ck_assert_str_eq(hex, want);
}

static void check_warnings(const struct thin_build *b, const cJSON *want)
{
    ck_assert_int_eq((int)b->n_warnings, cJSON_GetArraySize(want));
    for (int i = 0; i < cJSON_GetArraySize(want); i++)
        ck_assert_str_eq(b->warnings[i].kind,
                         cJSON_GetStringValue(cJSON_GetArrayItem(cJSON_GetArrayItem(want, i), 0)));
}

static void check_export(struct thin_export *x, const cJSON *want)
{
    size_t size = (size_t)cJSON_GetNumberValue(cJSON_GetObjectItem(want, "size"));
    const cJSON *order = cJSON_GetObjectItem(want, "page_order");
    struct extents list = {0};
    ck_assert_uint_eq(thin_export_size(x), size); /* known before anything is hashed */
    ck_assert_int_eq(thin_export_extents(x, &list), 0);
    ck_assert_uint_eq(list.size, size);
    char *bytes = malloc(size);
    ck_assert_ptr_nonnull(bytes);
    /* From the end: pages need no digests, what stands before them does. */
    for (size_t at = size; at > 0;) {
        size_t n = at < 1000 ? at : 1000;
        at -= n;
        ck_assert_int_eq(extents_read(&list, at, bytes + at, n), (ssize_t)n);
    }
    check_digest(bytes, size, text(want, "sha256"));
    for (int i = 0; i < cJSON_GetArraySize(order); i++)
        ck_assert_str_eq(thin_export_build(x)->tensors[thin_export_page(x, (size_t)i)].id.s,
                         cJSON_GetStringValue(cJSON_GetArrayItem(order, i)));
    check_warnings(thin_export_build(x), cJSON_GetObjectItem(want, "warnings"));
    extents_free(&list);
    free(bytes);
}

/* From the path and from the directory as a model. */
static void convert(const cJSON *want, bool as_model)
{
    static const struct thin_options plain = {.arch = NULL};
    bool ok = strcmp(text(want, "result"), "ok") == 0;
    char path[256];
    struct report r = {0};
    struct thin_export *x = NULL;
    struct model *m = NULL;
    snprintf(path, sizeof path, FIXTURES "%s/%s", ok ? "ok" : "err", want->string);
    if (as_model && model_open(path, SOURCE_MAP, &m, NULL) < 0)
        return;
    int err = as_model ? thin_export_model(m, &plain, &x, &r) : thin_export_open(path, &plain, &x, &r);
    if (ok) {
        ck_assert_msg(err == 0, "%s: %s", want->string, r.first.message);
        check_export(x, want);
    } else {
        ck_assert_int_lt(err, 0);
        ck_assert_ptr_null(x);
        ck_assert_msg(strcmp(r.first.kind, text(want, "kind")) == 0, "%s: %s", want->string, r.first.message);
    }
    thin_export_free(x);
    model_free(m);
}

START_TEST(conversions)
{
    convert(cJSON_GetArrayItem(converts, _i), false);
    convert(cJSON_GetArrayItem(converts, _i), true);
}
END_TEST

struct kinds {
    struct buf findings, notes;
};

static void found(void *ctx, const fs_error *e)
{
    buf_printf(&((struct kinds *)ctx)->findings, "%s ", e->kind);
}

static void noted(void *ctx, const fs_error *e)
{
    buf_printf(&((struct kinds *)ctx)->notes, "%s ", e->kind);
}

static void join(const cJSON *list, struct buf *out)
{
    for (int i = 0; i < cJSON_GetArraySize(list); i++)
        buf_printf(out, "%s ", cJSON_GetStringValue(cJSON_GetArrayItem(cJSON_GetArrayItem(list, i), 0)));
}

static const char *shown(const struct buf *b)
{
    return b->p ? b->p : "";
}

START_TEST(archives)
{
    const cJSON *want = cJSON_GetArrayItem(verifies, _i);
    struct kinds all = {.findings = {0}}, expect = {.findings = {0}};
    struct report r = {.deep = true, .each = found, .note = noted, .ctx = &all};
    struct model *m = NULL;
    char path[256];
    snprintf(path, sizeof path, FIXTURES "archives/%s.thin", want->string);
    int err = model_open(path, SOURCE_MAP, &m, &r);
    if (cJSON_IsTrue(cJSON_GetObjectItem(want, "opens"))) {
        join(cJSON_GetObjectItem(want, "findings"), &expect.findings);
        join(cJSON_GetObjectItem(want, "notes"), &expect.notes);
    } else {
        buf_printf(&expect.findings, "%s ", text(want, "kind"));
    }
    ck_assert_str_eq(shown(&all.findings), shown(&expect.findings));
    ck_assert_str_eq(shown(&all.notes), shown(&expect.notes));
    ck_assert_int_eq(err == 0, expect.findings.len == 0);
    model_free(m);
    buf_free(&all.findings);
    buf_free(&all.notes);
    buf_free(&expect.findings);
    buf_free(&expect.notes);
}
END_TEST

/* A manifest that the tool wrote is written as it was. */
START_TEST(manifest_again)
{
    size_t len, at;
    const char *why;
    char *all = read_whole(FIXTURES "llama-gqa.thin", &len);
    struct thin_manifest m = {.n_pages = 0};
    struct buf out = {0};
    uint64_t n;
    memcpy(&n, all + 24, 8);
    ck_assert_int_eq(thin_manifest_read(&m, all + THIN_HEADER, (size_t)n, &why, &at), 0);
    ck_assert_uint_eq(m.model.heads, 4);
    ck_assert_uint_eq(m.model.kv_heads, 2);
    thin_manifest_write(&m, &out);
    ck_assert_uint_eq(out.len, n);
    ck_assert_mem_eq(out.p, all + THIN_HEADER, out.len);
    thin_manifest_free(&m);
    buf_free(&out);
    free(all);
}
END_TEST

static void warned(void *ctx, const char *kind, const char *detail)
{
    buf_printf(ctx, "%s %s;", kind, detail);
}

static void counted(void *ctx, const fs_error *e)
{
    *(int *)ctx += e->kind[0] != 0;
}

/* The public calls. */
START_TEST(calls)
{
    char path[] = "/tmp/thin-test-XXXXXX";
    struct buf warnings = {0};
    fs_thin_options o = {.warning = warned, .ctx = &warnings};
    fs_error e;
    int kinds = 0, fd = mkstemp(path);
    size_t len, want_len;
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(fs_thin_convert(FIXTURES "ok/llama-gqa", path, &o, &e), 0);
    ck_assert_int_eq(e.code, 0);
    ck_assert_str_eq(warnings.p, "q-norm-missing 2;k-norm-missing 2;");
    char *have = read_whole(path, &len), *want = read_whole(FIXTURES "llama-gqa.thin", &want_len);
    ck_assert_uint_eq(len, want_len);
    ck_assert_mem_eq(have, want, len);
    ck_assert_int_eq(fs_thin_verify(path, counted, NULL, &kinds, NULL), 0);
    ck_assert_int_eq(fs_thin_convert(FIXTURES "err/err-missing-embed", path, NULL, &e), -EINVAL);
    ck_assert_str_eq(e.kind, "tensor-missing");
    ck_assert_str_eq(e.tensor, "model.embed_tokens.weight");
    ck_assert_int_eq(fs_thin_verify(FIXTURES "archives/page-size-zero.thin", counted, NULL, &kinds, &e), 4);
    ck_assert_int_eq(kinds, 4);
    ck_assert_str_eq(e.kind, "shape-zero");
    ck_assert_int_eq(fs_thin_verify("/nonexistent", counted, NULL, &kinds, &e), -ENOENT);
    const char *const sources[] = {path, FIXTURES "ok/llama-gqa"};
    for (int i = 0; i < 2; i++) {
        fs_thin_model *m = fs_thin_describe(sources[i], &e);
        ck_assert_ptr_nonnull(m);
        const fs_thin_spec *s = fs_thin_model_spec(m);
        ck_assert_str_eq(s->arch.s, "llama");
        ck_assert_uint_eq(s->layers, 2);
        ck_assert_uint_eq(s->kv_heads, 2);
        ck_assert_str_eq(s->attention_kind.s, "gqa");
        fs_thin_model_free(m);
    }
    ck_assert_ptr_null(fs_thin_describe(FIXTURES "expected.json", &e));
    ck_assert_int_eq(e.code, -ENOTSUP);
    close(fd);
    unlink(path);
    buf_free(&warnings);
    free(have);
    free(want);
}
END_TEST

static void tests(TCase *tc)
{
    tcase_add_loop_test(tc, conversions, 0, cJSON_GetArraySize(converts));
    tcase_add_loop_test(tc, archives, 0, cJSON_GetArraySize(verifies));
    tcase_add_test(tc, manifest_again);
    tcase_add_test(tc, calls);
}

int main(void)
{
    expected = json_file(FIXTURES "expected.json");
    converts = cJSON_GetObjectItem(expected, "convert");
    verifies = cJSON_GetObjectItem(expected, "verify");
    int failed = cJSON_GetArraySize(converts) == 46 && cJSON_GetArraySize(verifies) == 52 ? 0 : 1;
    failed |= unit_run("thin", tests);
    cJSON_Delete(expected);
    return failed;
}
