/* SPDX-License-Identifier: MIT
 * The hash index and the arena. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "index.h"
#include "support.h"

enum { MANY = 50000 };

static char key_text[32];

static size_t key_of(uint32_t number)
{
    return (size_t)snprintf(key_text, sizeof key_text, "layers.%u.weight", number);
}

/* Number n + MANY is another thing with the key of n. */
static bool equal(const void *ctx, uint32_t number, const void *key, size_t len)
{
    char text[32];
    size_t n = (size_t)snprintf(text, sizeof text, "layers.%u.weight", number % MANY);
    ck_assert_str_eq(ctx, "context");
    return n == len && memcmp(text, key, len) == 0;
}

static uint32_t find(const struct index *x, uint32_t number)
{
    size_t len = key_of(number);
    return index_find(x, hash_bytes(0, key_text, len), equal, "context", key_text, len);
}

static void fill(struct index *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        ck_assert_uint_eq(find(x, i), INDEX_NONE);
        size_t len = key_of(i);
        ck_assert_int_eq(index_add(x, hash_bytes(0, key_text, len), i), 0);
    }
}

START_TEST(many)
{
    struct index x = {0};
    index_init();
    fill(&x, MANY);
    ck_assert_uint_eq(x.used, MANY);
    for (uint32_t i = 0; i < MANY; i++)
        ck_assert_uint_eq(find(&x, i), i);
    ck_assert_uint_eq(find(&x, MANY), INDEX_NONE);
    index_free(&x);
    ck_assert_uint_eq(find(&x, 1), INDEX_NONE);
}
END_TEST

START_TEST(replace)
{
    struct index x = {0};
    index_init();
    fill(&x, 1000);
    for (uint32_t i = 0; i < 1000; i += 3) {
        size_t len = key_of(i);
        index_replace(&x, hash_bytes(0, key_text, len), i, i + MANY);
    }
    for (uint32_t i = 0; i < 1000; i++)
        ck_assert_uint_eq(find(&x, i), i % 3 ? i : i + MANY);
    ck_assert_uint_eq(x.used, 1000);
    index_free(&x);
}
END_TEST

/* Small tables are wiped, large ones let go; both are then as new. */
START_TEST(clear)
{
    struct index x = {0};
    index_init();
    index_clear(&x);
    for (uint32_t n = 1; n < 5000; n *= 3) {
        fill(&x, n);
        index_clear(&x);
        ck_assert_uint_eq(x.used, 0);
        for (uint32_t i = 0; i < n; i++)
            ck_assert_uint_eq(find(&x, i), INDEX_NONE);
    }
    fill(&x, 10);
    ck_assert_uint_eq(find(&x, 9), 9);
    index_free(&x);
}
END_TEST

/* Things of one hash are told apart by their keys. */
START_TEST(same_hash)
{
    struct index x = {0};
    index_init();
    for (uint32_t i = 0; i < 300; i++)
        ck_assert_int_eq(index_add(&x, 12345, i), 0);
    for (uint32_t i = 0; i < 300; i++) {
        size_t len = key_of(i);
        ck_assert_uint_eq(index_find(&x, 12345, equal, "context", key_text, len), i);
    }
    size_t len = key_of(300);
    ck_assert_uint_eq(index_find(&x, 12345, equal, "context", key_text, len), INDEX_NONE);
    index_free(&x);
}
END_TEST

START_TEST(hash_of_prefix)
{
    static const char text[] = "model.layers.0\0.\xFF/weight";
    size_t len = sizeof text - 1;
    index_init();
    uint64_t whole = hash_bytes(0, text, len);
    for (size_t i = 0; i <= len; i++)
        ck_assert_uint_eq(hash_bytes(hash_bytes(0, text, i), text + i, len - i), whole);
    ck_assert_uint_eq(hash_bytes(77, text, 0), 77);
    ck_assert_uint_lt(whole, HASH_PRIME);
    /* NULs and length count */
    ck_assert_uint_ne(hash_bytes(0, "a\0", 2), hash_bytes(0, "a", 1));
    ck_assert_uint_ne(hash_bytes(0, "\0", 1), hash_bytes(0, "", 0));
    ck_assert_uint_ne(hash_bytes(0, "ab", 2), hash_bytes(0, "ba", 2));
}
END_TEST

