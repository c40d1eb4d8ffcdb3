/* SPDX-License-Identifier: MIT
 * What is staged, without a mount: the content of files against an array of bytes, the record of all against
 * what it was made from, and the lines of a record one by one. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "place.h"
#include "say.h"
#include "source.h"
#include "staged_content.h"
#include "staged_tensor.h"
#include "store.h"
#include "support.h"

enum { MOST = 4096, STEPS = 3000 };

static unsigned said;

/* In place of the real one. */
void say(const char *object, const char *fmt, ...)
{
    (void)object, (void)fmt;
    said++;
}

static struct store store;
static struct model_dir *m;

static void open_store(void)
{
    ck_assert_int_eq(store_open(&store, place_path(""), NULL), 0);
    m = store.models;
}

static void begin(void)
{
    int err;
    place_make();
    open_store();
    m = store_new_model(&store, "m", (struct node_caller){7, 8}, &err);
    ck_assert(m && err == 0);
}

static void end(void)
{
    store_close(&store);
    place_remove();
}

static struct staged *make(struct staged *dir, const char *name, bool is_dir)
{
    struct staged *n = staged_add(&store.tree, dir, name, is_dir, (struct node_caller){1, 2});
    ck_assert(n && record_new_node(n) == 0);
    return n;
}

static unsigned next(unsigned *seed, unsigned below)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % below;
}

/* ---- content against bytes ---- */

static void write_own(struct staged *n, unsigned char *plain, unsigned at, unsigned len, unsigned char c)
{
    unsigned char bytes[MOST];
    bool cut;
    memset(bytes, c, len);
    if (!n->own)
        ck_assert_int_eq(store_new_file(n), 0);
    int fd = source_fd(n->own->source);
    ck_assert(fd >= 0 && pwrite(fd, bytes, len, at) == (ssize_t)len);
    source_fd_done(n->own->source, fd);
    ck_assert_int_eq(content_cut(n, at, len, &cut), 0);
    memset(plain + at, c, len);
    n->size = at + len > n->size ? at + len : n->size;
}

static void check_bytes(const struct staged *n, const unsigned char *plain, uint64_t size)
{
    unsigned char got[MOST];
    struct extents x = {0};
    ck_assert_uint_eq(n->size, size);
    ck_assert_int_eq(content_extents(n, &x), 0);
    ck_assert_uint_eq(x.size, size);
    ck_assert_int_eq(extents_read(&x, 0, got, MOST), (ssize_t)size);
    ck_assert(memcmp(got, plain, size) == 0);
    for (size_t i = 1; i < n->n_refs; i++)
        ck_assert(n->refs[i - 1].start + n->refs[i - 1].len <= n->refs[i].start && n->refs[i].len);
    extents_free(&x);
}

START_TEST(content_is_what_was_written)
{
    unsigned char source_bytes[MOST], plain[MOST] = {0};
    unsigned seed = (unsigned)_i + 1;
    for (unsigned i = 0; i < MOST; i++)
        source_bytes[i] = (unsigned char)(i * 7 + i / 256);
    struct memfile f = memfile_new(source_bytes, MOST);
    struct source *s = NULL;
    ck_assert_int_eq(source_open(f.path, SOURCE_MAP, &s, NULL), 0);
    struct staged *n = make(m->top, "w", false);
    for (int step = 0; step < STEPS; step++) {
        unsigned len = 1 + next(&seed, 300), at = next(&seed, (unsigned)n->size + 1),
                 off = next(&seed, MOST - 300);
        bool cut;
        len = at + len > MOST ? MOST - at : len;
        if (len == 0)
            continue;
        switch (next(&seed, 5)) {
        case 0:
        case 1: write_own(n, plain, at, len, (unsigned char)step); break;
        case 2:
        case 3:
            ck_assert_int_eq(content_cut(n, at, len, &cut), 0);
            ck_assert_int_eq(content_refer(n, at, len, s, NULL, off), 0);
            memcpy(plain + at, source_bytes + off, len);
            break;
        default: {
            bool owned = n->own != NULL;
            ck_assert_int_eq(content_freeze(n), owned);
            ck_assert(!n->own);
        }
        }
        ck_assert(content_has_ref(n, 0, n->size) == (n->n_refs > 0));
        check_bytes(n, plain, n->size);
    }
    source_free(s);
}
END_TEST

