/* SPDX-License-Identifier: MIT
 * The canonical file of a model: the reference's files come out as they went in, and every model that can be
 * read comes out as one that reads the same. */
#include "canonical.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "place.h"
#include "safetensors/safetensors.h"
#include "save.h"
#include "support.h"

#define CORPUS "../shared/corpus/"

static cJSON *goldens, *accepted, *corpus; /* for all tests, made by main */

static struct model *open_model(const char *path)
{
    struct model *m = NULL;
    struct report r = {0};
    ck_assert_msg(model_open(path, SOURCE_MAP, &m, &r) == 0, "%s: %s", path, r.first.message);
    return m;
}

/* The whole list, read at once. */
static char *all_of(const struct extents *x)
{
    char *b = malloc((size_t)x->size + 1);
    ck_assert_int_eq(extents_read(x, 0, b, (size_t)x->size), (ssize_t)x->size);
    return b;
}

START_TEST(goldens_unchanged)
{
    char path[256];
    size_t len;
    struct extents x = {0};
    struct buf text = {0};
    snprintf(path, sizeof path, VECTORS "writer/%s",
             cJSON_GetObjectItem(cJSON_GetArrayItem(goldens, _i), "file")->valuestring);
    char *want = read_whole(path, &len);
    struct model *m = open_model(path);
    ck_assert_int_eq(canonical_extents(m, &x, NULL), 0);
    ck_assert_uint_eq(x.size, len);
    char *have = all_of(&x);
    ck_assert(memcmp(have, want, len) == 0);
    ck_assert_int_eq(canonical_header_text(m, &text, NULL), 0);
    ck_assert(text.len + 8 <= len && text.p[text.len - 1] == '}');
    ck_assert(memcmp(text.p, want + 8, text.len) == 0);
    buf_free(&text);
    extents_free(&x);
    model_free(m);
    free(have);
    free(want);
}
END_TEST

static void same_tensor(fs_file *a, fs_file *b, int i)
{
    size_t len;
    const char *name = fs_tensor_name(a, i, &len);
    tm_tensor *x = fs_get_tensor_n(a, name, len), *y = fs_get_tensor_n(b, name, len);
    ck_assert_msg(x && y, "'%s' got lost", name);
    ck_assert_int_eq(tm_tensor_dtype(x), tm_tensor_dtype(y));
    ck_assert_int_eq(tm_tensor_rank(x), tm_tensor_rank(y));
    for (int d = 0; d < tm_tensor_rank(x); d++)
        ck_assert_uint_eq(tm_tensor_shape(x)[d], tm_tensor_shape(y)[d]);
    ck_assert_uint_eq(tm_tensor_nbytes(x), tm_tensor_nbytes(y));
    if (tm_tensor_nbytes(x))
        ck_assert(memcmp(tm_tensor_data(x), tm_tensor_data(y), (size_t)tm_tensor_nbytes(x)) == 0);
    tm_tensor_free(x);
    tm_tensor_free(y);
}

static void same_metadata(fs_file *a, fs_file *b)
{
    ck_assert_int_eq(fs_num_metadata(a), fs_num_metadata(b));
    for (int i = 0; i < fs_num_metadata(a); i++) {
        const char *key, *value;
        size_t len;
        fs_metadata_entry(a, i, &key, NULL, &value, &len);
        ck_assert_msg(fs_metadata(b, key) && strcmp(fs_metadata(b, key), value) == 0, "metadata '%s'", key);
    }
}

/* Adds all of f; the caller frees. */
static fs_writer *writer_of(fs_file *f, const char *path)
{
    fs_writer *w = fs_writer_new(path);
    for (int i = fs_num_tensors(f); i-- > 0;) {
        size_t len;
        const char *name = fs_tensor_name(f, i, &len);
        tm_tensor *t = fs_get_tensor_n(f, name, len);
        ck_assert_int_eq(fs_add_tensor_n(w, name, len, t), 0);
        tm_tensor_free(t);
    }
    for (int i = 0; i < fs_num_metadata(f); i++) {
        const char *key, *value;
        size_t key_len, value_len;
        fs_metadata_entry(f, i, &key, &key_len, &value, &value_len);
        ck_assert_int_eq(fs_set_metadata_e(w, key, key_len, value, value_len, NULL), 0);
    }
    return w;
}

