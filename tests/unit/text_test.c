/* SPDX-License-Identifier: MIT
 * UTF-8, growing texts, and the form of messages. */
#include <errno.h>
#include <string.h>

#include "buf.h"
#include "checked.h"
#include "report.h"
#include "support.h"
#include "utf8.h"

#define TEXT(s) s, sizeof(s) - 1

static const struct {
    const char *text;
    size_t len, want;
} chars[] = {
    {TEXT(""), 0},
    {TEXT("a"), 1},
    {TEXT("\0"), 1},
    {TEXT("\x7F"), 1},
    {TEXT("\x80"), 0}, /* a continuation alone */
    {TEXT("\xBF"), 0},
    {TEXT("\xC0\x80"), 0}, /* overlong */
    {TEXT("\xC1\xBF"), 0},
    {TEXT("\xC2\x80"), 2}, /* U+0080 */
    {TEXT("\xC2"), 0},
    {TEXT("\xC2\x7F"), 0},
    {TEXT("\xC2\xC0"), 0},
    {TEXT("\xDF\xBF"), 2},     /* U+07FF */
    {TEXT("\xE0\x9F\xBF"), 0}, /* overlong */
    {TEXT("\xE0\xA0\x80"), 3}, /* U+0800 */
    {TEXT("\xE0\xA0"), 0},
    {TEXT("\xED\x9F\xBF"), 3},     /* U+D7FF */
    {TEXT("\xED\xA0\x80"), 0},     /* U+D800 */
    {TEXT("\xED\xBF\xBF"), 0},     /* U+DFFF */
    {TEXT("\xEE\x80\x80"), 3},     /* U+E000 */
    {TEXT("\xEF\xBF\xBF"), 3},     /* U+FFFF */
    {TEXT("\xF0\x8F\xBF\xBF"), 0}, /* overlong */
    {TEXT("\xF0\x90\x80\x80"), 4}, /* U+10000 */
    {TEXT("\xF0\x90\x80"), 0},
    {TEXT("\xF4\x8F\xBF\xBF"), 4}, /* U+10FFFF */
    {TEXT("\xF4\x90\x80\x80"), 0}, /* U+110000 */
    {TEXT("\xF5\x80\x80\x80"), 0},
    {TEXT("\xFF"), 0},
    {TEXT("\xE2\x82\xAC\x80"), 3},
};

START_TEST(utf8)
{
    ck_assert_uint_eq(utf8_char(chars[_i].text, chars[_i].len), chars[_i].want);
}
END_TEST

START_TEST(span)
{
    ck_assert_uint_eq(utf8_span(TEXT("")), 0);
    ck_assert_uint_eq(utf8_span(TEXT("a\xC3\xA9\xF0\x9F\x98\x80")), 7);
    ck_assert_uint_eq(utf8_span(TEXT("ab\xC3")), 2);
    ck_assert_uint_eq(utf8_span(TEXT("ab\xFF"
                                     "c")),
                      2);
}
END_TEST

START_TEST(arithmetic)
{
    uint64_t v;
    ck_assert(!mul_overflows(UINT64_C(1) << 32, UINT32_MAX, &v));
    ck_assert_uint_eq(v, UINT64_C(0xFFFFFFFF00000000));
    ck_assert(mul_overflows(UINT64_C(1) << 32, UINT64_C(1) << 32, &v));
    ck_assert(!add_overflows(UINT64_MAX - 1, 1, &v));
    ck_assert_uint_eq(v, UINT64_MAX);
    ck_assert(add_overflows(UINT64_MAX, 1, &v));
    ck_assert(range_fits(0, 0, 0));
    ck_assert(range_fits(3, 7, 10));
    ck_assert(range_fits(10, 0, 10));
    ck_assert(!range_fits(3, 8, 10));
    ck_assert(!range_fits(11, 0, 10));
    ck_assert(!range_fits(UINT64_MAX, 2, UINT64_MAX)); /* the sum would wrap */
    ck_assert(!range_fits(2, UINT64_MAX, 10));
}
END_TEST

