/* SPDX-License-Identifier: MIT
 * The fixtures of PyTorch checkpoints: tensors, bytes and leaves as real PyTorch found them, and what is to
 * become of hostile files. */
#include <check.h>
#include <cjson/cJSON.h>
#include <dirent.h>
#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model.h"
#include "safetensors/safetensors.h"
#include "support.h"

#define FIXTURES "tests/fixtures/torch/"

static char *whole(const char *path)
{
    FILE *f = fopen(path, "rb");
    ck_assert_msg(f != NULL, "%s: %s", path, strerror(errno));
    struct buf b = {0};
    char block[65536];
    size_t n;
    while ((n = fread(block, 1, sizeof block, f)) > 0)
        buf_add(&b, block, n);
    fclose(f);
    ck_assert(!b.failed);
    return b.p;
}

/* cJSON ends strings at a NUL: they are read as U+E000 instead, and compared as that. */
static cJSON *json(const char *text)
{
    struct buf b = {0};
    for (const char *p = text; *p; p++) {
        size_t n = strncmp(p, "\\u0000", 6) == 0 && (p == text || p[-1] != '\\') ? 6 : 0;
        if (n)
            buf_str(&b, "\\ue000");
        else
            buf_char(&b, *p);
        p += n ? n - 1 : 0;
    }
    cJSON *j = cJSON_Parse(b.p ? b.p : "");
    buf_free(&b);
    return j;
}

static void name_as_json(struct buf *b, const char *name, size_t len)
{
    b->len = 0;
    buf_str(b, "");
    for (size_t i = 0; i < len; i++) {
        if (name[i])
            buf_char(b, name[i]);
        else
            buf_str(b, "\xEE\x80\x80");
    }
}

static const char *text(const cJSON *o, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, key));
}

static double number(const cJSON *o, const char *key, double otherwise)
{
    const cJSON *n = cJSON_GetObjectItemCaseSensitive(o, key);
    return cJSON_IsNumber(n) ? n->valuedouble : otherwise;
}

/* How the tensor of this entry is called. */
static void label(struct buf *b, const cJSON *t)
{
    const cJSON *path = cJSON_GetObjectItemCaseSensitive(t, "path");
    b->len = 0;
    buf_str(b, path && cJSON_GetArraySize(path) == 0 ? "tensor" : text(t, "name"));
    if (number(t, "duplicate_of_name", 1) > 1)
        buf_printf(b, "#%d", (int)number(t, "duplicate_of_name", 1));
}

static const struct tensor *find(const struct model *m, const char *name)
{
    struct buf b = {0};
    const struct tensor *found = NULL;
    for (size_t i = 0; i < m->n_tensors && !found; i++) {
        name_as_json(&b, m->tensors[i].name, m->tensors[i].name_len);
        if (strcmp(b.p, name) == 0)
            found = &m->tensors[i];
    }
    buf_free(&b);
    return found;
}

/* SHA-256 of the bytes, read in pieces of an odd size. -EIO if there are none. */
static int hash(const struct model *m, const struct tensor *t, size_t piece, char hex[65])
{
    unsigned char sum[32], *block = malloc(piece);
    struct extents x = {0};
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    ssize_t n = 0;
    ck_assert_int_eq(model_extents(m, t, &x), 0);
    ck_assert_uint_eq(x.size, t->nbytes);
    EVP_DigestInit_ex(c, EVP_sha256(), NULL);
    for (uint64_t at = 0; at < x.size; at += (uint64_t)n) {
        n = extents_read(&x, at, block, piece);
        if (n <= 0)
            break;
        EVP_DigestUpdate(c, block, (size_t)n);
    }
    EVP_DigestFinal_ex(c, sum, NULL);
    EVP_MD_CTX_free(c);
    for (int i = 0; i < 32; i++)
        snprintf(hex + 2 * i, 3, "%02x", sum[i]);
    extents_free(&x);
    free(block);
    return n < 0 ? (int)n : 0;
}

static bool shown_as(const char *have, const char *want)
{
    return strcmp(have, want) == 0 || (strcmp(want, "QI8") == 0 && strcmp(have, "I8") == 0) ||
           (strcmp(want, "QU8") == 0 && strcmp(have, "U8") == 0) ||
           (strcmp(want, "QI32") == 0 && strcmp(have, "I32") == 0);
}