/* Read, write, read: the same tensors and metadata. And the writer and the export agree on every byte, also
 * when what they made is written again. */
static void round_trip(const char *path)
{
    struct extents x = {0};
    struct model *m = open_model(path);
    ck_assert_int_eq(canonical_extents(m, &x, NULL), 0);
    char *export = all_of(&x);
    for (int round = 0; round < 2; round++) {
        fs_file *a = fs_mmap(round ? place_path("out") : path);
        fs_writer *w = writer_of(a, place_path("out"));
        ck_assert_int_eq(fs_write(w), 0);
        fs_file *b = fs_mmap(place_path("out"));
        ck_assert_msg(a && b, "%s", path);
        ck_assert_int_eq(fs_num_tensors(a), fs_num_tensors(b));
        for (int i = 0; i < fs_num_tensors(a); i++)
            same_tensor(a, b, i);
        same_metadata(a, b);
        place_expect("out", export, (size_t)x.size);
        fs_close(a);
        fs_close(b);
        fs_writer_free(w);
    }
    free(export);
    extents_free(&x);
    model_free(m);
}

START_TEST(vectors_round_trip)
{
    char path[256];
    snprintf(path, sizeof path, VECTORS "safetensors/%s",
             cJSON_GetObjectItem(cJSON_GetArrayItem(accepted, _i), "file")->valuestring);
    round_trip(path);
}
END_TEST

START_TEST(corpus_round_trip)
{
    char path[512];
    snprintf(path, sizeof path, CORPUS "files/%s",
             cJSON_GetObjectItem(cJSON_GetArrayItem(corpus, _i), "file")->valuestring);
    round_trip(path);
}
END_TEST

/* "é" (2 bytes) stands behind "zz", a name behind every beginning of its own; a NUL counts like any byte. */
START_TEST(order_of_names)
{
    static const struct canonical_item v[] = {
        {.name = "\xC3\xA9", .name_len = 2, .dtype = TM_U8}, {.name = "a", .name_len = 1, .dtype = TM_U8},
        {.name = "zz", .name_len = 2, .dtype = TM_U8},       {.name = "", .name_len = 0, .dtype = TM_U8},
        {.name = "a\0", .name_len = 2, .dtype = TM_U8},      {.name = "x", .name_len = 1, .dtype = TM_U64},
        {.name = "y", .name_len = 1, .dtype = TM_BOOL},
    };
    static const char *const want[] = {"x", "", "a", "a", "zz", "\xC3\xA9", "y"};
    struct canonical_item items[7];
    struct buf out = {0};
    memcpy(items, v, sizeof v);
    ck_assert_int_eq(canonical_header(items, 7, NULL, 0, &out, NULL), 0);
    for (int i = 0; i < 7; i++)
        ck_assert_str_eq(items[i].name, want[i]);
    ck_assert_uint_eq(items[2].name_len, 1);
    ck_assert_uint_eq(out.len % 8, 0);
    buf_free(&out);
}
END_TEST

START_TEST(two_of_a_name)
{
    struct canonical_item v[] = {{.name = "same", .name_len = 4, .dtype = TM_U8},
                                 {.name = "other", .name_len = 5, .dtype = TM_U8},
                                 {.name = "same", .name_len = 4, .dtype = TM_F32}};
    struct buf out = {0};
    struct report r = {0};
    ck_assert_int_eq(canonical_header(v, 3, NULL, 0, &out, &r), -EEXIST);
    ck_assert_str_eq(r.first.tensor, "same");
    buf_free(&out);
}
END_TEST

