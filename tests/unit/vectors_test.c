/* SPDX-License-Identifier: MIT
 * Every reader vector through the public calls: the verdict, and for what is accepted the names, types,
 * shapes and bytes, both copied and mapped. */
#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "safetensors/safetensors.h"
#include "support.h"

#define DIR VECTORS "safetensors/"

static cJSON *cases; /* for all tests, made by main */

static void sha256(const void *p, size_t n, char hex[65])
{
    unsigned char md[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    ck_assert_int_eq(EVP_Digest(n ? p : "", n, md, &len, EVP_sha256(), NULL), 1);
    ck_assert_uint_eq(len, 32);
    for (int i = 0; i < 32; i++)
        snprintf(hex + 2 * i, 3, "%02x", md[i]);
}

static void check_tensor(fs_file *f, const char *file, const cJSON *want, const char *digest)
{
    size_t len;
    char have[65], *name = text_of(cJSON_GetObjectItem(want, "name"), &len);
    tm_tensor *t = fs_get_tensor_n(f, name, len);
    ck_assert_msg(t != NULL, "%s: no tensor '%s'", file, name);
    ck_assert_str_eq(tm_dtype_name(tm_tensor_dtype(t)), cJSON_GetObjectItem(want, "dtype")->valuestring);
    const cJSON *shape = cJSON_GetObjectItem(want, "shape");
    ck_assert_int_eq(tm_tensor_rank(t), cJSON_GetArraySize(shape));
    for (int i = 0; i < tm_tensor_rank(t); i++)
        ck_assert_double_eq((double)tm_tensor_shape(t)[i], cJSON_GetArrayItem(shape, i)->valuedouble);
    sha256(tm_tensor_data(t), (size_t)tm_tensor_nbytes(t), have);
    ck_assert_str_eq(have, digest);
    tm_tensor_free(t);
    free(name);
}

static void check_listed(fs_file *f, const char *file, const cJSON *tensors)
{
    const cJSON *t;
    ck_assert_msg(fs_num_tensors(f) == cJSON_GetArraySize(tensors), "%s: %d tensors", file,
                  fs_num_tensors(f));
    cJSON_ArrayForEach(t, tensors) check_tensor(f, file, t, cJSON_GetObjectItem(t, "sha256")->valuestring);
}

/* For what the reference that made the index does not know yet: the header, read by cJSON, says what is
 * right, and in which order. */
static void check_by_header(fs_file *f, const char *path)
{
    size_t len, n;
    char *text = read_whole(path, &len), digest[65];
    n = (unsigned char)text[0] + 256u * (unsigned char)text[1];
    cJSON *head = cJSON_ParseWithLength(text + 8, n), *t;
    int i = 0;
    ck_assert_int_eq(fs_num_tensors(f), cJSON_GetArraySize(head));
    ck_assert_int_gt(fs_num_tensors(f), 0);
    cJSON_ArrayForEach(t, head)
    {
        const cJSON *range = cJSON_GetObjectItem(t, "data_offsets");
        size_t from = (size_t)cJSON_GetArrayItem(range, 0)->valuedouble;
        size_t to = (size_t)cJSON_GetArrayItem(range, 1)->valuedouble;
        cJSON_AddStringToObject(t, "name", t->string);
        ck_assert_str_eq(fs_tensor_name(f, i++, NULL), t->string);
        sha256(text + 8 + n + from, to - from, digest);
        check_tensor(f, path, t, digest);
    }
    cJSON_Delete(head);
    free(text);
}

static void count(void *ctx, const fs_error *e)
{
    ck_assert(e->code == -EBADMSG || e->code == -ENOTSUP);
    ++*(int *)ctx;
}

static void check_case(const cJSON *c, fs_file *(*open)(const char *, fs_error *))
{
    const char *file = cJSON_GetObjectItem(c, "file")->valuestring;
    const char *note = cJSON_GetObjectItem(c, "note")->valuestring;
    bool accept = strcmp(cJSON_GetObjectItem(c, "expect")->valuestring, "accept") == 0;
    const cJSON *tensors = cJSON_GetObjectItem(c, "tensors");
    char path[300];
    int told = 0;
    fs_error e = {0};
    snprintf(path, sizeof path, DIR "%s", file);
    fs_file *f = open(path, &e);
    ck_assert_msg((f != NULL) == accept, "%s (%s): %s", file, note, f ? "accepted" : e.message);
    int findings = fs_check(path, count, &told, NULL);
    ck_assert_int_eq(findings, told);
    if (!accept) {
        ck_assert(e.code == -EBADMSG || e.code == -ENOTSUP);
        ck_assert_str_ne(e.message, "");
        ck_assert_int_ge(findings, 1);
        return;
    }
    ck_assert_int_eq(e.code, 0);
    ck_assert_int_eq(findings, 0);
    if (tensors)
        check_listed(f, file, tensors);
    else
        check_by_header(f, path);
    fs_close(f);
}

START_TEST(opened)
{
    check_case(cJSON_GetArrayItem(cases, _i), fs_open_e);
}
END_TEST

START_TEST(mapped)
{
    check_case(cJSON_GetArrayItem(cases, _i), fs_mmap_e);
}
END_TEST

/* An index that lost its cases would test nothing. */
START_TEST(all_there)
{
    int accept = 0, reject = 0;
    const cJSON *c;
    cJSON_ArrayForEach(c, cases)++ *(
        strcmp(cJSON_GetObjectItem(c, "expect")->valuestring, "accept") == 0 ? &accept : &reject);
    ck_assert_int_ge(accept, 53);
    ck_assert_int_ge(reject, 79);
}
END_TEST

static void tests(TCase *tc)
{
    int n = cJSON_GetArraySize(cases);
    tcase_add_test(tc, all_there);
    tcase_add_loop_test(tc, opened, 0, n);
    tcase_add_loop_test(tc, mapped, 0, n);
}

int main(void)
{
    cJSON *index = json_file(DIR "index.json");
    cases = cJSON_GetObjectItem(index, "cases");
    int failed = unit_run("vectors", tests);
    cJSON_Delete(index);
    return failed;
}
