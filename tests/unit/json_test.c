/* SPDX-License-Identifier: MIT
 * The JSON scanner: what RFC 8259 allows, what it forbids, and where the mistake is. In the tables a `^`
 * stands before the byte that an error must name. */
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "json.h"
#include "support.h"

/* The text without its mark, in memory of exactly its size, so that the sanitizers see each byte too far. */
struct sample {
    char *text;
    size_t len, mark;
};

static struct sample sample(const char *marked, size_t len)
{
    const char *at = memchr(marked, '^', len);
    struct sample s = {malloc(len ? len : 1), len - (at != NULL), at ? (size_t)(at - marked) : len};
    memcpy(s.text, marked, s.mark);
    if (at)
        memcpy(s.text + s.mark, at + 1, len - s.mark - 1);
    return s;
}

static struct json scan(const struct sample *s)
{
    return (struct json){.start = s->text, .p = s->text, .end = s->text + s->len};
}

#define TEXT(s) s, sizeof(s) - 1

static const struct {
    const char *text;
    size_t len;
    const char *want;
    size_t want_len;
} strings[] = {
    {TEXT("\"\""), TEXT("")},
    {TEXT("\"abc\""), TEXT("abc")},
    {TEXT(" \t\r\n\"abc\""), TEXT("abc")},
    {TEXT("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\""), TEXT("\"\\/\b\f\n\r\t")},
    {TEXT("\"a\\u0000b\""), TEXT("a\0b")},
    {TEXT("\"\\u0041\\u00e9\\u20AC\""), TEXT("A\xC3\xA9\xE2\x82\xAC")},
    {TEXT("\"\\uD83D\\uDE00\""), TEXT("\xF0\x9F\x98\x80")}, /* U+1F600 */
    {TEXT("\"\\ud800\\udc00\""), TEXT("\xF0\x90\x80\x80")}, /* U+10000, the first */
    {TEXT("\"\\uDBFF\\uDFFF\""), TEXT("\xF4\x8F\xBF\xBF")}, /* U+10FFFF, the last */
    {TEXT("\"\\uD7FF\\uE000\\uFFFF\""), TEXT("\xED\x9F\xBF\xEE\x80\x80\xEF\xBF\xBF")},
    {TEXT("\"\\u007f\\u0080\\u07ff\\u0800\""), TEXT("\x7F\xC2\x80\xDF\xBF\xE0\xA0\x80")},
    {TEXT("\"\xC3\xA9\x7F\""), TEXT("\xC3\xA9\x7F")},
};

START_TEST(string)
{
    struct sample s = sample(strings[_i].text, strings[_i].len);
    struct json j = scan(&s);
    struct arena a = {0};
    struct json_text out;
    ck_assert_int_eq(json_string(&j, &a, &out), 0);
    ck_assert_uint_eq(out.len, strings[_i].want_len);
    ck_assert_mem_eq(out.s, strings[_i].want, out.len + 1);
    ck_assert_uint_eq(json_at(&j), s.len);
    arena_free(&a);
    free(s.text);
}
END_TEST

