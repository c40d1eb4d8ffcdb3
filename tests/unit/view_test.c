/* SPDX-License-Identifier: MIT
 * Gathering: every element against its place by the definition of strides, whatever the range that is read.
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "source.h"
#include "support.h"
#include "view.h"

enum { RANK = 4 };

static const struct sample {
    uint32_t rank, item, swap;
    uint64_t shape[RANK], stride[RANK], offset;
} samples[] = {
    {1, 4, 0, {10}, {1}, 3},
    {1, 4, 0, {10}, {3}, 0},
    {1, 2, 2, {10}, {1}, 0},
    {1, 16, 8, {5}, {1}, 0},      /* two halves of a complex number */
    {0, 8, 0, {0}, {0}, 2},       /* a scalar */
    {2, 4, 0, {3, 4}, {1, 3}, 0}, /* transposed */
    {2, 8, 8, {3, 4}, {1, 3}, 5},
    {2, 4, 0, {1000, 800}, {1, 1000}, 0}, /* transposed, larger than what is held at once */
    {2, 4, 0, {2000, 700}, {1, 2001}, 7},
    {2, 1, 0, {700, 3000}, {1, 701}, 0},
    {2, 4, 0, {5, 1000}, {0, 1}, 0},             /* expanded rows */
    {2, 4, 0, {1000, 5}, {1, 0}, 0},             /* expanded columns */
    {3, 2, 0, {4, 1, 6}, {0, 77, 0}, 9},         /* all the same */
    {4, 4, 0, {2, 3, 5, 7}, {105, 1, 21, 3}, 0}, /* channels last */
    {4, 4, 0, {2, 64, 60, 60}, {230400, 1, 3840, 64}, 0},
    {3, 2, 0, {6, 5, 4}, {1, 6, 30}, 0},  /* reversed */
    {2, 4, 0, {100, 10}, {5000, 1}, 11},  /* rows of a wide matrix */
    {2, 4, 0, {40, 3}, {20000, 1000}, 0}, /* nothing lies close to anything */
    {2, 4, 0, {4, 4}, {1, 1}, 0},         /* overlapping windows */
    {2, 8, 0, {3, 100000}, {1, 3}, 0},
    {1, 4, 0, {500000}, {2}, 1}, /* every second one */
    {2, 2, 2, {300, 2000}, {40000, 17}, 0},
    {4, 4, 0, {2, 16, 40, 300}, {192000, 1, 16, 640}, 0},
    {3, 4, 0, {60, 70, 80}, {1, 60, 4200}, 0},
    {3, 4, 0, {200, 30, 90}, {1, 0, 200}, 0},
    {3, 4, 0, {3, 0, 2}, {1, 1, 1}, 0},
};

static uint64_t count(const struct sample *s)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < s->rank; i++)
        n *= s->shape[i];
    return n;
}

/* By definition: element number k has index (i, j, ...) and lies at offset + i * stride_i + ... */
static void expect(const struct sample *s, const unsigned char *memory, unsigned char *out)
{
    for (uint64_t k = 0; k < count(s); k++) {
        uint64_t rest = k, at = s->offset;
        for (uint32_t d = s->rank; d-- > 0; rest /= s->shape[d])
            at += rest % s->shape[d] * s->stride[d];
        for (uint32_t b = 0; b < s->item; b++) {
            uint32_t from = s->swap ? b - b % s->swap + (s->swap - 1 - b % s->swap) : b;
            out[k * s->item + b] = memory[at * s->item + from];
        }
    }
}

static struct source *source_of(const void *p, size_t len)
{
    char path[64];
    struct source *s = NULL;
    int fd = memfd_create("view", MFD_CLOEXEC);
    ck_assert_int_eq(write(fd, p, len), (ssize_t)len);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ck_assert_int_eq(source_open(path, SOURCE_MAP, &s, NULL), 0);
    close(fd);
    return s;
}

/* From memory, and from a mapped file. */
START_TEST(gathered)
{
    const struct sample *s = &samples[_i / 2];
    static const size_t pieces[] = {1 << 24, 131072, 4096, 1000, 3};
    struct arena a = {0};
    uint64_t last = s->offset, size = count(s) * s->item;
    for (uint32_t i = 0; i < s->rank; i++)
        last += s->shape[i] ? (s->shape[i] - 1) * s->stride[i] : 0;
    uint64_t bytes = (last + 1) * s->item;
    unsigned char *memory = malloc(bytes), *want = malloc(size + 1), *got = malloc(size + 1);
    for (uint64_t i = 0; i < bytes; i++)
        memory[i] = (unsigned char)(i * 31 + i / 253 + i / 65521);
    expect(s, memory, want);
    struct view v = {.memory = memory,
                     .start = s->offset * s->item,
                     .end = bytes,
                     .nbytes = size,
                     .item = s->item,
                     .swap = s->swap};
    if (_i % 2) {
        v.source = source_of(memory, bytes);
        v.memory = NULL;
    }
    ck_assert_int_eq(view_shape(&v, &a, s->rank, s->shape, s->stride), 0);
    for (size_t p = 0; p < sizeof pieces / sizeof pieces[0]; p++) {
        if (size / pieces[p] > 20000)
            continue;
        memset(got, 0xEE, size + 1);
        for (uint64_t at = 0; at < size; at += pieces[p]) {
            size_t n = size - at < pieces[p] ? (size_t)(size - at) : pieces[p];
            ck_assert_int_eq(view_fill(&v, at, got + at, n), 0);
        }
        ck_assert_mem_eq(got, want, size);
        ck_assert_uint_eq(got[size], 0xEE);
    }
    if (size > 100) { /* a storage that is shorter than was said must not be read past its end */
        v.end -= s->item;
        ck_assert_int_eq(view_fill(&v, 0, got, size), -EIO);
    }
    source_free(v.source);
    arena_free(&a);
    free(memory);
    free(want);
    free(got);
}
END_TEST

START_TEST(contiguous)
{
    const uint64_t a[] = {2, 3}, right[] = {3, 1}, wrong[] = {1, 2}, one[] = {2, 1, 3}, any[] = {3, 99, 1},
                   none[] = {0, 5};
    ck_assert(view_contiguous(2, a, right));
    ck_assert(!view_contiguous(2, a, wrong));
    ck_assert(view_contiguous(3, one, any)); /* the stride of a dimension of 1 does not matter */
    ck_assert(view_contiguous(2, none, wrong));
    ck_assert(view_contiguous(0, NULL, NULL));
}
END_TEST

static void tests(TCase *t)
{
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, gathered, 0, 2 * sizeof samples / sizeof samples[0]);
    tcase_add_test(t, contiguous);
}

int main(void)
{
    return unit_run("view", tests);
}
