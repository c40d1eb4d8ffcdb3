/* SPDX-License-Identifier: MIT
 * tensors.tsv, read in pieces of every kind, against text put together line by line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"
#include "tsv.h"

static const char heading[] = "path\tname\tdtype\tshape\tbytes\toffset\tsource\n";

static struct tree *tree_of(struct model *m)
{
    struct tree *t;
    ck_assert_int_eq(tree_build(m, LAYOUT_TREE, &t), 0);
    return t;
}

static void check_piece(const struct tsv *v, const struct buf *want, uint64_t off, size_t len)
{
    char *got = malloc(len ? len : 1);
    ck_assert_int_eq(tsv_fill(v, off, got, len), 0);
    ck_assert_mem_eq(got, want->p + off, len);
    free(got);
}

static void check(struct model *m, const struct buf *want)
{
    struct tree *t = tree_of(m);
    struct tsv v;
    ck_assert_int_eq(tsv_open(&v, t), 0);
    ck_assert_uint_eq(v.size, want->len);
    check_piece(&v, want, 0, want->len);
    for (uint64_t step = 997, off = 0; off < want->len; off += step)
        check_piece(&v, want, off, want->len - off < step ? (size_t)(want->len - off) : (size_t)step);
    for (uint64_t off = 0; off < want->len; off += 83) { /* from anywhere to the end, and one byte alone */
        check_piece(&v, want, off, want->len - (size_t)off);
        check_piece(&v, want, off, 1);
    }
    check_piece(&v, want, want->len - 1, 1);
    check_piece(&v, want, 5, 0);
    tsv_close(&v);
    tree_free(t);
}

static const int counts[] = {0, 1, 2, 255, 256, 257, 511, 512, 513, 600};

START_TEST(blocks)
{
    int n = counts[_i];
    char texts[600][24], *s[600];
    size_t len[600];
    struct buf want = {0};
    for (int i = 0; i < n; i++) {
        s[i] = texts[i];
        len[i] = (size_t)snprintf(texts[i], sizeof texts[i], "layers.%d.w", i);
    }
    struct model *m = model_of(&(struct names){s, len, (size_t)n});
    buf_str(&want, heading);
    for (int i = 0, at = 100; i < n; at += ++i) /* model_of: byte i + 1 long, from byte 100 on */
        buf_printf(&want, "layers/%d/w\tlayers.%d.w\tU8\t[%d]\t%d\t%d\t%s\n", i, i, i + 1, i + 1, at,
                   m->source->name);
    check(m, &want);
    buf_free(&want);
    model_free(m);
}
END_TEST

START_TEST(escaped)
{
    char tab[] = "a\tb", line[] = "c\nd.e", back[] = "f\\g", cr[] = "h\ri", nul[] = "j\0k";
    char *s[] = {tab, line, back, cr, nul};
    size_t len[] = {3, 5, 3, 3, 3};
    struct model *m = model_of(&(struct names){s, len, 5});
    struct buf want = {0};
    free(m->source->name);
    m->source->name = strdup("my\tfile\\\n");
    buf_str(&want, heading);
    buf_str(&want, "a%09b\ta\\tb\tU8\t[1]\t1\t100\tmy\\tfile\\\\\\n\n");
    buf_str(&want, "c%0Ad/e\tc\\nd.e\tU8\t[2]\t2\t101\tmy\\tfile\\\\\\n\n");
    buf_str(&want, "f\\\\g\tf\\\\g\tU8\t[3]\t3\t103\tmy\\tfile\\\\\\n\n");
    buf_str(&want, "h%0Di\th\ri\tU8\t[4]\t4\t106\tmy\\tfile\\\\\\n\n");
    buf_str(&want, "j%00k\tj");
    buf_add(&want, "\0", 1);
    buf_str(&want, "k\tU8\t[5]\t5\t110\tmy\\tfile\\\\\\n\n");
    check(m, &want);
    buf_free(&want);
    model_free(m);
}
END_TEST

START_TEST(shapes)
{
    char name[] = "w", *s[] = {name};
    struct model *m = model_of(&(struct names){s, (size_t[]){1}, 1});
    struct buf want = {0};
    static const uint64_t shape[] = {2, 3, 4};
    m->tensors[0].shape = shape;
    m->tensors[0].rank = 3;
    m->tensors[0].dtype = TM_BF16;
    m->tensors[0].nbytes = 48;
    buf_printf(&want, "%sw\tw\tBF16\t[2,3,4]\t48\t100\t%s\n", heading, m->source->name);
    check(m, &want);
    m->tensors[0].rank = 0;
    m->tensors[0].nbytes = 2;
    want.len = 0;
    buf_printf(&want, "%sw\tw\tBF16\t[]\t2\t100\t%s\n", heading, m->source->name);
    check(m, &want);
    buf_free(&want);
    model_free(m);
}
END_TEST

static void tests(TCase *tc)
{
    tcase_add_loop_test(tc, blocks, 0, sizeof counts / sizeof counts[0]);
    tcase_add_test(tc, escaped);
    tcase_add_test(tc, shapes);
}

int main(void)
{
    return unit_run("tsv", tests);
}
