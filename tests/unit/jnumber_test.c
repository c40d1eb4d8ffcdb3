/* SPDX-License-Identifier: MIT
 * Numbers as the ThinTensor tool reads and writes them: the examples of its description; every power of two,
 * whose shortest digits are those that Python gives; rules on the borders. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jnumber.h"
#include "support.h"

/* What a text is read as, written again; NULL: it is no number, or too large. */
static const struct {
    const char *text, *written;
} numbers[] = {
    {"0.70710678118654752440", "0.7071067811865475"},
    {"3.4028234663852886e38", "3.402823466385289e+38"},
    {"10000.0", "10000.0"},
    {"1e-5", "0.00001"},
    {"0.25", "0.25"},
    {"1000000000000000.0", "1000000000000000.0"},
    {"1e-6", "1e-6"},
    {"1e16", "1e+16"},
    {"1.5e300", "1.5e+300"},
    {"0.0", "0.0"},
    {"-0.0", "-0.0"},
    {"-0", "-0.0"},
    {"0", "0"},
    {"-7", "-7"},
    {"18446744073709551615", "18446744073709551615"},
    {"18446744073709551616", "1.8446744073709552e+19"},
    {"-9223372036854775808", "-9223372036854775808"},
    {"-9223372036854775809", "-9.223372036854776e+18"},
    {"1E5", "100000.0"},
    {"1e+2", "100.0"},
    {"0e400", "0.0"},
    {"1e-400", "0.0"},
    {"0e99999999999", "0.0"},
    {"1e-99999999999", "0.0"},
    {"1e309", NULL},
    {"1e400", NULL},
    {"1e99999999999", NULL},
    {"01", NULL},
    {"-01", NULL},
    {"-", NULL},
    {"1.", NULL},
    {"1.e5", NULL},
    {"1e", NULL},
    {"1e+", NULL},
    {".5", NULL},
    {"+1", NULL},
    {"", NULL},
};

START_TEST(examples)
{
    const char *text = numbers[_i].text;
    struct json j = {.start = text, .p = text, .end = text + strlen(text)};
    struct jnumber n;
    struct buf out = {0};
    int err = jnumber_read(&j, &n);
    ck_assert_int_eq(err, numbers[_i].written ? 0 : -1);
    if (err < 0) {
        ck_assert_ptr_nonnull(j.why);
        return;
    }
    ck_assert_ptr_eq(j.p, j.end);
    jnumber_write(&out, &n);
    ck_assert_str_eq(out.p, numbers[_i].written);
    buf_free(&out);
}
END_TEST

START_TEST(powers_of_two)
{
    size_t len;
    char *all = read_whole("tests/fixtures/powers_of_two.txt", &len), *line = all;
    for (int e = -1074; e < 1024; e++) {
        char *end = strchr(line, '\n');
        struct buf out = {0};
        ck_assert_ptr_nonnull(end);
        *end = 0;
        jnumber_write_double(&out, ldexp(1, e));
        ck_assert_msg(strcmp(out.p, line) == 0, "2^%d: %s, not %s", e, out.p, line);
        buf_free(&out);
        line = end + 1;
    }
    ck_assert_int_eq(*line, 0);
    free(all);
}
END_TEST

START_TEST(extremes)
{
    static const struct {
        double x;
        const char *text;
    } all[] = {{DBL_MAX, "1.7976931348623157e+308"},
               {-DBL_MIN, "-2.2250738585072014e-308"},
               {0.1, "0.1"},
               {9007199254740993.0, "9007199254740992.0"},
               {123456.75, "123456.75"},
               {1e15, "1000000000000000.0"}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct buf out = {0};
        jnumber_write_double(&out, all[i].x);
        ck_assert_str_eq(out.p, all[i].text);
        buf_free(&out);
    }
}
END_TEST

static void tests(TCase *tc)
{
    tcase_add_loop_test(tc, examples, 0, sizeof numbers / sizeof numbers[0]);
    tcase_add_test(tc, powers_of_two);
    tcase_add_test(tc, extremes);
}

int main(void)
{
    return unit_run("jnumber", tests);
}
