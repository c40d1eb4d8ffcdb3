/* SPDX-License-Identifier: MIT
 * Every set of names of the vectors, in both layouts: the paths, whatever the order of the names, and what is
 * found though not listed (design, section 2). */
#include <stdlib.h>
#include <string.h>

#include "support.h"
#include "tree.h"

static cJSON *sets; /* for all tests, made by main */

/* One set in one layout, in an order of its own. */
struct set {
    struct names names;
    char **path;
    size_t *path_len;
};

static struct set set_new(const cJSON *json, enum layout layout)
{
    const cJSON *list = cJSON_GetObjectItem(json, "names"), *item;
    size_t n = (size_t)cJSON_GetArraySize(list), i = 0;
    struct set s = {{calloc(n, sizeof(char *)), calloc(n, sizeof(size_t)), n},
                    calloc(n, sizeof(char *)),
                    calloc(n, sizeof(size_t))};
    cJSON_ArrayForEach(item, list)
    {
        s.names.s[i] = text_of(cJSON_GetObjectItem(item, "name"), &s.names.len[i]);
        s.path[i] =
            text_of(cJSON_GetObjectItem(item, layout == LAYOUT_TREE ? "tree" : "flat"), &s.path_len[i]);
        i++;
    }
    return s;
}

static void set_free(struct set *s)
{
    for (size_t i = 0; i < s->names.n; i++) {
        free(s->names.s[i]);
        free(s->path[i]);
    }
    free(s->names.s);
    free(s->names.len);
    free(s->path);
    free(s->path_len);
}

static void swap(struct set *s, size_t a, size_t b)
{
    struct set t = *s;
    char *name = t.names.s[a], *path = t.path[a];
    size_t len = t.names.len[a], path_len = t.path_len[a];
    t.names.s[a] = t.names.s[b];
    t.names.len[a] = t.names.len[b];
    t.path[a] = t.path[b];
    t.path_len[a] = t.path_len[b];
    t.names.s[b] = name;
    t.names.len[b] = len;
    t.path[b] = path;
    t.path_len[b] = path_len;
}

/* The same order for the same seed, on every machine. */
static void shuffle(struct set *s, uint32_t seed)
{
    for (size_t i = s->names.n; i > 1; i--) {
        seed = seed * 1664525u + 1013904223u;
        swap(s, i - 1, (seed >> 8) % i);
    }
}

static void check_paths(const struct tree *t, const struct set *s)
{
    struct buf path = {0};
    for (size_t i = 0; i < s->names.n; i++) {
        uint32_t e = (uint32_t)(t->n_dirs + i);
        path.len = 0;
        tree_path(t, e, &path);
        ck_assert_uint_eq(path.len, s->path_len[i]);
        ck_assert_mem_eq(path.p, s->path[i], path.len);
        ck_assert_uint_eq(walk(t, s->path[i], s->path_len[i]), e);
    }
    buf_free(&path);
}

/* A place where a tensor may be found: name, from `rest` on, in the directory path[0 .. dir). */
struct alias {
    size_t tensor, rest, dir;
};

static bool rule_1(const char *s, size_t len, size_t i, enum layout layout)
{
    if (s[i] == '/')
        return true;
    return layout == LAYOUT_TREE && s[i] == '.' && i > 0 && i + 1 < len &&
           !strchr("./", s[i - 1] ? s[i - 1] : 'x') && !strchr("./", s[i + 1] ? s[i + 1] : 'x');
}

/* The aliases of one tensor. The path says how many characters separate: they are the first ones that may. */
static size_t aliases_of(const struct set *s, size_t i, enum layout layout, struct alias *out)
{
    const char *name = s->names.s[i], *path = s->path[i];
    size_t n = 0, at = 0;
    out[n++] = (struct alias){i, 0, 0};
    for (size_t p = 0; p < s->path_len[i]; p++) {
        if (path[p] != '/')
            continue;
        while (!rule_1(name, s->names.len[i], at, layout))
            at++;
        out[n++] = (struct alias){i, ++at, p};
    }
    return n;
}

static bool same_place(const struct set *s, const struct alias *a, const struct alias *b)
{
    size_t rest = s->names.len[a->tensor] - a->rest;
    return a->dir == b->dir && memcmp(s->path[a->tensor], s->path[b->tensor], a->dir) == 0 &&
           rest == s->names.len[b->tensor] - b->rest &&
           memcmp(s->names.s[a->tensor] + a->rest, s->names.s[b->tensor] + b->rest, rest) == 0;
}

static bool name_below(const struct names *n, size_t a, size_t b)
{
    size_t len = n->len[a] < n->len[b] ? n->len[a] : n->len[b];
    int c = memcmp(n->s[a], n->s[b], len);
    return c < 0 || (c == 0 && n->len[a] < n->len[b]);
}

static void check_aliases(const struct tree *t, const struct set *s)
{
    struct alias *all = malloc(100 * s->names.n * sizeof *all);
    size_t n = 0;
    for (size_t i = 0; i < s->names.n; i++)
        n += aliases_of(s, i, t->layout, all + n);
    for (size_t i = 0; i < n; i++) {
        size_t want = all[i].tensor, len = s->names.len[want] - all[i].rest;
        const char *rest = s->names.s[want] + all[i].rest;
        uint32_t dir = all[i].dir ? walk(t, s->path[want], all[i].dir) : TREE_ROOT;
        if (len == 0 || memchr(rest, '/', len))
            continue; /* nobody can ask for it */
        ck_assert_uint_lt(dir, t->n_dirs);
        for (size_t j = 0; j < n; j++)
            if (same_place(s, &all[i], &all[j]) && name_below(&s->names, all[j].tensor, want))
                want = all[j].tensor;
        ck_assert_uint_eq(tree_find_raw(t, dir, rest, len), t->n_dirs + want);
    }
    free(all);
}

static void check_set(int number, enum layout layout)
{
    struct set s = set_new(cJSON_GetArrayItem(sets, number), layout);
    for (uint32_t seed = 0; seed < 20; seed++) {
        struct tree *t;
        if (seed)
            shuffle(&s, seed);
        struct model *m = model_of(&s.names);
        ck_assert_int_eq(tree_build(m, layout, &t), 0);
        check_paths(t, &s);
        check_aliases(t, &s);
        tree_free(t);
        model_free(m);
    }
    set_free(&s);
}

START_TEST(as_tree)
{
    check_set(_i, LAYOUT_TREE);
}
END_TEST

START_TEST(flat)
{
    check_set(_i, LAYOUT_FLAT);
}
END_TEST

START_TEST(all_there)
{
    int names = 0, nuls = 0;
    const cJSON *set, *item;
    cJSON_ArrayForEach(set, sets) cJSON_ArrayForEach(item, cJSON_GetObjectItem(set, "names"))
    {
        size_t len;
        char *s = text_of(cJSON_GetObjectItem(item, "name"), &len);
        names++;
        nuls += memchr(s, 0, len) != NULL;
        free(s);
    }
    ck_assert_int_ge(cJSON_GetArraySize(sets), 19);
    ck_assert_int_ge(names, 115);
    ck_assert_int_ge(nuls, 1);
}
END_TEST

static void tests(TCase *tc)
{
    int n = cJSON_GetArraySize(sets);
    tcase_add_test(tc, all_there);
    tcase_add_loop_test(tc, as_tree, 0, n);
    tcase_add_loop_test(tc, flat, 0, n);
}

int main(void)
{
    sets = json_file(VECTORS "names.json");
    int failed = unit_run("names", tests);
    cJSON_Delete(sets);
    return failed;
}
