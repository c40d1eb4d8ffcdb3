/* SPDX-License-Identifier: MIT
 * The tree where names are made to hurt: equal hashes, very many of them, very long ones. What the design
 * says about ordinary names is in names_test. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"
#include "tree.h"

/* The test vectors of FNV's authors. */
START_TEST(fnv)
{
    ck_assert_uint_eq(name_fnv("", 0), UINT64_C(0xcbf29ce484222325));
    ck_assert_uint_eq(name_fnv("a", 1), UINT64_C(0xaf63dc4c8601ec8c));
    ck_assert_uint_eq(name_fnv("foobar", 6), UINT64_C(0x85944171f73967e8));
}
END_TEST

/* Behind 230 times "p" and any choice of the pairs before, either text of a pair leaves FNV-1a in the same
 * state (found with a short vector of the lattice of the multiplier's powers). */
static const char pairs[17][2][15] = {
    {"Xs79QN_YsG6GHD", "UB3454J8YZIZUK"}, {"vG17OTt1OO1sOs", "uL14SJs0YR8Trp"},
    {"1E76YIRKX33GLB", "2r37UIuFtd8BAA"}, {"pxA81Zx3Y60MJx", "wSACqXc6sc9BAe"},
    {"3G02NKI4MF8sdD", "0LP5D7R5w31Tg9"}, {"7S68XJCBVB9WxJ", "4x23JLNEnO22UI"},
    {"y649XZU7ll7_sD", "dO44NXN0P18BlA"}, {"LYI64qMOiH2JRG", "ItI5z1Z4_W97ez"},
    {"cF62S6Y6d59nRg", "fO297t23hz2kMb"}, {"IL01VUH1Q1AdRv", "ty044YQRcbF9Ek"},
    {"VtT5RIT8DG0pQx", "KA400EEYP09WZe"}, {"jAB3FUJ0OTTmp4", "gTF88UE7Y_7he3"},
    {"oXJ4nJbHDa921s", "rmF74Xw9H26oDp"}, {"IAY0Pu94QN5Jdy", "JN95N9P_cED5Qz"},
    {"3W064WJW_O8xTp", "0lP1nSA2IB7UGu"}, {"RiD6Gz70ndXxsi", "WdL7K4ZW611SXl"},
    {"bM297tG7fH8FAz", "eF64K2J22G7CLy"},
};

static struct names names_new(size_t n)
{
    return (struct names){calloc(n, sizeof(char *)), calloc(n, sizeof(size_t)), n};
}

static void names_free(struct names *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->s[i]);
    free(s->s);
    free(s->len);
}

/* All 2^bits names of one hash. */
static struct names colliding(unsigned bits)
{
    struct names s = names_new((size_t)1 << bits);
    for (size_t i = 0; i < s.n; i++) {
        s.len[i] = 230 + 14 * bits;
        s.s[i] = malloc(s.len[i] + 1);
        memset(s.s[i], 'p', 230);
        for (unsigned b = 0; b < bits; b++)
            memcpy(s.s[i] + 230 + 14 * b, pairs[b][i >> b & 1], 15);
    }
    return s;
}

static void path_of(const struct tree *t, size_t i, struct buf *path)
{
    path->len = 0;
    tree_path(t, (uint32_t)(t->n_dirs + i), path);
}