/* Its numbered file is there as long as somebody reads it, and then no more. */
START_TEST(numbered_files_go_with_their_last_reader)
{
    unsigned char plain[MOST], got[10];
    struct extents x = {0};
    struct stat st;
    struct staged *n = make(m->top, "w", false);
    write_own(n, plain, 0, 10, 'x');
    ck_assert_int_eq(content_extents(n, &x), 0);
    staged_unlink(&store.tree, n);
    ck_assert_int_eq(extents_read(&x, 0, got, 10), 10);
    ck_assert(memcmp(got, "xxxxxxxxxx", 10) == 0);
    ck_assert_int_eq(fstatat(m->dir, "1", &st, 0), 0);
    extents_free(&x);
    ck_assert_int_eq(fstatat(m->dir, "1", &st, 0), -1);
}
END_TEST

START_TEST(deep_paths_are_whole)
{
    struct staged *n = m->top;
    struct buf path = {0};
    for (int i = 0; i < 1000; i++)
        n = make(n, "d", true);
    staged_path(n, &path);
    ck_assert_uint_eq(path.len, 1999);
    ck_assert_uint_eq(staged_path_length(n), 1999);
    for (size_t i = 0; i < path.len; i++)
        ck_assert_int_eq(path.p[i], i % 2 ? '/' : 'd');
    ck_assert(staged_walk(&store.tree, m->top, path.p) == n);
    ck_assert(staged_is_below(n, m->top) && !staged_is_below(m->top, n));
    buf_free(&path);
}
END_TEST

/* ---- names ---- */

static const struct {
    const char *path, *name;
    enum layout layout;
} names[] = {
    {"a/b", "a.b", LAYOUT_TREE},       {"a/b", "a/b", LAYOUT_FLAT},  {"a.b/c", "a.b.c", LAYOUT_TREE},
    {"%/a", ".a", LAYOUT_TREE},        {"a/%", "a.", LAYOUT_TREE},   {"%", "", LAYOUT_TREE},
    {"%25", "%", LAYOUT_TREE},         {"%2Fx", "/x", LAYOUT_TREE},  {"%2E%2E", "..", LAYOUT_TREE},
    {"x%", "x%", LAYOUT_TREE},         {"%2", "%2", LAYOUT_TREE},    {"%2f", "%2f", LAYOUT_TREE},
    {"%0A", "\n", LAYOUT_TREE},        {"%7F", "\x7f", LAYOUT_TREE}, {"\xc3\xa9", "\xc3\xa9", LAYOUT_TREE},
    {"a%25b/c", "a%b.c", LAYOUT_TREE},
};

START_TEST(a_name_is_the_inverse_of_its_path)
{
    char path[64];
    struct staged *n = m->top;
    struct buf name = {0};
    snprintf(path, sizeof path, "%s", names[_i].path);
    for (char *save = NULL, *p = strtok_r(path, "/", &save); p; p = strtok_r(NULL, "/", &save))
        n = make(n, p, false);
    staged_name(&(struct staged_rules){.layout = names[_i].layout}, n, &name);
    ck_assert_uint_eq(name.len, strlen(names[_i].name));
    ck_assert(name.len == 0 || memcmp(name.p, names[_i].name, name.len) == 0);
    buf_free(&name);
}
END_TEST

/* ---- the record ---- */

static void put_record(const char *text)
{
    store_close(&store);
    place_put(".staging/m/record", text, strlen(text));
    open_store();
}

static const struct staged *at(const char *path)
{
    const struct staged *n = staged_walk(&store.tree, m->top, path);
    ck_assert_msg(n != NULL, "%s is not there", path);
    return n;
}

#define HEAD "{\"model\":\"\",\"version\":1,\"uid\":7,\"gid\":8}\n"