static void expect(struct buf *b, const char *want, size_t len)
{
    ck_assert(!b->failed);
    ck_assert_uint_eq(b->len, len);
    ck_assert_mem_eq(b->p, want, len + 1); /* and the NUL */
    buf_free(b);
    ck_assert_ptr_null(b->p);
    ck_assert_uint_eq(b->len, 0);
}

START_TEST(adding)
{
    struct buf b = {0};
    buf_str(&b, "one");
    buf_char(&b, ' ');
    buf_add(&b, TEXT("t\0o"));
    buf_printf(&b, " %d%s", 3, "");
    buf_add(&b, "", 0);
    expect(&b, TEXT("one t\0o 3"));
}
END_TEST

/* Over every size at which it grows. */
START_TEST(growing)
{
    struct buf b = {0};
    for (size_t i = 0; i < 5000; i++) {
        if (i % 2)
            buf_char(&b, (char)('a' + i % 26));
        else
            buf_printf(&b, "%c", (int)('a' + i % 26));
        ck_assert_uint_eq(b.len, i + 1);
        ck_assert_int_eq(b.p[i + 1], 0);
    }
    for (size_t i = 0; i < 5000; i++)
        ck_assert_int_eq(b.p[i], (char)('a' + i % 26));
    buf_free(&b);
}
END_TEST

START_TEST(failed_stays_failed)
{
    struct buf b = {0};
    buf_str(&b, "kept");
    b.failed = true;
    buf_str(&b, "x");
    buf_printf(&b, "%s", "y");
    ck_assert_str_eq(b.p, "kept");
    buf_free(&b);
    buf_add(&b, "x", SIZE_MAX / 2 + 2); /* more than there can be: refused before it is read */
    ck_assert(b.failed);
    buf_free(&b);
}
END_TEST

START_TEST(shapes)
{
    struct buf b = {0};
    buf_shape(&b, NULL, 0);
    expect(&b, TEXT("[]"));
    buf_shape(&b, (uint64_t[]){0}, 1);
    expect(&b, TEXT("[0]"));
    buf_shape(&b, (uint64_t[]){4096, 11008, UINT64_MAX}, 3);
    expect(&b, TEXT("[4096,11008,18446744073709551615]"));
}
END_TEST

START_TEST(json_strings)
{
    struct buf b = {0};
    buf_json_string(&b, TEXT(""));
    expect(&b, TEXT("\"\""));
    buf_json_string(&b, TEXT("a\"b\\c/d"));
    expect(&b, TEXT("\"a\\\"b\\\\c/d\""));
    buf_json_string(&b, TEXT("\b\t\n\f\r"));
    expect(&b, TEXT("\"\\b\\t\\n\\f\\r\""));
    buf_json_string(&b, TEXT("\0\1\x0b\x1f"));
    expect(&b, TEXT("\"\\u0000\\u0001\\u000b\\u001f\""));
    buf_json_string(&b, TEXT("\x7F\xC3\xA9\xE2\x80\xA8"));
    expect(&b, TEXT("\"\x7F\xC3\xA9\xE2\x80\xA8\"")); /* raw */
}
END_TEST

START_TEST(printable)
{
    struct buf b = {0};
    buf_printable(&b, TEXT("plain \xC3\xA9 \"x\""), 0);
    expect(&b, TEXT("plain \xC3\xA9 \"x\""));
    buf_printable(&b, TEXT("\0\n\x1b[31m\x7F'\\"), 0);
    expect(&b, TEXT("\\x00\\x0a\\x1b[31m\\x7f\\x27\\x5c"));
    buf_printable(&b, TEXT("\xC2\x9B\xC2\xA0\xFF\xC3"), 0); /* CSI as a C1 character; a no-break space */
    expect(&b, TEXT("\\xc2\\x9b\xC2\xA0\\xff\\xc3"));
    buf_printable(&b, TEXT("abcdef"), 6);
    expect(&b, TEXT("abcdef"));
    buf_printable(&b, TEXT("abcdef"), 5);
    expect(&b, TEXT("abcde..."));
    buf_printable(&b,
                  TEXT("abc\xC3\xA9"
                       "f"),
                  4); /* not through the middle of a character */
    expect(&b, TEXT("abc\xC3\xA9..."));
}
END_TEST