static void check_tensor(const struct model *m, const char *file, const cJSON *want, bool little)
{
    static const size_t pieces[] = {1 << 20, 4096, 7};
    struct buf name = {0}, shape = {0};
    char hex[65];
    label(&name, want);
    const struct tensor *t = find(m, name.p);
    ck_assert_msg(t != NULL, "%s: no tensor '%s'", file, name.p);
    ck_assert_msg(shown_as(tm_dtype_name(t->dtype), text(want, "dtype")), "%s: '%s' is %s", file, name.p,
                  tm_dtype_name(t->dtype));
    buf_shape(&shape, t->shape, t->rank);
    char *dims = cJSON_PrintUnformatted(cJSON_GetObjectItemCaseSensitive(want, "shape"));
    ck_assert_str_eq(shape.p, dims);
    free(dims);
    const char *sum = text(want, "sha256");
    if (cJSON_GetObjectItemCaseSensitive(want, "nodata")) {
        ck_assert_int_eq(hash(m, t, 16, hex), t->nbytes ? -EIO : 0);
        ck_assert(tensor_is_empty(t));
        sum = NULL;
    }
    for (size_t i = 0; sum && i < 3; i++) {
        ck_assert_int_eq(hash(m, t, pieces[i], hex), 0);
        ck_assert_msg(strcmp(hex, sum) == 0, "%s: '%s' has other bytes, read by %zu", file, name.p,
                      pieces[i]);
    }
    const cJSON *storage = cJSON_GetObjectItemCaseSensitive(want, "storage");
    const cJSON *at = cJSON_GetObjectItemCaseSensitive(storage, "file_offset");
    bool lies = cJSON_IsNumber(at) && cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(want, "contiguous")) &&
                (little || number(want, "itemsize", 1) < 2);
    if (lies && number(want, "itembits", 8) >= 8 && t->nbytes) {
        ck_assert_msg(tensor_in_place(t), "%s: '%s' is not in place", file, name.p);
        ck_assert_uint_eq(t->offset, (uint64_t)(at->valuedouble + number(want, "storage_offset", 0) *
                                                                      number(want, "itemsize", 1)));
    }
    buf_free(&name);
    buf_free(&shape);
}

/* Leaves that are not this project's rendering but PyTorch's values: by name and kind, then the value. */
static void check_leaf(const cJSON *have, const char *file, const cJSON *want)
{
    static const char *const fields[] = {"value", "bits", "wtf8", "big", "module", "dtype"};
    const cJSON *x = NULL, *found = NULL;
    cJSON_ArrayForEach(x, have) if (!found && strcmp(text(x, "name"), text(want, "name")) == 0 &&
                                    strcmp(text(x, "kind"), text(want, "kind")) == 0) found = x;
    ck_assert_msg(found != NULL, "%s: no leaf '%s' of kind %s", file, text(want, "name"), text(want, "kind"));
    const cJSON *len = cJSON_GetObjectItemCaseSensitive(want, "len");
    if (len)
        ck_assert_double_eq(number(found, "len", -1), len->valuedouble);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        const cJSON *w = cJSON_GetObjectItemCaseSensitive(want, fields[i]);
        const cJSON *h = cJSON_GetObjectItemCaseSensitive(found, fields[i]);
        ck_assert_msg(!w || cJSON_Compare(w, h, true), "%s: leaf '%s' differs in %s", file,
                      text(want, "name"), fields[i]);
    }
}

static void check_leaves(const struct model *m, const char *file, const cJSON *want)
{
    const cJSON *x = NULL;
    cJSON *have = json(m->leaves.p);
    ck_assert_msg(have != NULL, "%s: leaves are no JSON: %s", file, m->leaves.p);
    cJSON_ArrayForEach(x, cJSON_GetObjectItemCaseSensitive(want, "leaves")) check_leaf(have, file, x);
    cJSON_Delete(have);
}