static const struct {
    const char *text;
    size_t len;
    const char *why;
} bad_strings[] = {
    {TEXT("^"), "ends too early"},
    {TEXT("  ^"), "ends too early"},
    {TEXT("^abc"), "a string expected"},
    {TEXT("^'abc'"), "a string expected"},
    {TEXT("\"abc^"), "ends inside a string"},
    {TEXT("\"abc\\^"), "ends inside a string"},
    {TEXT("\"abc\\\"^"), "ends inside a string"},
    {TEXT("\"a^\nb\""), "control character"},
    {TEXT("\"a^\0b\""), "control character"},
    {TEXT("\"a^\x1f\""), "control character"},
    {TEXT("\"a^\\x41\""), "an escape that JSON has not"},
    {TEXT("\"a^\\\nb\""), "an escape that JSON has not"},
    {TEXT("\"a^\\\0b\""), "an escape that JSON has not"},
    {TEXT("\"ab^\\u12g4\""), "four hexadecimal digits"},
    {TEXT("\"ab^\\u123\""), "four hexadecimal digits"},
    {TEXT("\"ab^\\u\""), "four hexadecimal digits"},
    {TEXT("\"^\\ud800\""), "half of a surrogate pair"},
    {TEXT("\"^\\ud800x\""), "half of a surrogate pair"},
    {TEXT("\"^\\udc00\\ud800\""), "half of a surrogate pair"},
    {TEXT("\"^\\ud800\\u0041\""), "half of a surrogate pair"},
    {TEXT("\"^\\ud800\\ud800\""), "half of a surrogate pair"},
    {TEXT("\"^\\ud800\\udcg0\""), "four hexadecimal digits"},
    {TEXT("\"^\\ud800\\n1234\""), "half of a surrogate pair"},
    {TEXT("\"a^\x80\""), "not UTF-8"},
    {TEXT("\"a^\xC0\x80\""), "not UTF-8"},
    {TEXT("\"a^\xED\xA0\x80\""), "not UTF-8"},
    {TEXT("\"a^\xC3"), "not UTF-8"},
};

/* Both ways to meet a string complain about the same byte. */
START_TEST(bad_string)
{
    struct sample s = sample(bad_strings[_i].text, bad_strings[_i].len);
    struct json j = scan(&s);
    struct arena a = {0};
    struct json_text out;
    ck_assert_int_eq(json_string(&j, &a, &out), -1);
    ck_assert_ptr_nonnull(strstr(j.why, bad_strings[_i].why));
    ck_assert_uint_eq(json_at(&j), s.mark);
    arena_free(&a);
    if (s.len && s.text[0] == '"') {
        j = scan(&s);
        ck_assert_int_eq(json_skip(&j, 0), -1);
        ck_assert_ptr_nonnull(strstr(j.why, bad_strings[_i].why));
        ck_assert_uint_eq(json_at(&j), s.mark);
    }
    free(s.text);
}
END_TEST

static const struct {
    const char *text;
    size_t len;
    uint64_t want; /* with why NULL */
    const char *why;
} integers[] = {
    {TEXT("0"), 0, NULL},
    {TEXT(" 7"), 7, NULL},
    {TEXT("10"), 10, NULL},
    {TEXT("9007199254740993"), UINT64_C(9007199254740993), NULL}, /* 2^53 + 1: no double */
    {TEXT("18446744073709551615"), UINT64_MAX, NULL},
    {TEXT("^18446744073709551616"), 0, "over 2^64 - 1"},
    {TEXT("^18446744073709551620"), 0, "over 2^64 - 1"},
    {TEXT("^184467440737095516150"), 0, "over 2^64 - 1"},
    {TEXT("^99999999999999999999999999999999"), 0, "over 2^64 - 1"},
    {TEXT("^-1"), 0, "negative"},
    {TEXT("^-0"), 0, "negative"},
    {TEXT("^+1"), 0, "an integer expected"},
    {TEXT("^\"1\""), 0, "an integer expected"},
    {TEXT("^"), 0, "an integer expected"},
    {TEXT("  ^x"), 0, "an integer expected"},
    {TEXT("^00"), 0, "leading zero"},
    {TEXT("^01"), 0, "leading zero"},
    {TEXT("^1.0"), 0, "a point or an exponent"},
    {TEXT("^1e3"), 0, "a point or an exponent"},
    {TEXT("^1E3"), 0, "a point or an exponent"},
    {TEXT("^0.5"), 0, "a point or an exponent"},
};

START_TEST(integer)
{
    struct sample s = sample(integers[_i].text, integers[_i].len);
    struct json j = scan(&s);
    uint64_t v = 1;
    int err = json_u64(&j, &v);
    ck_assert_uint_eq(json_at(&j), s.mark);
    if (!integers[_i].why) {
        ck_assert_int_eq(err, 0);
        ck_assert_uint_eq(v, integers[_i].want);
    } else {
        ck_assert_int_eq(err, -1);
        ck_assert_ptr_nonnull(strstr(j.why, integers[_i].why));
    }
    free(s.text);
}
END_TEST