static void forward(void *ctx, const fs_error *e)
{
    struct buf *b = ctx;
    buf_printf(b, "%s\n", e->message);
}

START_TEST(messages)
{
    struct report r = {.what = "a header"};
    ck_assert_int_eq(report_add(&r, -EBADMSG, TEXT("a\nb"), 17, "bad %d", 5), -EBADMSG);
    ck_assert_str_eq(r.first.message, "a header: 'a\\x0ab': bad 5 (byte 17)");
    ck_assert_str_eq(r.first.tensor, "a\\x0ab");
    ck_assert_int_eq(r.first.code, -EBADMSG);
    ck_assert_uint_eq(r.first.offset, 17);
    ck_assert_uint_eq(r.count, 1);
    report_fatal(&r, -EBADMSG, NULL, 0, 0, "second");
    ck_assert_uint_eq(r.first.offset, 17); /* the first stays */
    ck_assert_uint_eq(r.count, 2);
}
END_TEST

START_TEST(message_forms)
{
    struct report r = {0};
    ck_assert_int_eq(report_fatal(&r, -EIO, NULL, 0, FS_NO_OFFSET, "gone"), -EIO);
    ck_assert_str_eq(r.first.message, "gone");
    ck_assert_str_eq(r.first.tensor, "");
    ck_assert_uint_eq(r.count, 0); /* not about the content */
    r = (struct report){.what = "w"};
    report_add(&r, -ENOTSUP, "", 0, FS_NO_OFFSET, "x");
    ck_assert_str_eq(r.first.message, "w: '': x");
    ck_assert_int_eq(report_add(NULL, -EBADMSG, NULL, 0, 0, "x"), -EBADMSG);
    ck_assert_int_eq(report_fatal(NULL, -EIO, NULL, 0, 0, "x"), -EIO);
}
END_TEST

START_TEST(messages_collected)
{
    struct buf b = {0};
    struct report r = {.each = forward, .ctx = &b};
    ck_assert_int_eq(report_add(&r, -EBADMSG, NULL, 0, 1, "one"), 0); /* reading may go on */
    ck_assert_int_eq(report_add(&r, -EBADMSG, NULL, 0, 2, "two"), 0);
    ck_assert_int_eq(report_fatal(&r, -EBADMSG, NULL, 0, 3, "three"), -EBADMSG);
    ck_assert_int_eq(report_fatal(&r, -ENOMEM, NULL, 0, FS_NO_OFFSET, "no memory"), -ENOMEM);
    expect(&b, TEXT("one (byte 1)\ntwo (byte 2)\nthree (byte 3)\n"));
    ck_assert_uint_eq(r.count, 3);
    ck_assert_str_eq(r.first.message, "one (byte 1)");
}
END_TEST

/* Whatever the name, the message is one line that fits. */
START_TEST(long_names)
{
    char name[3000];
    struct report r = {.what = "a header"};
    memset(name, '\n', sizeof name);
    report_add(&r, -EBADMSG, name, sizeof name, UINT64_MAX - 1, "why");
    ck_assert_uint_eq(strlen(r.first.tensor), sizeof r.first.tensor - 1);
    ck_assert_uint_eq(strlen(r.first.message), sizeof r.first.message - 1);
    ck_assert_ptr_null(strchr(r.first.tensor, '\n'));
}
END_TEST

static void tests(TCase *tc)
{
    tcase_add_loop_test(tc, utf8, 0, sizeof chars / sizeof chars[0]);
    tcase_add_test(tc, span);
    tcase_add_test(tc, arithmetic);
    tcase_add_test(tc, adding);
    tcase_add_test(tc, growing);
    tcase_add_test(tc, failed_stays_failed);
    tcase_add_test(tc, shapes);
    tcase_add_test(tc, json_strings);
    tcase_add_test(tc, printable);
    tcase_add_test(tc, messages);
    tcase_add_test(tc, message_forms);
    tcase_add_test(tc, messages_collected);
    tcase_add_test(tc, long_names);
}

int main(void)
{
    return unit_run("text", tests);
}
