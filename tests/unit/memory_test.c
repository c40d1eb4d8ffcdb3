/* SPDX-License-Identifier: MIT
 * Memory that runs out: opening a file, building its tree and its listing, with the N-th allocation failing,
 * for every N that there is. The linker leads our own
 * code's allocations here (see unit.mk); that nothing leaks is seen by the sanitizers. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "npy.h"
#include "safetensors/safetensors.h"
#include "support.h"
#include "tsv.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
char *__real_strdup(const char *s);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
char *__wrap_strdup(const char *s);

static long left = -1; /* allocations that still succeed; negative: all do */
static long failed;

static bool fails(void)
{
    if (left < 0)
        return false;
    if (left > 0) {
        left--;
        return false;
    }
    failed++;
    errno = ENOMEM;
    return true;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
    return fails() ? NULL : __real_realloc(p, size);
}

char *__wrap_strdup(const char *s)
{
    return fails() ? NULL : __real_strdup(s);
}

/* Of PyTorch: every container, and what has a form of its own. */
static const char *const torch_files[] = {"checkpoint_adam.ckpt", "zip_deflated.pt",   "legacy_views.pt",
                                          "tar_views.pt",         "quantized.pt",      "whole_module.pt",
                                          "numpy_mixed.pt",       "name_collisions.pt"};
enum { N_TORCH = sizeof torch_files / sizeof torch_files[0] };

static struct memfile files[4 + N_TORCH];
enum { N_FILES = sizeof files / sizeof files[0] };

/* Many tensors, so that everything has to grow. */
static struct memfile large(void)
{
    struct buf b = {0};
    buf_str(&b, "{\"__metadata__\":{");
    for (int i = 0; i < 40; i++)
        buf_printf(&b, "%s\"key\\u0020%d\":\"v\\n\"", i ? "," : "", i);
    buf_str(&b, "}");
    for (int i = 260; i-- > 0;)
        buf_printf(&b, ",\"l.%d%c%%a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}", i / 2,
                   i % 2 ? '/' : '.', i, i + 1);
    buf_str(&b, "}");
    struct memfile f = memfile_model(b.p, b.len, b.p, 260);
    buf_free(&b);
    return f;
}

static void make_files(void)
{
    static const char bad[] =
        "{\"a\":{\"dtype\":\"F99\",\"shape\":[-1,1],\"x\":1,\"x\":\"\\n\",\"data_offsets\":[]}}";
    size_t len;
    char *bytes = read_whole(VECTORS "safetensors/ok_name_slash_dots.safetensors", &len);
    files[0] = memfile_new(bytes, len);
    free(bytes);
    static const char two[] = "{\"a.b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                              "\"a/b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}";
    files[1] = memfile_model(two, sizeof two - 1, "xy", 2);
    files[2] = large();
    files[3] = memfile_model(bad, sizeof bad - 1, "", 0);
    for (int i = 0; i < N_TORCH; i++) {
        char path[128];
        snprintf(path, sizeof path, "tests/fixtures/torch/valid/%s", torch_files[i]);
        bytes = read_whole(path, &len);
        files[4 + i] = memfile_new(bytes, len);
        free(bytes);
    }
}

static int read_listing(const struct tree *t)
{
    struct tsv v;
    int err = tsv_open(&v, t);
    if (err < 0)
        return err;
    char *text = __real_malloc((size_t)v.size);
    err = tsv_fill(&v, 0, text, (size_t)v.size);
    free(text);
    tsv_close(&v);
    return err;
}

/* The whole way, to the first that fails. */
static int everything(const char *path, enum source_how how, struct report *r)
{
    struct model *m = NULL;
    struct tree *t = NULL;
    struct buf header = {0};
    struct extents x = {0};
    int err = model_open(path, how, &m, r);
    if (err == 0)
        err = tree_build(m, LAYOUT_TREE, &t);
    if (err == 0)
        err = read_listing(t);
    if (err == 0)
        err = npy_header(&header, TM_U8, m->tensors[0].shape, m->tensors[0].rank);
    if (err == 0)
        err = extents_add_memory(&x, header.p, header.len);
    if (err == 0)
        err = model_extents(m, &m->tensors[0], &x);
    extents_free(&x);
    buf_free(&header);
    tree_free(t);
    model_free(m);
    return err;
}

static void ignore(void *ctx, const fs_error *e)
{
    (void)ctx;
    (void)e;
}

/* Fails with every number until one is large enough. */
static void check_file(const char *path, int want, enum source_how how, bool collect)
{
    long n = 0;
    for (;; n++) {
        struct report r = {.each = collect ? ignore : NULL};
        left = n;
        failed = 0;
        int err = everything(path, how, &r);
        left = -1;
        if (failed == 0) {
            ck_assert_int_eq(err, want);
            break;
        }
        /* A message may lack words; but what fails fails as what it is, and what is wrong stays wrong. */
        ck_assert_msg(err == -ENOMEM || (want < 0 && err == want), "allocation %ld: %d", n, err);
        if (r.first.code)
            ck_assert(r.first.code == -ENOMEM || r.first.code == want);
    }
    ck_assert_int_gt(n, 3);
}

START_TEST(each_allocation)
{
    check_file(files[_i].path, _i == 3 ? -EBADMSG : 0, SOURCE_MAP, false);
    check_file(files[_i].path, _i == 3 ? -EBADMSG : 0, SOURCE_COPY, true);
}
END_TEST

/* The public calls, with the error that they give. */
START_TEST(public_calls)
{
    for (long n = 0;; n++) {
        fs_error e = {0};
        tm_tensor *t = NULL;
        left = n;
        failed = 0;
        errno = 0;
        fs_file *f = (_i ? fs_open_e : fs_mmap_e)(files[1].path, &e);
        const char **names = f ? fs_tensor_names(f) : NULL;
        if (names)
            t = fs_get_tensor_e(f, "a/b", 3, &e);
        int error = errno;
        left = -1;
        if (failed == 0) {
            ck_assert_ptr_nonnull(t);
            ck_assert_mem_eq(tm_tensor_data(t), "y", 1);
        } else if (!t) {
            ck_assert_int_eq(error, ENOMEM);
            ck_assert(f || e.code == -ENOMEM);
        }
        tm_tensor_free(t);
        if (f)
            fs_close(f);
        if (failed == 0)
            return;
        ck_assert_ptr_null(t);
    }
}
END_TEST

static void tests(TCase *tc)
{
    tcase_add_loop_test(tc, each_allocation, 0, N_FILES);
    tcase_add_loop_test(tc, public_calls, 0, 2);
}

int main(void)
{
    make_files();
    return unit_run("memory", tests);
}
