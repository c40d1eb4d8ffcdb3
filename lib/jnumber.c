/* SPDX-License-Identifier: MIT */
#include "jnumber.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A number while it is read: significand * 10^exponent. */
struct parts {
    uint64_t significand;
    int32_t exponent;
    bool negative;
};

static int fail(struct json *j, const char *from, const char *why)
{
    j->p = from;
    j->why = why;
    return -1;
}

static bool digit(const struct json *j)
{
    return j->p < j->end && *j->p >= '0' && *j->p <= '9';
}

static bool is(const struct json *j, char c)
{
    return j->p < j->end && *j->p == c;
}

/* Takes the digit, unless the significand would leave 64 bits. */
static bool add_digit(struct json *j, struct parts *n)
{
    uint64_t v;
    if (__builtin_mul_overflow(n->significand, 10, &v) ||
        __builtin_add_overflow(v, (uint64_t)(*j->p - '0'), &v))
        return false;
    n->significand = v;
    j->p++;
    return true;
}

/* Powers of ten as the compiler rounds them, not as repeated multiplication would. */
static double power(int32_t exponent)
{
#define TEN(p)                                                                                               \
    1e##p##0, 1e##p##1, 1e##p##2, 1e##p##3, 1e##p##4, 1e##p##5, 1e##p##6, 1e##p##7, 1e##p##8, 1e##p##9
    static const double table[309] = {TEN(0),  TEN(1),  TEN(2),  TEN(3),  TEN(4),  TEN(5),  TEN(6),  TEN(7),
                                      TEN(8),  TEN(9),  TEN(10), TEN(11), TEN(12), TEN(13), TEN(14), TEN(15),
                                      TEN(16), TEN(17), TEN(18), TEN(19), TEN(20), TEN(21), TEN(22), TEN(23),
                                      TEN(24), TEN(25), TEN(26), TEN(27), TEN(28), TEN(29), 1e300,   1e301,
                                      1e302,   1e303,   1e304,   1e305,   1e306,   1e307,   1e308};
#undef TEN
    return table[exponent];
}

/* One multiplication or division, but for the smallest numbers. */
static int to_double(struct json *j, const char *from, const struct parts *n, struct jnumber *out)
{
    double f = (double)n->significand;
    int32_t e = n->exponent;
    while (e < -308 && f != 0) {
        f /= 1e308;
        e += 308;
    }
    if (f != 0 && e > 308)
        return fail(j, from, "a number too large");
    if (f != 0)
        f = e >= 0 ? f * power(e) : f / power(-e);
    if (isinf(f))
        return fail(j, from, "a number too large");
    *out = (struct jnumber){.kind = JNUMBER_F64, .f = n->negative ? -f : f};
    return 0;
}

static int read_exponent(struct json *j, const char *from, struct parts *n, struct jnumber *out)
{
    int32_t e = 0;
    bool minus = false, over = false;
    j->p++;
    if (is(j, '+') || is(j, '-'))
        minus = *j->p++ == '-';
    if (!digit(j))
        return fail(j, j->p, "a digit expected");
    for (; digit(j); j->p++)
        over |= __builtin_mul_overflow(e, 10, &e) || __builtin_add_overflow(e, *j->p - '0', &e);
    if (over && !minus && n->significand)
        return fail(j, from, "a number too large");
    if (over)
        n->significand = 0;
    else if (minus ? __builtin_sub_overflow(n->exponent, e, &n->exponent)
                   : __builtin_add_overflow(n->exponent, e, &n->exponent))
        n->exponent = minus ? INT32_MIN : INT32_MAX;
    return to_double(j, from, n, out);
}

/* Behind the integer digits: the first digit of the fraction that does not fit ends the taking of digits. */
static int read_fraction(struct json *j, const char *from, struct parts *n, struct jnumber *out)
{
    if (is(j, '.')) {
        j->p++;
        if (!digit(j))
            return fail(j, j->p, "a digit expected");
        while (digit(j) && add_digit(j, n))
            n->exponent--;
        while (digit(j))
            j->p++;
    }
    if (is(j, 'e') || is(j, 'E'))
        return read_exponent(j, from, n, out);
    return to_double(j, from, n, out);
}