static void check_valid(const char *file)
{
    char path[512];
    struct report r = {0};
    struct model *m = NULL;
    const cJSON *x = NULL;
    snprintf(path, sizeof path, FIXTURES "valid/%s.json", file);
    char *said = whole(path);
    cJSON *want = json(said);
    ck_assert_msg(want != NULL, "%s: no JSON", path);
    snprintf(path, sizeof path, FIXTURES "valid/%s", file);
    int err = model_open(path, SOURCE_MAP, &m, &r);
    ck_assert_msg(err == 0, "%s: %s", file, r.first.message);
    const cJSON *tensors = cJSON_GetObjectItemCaseSensitive(want, "tensors");
    const cJSON *arrays = cJSON_GetObjectItemCaseSensitive(want, "ndarrays");
    bool little = strcmp(text(want, "byteorder"), "little") == 0;
    cJSON_ArrayForEach(x, tensors) check_tensor(m, file, x, little);
    cJSON_ArrayForEach(x, arrays) check_tensor(m, file, x, little);
    int count = (int)number(want, "tensors_count", cJSON_GetArraySize(tensors)) + cJSON_GetArraySize(arrays);
    if (!cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(want, "order_matters")))
        ck_assert_int_eq((int)m->n_tensors, count);
    check_leaves(m, file, want);
    cJSON_Delete(want);
    model_free(m);
    free(said);
}

/* A checkpoint in several files has the leaves of all. */
START_TEST(directory_of_files)
{
    static const char *const files[] = {"cycle.pt", "float_specials.pt", "quantized.pt"};
    char dir[] = "/tmp/safetensors-torch.XXXXXX", path[512];
    struct report r = {0};
    struct model *m = NULL;
    char *here = getcwd(NULL, 0);
    ck_assert_ptr_nonnull(here);
    ck_assert_ptr_nonnull(mkdtemp(dir));
    for (int i = 0; i < 3; i++) {
        char *from = NULL;
        ck_assert_int_gt(asprintf(&from, "%s/" FIXTURES "valid/%s", here, files[i]), 0);
        snprintf(path, sizeof path, "%s/%s", dir, files[i]);
        ck_assert_int_eq(symlink(from, path), 0);
        free(from);
    }
    int err = model_open(dir, SOURCE_MAP, &m, &r);
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, files[i]);
        unlink(path);
    }
    rmdir(dir);
    free(here);
    ck_assert_msg(err == 0, "%s", r.first.message);
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, FIXTURES "valid/%s.json", files[i]);
        char *said = whole(path);
        cJSON *want = json(said);
        ck_assert_int_gt(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(want, "leaves")), 0);
        check_leaves(m, files[i], want);
        cJSON_Delete(want);
        free(said);
    }
    model_free(m);
}
END_TEST

START_TEST(valid_files)
{
    int n = 0;
    DIR *d = opendir(FIXTURES "valid");
    ck_assert(d != NULL);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        size_t len = strlen(e->d_name);
        if (e->d_name[0] == '.' || (len > 5 && strcmp(e->d_name + len - 5, ".json") == 0))
            continue;
        check_valid(e->d_name);
        n++;
    }
    closedir(d);
    ck_assert_int_ge(n, 90);
}
END_TEST

/* All that is listed must be there, with the right bytes, and nothing else. */
static void check_listed(const struct model *m, const char *file, const cJSON *tensors)
{
    const cJSON *x = NULL;
    cJSON_ArrayForEach(x, tensors)
    {
        char hex[65];
        struct buf name = {0};
        label(&name, x);
        const struct tensor *t = find(m, name.p);
        ck_assert_msg(t != NULL, "%s: no tensor '%s'", file, name.p);
        ck_assert_str_eq(tm_dtype_name(t->dtype), text(x, "dtype"));
        const char *sum = text(x, "sha256");
        if (sum && t->nbytes < 1 << 20) {
            ck_assert_int_eq(hash(m, t, 65536, hex), 0);
            ck_assert_str_eq(hex, sum);
        }
        buf_free(&name);
    }
    ck_assert_int_eq((int)m->n_tensors, cJSON_GetArraySize(tensors));
}