START_TEST(every_kind_of_line)
{
    struct buf name = {0};
    store_close(&store);
    place_put(".staging/m/3", "abcdefgh", 8);
    place_put(".staging/m/4", "12345678", 8);
    open_store();
    place_put(".staging/m/3", "abcdefgh", 8); /* nothing spoke of it: it went */
    place_put(".staging/m/4", "12345678", 8);
    put_record(
        HEAD "{\"dir\":\"d\",\"uid\":1,\"gid\":2}\n"
             "{\"file\":\"d/own\",\"uid\":1,\"gid\":2}\n"
             "{\"own\":\"d/own\",\"number\":3}\n"
             "{\"file\":\"d/ref\",\"uid\":1,\"gid\":2}\n"
             "{\"ref\":\"d/ref\",\"start\":0,\"bytes\":8,\"offset\":0,\"number\":4}\n"
             "{\"size\":\"d/ref\",\"bytes\":6}\n"
             "{\"ref\":\"d/ref\",\"start\":2,\"bytes\":2,\"offset\":7,\"source\":9}\n" /* none such: line 8 */
             "{\"set\":\"d/own\",\"what\":\"dtype\",\"value\":\"U8\"}\n"
             "{\"set\":\"d/own\",\"what\":\"shape\",\"value\":\"[8]\"}\n"
             "{\"set\":\"d/own\",\"what\":\"shape\"}\n"
             "{\"bound\":\"d/ref\",\"dtype\":\"F16\",\"shape\":\"[3]\"}\n"
             "{\"owner\":\"d/ref\",\"uid\":5,\"gid\":6}\n"
             "{\"set\":\"d/ref\",\"what\":\"name\",\"value\":\"a%00b%FF\"}\n"
             "{\"rename\":\"d/own\",\"to\":\"x%25%0A\"}\n"
             "{\"file\":\"gone\",\"uid\":1,\"gid\":2}\n"
             "{\"own\":\"gone\",\"number\":5}\n"
             "{\"remove\":\"gone\"}\n"
             "{\"metadata\":\"\",\"key\":\"k\",\"value\":\"v\"}\n"
             "{\"metadata\":\"\",\"key\":\"l\",\"value\":\"w\"}\n"
             "{\"metadata\":\"\",\"key\":\"k\"}\n"
             "{\"inherited\":\"\"}\n"
             "{\"committed\":\"\",\"bytes\":100,\"device\":1,\"inode\":2,\"seconds\":3,\"nanoseconds\":4,"
             "\"took\":5,\"later\":0}\n"
             "{\"renamed\":\"\"}\n"
             "{\"file\":\"cut of");
    ck_assert_uint_eq(m->top->uid, 7);
    const struct staged *own = at("x%\n"), *ref = at("d/ref");
    ck_assert_uint_eq(own->size, 8);
    ck_assert_str_eq(own->attr[ATTR_DTYPE], "U8");
    ck_assert(!own->attr[ATTR_SHAPE]);
    check_bytes(own, (const unsigned char *)"abcdefgh", 8);
    check_bytes(ref, (const unsigned char *)"123456", 6);
    ck_assert_uint_eq(ref->uid, 5);
    ck_assert_str_eq(ref->bound[0], "F16");
    staged_name(&(struct staged_rules){.layout = LAYOUT_TREE}, ref, &name);
    ck_assert_uint_eq(name.len, 4);
    ck_assert(memcmp(name.p, "a\0b\xff", 4) == 0);
    ck_assert(!staged_walk(&store.tree, m->top, "gone") && !staged_walk(&store.tree, m->top, "d/own"));
    ck_assert_uint_eq(m->n_metadata, 1);
    ck_assert_str_eq(m->metadata[0].key, "l");
    ck_assert(m->inherited && m->committed.done && m->committed.bytes == 100 && m->committed.took == 5);
    ck_assert(m->edits != m->committed_edits); /* it was renamed since */
    ck_assert_uint_eq(m->last_number, 5);      /* of what is gone as well: it is not given again */
    buf_free(&name);
}
END_TEST

/* What is written anew says what the old one said. */
START_TEST(compaction_changes_nothing)
{
    unsigned char plain[MOST] = {0};
    struct staged *n = make(make(m->top, "d", true), "w%", false);
    write_own(n, plain, 0, 10, 'x');
    ck_assert_int_eq(staged_set_text(&n->attr[ATTR_DTYPE], "U8", 2), 0);
    ck_assert_int_eq(store_set_metadata(m, "k", 1, "v\0w", 3), 0);
    m->lines = 1000000;
    record_compact(m);
    ck_assert_uint_lt(m->lines, 20);
    store_close(&store);
    open_store();
    const struct staged *again = at("d/w%");
    check_bytes(again, plain, 10);
    ck_assert_str_eq(again->attr[ATTR_DTYPE], "U8");
    ck_assert_uint_eq(m->metadata[0].value_len, 3);
    ck_assert(memcmp(m->metadata[0].value, "v\0w", 3) == 0);
}
END_TEST

