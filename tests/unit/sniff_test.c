/* SPDX-License-Identifier: MIT
 * What a file is, by its first bytes. The magics are those of the formats' own documents. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "header.h"
#include "sniff.h"
#include "support.h"

#define TEXT(s) s, sizeof(s) - 1

static const struct {
    const char *bytes;
    size_t len;
    const char *word; /* in the message */
} others[] = {
    {TEXT("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"), "Git LFS"},
    {TEXT("\x1f\x8b\x08\0\0\0\0\0\0\x03"), "gzip"},
    {TEXT("BZh91AY&SY"), "bzip2"},
    {TEXT("\xfd"
          "7zXZ\0\0\4"),
     "xz"},
    {TEXT("\x28\xb5\x2f\xfd\x24\0\0\0\0"), "zstd"},
    {TEXT("\x04\x22\x4d\x18\x64\x40\xa7\0\0"), "lz4"},
    {TEXT("7z\xbc\xaf\x27\x1c\0\4\0\0"), "7z"},
    {TEXT("Rar!\x1a\x07\0\0\0\0"), "RAR"},
    {TEXT("PK\5\6\0\0\0\0\0\0"), "empty zip"},
    {TEXT("GGUF\3\0\0\0\x10\0\0\0"), "GGUF"},
    {TEXT("\x89HDF\r\n\x1a\n\0"), "HDF5"},
    {TEXT("\x93NUMPY\1\0v\0{"), "NumPy"},
    {TEXT("\x1c\0\0\0TFL3\x14\0"), "TensorFlow Lite"},
    {TEXT("\x7f"
          "ELF\2\1\1\0\0\0"),
     "ELF"},
    {TEXT("%PDF-1.7\n%"), "PDF"},
    {TEXT("(dp0\nS'a'\np1\n"), "bare pickle"},
    {TEXT("]q\0(K\1K\2e."), "bare pickle"},
    {TEXT("<!DOCTYPE html>\n<html>"), "HTML"},
    {TEXT("<html><head>"), "HTML"},
    {TEXT("{\"metadata\": {}, \"weight_map\": {}}"), "JSON"},
    {TEXT(""), "is empty"},
};

START_TEST(other)
{
    const char *what = NULL;
    const unsigned char *b = (const unsigned char *)others[_i].bytes;
    ck_assert_int_ge(sniff(b, others[_i].len, others[_i].len, &what), CONTAINER_JSON);
    ck_assert_msg(strstr(what, others[_i].word) != NULL, "'%s' does not name %s", what, others[_i].word);
    ck_assert_ptr_null(strchr(what, '\n'));
}
END_TEST

/* And so does opening it. */
START_TEST(other_opened)
{
    struct memfile f = memfile_new(others[_i].bytes, others[_i].len);
    struct report r = {0};
    struct model *m = NULL;
    ck_assert_int_eq(model_open(f.path, SOURCE_MAP, &m, &r), -ENOTSUP);
    ck_assert_ptr_null(m);
    ck_assert_int_eq(r.first.code, -ENOTSUP);
    ck_assert_ptr_nonnull(strstr(r.first.message, others[_i].word));
    ck_assert_int_eq(model_open(f.path, SOURCE_COPY, &m, NULL), -ENOTSUP);
}
END_TEST

/* These have readers, which say what is wrong with them. */
static const struct {
    const char *bytes;
    size_t len;
    enum container container;
    int code;
    const char *word;
} read[] = {
    {TEXT("PK\3\4\0\0\0\0\0\0"), CONTAINER_TORCH_ZIP, -EBADMSG, "truncated download"},
    {TEXT("\x80\2}q\0(X\1\0"), CONTAINER_TORCH_LEGACY, -ENOTSUP, "bare pickle"},
    {TEXT("\x80\3}q\0(X\1\0"), CONTAINER_TORCH_LEGACY, -ENOTSUP, "bare pickle"},
    {TEXT("\x80\4\x95\x10\0\0\0\0\0"), CONTAINER_TORCH_LEGACY, -ENOTSUP, "bare pickle"},
    {TEXT("\x80\5\x95\x10\0\0\0\0\0"), CONTAINER_TORCH_LEGACY, -ENOTSUP, "bare pickle"},
    {TEXT("L119547037146038801333356L\n.N."), CONTAINER_TORCH_LEGACY, -EBADMSG, "legacy checkpoint"},
};

START_TEST(has_reader)
{
    const char *what = NULL;
    const unsigned char *b = (const unsigned char *)read[_i].bytes;
    struct memfile f = memfile_new(read[_i].bytes, read[_i].len);
    struct report r = {0};
    struct model *m = NULL;
    ck_assert_int_eq(sniff(b, read[_i].len, read[_i].len, &what), read[_i].container);
    ck_assert_int_eq(model_open(f.path, SOURCE_MAP, &m, &r), read[_i].code);
    ck_assert_msg(strstr(r.first.message, read[_i].word) != NULL, "%s", r.first.message);
}
END_TEST

