/* SPDX-License-Identifier: MIT
 * UTF-8 as RFC 3629 defines it: shortest forms only, no surrogates, nothing above U+10FFFF. */
#ifndef UTF8_H
#define UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the valid character at the start of s, 0 if there is none. */
static inline size_t utf8_char(const char *text, size_t len)
{
    const unsigned char *s = (const unsigned char *)text;
    if (len == 0)
        return 0;
    if (s[0] < 0x80)
        return 1;
    size_t n = s[0] >= 0xF0 ? 4 : s[0] >= 0xE0 ? 3 : 2;
    if (s[0] < 0xC2 || s[0] > 0xF4 || len < n)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) || (s[0] == 0xF0 && s[1] < 0x90) ||
        (s[0] == 0xF4 && s[1] > 0x8F))
        return 0;
    return n;
}

/* Offset of the first byte that is no UTF-8, len if there is none. */
static inline size_t utf8_span(const char *s, size_t len)
{
    size_t i = 0, n;
    while (i < len && (n = utf8_char(s + i, len - i)) != 0)
        i += n;
    return i;
}

#endif