static struct tree *built(struct model *m, enum layout layout)
{
    struct tree *t = NULL;
    ck_assert_int_eq(tree_build(m, layout, &t), 0);
    return t;
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The smallest keeps the path; the others take the numbers behind the hash, in the order of their names. */
START_TEST(equal_hashes)
{
    struct names s = colliding(5);
    struct buf path = {0};
    char *sorted[32];
    memcpy(sorted, s.s, sizeof sorted);
    qsort(sorted, 32, sizeof sorted[0], compare);
    uint64_t hash = name_fnv(s.s[0], s.len[0]);
    struct model *m = model_of(&s);
    struct tree *t = built(m, LAYOUT_TREE);
    for (size_t i = 0; i < 32; i++) {
        char want[256];
        size_t rank = 0;
        ck_assert_uint_eq(name_fnv(s.s[i], s.len[i]), hash);
        while (strcmp(sorted[rank], s.s[i]) != 0)
            rank++;
        memset(want, 'p', 230);
        snprintf(want + 230, 20, "%%~%016llx", (unsigned long long)(hash + rank));
        path_of(t, i, &path);
        ck_assert_str_eq(path.p, want);
    }
    buf_free(&path);
    tree_free(t);
    model_free(m);
    names_free(&s);
}
END_TEST

/* So many that passing all before each one would take hours. */
START_TEST(very_many_equal_hashes)
{
    struct names s = colliding(15);
    size_t wrong = 0; /* counted: so many assertions take Check minutes */
    struct model *m = model_of(&s);
    struct tree *t = built(m, LAYOUT_TREE);
    struct buf path = {0};
    for (size_t i = 0; i < s.n; i++) {
        path_of(t, i, &path);
        wrong += path.len != 248 || walk(t, path.p, path.len) != t->n_dirs + i; /* all different */
    }
    ck_assert_uint_eq(wrong, 0);
    ck_assert_uint_eq(t->n_dirs, 1);
    buf_free(&path);
    tree_free(t);
    model_free(m);
    names_free(&s);
}
END_TEST

/* x.b and x/b: one of each pair has to give way. */
START_TEST(many_pairs)
{
    enum { PAIRS = 100000 };
    struct names s = names_new(2 * PAIRS);
    size_t wrong = 0;
    struct buf path = {0};
    for (size_t i = 0; i < s.n; i++) {
        s.s[i] = malloc(16);
        s.len[i] = (size_t)snprintf(s.s[i], 16, i % 2 ? "%zu.b" : "%zu/b", i / 2);
    }
    struct model *m = model_of(&s);
    struct tree *t = built(m, LAYOUT_TREE);
    ck_assert_uint_eq(t->n_dirs, 1 + PAIRS);
    for (size_t i = 0; i < s.n; i++) {
        char want[64];
        size_t n = (size_t)snprintf(want, sizeof want, "%zu/b", i / 2);
        if (i % 2 == 0)
            snprintf(want + n, sizeof want - n, "%%~%016llx", (unsigned long long)name_fnv(s.s[i], s.len[i]));
        path_of(t, i, &path);
        wrong += strcmp(path.p, want) != 0;
    }
    ck_assert_uint_eq(wrong, 0);
    buf_free(&path);
    tree_free(t);
    model_free(m);
    names_free(&s);
}
END_TEST

/* "a.a.a. ...", 5 MB of it, and its sibling at the very end. */
START_TEST(very_deep)
{
    enum { LEN = 5000001 };
    struct names s = names_new(2);
    struct buf path = {0};
    for (size_t i = 0; i < 2; i++) {
        s.len[i] = LEN;
        s.s[i] = malloc(LEN + 1);
        for (size_t j = 0; j < LEN; j++)
            s.s[i][j] = j % 2 ? '.' : 'a';
        s.s[i][LEN - 1] = (char)('a' + i);
    }
    struct model *m = model_of(&s);
    struct tree *t = built(m, LAYOUT_TREE);
    ck_assert_uint_eq(t->n_dirs, 1 + LEN / 2);
    for (size_t i = 0; i < 2; i++) {
        path_of(t, i, &path);
        ck_assert_uint_eq(path.len, LEN);
        ck_assert_uint_eq(walk(t, path.p, path.len), t->n_dirs + i);
        ck_assert_uint_eq(tree_find_raw(t, TREE_ROOT, s.s[i], LEN), t->n_dirs + i);
    }
    tree_free(t);
    t = built(m, LAYOUT_FLAT);
    ck_assert_uint_eq(t->n_dirs, 1);
    path_of(t, 1, &path);
    ck_assert_uint_eq(path.len, 248);
    tree_free(t);
    buf_free(&path);
    model_free(m);
    names_free(&s);
}
END_TEST

/* Names that are nothing but separators. */
START_TEST(only_separators)
{
    enum { LEN = 300000 };
    static const char chars[] = {'.', '/', '%'};
    for (int layout = LAYOUT_TREE; layout <= LAYOUT_FLAT; layout++)
        for (int c = 0; c < 3; c++) {
            struct names s = names_new(1);
            struct buf path = {0};
            s.len[0] = LEN;
            s.s[0] = malloc(LEN + 1);
            memset(s.s[0], chars[c], LEN);
            s.s[0][LEN] = 0;
            struct model *m = model_of(&s);
            struct tree *t = built(m, (enum layout)layout);
            path_of(t, 0, &path);
            /* dots: one component, cut; slashes: LEN + 1 empty components, "%" each; percents: one, cut,
             * where 76 whole "%25" go into 230 bytes */
            ck_assert_uint_eq(path.len, c == 1 ? 2 * LEN + 1 : c == 0 ? 248 : 76 * 3 + 18);
            ck_assert_uint_eq(walk(t, path.p, path.len), t->n_dirs);
            buf_free(&path);
            tree_free(t);
            model_free(m);
            names_free(&s);
        }
}
END_TEST

START_TEST(nothing)
{
    struct names s = names_new(0);
    struct model *m = model_of(&s);
    struct tree *t = built(m, LAYOUT_TREE);
    ck_assert_uint_eq(t->n_dirs, 1);
    ck_assert_uint_eq(t->dir[TREE_ROOT].first, 0);
    ck_assert_uint_eq(t->blocks, 0);
    ck_assert_uint_eq(tree_find(t, TREE_ROOT, "a", 1), INDEX_NONE);
    ck_assert_uint_eq(tree_find_raw(t, TREE_ROOT, "a", 1), INDEX_NONE);
    tree_free(t);
    tree_free(NULL);
    model_free(m);
    names_free(&s);
}
END_TEST

static void tests(TCase *tc)
{
    tcase_add_test(tc, fnv);
    tcase_add_test(tc, equal_hashes);
    tcase_add_test(tc, very_many_equal_hashes);
    tcase_add_test(tc, many_pairs);
    tcase_add_test(tc, very_deep);
    tcase_add_test(tc, only_separators);
    tcase_add_test(tc, nothing);
}

int main(void)
{
    return unit_run("tree", tests);
}