START_TEST(too_large_together)
{
    struct canonical_item v[] = {{.name = "a", .name_len = 1, .dtype = TM_U8, .nbytes = UINT64_C(1) << 63},
                                 {.name = "b", .name_len = 1, .dtype = TM_U8, .nbytes = UINT64_C(1) << 63}};
    struct buf out = {0};
    struct report r = {0};
    ck_assert_int_eq(canonical_header(v, 2, NULL, 0, &out, &r), -EOVERFLOW);
    ck_assert_str_eq(r.first.tensor, "b");
    buf_free(&out);
}
END_TEST

/* The reference writes metadata in no order at all (a hash map); ours is by key, always. */
START_TEST(metadata_by_key)
{
    struct metadata v[] = {{{"b", 1}, {"2", 1}}, {{"a", 1}, {"1", 1}}, {{"", 0}, {"0", 1}}};
    static const char want[] =
        "\x30\0\0\0\0\0\0\0{\"__metadata__\":{\"\":\"0\",\"a\":\"1\",\"b\":\"2\"}}       ";
    struct buf out = {0};
    ck_assert_int_eq(canonical_header(NULL, 0, v, 3, &out, NULL), 0);
    ck_assert_uint_eq(out.len, 8 + 0x30);
    ck_assert_mem_eq(out.p, want, 8 + 0x30);
    buf_free(&out);
}
END_TEST

static void add(TCase *tc)
{
    tcase_add_checked_fixture(tc, place_make, place_remove);
    tcase_add_loop_test(tc, goldens_unchanged, 0, cJSON_GetArraySize(goldens));
    tcase_add_loop_test(tc, vectors_round_trip, 0, cJSON_GetArraySize(accepted));
    if (corpus)
        tcase_add_loop_test(tc, corpus_round_trip, 0, cJSON_GetArraySize(corpus));
    tcase_add_test(tc, order_of_names);
    tcase_add_test(tc, two_of_a_name);
    tcase_add_test(tc, too_large_together);
    tcase_add_test(tc, metadata_by_key);
}

/* Takes out of a list the items whose field has that value. */
static cJSON *only(cJSON *list, const char *field, const char *value, const char *field2, const char *value2)
{
    cJSON *kept = cJSON_CreateArray();
    for (int i = cJSON_GetArraySize(list); i-- > 0;) {
        const cJSON *c = cJSON_GetArrayItem(list, i);
        if (strcmp(cJSON_GetObjectItem(c, field)->valuestring, value) == 0 &&
            strcmp(cJSON_GetObjectItem(c, field2)->valuestring, value2) == 0)
            cJSON_AddItemToArray(kept, cJSON_DetachItemFromArray(list, i));
    }
    return kept;
}

int main(void)
{
    cJSON *of_writer = json_file(VECTORS "writer/index.json"), *real = NULL;
    cJSON *of_reader = json_file(VECTORS "safetensors/index.json");
    goldens = cJSON_GetObjectItem(of_writer, "cases");
    accepted = only(cJSON_GetObjectItem(of_reader, "cases"), "expect", "accept", "expect", "accept");
    if (access(CORPUS "index.json", R_OK) == 0) {
        real = json_file(CORPUS "index.json");
        corpus = only(cJSON_GetObjectItem(real, "files"), "kind", "safetensors", "verdict", "tensors");
    } else {
        printf("SKIP: no " CORPUS ": the models of strangers are not tried\n");
    }
    int enough = cJSON_GetArraySize(goldens) == 13 && cJSON_GetArraySize(accepted) > 40 &&
                 (!corpus || cJSON_GetArraySize(corpus) > 5);
    int status = enough ? unit_run("canonical", add) : 99;
    cJSON_Delete(of_writer);
    cJSON_Delete(of_reader);
    cJSON_Delete(accepted);
    cJSON_Delete(real);
    cJSON_Delete(corpus);
    return status;
}