static const struct {
    const char *text;
    size_t len;
    const char *why; /* NULL: valid up to the mark */
} values[] = {
    {TEXT("null^,"), NULL},
    {TEXT(" true^]"), NULL},
    {TEXT("false^"), NULL},
    {TEXT("{}^"), NULL},
    {TEXT("[]^]"), NULL},
    {TEXT("[ ]^"), NULL},
    {TEXT("[[],{},[{}]]^"), NULL},
    {TEXT("{\"a\":{\"b\":[1,2,{\"c\":null}]},\"a\":\"\\u0000\"}^ "), NULL}, /* a key twice: not its affair */
    {TEXT("{ \"a\" : [ 1 , -0.5e+10 , 0 ] }^"), NULL},
    {TEXT("-0^"), NULL},
    {TEXT("1E5^"), NULL},
    {TEXT("0.25^"), NULL},
    {TEXT("1e308^"), NULL},
    {TEXT("1e-999^"), NULL},
    {TEXT("0^1"), NULL}, /* the value ends; the caller finds the 1 */
    {TEXT("^1e309"), "too large"},
    {TEXT("^-1e309"), "too large"},
    {TEXT("-^"), "a digit expected"},
    {TEXT("-^x"), "a digit expected"},
    {TEXT("1.^"), "a digit expected"},
    {TEXT("1.^e5"), "a digit expected"},
    {TEXT("1e^"), "a digit expected"},
    {TEXT("1e+^,"), "a digit expected"},
    {TEXT("^.5"), "no JSON value"},
    {TEXT("^+5"), "no JSON value"},
    {TEXT("^nul"), "no JSON value"},
    {TEXT("^NaN"), "no JSON value"},
    {TEXT("^Infinity"), "no JSON value"},
    {TEXT("^True"), "no JSON value"},
    {TEXT("^"), "no JSON value"},
    {TEXT("^\0"), "no JSON value"},
    {TEXT("^]"), "no JSON value"},
    {TEXT("^// comment"), "no JSON value"},
    {TEXT("[1,^]"), "no JSON value"},
    {TEXT("[^,1]"), "no JSON value"},
    {TEXT("[1 ^2]"), "',' or ']' expected"},
    {TEXT("[1^}"), "',' or ']' expected"},
    {TEXT("{\"a\":1^]"), "',' or '}' expected"},
    {TEXT("{\"a\":1 ^\"b\":2}"), "',' or '}' expected"},
    {TEXT("{\"a\":1,^}"), "a string expected"},
    {TEXT("{^,}"), "a string expected"},
    {TEXT("{^a:1}"), "a string expected"},
    {TEXT("{^1:1}"), "a string expected"},
    {TEXT("{\"a\"^,1}"), "':' expected"},
    {TEXT("{\"a\" ^1}"), "':' expected"},
    {TEXT("{\"a\":^}"), "no JSON value"},
    {TEXT("[[1]^"), "ends too early"},
    {TEXT("{^"), "ends too early"},
    {TEXT("[^"), "no JSON value"},
    {TEXT("{\"a\"^"), "ends too early"},
    {TEXT("{\"a\":1^"), "ends too early"},
    {TEXT("{\"a\":1,^"), "ends too early"},
};

START_TEST(skip)
{
    struct sample s = sample(values[_i].text, values[_i].len);
    struct json j = scan(&s);
    int err = json_skip(&j, 0);
    ck_assert_uint_eq(json_at(&j), s.mark);
    ck_assert_int_eq(err, values[_i].why ? -1 : 0);
    if (values[_i].why)
        ck_assert_msg(strstr(j.why, values[_i].why) != NULL, "%s", j.why);
    free(s.text);
}
END_TEST