/* Lines in a batch are all there, or none. */
START_TEST(batches)
{
    record_batch(m);
    struct staged *n = make(m->top, "no", false);
    ck_assert_int_eq(record_batch_end(m, false), 0);
    staged_unlink(&store.tree, n);
    record_batch(m);
    make(m->top, "a", false);
    make(m->top, "b", false);
    ck_assert_int_eq(record_batch_end(m, true), 0);
    store_close(&store);
    open_store();
    at("a");
    at("b");
    ck_assert(!staged_walk(&store.tree, m->top, "no"));
}
END_TEST

static const char *const damaged[] = {
    "",
    "{}",
    "x",
    "{\"file\":1}",
    "{\"file\":\"\"}",
    "{\"file\":\"..\"}",
    "{\"file\":\".\"}",
    "{\"file\":\"a/b\"}",
    "{\"file\":\"d\"}",
    "{\"file\":\"d/\"}",
    "{\"file\":\"f/g\"}",
    "{\"dir\":\"d\"}",
    "{\"unknown\":\"f\"}",
    "{\"own\":\"f\"}",
    "{\"own\":\"none\",\"number\":1}",
    "{\"own\":\"d\",\"number\":1}",
    "{\"own\":\"f\",\"number\":18446744073709551615}",
    "{\"own\":\"f\",\"number\":99999999999999999999}",
    "{\"ref\":\"f\",\"start\":0,\"bytes\":1,\"offset\":0,\"source\":1}",
    "{\"ref\":\"f\",\"start\":18446744073709551615,\"bytes\":2,\"offset\":0,\"number\":1}",
    "{\"ref\":\"f\",\"start\":0,\"bytes\":9223372036854775807,\"offset\":2,\"number\":1}",
    "{\"cut\":\"f\",\"start\":18446744073709551615,\"bytes\":2}",
    "{\"freeze\":\"f\",\"bytes\":18446744073709551615}",
    "{\"rename\":\"d\",\"to\":\"d/e\"}",
    "{\"rename\":\"\",\"to\":\"x\"}",
    "{\"rename\":\"f\"}",
    "{\"rename\":\"f\",\"to\":\"..\"}",
    "{\"rename\":\"f\",\"to\":\"full\"}",
    "{\"remove\":\"\"}",
    "{\"remove\":\"full\"}",
    "{\"set\":\"f\",\"what\":\"color\"}",
    "{\"set\":\"d\",\"what\":\"dtype\",\"value\":\"U8\"}",
    "{\"metadata\":\"\"}",
    "{\"source\":\"/x\",\"number\":7}",
    "{\"file\":\"g\"} x",
    "{\"file\":\"g\",\"a\":0,\"b\":0,\"c\":0,\"d\":0,\"e\":0,\"f\":0,\"g\":0,\"h\":0}",
};

/* Passed over, and those behind it still count. */
START_TEST(damaged_lines)
{
    char text[1024];
    snprintf(text, sizeof text,
             HEAD "{\"dir\":\"d\"}\n{\"file\":\"f\"}\n{\"dir\":\"full\"}\n{\"file\":\"full/"
                  "x\"}\n%s\n{\"file\":\"last\"}\n",
             damaged[_i]);
    said = 0;
    put_record(text);
    ck_assert_uint_eq(said, 1);
    at("last");
    at("full/x");
    ck_assert_uint_eq(at("f")->size, 0);
    ck_assert_uint_eq(at("f")->n_refs, 0);
    size_t n = 0;
    for (const struct staged *x = staged_next(m->top, m->top); x; x = staged_next(m->top, x))
        n++;
    ck_assert_uint_eq(n, 5);
}
END_TEST

static void add(TCase *tc)
{
    tcase_add_checked_fixture(tc, begin, end);
    tcase_add_loop_test(tc, content_is_what_was_written, 0, 4);
    tcase_add_test(tc, numbered_files_go_with_their_last_reader);
    tcase_add_test(tc, deep_paths_are_whole);
    tcase_add_loop_test(tc, a_name_is_the_inverse_of_its_path, 0, sizeof names / sizeof names[0]);
    tcase_add_test(tc, every_kind_of_line);
    tcase_add_test(tc, compaction_changes_nothing);
    tcase_add_test(tc, batches);
    tcase_add_loop_test(tc, damaged_lines, 0, sizeof damaged / sizeof damaged[0]);
}

int main(void)
{
    return unit_run("staged", add);
}