/* The polynomial itself, with numbers whose products are known. */
START_TEST(hash_arithmetic)
{
    index_init();
    uint64_t drawn = hash_base;
    ck_assert_uint_ge(drawn, 0x10000);
    ck_assert_uint_lt(drawn, HASH_PRIME);
    index_init();
    ck_assert_uint_eq(hash_base, drawn); /* once for all */
    hash_base = UINT64_C(1) << 60;
    ck_assert_uint_eq(hash_step(2, 0), 2); /* 2^61 + 1 = 1 + 1 */
    ck_assert_uint_eq(hash_step(0, 255), 256);
    ck_assert_uint_eq(hash_step(1, 4), (UINT64_C(1) << 60) + 5);
    hash_base = HASH_PRIME - 1;                         /* -1 */
    ck_assert_uint_eq(hash_step(1, 0), 0);              /* -1 + 1 */
    ck_assert_uint_eq(hash_step(HASH_PRIME - 1, 0), 2); /* 1 + 1 */
    ck_assert_uint_eq(hash_step(5, 9), 5);              /* -5 + 10 */
    hash_base = drawn;
}
END_TEST

START_TEST(arena)
{
    struct arena a = {0};
    char *text[2000];
    for (size_t i = 0; i < 2000; i++) {
        size_t len = key_of((uint32_t)i);
        text[i] = arena_text(&a, key_text, len);
        uint64_t *n = arena_alloc(&a, i % 7 * sizeof *n, 1);
        ck_assert_ptr_nonnull(n);
        ck_assert_uint_eq((uintptr_t)n % _Alignof(max_align_t), 0);
        memset(n, 0xEE, i % 7 * sizeof *n);
    }
    for (size_t i = 0; i < 2000; i++) {
        key_of((uint32_t)i);
        ck_assert_str_eq(text[i], key_text);
    }
    arena_free(&a);
    ck_assert_ptr_null(a.top);
}
END_TEST

START_TEST(arena_large)
{
    struct arena a = {0};
    char *small = arena_text(&a, "small", 5), *p = arena_alloc(&a, 5 << 20, 0);
    ck_assert_ptr_nonnull(p);
    memset(p, 1, 5 << 20);
    ck_assert_str_eq(small, "small");
    ck_assert_str_eq(arena_text(&a, "", 0), "");
    ck_assert_ptr_null(arena_alloc(&a, SIZE_MAX, 1));
    ck_assert_ptr_null(arena_alloc(&a, SIZE_MAX - 16, 0));
    ck_assert_ptr_null(arena_text(&a, "x", SIZE_MAX));
    ck_assert_str_eq(small, "small");
    arena_free(&a);
}
END_TEST

START_TEST(arena_reused)
{
    struct arena a = {0};
    arena_reset(&a);
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < 1000; i++)
            ck_assert_str_eq(arena_text(&a, "some text of some length", 24), "some text of some length");
        arena_reset(&a);
        ck_assert_ptr_nonnull(a.top);
    }
    arena_free(&a);
}
END_TEST

static void tests(TCase *tc)
{
    tcase_add_test(tc, many);
    tcase_add_test(tc, replace);
    tcase_add_test(tc, clear);
    tcase_add_test(tc, same_hash);
    tcase_add_test(tc, hash_of_prefix);
    tcase_add_test(tc, hash_arithmetic);
    tcase_add_test(tc, arena);
    tcase_add_test(tc, arena_large);
    tcase_add_test(tc, arena_reused);
}

int main(void)
{
    return unit_run("index", tests);
}
