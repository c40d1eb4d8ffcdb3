/* SPDX-License-Identifier: MIT
 * Model directories: which files are shards, what the index must say, and errors by their names. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "directory.h"
#include "support.h"

static char dir[64], names[1024];

static void make_dir(void)
{
    strcpy(dir, "/tmp/directory-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void remove_dir(void)
{
    struct directory *d = NULL;
    char path[512];
    ck_assert_int_eq(directory_new(dir, &d, NULL), 0);
    for (size_t i = 0; i < d->n_names; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, d->names[i]);
        unlink(path);
    }
    directory_free(d);
    rmdir(dir);
}

static void put(const char *name, const void *p, size_t len)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, p, len), (ssize_t)len);
    close(fd);
}

/* A shard of one tensor of one byte. */
static void put_shard(const char *file, const char *tensor, char byte)
{
    char text[512] = {0};
    int n = snprintf(text + 8, sizeof text - 8,
                     "{\"%s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", tensor);
    text[0] = (char)(n & 0xFF);
    text[1] = (char)(n >> 8);
    text[8 + n] = byte;
    put(file, text, (size_t)n + 9);
}

static void put_index(const char *text)
{
    put("model.safetensors.index.json", text, strlen(text));
}

/* Opens the directory (or a file in it); the kind of the first error, "" if there is none. `names` then holds
 * "TENSOR@FILE " for each tensor. */
static const char *opened(const char *file)
{
    static struct report r;
    struct model *m = NULL;
    char path[512];
    r = (struct report){0};
    snprintf(path, sizeof path, "%s/%s", dir, file);
    int err = model_open(path, SOURCE_MAP, &m, &r);
    names[0] = 0;
    for (size_t i = 0; m && i < m->n_tensors; i++) {
        size_t n = strlen(names);
        snprintf(names + n, sizeof names - n, "%s@%s ", m->tensors[i].name, m->tensors[i].source->name);
    }
    ck_assert_int_eq(err == 0, m != NULL);
    model_free(m);
    return err == 0 ? "" : r.first.kind[0] ? r.first.kind : r.first.message;
}

START_TEST(without_index)
{
    put_shard("b.safetensors", "x", 1);
    put_shard("a.safetensors", "y", 2);
    put("config.json", "{}", 2);
    ck_assert_str_eq(opened(""), "");
    ck_assert_str_eq(names, "y@a.safetensors x@b.safetensors ");
    put_shard("c.safetensors", "x", 3);
    ck_assert_str_eq(opened(""), "tensor-duplicate");
    put("c.safetensors", "\1\0\0\0\0\0\0\0", 8);
    ck_assert_ptr_nonnull(strstr(opened(""), "c.safetensors: safetensors header: "));
}
END_TEST

START_TEST(with_index)
{
    put_shard("b.safetensors", "x", 1);
    put_shard("a.safetensors", "y", 2);
    put_shard("extra.safetensors", "x", 3); /* not named: not looked at */
    put_index("{\"weight_map\":{\"x\":\"b.safetensors\",\"y\":\"a.safetensors\"}}");
    ck_assert_str_eq(opened(""), "");
    ck_assert_str_eq(names, "y@a.safetensors x@b.safetensors ");
    ck_assert_str_eq(opened("model.safetensors.index.json"), "");
    ck_assert_str_eq(names, "y@a.safetensors x@b.safetensors ");
}
END_TEST

static const struct {
    const char *index, *kind;
} bad[] = {
    {"{\"weight_map\":{\"x\":\"a.safetensors\",\"y\":\"a.safetensors\"}}", "index-tensor-missing"},
    {"{\"weight_map\":{\"x\":\"a.safetensors\",\"y\":\"b.safetensors\"}}", "index-tensor-elsewhere"},
    {"{\"weight_map\":{\"y\":\"a.safetensors\",\"z\":\"gone.safetensors\"}}", "shard-missing"},
    {"{\"weight_map\":{\"y\":\"../a.safetensors\"}}", "index-path"},
    {"{\"weight_map\":{\"y\":\"/etc/passwd\"}}", "index-path"},
    {"{\"weight_map\":{\"y\":\"..\"}}", "index-path"},
    {"{\"weight_map\":{\"y\":\"\"}}", "index-path"},
    {"{\"weight_map\":{\"y\":\"a.safetensors\\u0000\"}}", "index-path"},
    {"{\"weight_map\":{\"y\":1}}", "index-path"},
    {"{\"weight_map\":{}}", "index-parse"},
    {"{\"weight_map\":[]}", "index-parse"},
    {"{", "index-parse"},
    {"", "index-parse"},
};

