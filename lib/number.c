/* SPDX-License-Identifier: MIT */
#include "number.h"

#include <ctype.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DECIMAL = 64 };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static locale_t plain; /* kept for good */

static void make_plain(void)
{
    plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

static double to_float(const char *s, char **end)
{
    pthread_once(&once, make_plain);
    return plain ? strtod_l(s, end, plain) : strtod(s, end);
}

/* The digits and the decimal exponent of |f|, which is finite and not 0. */
static int shortest(double f, char digits[18], int *exponent)
{
    char text[40], clean[40];
    int n = 0;
    for (int precision = 0; precision < 17; precision++) {
        snprintf(text, sizeof text, "%.*e", precision, f);
        /* The point may be another character, or several, where the locale says so. */
        const char *e = strchr(text, 'e');
        n = 0;
        for (const char *p = text; p < e; p++)
            if (isdigit((unsigned char)*p))
                digits[n++] = *p;
        digits[n] = 0;
        *exponent = atoi(e + 1);
        snprintf(clean, sizeof clean, "%c.%se%d", digits[0], digits + 1, *exponent);
        if (to_float(clean, NULL) == f)
            break;
    }
    while (n > 1 && digits[n - 1] == '0')
        n--;
    digits[n] = 0;
    return n;
}

void buf_float(struct buf *b, double f)
{
    char digits[18];
    int exponent = 0;
    if (isnan(f) || isinf(f)) {
        buf_str(b, isnan(f) ? "nan" : f < 0 ? "-inf" : "inf");
        return;
    }
    if (signbit(f))
        buf_char(b, '-');
    if (f == 0) {
        buf_str(b, "0.0");
        return;
    }
    int n = shortest(fabs(f), digits, &exponent);
    if (exponent < -4 || exponent >= 16) {
        buf_char(b, digits[0]);
        if (n > 1)
            buf_printf(b, ".%s", digits + 1);
        buf_printf(b, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
        return;
    }
    if (exponent < 0)
        buf_str(b, "0.");
    for (int i = exponent < 0 ? exponent + 1 : 0; i < n || i <= exponent; i++) {
        buf_char(b, i < 0 || i >= n ? '0' : digits[i]);
        if (i == exponent)
            buf_str(b, n > exponent + 1 ? "." : ".0");
    }
}

void buf_big(struct buf *b, const unsigned char *p, size_t n)
{
    char *text = malloc(n * 3 + 2);
    unsigned char *left = malloc(n + 1);
    bool negative = n && (p[n - 1] & 0x80);
    size_t len = 0;
    if (!text || !left) {
        b->failed = true;
        goto out;
    }
    unsigned carry = negative;
    for (size_t i = 0; i < n; i++) {
        carry += negative ? (unsigned char)~p[i] : p[i];
        left[i] = (unsigned char)carry;
        carry >>= 8;
    }
    left[n] = (unsigned char)carry;
    if (n > DECIMAL) {
        buf_str(b, negative ? "-0x" : "0x");
        for (size_t i = n + 1; i-- > 0;)
            buf_printf(b, "%02x", left[i]);
        goto out;
    }
    for (size_t most = n + 1; most;) { /* divide by ten again and again, from the top */
        unsigned rest = 0;
        for (size_t i = most; i-- > 0;) {
            rest = rest << 8 | left[i];
            left[i] = (unsigned char)(rest / 10);
            rest %= 10;
        }
        text[len++] = (char)('0' + rest);
        while (most && left[most - 1] == 0)
            most--;
    }
    if (negative)
        buf_char(b, '-');
    while (len > 1 && text[len - 1] == '0')
        len--;
    while (len)
        buf_char(b, text[--len]);
out:
    free(text);
    free(left);
}

int number_float(const char *s, size_t len, double *f)
{
    char text[512], *end;
    if (len == 0 || len >= sizeof text || memchr(s, 0, len) || memchr(s, 'x', len) || memchr(s, 'X', len) ||
        memchr(s, '(', len) || isspace((unsigned char)s[0]))
        return -1;
    memcpy(text, s, len);
    text[len] = 0;
    *f = to_float(text, &end);
    return *end ? -1 : 0;
}

int number_big(const char *s, size_t len, unsigned char *p, size_t *n)
{
    size_t room = *n, used = 1;
    bool negative = len && *s == '-';
    if (len && (*s == '-' || *s == '+')) {
        s++;
        len--;
    }
    if (len == 0 || room < 2)
        return -1;
    memset(p, 0, room);
    for (size_t i = 0; i < len; i++) {
        if (!isdigit((unsigned char)s[i]))
            return -1;
        unsigned carry = (unsigned)(s[i] - '0');
        for (size_t k = 0; k < used || carry; k++) {
            if (k + 1 >= room) /* one byte is left for the sign */
                return -1;
            carry += p[k] * 10U;
            p[k] = (unsigned char)carry;
            carry >>= 8;
            if (k >= used)
                used = k + 1;
        }
    }
    if (p[used - 1] & 0x80)
        used++; /* a byte of zeros for the sign */
    unsigned carry = 1;
    for (size_t k = 0; negative && k < used; k++) {
        carry += (unsigned char)~p[k];
        p[k] = (unsigned char)carry;
        carry >>= 8;
    }
    *n = used;
    return 0;
}
