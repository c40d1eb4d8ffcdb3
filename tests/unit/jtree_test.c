/* SPDX-License-Identifier: MIT
 * JSON trees: what is read is written with sorted keys, two spaces a level; what breaks a rule is refused. */
#include <stdlib.h>
#include <string.h>

#include "jtree.h"
#include "support.h"

static const struct {
    const char *text, *written; /* NULL: refused */
    int ignored;                /* does skipping it succeed? */
} texts[] = {
    {"{}", "{}", 1},
    {" [ ] ", "[]", 1},
    {"null", "null", 1},
    {"[true,false,null]", "[\n  true,\n  false,\n  null\n]", 1},
    {"{\"b\":1,\"a\":{\"d\":[],\"c\":{}}}",
     "{\n  \"a\": {\n    \"c\": {},\n    \"d\": []\n  },\n  \"b\": 1\n}", 1},
    {"{\"a\":1,\"b\":2,\"a\":[3]}", "{\n  \"a\": [\n    3\n  ],\n  \"b\": 2\n}", 1},
    {"{\"a\":1,\"ab\":2,\"\":0}", "{\n  \"\": 0,\n  \"a\": 1,\n  \"ab\": 2\n}", 1},
    {"\"\\u00e9\\ud83d\\ude00\\/\\n\"", "\"\xc3\xa9\xf0\x9f\x98\x80/\\n\"", 1},
    {"\"\\u007f\\u001f\"", "\"\x7f\\u001f\"", 1},
    {"[1.50,-0,2]", "[\n  1.5,\n  -0.0,\n  2\n]", 1},
    {"", NULL, 0},
    {"[1,]", NULL, 0},
    {"{\"a\":1,}", NULL, 0},
    {"{\"a\" 1}", NULL, 0},
    {"{a:1}", NULL, 0},
    {"[1] 2", NULL, 0},
    {"[1", NULL, 0},
    {"[01]", NULL, 0},
    {"\"\t\"", NULL, 0},
    {"\"\\x\"", NULL, 0},
    {"\"\\u12g4\"", NULL, 0},
    {"\xef\xbb\xbf[]", NULL, 0},
    {"nul", NULL, 0},
    {"\"\\ud800\"", NULL, 1}, /* what nobody reads may be wrong in these ways */
    {"\"\xff\"", NULL, 1},
    {"1e999", NULL, 1},
};

START_TEST(rules)
{
    const char *text = texts[_i].text;
    struct arena a = {0};
    struct buf out = {0};
    struct json j = {.start = text, .p = text, .end = text + strlen(text)}, k = j;
    const struct jvalue *v = jtree_document(&j, &a);
    ck_assert_msg((v != NULL) == (texts[_i].written != NULL), "%s", text);
    if (v) {
        ck_assert_int_eq(jtree_write(&out, v, 0), 0);
        ck_assert_str_eq(out.p, texts[_i].written);
    }
    ck_assert_int_eq(jtree_ignore(&k) == 0 && json_end(&k) == 0, texts[_i].ignored);
    buf_free(&out);
    arena_free(&a);
}
END_TEST

/* 127 containers inside each other, and no more; what is skipped may be as deep as it likes. */
START_TEST(depth)
{
    enum { DEEP = 100000 };
    char *text = malloc(2 * DEEP);
    ck_assert_ptr_nonnull(text);
    static const size_t depths[] = {1, 127, 128, DEEP};
    for (size_t i = 0; i < 4; i++) {
        size_t n = depths[i];
        struct arena a = {0};
        memset(text, '[', n);
        memset(text + n, ']', n);
        struct json j = {.start = text, .p = text, .end = text + 2 * n}, k = j, inner = j;
        ck_assert_int_eq(jtree_document(&j, &a) != NULL, n <= 127);
        ck_assert_int_eq(jtree_read(&inner, &a, 1) != NULL, n <= 126);
        ck_assert_int_eq(jtree_ignore(&k), 0);
        arena_free(&a);
    }
    free(text);
}
END_TEST

START_TEST(lookup)
{
    static const char text[] = "{\"b\":1,\"aa\":2,\"a\":3,\"c\":{\"x\":4}}";
    struct arena a = {0};
    struct json j = {.start = text, .p = text, .end = text + sizeof text - 1};
    const struct jvalue *v = jtree_document(&j, &a);
    ck_assert_uint_eq(jtree_get(v, "a")->number.u, 3);
    ck_assert_uint_eq(jtree_get(v, "aa")->number.u, 2);
    ck_assert_uint_eq(jtree_get(v, "b")->number.u, 1);
    ck_assert_uint_eq(jtree_get(jtree_get(v, "c"), "x")->number.u, 4);
    ck_assert_ptr_null(jtree_get(v, "x"));
    ck_assert_ptr_null(jtree_get(jtree_get(v, "a"), "x"));
    ck_assert_ptr_null(jtree_get(NULL, "x"));
    arena_free(&a);
}
END_TEST

static void tests(TCase *tc)
{
    tcase_add_loop_test(tc, rules, 0, sizeof texts / sizeof texts[0]);
    tcase_add_test(tc, depth);
    tcase_add_test(tc, lookup);
}

int main(void)
{
    return unit_run("jtree", tests);
}