START_TEST(bad_index)
{
    put_shard("a.safetensors", "y", 2);
    put_shard("b.safetensors", "x", 1);
    put_index(bad[_i].index);
    ck_assert_str_eq(opened(""), bad[_i].kind);
}
END_TEST

/* An index that is larger than any, though it takes no room on the disk, is not read. */
START_TEST(endless_index)
{
    char path[512];
    put_shard("a.safetensors", "y", 2);
    put_index("{\"weight_map\":{\"y\":\"a.safetensors\"}}");
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", dir);
    ck_assert_int_eq(truncate(path, (off_t)1 << 40), 0);
    ck_assert_ptr_nonnull(strstr(opened(""), "has 1099511627776 bytes"));
    ck_assert_ptr_nonnull(strstr(opened("model.safetensors.index.json"), "is JSON text"));
}
END_TEST

START_TEST(nothing)
{
    ck_assert_ptr_nonnull(strstr(opened(""), "a directory without a model"));
    put("model.safetensors.txt", "x", 1);
    ck_assert_ptr_nonnull(strstr(opened(""), "a directory without a model"));
}
END_TEST

/* A model hub keeps links to files that lie elsewhere. Of one that was not loaded the model is not whole. */
START_TEST(links)
{
    char from[512], to[512];
    put_shard("blob", "x", 1);
    snprintf(to, sizeof to, "%s/model.safetensors", dir);
    snprintf(from, sizeof from, "%s/dangling.safetensors", dir);
    ck_assert_int_eq(symlink("blob", to), 0);
    ck_assert_str_eq(opened(""), "");
    ck_assert_str_eq(names, "x@model.safetensors ");
    ck_assert_int_eq(symlink("none", from), 0);
    ck_assert_str_eq(opened(""), "shard-missing");
    unlink(from);
}
END_TEST

static size_t descriptors(void)
{
    size_t n = 0;
    for (int fd = 0; fd < 4096; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* More shards than may be open at a time: all can be read all the same, and one that is replaced is noticed.
 */
START_TEST(many)
{
    enum { N = 600 };
    struct model *m = NULL;
    size_t before = descriptors();
    char name[64], tensor[64];
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "m-%04d.safetensors", i);
        snprintf(tensor, sizeof tensor, "t%d", i);
        put_shard(name, tensor, (char)i);
    }
    ck_assert_int_eq(model_open(dir, SOURCE_MAP, &m, NULL), 0);
    ck_assert_uint_eq(m->n_tensors, N);
    ck_assert_uint_le(descriptors() - before, 260);
    put_shard("m-0000.safetensors", "t0", 99); /* written anew, in place */
    for (size_t i = 0; i < N; i++) {
        const struct tensor *t = &m->tensors[i];
        char byte = 0;
        int err = source_check(t->source);
        if (err == 0)
            err = source_read(t->source, t->offset, &byte, 1);
        ck_assert_int_eq(err, i == 0 ? -EIO : 0);
        if (i)
            ck_assert_int_eq(byte, (char)i);
        ck_assert_int_eq(source_mapped(t->source) != NULL, i != 0);
    }
    ck_assert(model_changed(m));
    ck_assert_uint_le(descriptors() - before, 260);
    model_free(m);
    ck_assert_uint_eq(descriptors(), before);
}
END_TEST

/* What the owner of one file may read, he may not read of another's. */
START_TEST(modes)
{
    static const struct {
        mode_t a, b, result;
        bool other_owner, other_group;
    } all[] = {
        {0444, 0444, 0444, false, false}, {0444, 0400, 0400, false, false}, {0440, 0444, 0440, false, false},
        {0400, 0444, 0400, true, false},  {0444, 0440, 0040, true, false},  {0444, 0440, 0400, false, true},
        {0444, 0400, 0000, true, true},   {0444, 0404, 0404, true, true},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct stat a = {.st_mode = S_IFREG | all[i].a, .st_uid = 1, .st_gid = 1}, b = a;
        b.st_mode = S_IFREG | all[i].b;
        b.st_uid += all[i].other_owner;
        b.st_gid += all[i].other_group;
        directory_restrict(&a, &b);
        ck_assert_uint_eq(a.st_mode & 0777, all[i].result);
    }
}
END_TEST

static void tests(TCase *tc)
{
    tcase_add_checked_fixture(tc, make_dir, remove_dir);
    tcase_add_test(tc, without_index);
    tcase_add_test(tc, with_index);
    tcase_add_loop_test(tc, bad_index, 0, sizeof bad / sizeof bad[0]);
    tcase_add_test(tc, endless_index);
    tcase_add_test(tc, nothing);
    tcase_add_test(tc, links);
    tcase_add_test(tc, many);
    tcase_add_test(tc, modes);
}

int main(void)
{
    return unit_run("directory", tests);
}