int jnumber_read(struct json *j, struct jnumber *out)
{
    struct parts n = {0};
    json_peek(j);
    const char *from = j->p;
    if (is(j, '-')) {
        n.negative = true;
        j->p++;
    }
    if (!digit(j))
        return fail(j, j->p, "a number expected");
    if (*j->p == '0') {
        j->p++;
        if (digit(j))
            return fail(j, from, "a number with a leading zero");
    }
    while (digit(j) && add_digit(j, &n))
        ;
    bool whole = true;
    for (; digit(j); j->p++, whole = false)
        if (n.exponent < INT32_MAX)
            n.exponent++;
    if (is(j, '.') || is(j, 'e') || is(j, 'E') || !whole)
        return read_fraction(j, from, &n, out);
    if (!n.negative)
        *out = (struct jnumber){.kind = JNUMBER_U64, .u = n.significand};
    else if (n.significand && n.significand <= UINT64_C(1) << 63)
        *out = (struct jnumber){.kind = JNUMBER_I64, .i = (int64_t)(0 - n.significand)};
    else
        *out = (struct jnumber){.kind = JNUMBER_F64, .f = -(double)n.significand};
    return 0;
}

double jnumber_double(const struct jnumber *n)
{
    return n->kind == JNUMBER_F64 ? n->f : n->kind == JNUMBER_U64 ? (double)n->u : (double)n->i;
}

/* digits * 10^exponent, read back: without a point, so that no locale has a say. */
static bool reads_back(uint64_t digits, int exponent, double x)
{
    char text[48];
    snprintf(text, sizeof text, "%" PRIu64 "e%d", digits, exponent);
    return strtod(text, NULL) == x;
}

/* The closest of the shortest digits that give x > 0. At a power of two the doubles below lie closer together
 * than those above, so that the rounded digits can fail where their neighbour does not. */
static int shortest(double x, uint64_t *digits)
{
    for (int precision = 0; precision < 17; precision++) {
        char text[48];
        snprintf(text, sizeof text, "%.*e", precision, x);
        const char *e = strchr(text, 'e');
        uint64_t rounded = 0;
        for (const char *p = text; p < e; p++)
            if (*p >= '0' && *p <= '9')
                rounded = rounded * 10 + (uint64_t)(*p - '0');
        int exponent = (int)strtol(e + 1, NULL, 10) - precision;
        static const int near[] = {0, 1, -1};
        for (int i = 0; i < 3; i++) {
            *digits = rounded + (uint64_t)(int64_t)near[i];
            if (reads_back(*digits, exponent, x))
                return exponent;
        }
    }
    return 0; /* not reached: 17 digits always do */
}

void jnumber_write_double(struct buf *out, double x)
{
    uint64_t value = 0;
    char digits[24];
    if (signbit(x))
        buf_char(out, '-');
    if (x == 0) {
        buf_str(out, "0.0");
        return;
    }
    int exponent = shortest(fabs(x), &value);
    for (; value % 10 == 0; exponent++)
        value /= 10;
    int n = snprintf(digits, sizeof digits, "%" PRIu64, value);
    int point = n + exponent; /* digits before the point */
    if (point - 1 < -5 || point - 1 > 15) {
        buf_printf(out, n > 1 ? "%c.%s" : "%c%s", digits[0], digits + 1);
        buf_printf(out, "e%+d", point - 1);
    } else if (point <= 0) {
        buf_printf(out, "0.%.*s%s", -point, "00000", digits);
    } else if (exponent >= 0) {
        buf_printf(out, "%s%.*s.0", digits, exponent, "0000000000000000");
    } else {
        buf_printf(out, "%.*s.%s", point, digits, digits + point);
    }
}

void jnumber_write(struct buf *out, const struct jnumber *n)
{
    switch (n->kind) {
    case JNUMBER_U64: buf_printf(out, "%" PRIu64, n->u); break;
    case JNUMBER_I64: buf_printf(out, "%" PRId64, n->i); break;
    case JNUMBER_F64: jnumber_write_double(out, n->f); break;
    }
}