/* A header block of ustar: the sum of its bytes, the sum itself taken as spaces, stands in it as octal text.
 */
START_TEST(tar)
{
    unsigned char b[SNIFF_BYTES] = "pickle";
    const char *what;
    unsigned sum = 0;
    memcpy(b + 257, "ustar", 6);
    memset(b + 148, ' ', 8);
    for (size_t i = 0; i < sizeof b; i++)
        sum += b[i];
    snprintf((char *)b + 148, 8, "%06o", sum);
    ck_assert_int_eq(sniff(b, sizeof b, 10240, &what), CONTAINER_TORCH_TAR);
    b[0] = 'P';
    ck_assert_int_ne(sniff(b, sizeof b, 10240, &what), CONTAINER_TORCH_TAR);
}
END_TEST

/* Too short for the magic: no magic, and no byte read behind the end. */
START_TEST(cut_short)
{
    const char *what;
    const unsigned char b[1] = {0x80};
    ck_assert_int_eq(sniff(b, 1, 1, &what), CONTAINER_SAFETENSORS);
}
END_TEST

/* A header length that reads like the beginning of something else. The bytes of each header are padded with
 * spaces to that length. */
static const struct {
    const char *head;
    size_t len;
} lengths[] = {
    {TEXT("<\0\0\0\0\0\0\0")},      /* 60: XML */
    {TEXT("{\0\0\0\0\0\0\0")},      /* 123: JSON */
    {TEXT("\x80\2\0\0\0\0\0\0")},   /* 640: a pickle, protocol 2 */
    {TEXT("\x80\3\0\0\0\0\0\0")},   /* 896 */
    {TEXT("\x80\4\0\0\0\0\0\0")},   /* 1152 */
    {TEXT("\x80\5\0\0\0\0\0\0")},   /* 1408 */
    {TEXT("\x1f\x8b\0\0\0\0\0\0")}, /* 35615: gzip */
    {TEXT("PK\3\4\0\0\0\0")},       /* 67324752: a zip archive */
    {TEXT("BZh\0\0\0\0\0")},        /* 6838850: bzip2 */
};

START_TEST(lengths_like_magics)
{
    unsigned char b[16];
    const char *starts[] = {"{}      ", "{\"a\":{} ", "  {}    ", "\n{}     ", "\t{}     ", "\r{}     "},
               *what;
    memcpy(b, lengths[_i].head, 8);
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        memcpy(b + 8, starts[i], 8);
        ck_assert_int_eq(sniff(b, sizeof b, 100000000, &what), CONTAINER_SAFETENSORS);
    }
}
END_TEST

/* The same first bytes, but no JSON object behind them. */
START_TEST(magics_like_lengths)
{
    unsigned char b[16] = "\x80\2\0\0\0\0\0\0}q\0";
    const char *what;
    ck_assert_int_eq(sniff(b, sizeof b, 1000, &what), CONTAINER_TORCH_LEGACY);
    memcpy(b, "PK\3\4\x14\0\0\0{", 9); /* 20 * 2^32 and more: no header is so long */
    ck_assert_int_eq(sniff(b, sizeof b, 1000, &what), CONTAINER_TORCH_ZIP);
    memcpy(b, "\1\0\0\0\0\0\0\0\0", 9); /* a NUL begins no JSON, but nothing else is known to begin so */
    ck_assert_int_eq(sniff(b, sizeof b, 1000, &what), CONTAINER_SAFETENSORS);
}
END_TEST

START_TEST(limit)
{
    /* 100,000,000 = 0x05F5E100; GGUF would need more. */
    unsigned char b[9] = {0x00, 0xE1, 0xF5, 0x05, 0, 0, 0, 0, '{'};
    const char *what;
    ck_assert_int_eq(sniff(b, 9, 200000000, &what), CONTAINER_SAFETENSORS);
    unsigned char gguf[9] = "GGUF\0\0\0\0{";
    ck_assert_int_eq(sniff(gguf, 9, 200000000, &what), CONTAINER_OTHER);
}
END_TEST

static void tests(TCase *tc)
{
    int n = sizeof others / sizeof others[0];
    tcase_add_loop_test(tc, other, 0, n);
    tcase_add_loop_test(tc, other_opened, 0, n);
    tcase_add_loop_test(tc, has_reader, 0, sizeof read / sizeof read[0]);
    tcase_add_test(tc, tar);
    tcase_add_test(tc, cut_short);
    tcase_add_loop_test(tc, lengths_like_magics, 0, sizeof lengths / sizeof lengths[0]);
    tcase_add_test(tc, magics_like_lengths);
    tcase_add_test(tc, limit);
}

int main(void)
{
    return unit_run("sniff", tests);
}