/* n containers inside each other, in turn arrays and objects. */
static struct sample nested(unsigned n)
{
    struct buf b = {0};
    for (unsigned i = 0; i < n; i++)
        buf_str(&b, i % 2 ? "{\"k\":" : "[");
    buf_str(&b, "1");
    for (unsigned i = n; i-- > 0;)
        buf_str(&b, i % 2 ? "}" : "]");
    return (struct sample){b.p, b.len, 0};
}

START_TEST(depth)
{
    struct sample ok = nested(127), deep = nested(128);
    struct json j = scan(&ok);
    ck_assert_int_eq(json_skip(&j, 0), 0);
    ck_assert_uint_eq(json_at(&j), ok.len);
    j = scan(&deep);
    ck_assert_int_eq(json_skip(&j, 0), -1);
    ck_assert_uint_eq(json_at(&j), 64 * 1 + 63 * 5); /* the 128th opens behind 64 arrays and 63 objects */
    ck_assert_ptr_nonnull(strstr(j.why, "127"));
    free(ok.text);
    free(deep.text);
}
END_TEST

/* What lies around the value counts. */
START_TEST(depth_from_two)
{
    struct sample ok = nested(125), deep = nested(126);
    struct json j = scan(&ok);
    ck_assert_int_eq(json_skip(&j, 2), 0);
    j = scan(&deep);
    ck_assert_int_eq(json_skip(&j, 2), -1);
    j = scan(&ok);
    ck_assert_int_eq(json_skip(&j, 3), -1);
    struct sample flat = sample(TEXT("7"));
    struct json f = scan(&flat);
    ck_assert_int_eq(json_skip(&f, JSON_DEPTH), 0);
    free(flat.text);
    free(ok.text);
    free(deep.text);
}
END_TEST

/* Depth is about what is open at once. */
START_TEST(wide)
{
    struct buf b = {0};
    buf_str(&b, "[");
    for (int i = 0; i < 100000; i++)
        buf_str(&b, "[{}],");
    buf_str(&b, "{}]");
    struct sample s = {b.p, b.len, 0};
    struct json j = scan(&s);
    ck_assert_int_eq(json_skip(&j, 0), 0);
    ck_assert_uint_eq(json_at(&j), b.len);
    buf_free(&b);
}
END_TEST

START_TEST(pieces)
{
    struct sample s = sample(TEXT(" { : , null nulx"));
    struct json j = scan(&s);
    ck_assert_int_eq(json_peek(&j), '{');
    ck_assert_uint_eq(json_at(&j), 1);
    ck_assert(!json_taken(&j, '['));
    ck_assert(json_taken(&j, '{'));
    ck_assert_int_eq(json_take(&j, '}'), -1);
    ck_assert_str_eq(j.why, "',' or '}' expected");
    ck_assert_int_eq(json_take(&j, ':'), 0);
    ck_assert_int_eq(json_take(&j, ','), 0);
    ck_assert_int_eq(json_null(&j), 0);
    ck_assert_int_eq(json_end(&j), -1);
    ck_assert_uint_eq(json_at(&j), 12);
    ck_assert_int_eq(json_null(&j), -1);
    ck_assert_uint_eq(json_at(&j), 12);
    j.p = j.end;
    ck_assert_int_eq(json_end(&j), 0);
    ck_assert_int_eq(json_peek(&j), 0);
    free(s.text);
}
END_TEST

#define COUNT(table) (int)(sizeof(table) / sizeof(table)[0])

static void tests(TCase *tc)
{
    tcase_add_loop_test(tc, string, 0, COUNT(strings));
    tcase_add_loop_test(tc, bad_string, 0, COUNT(bad_strings));
    tcase_add_loop_test(tc, integer, 0, COUNT(integers));
    tcase_add_loop_test(tc, skip, 0, COUNT(values));
    tcase_add_test(tc, depth);
    tcase_add_test(tc, depth_from_two);
    tcase_add_test(tc, wide);
    tcase_add_test(tc, pieces);
}

int main(void)
{
    return unit_run("json", tests);
}