static void check_hostile(const cJSON *e)
{
    char path[512];
    struct report r = {0};
    struct model *m = NULL;
    const char *file = text(e, "file"), *verdict = text(e, "verdict");
    const cJSON *tensors = cJSON_GetObjectItemCaseSensitive(e, "tensors");
    bool strict = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(e, "strict_may_reject"));
    snprintf(path, sizeof path, FIXTURES "hostile/%s", file);
    int err = model_open(path, SOURCE_MAP, &m, &r);
    ck_assert_msg(err == 0 ||
                      (r.first.message[0] && !strchr(r.first.message, '\n') && !strchr(r.first.message, 27)),
                  "%s: no message of one line", file);
    for (size_t i = 0; m && i < m->n_tensors && err == 0; i++) {
        char hex[65];
        if (text(e, "when") && m->tensors[i].nbytes < 1 << 20)
            err = hash(m, &m->tensors[i], 4096, hex);
    }
    if (strcmp(verdict, "reject") == 0)
        ck_assert_msg(err < 0, "%s: accepted, but %s", file, text(e, "why"));
    if (strcmp(verdict, "accept-without-exec") == 0 && !strict)
        ck_assert_msg(err == 0, "%s: %s, but %s", file, r.first.message, text(e, "why"));
    if (err == 0 && tensors)
        check_listed(m, file, tensors);
    model_free(m);
}

START_TEST(hostile_files)
{
    char *said = whole(FIXTURES "hostile/EXPECT.json");
    cJSON *all = json(said);
    const cJSON *e = NULL;
    ck_assert_int_ge(cJSON_GetArraySize(all), 190);
    cJSON_ArrayForEach(e, all) check_hostile(e);
    cJSON_Delete(all);
    free(said);
}
END_TEST

/* The messages for the two cases that people meet. */
START_TEST(messages)
{
    fs_error e;
    ck_assert(fs_load_pytorch_e(FIXTURES "hostile/c01_posix_system.pt", &e) == NULL);
    ck_assert_int_eq(e.code, -EBADMSG);
    ck_assert_msg(
        strstr(e.message, "data.pkl: refers to posix.system: looks like a code-execution payload (byte ") !=
            NULL,
        "%s", e.message);
    ck_assert(fs_load_pytorch_e(FIXTURES "hostile/a05_lfs_pointer.bin", &e) == NULL);
    ck_assert_msg(strstr(e.message, "Git LFS pointer") != NULL, "%s", e.message);
    ck_assert(fs_load_pytorch_e(FIXTURES "hostile/a07_safetensors.pt", &e) == NULL);
    ck_assert_int_eq(e.code, -ENOTSUP);
    ck_assert_str_eq(e.message, "is a safetensors file, not a PyTorch checkpoint");
}
END_TEST

/* Through the public calls: what is gathered is owned, outlives the file, and absurd sizes are refused. */
START_TEST(public_calls)
{
    fs_file *f = fs_load_pytorch(FIXTURES "valid/transposed.pt");
    ck_assert(f != NULL);
    ck_assert_str_eq(fs_format(f), "pytorch-zip");
    tm_tensor *t = fs_get_tensor(f, "t");
    fs_close(f);
    ck_assert(t != NULL);
    unsigned char sum[32];
    char hex[65];
    EVP_Digest(tm_tensor_data(t), tm_tensor_nbytes(t), sum, NULL, EVP_sha256(), NULL);
    for (int i = 0; i < 32; i++)
        snprintf(hex + 2 * i, 3, "%02x", sum[i]);
    tm_tensor_free(t);
    char *said = whole(FIXTURES "valid/transposed.pt.json");
    cJSON *want = json(said);
    ck_assert_str_eq(hex, text(cJSON_GetArrayItem(cJSON_GetObjectItem(want, "tensors"), 0), "sha256"));
    cJSON_Delete(want);
    free(said);

    fs_error e;
    f = fs_load_pytorch(FIXTURES "hostile/d62_expand_1tib.pt");
    ck_assert(f != NULL);
    for (int i = 0; i < fs_num_tensors(f); i++) {
        size_t len;
        const char *name = fs_tensor_name(f, i, &len);
        t = fs_get_tensor_e(f, name, len, &e);
        ck_assert(t != NULL || e.code == -ENOMEM);
        tm_tensor_free(t);
    }
    fs_close(f);

    f = fs_load_pytorch(FIXTURES "valid/meta_tensor.pt");
    ck_assert(f != NULL);
    ck_assert(fs_get_tensor_e(f, "m", 1, &e) == NULL && e.code == -EIO);
    fs_close(f);
}
END_TEST

static void tests(TCase *t)
{
    tcase_add_test(t, valid_files);
    tcase_add_test(t, directory_of_files);
    tcase_add_test(t, hostile_files);
    tcase_add_test(t, messages);
    tcase_add_test(t, public_calls);
}

int main(void)
{
    return unit_run("torch", tests);
}
