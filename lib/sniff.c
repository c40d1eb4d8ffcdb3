/* SPDX-License-Identifier: MIT */
#include "sniff.h"

#include <string.h>

#include "header.h"
#include "tar.h"

#define MAGIC(s) (s), sizeof(s) - 1

static const struct {
    size_t at;
    const char *magic;
    size_t len;
    const char *what;
} known[] = {
    {0, MAGIC("version https://git-lfs"),
     "is a Git LFS pointer, the model itself was not downloaded; run 'git lfs pull'"},
    {0, MAGIC("\x1f\x8b"), "is gzip-compressed; unpack it first"},
    {0, MAGIC("BZh"), "is bzip2-compressed; unpack it first"},
    {0,
     MAGIC("\xfd"
           "7zXZ"),
     "is xz-compressed; unpack it first"},
    {0, MAGIC("\x28\xb5\x2f\xfd"), "is zstd-compressed; unpack it first"},
    {0, MAGIC("\x04\x22\x4d\x18"), "is lz4-compressed; unpack it first"},
    {0, MAGIC("7z\xbc\xaf\x27\x1c"), "is a 7z archive; unpack it first"},
    {0, MAGIC("Rar!"), "is a RAR archive; unpack it first"},
    {0, MAGIC("PK\5\6"), "is an empty zip archive"},
    {0, MAGIC("PYTORCH1"), "is a PyTorch archive of the 2018 preview format, which is not read"},
    {0, MAGIC("GGUF"), "is a GGUF model, another format"},
    {0, MAGIC("\x89HDF\r\n\x1a\n"), "is an HDF5 file, another format"},
    {0, MAGIC("\x93NUMPY"), "is a NumPy array, another format"},
    {4, MAGIC("TFL3"), "is a TensorFlow Lite model, another format"},
    {0,
     MAGIC("\x7f"
           "ELF"),
     "is a program (ELF), not a model"},
    {0, MAGIC("%PDF"), "is a PDF document, not a model"},
    {257, MAGIC("ustar"), "is a tar archive whose first header is damaged"},
    {0, MAGIC("(dp"), "is a bare pickle, not a PyTorch checkpoint"},
    {0, MAGIC("(lp"), "is a bare pickle, not a PyTorch checkpoint"},
    {0, MAGIC("]q"), "is a bare pickle, not a PyTorch checkpoint"},
    {0, MAGIC("}q"), "is a bare pickle, not a PyTorch checkpoint"},
    {0, MAGIC("ccopy_reg\n"), "is a bare pickle, not a PyTorch checkpoint"},
    {0, MAGIC("<"), "is an HTML or XML page, not a model; the download went wrong"},
    {0, MAGIC("{"), "is JSON text, not a model"},
};

/* A length that the format allows, and what can begin a JSON object. */
static int is_safetensors(const unsigned char *b, size_t n)
{
    uint64_t len = 0;
    if (n < 9)
        return 0;
    for (int i = 7; i >= 0; i--)
        len = len << 8 | b[i];
    return len <= HEADER_MAX && b[8] && strchr("{ \t\r\n", b[8]) != NULL;
}

/* A pickle: PyTorch's legacy form is several of them, the first one an integer. Protocols 0 and 1 have no
 * mark; they begin with its digits. */
static int is_pickle(const unsigned char *b, size_t n)
{
    static const char magic[] = "L119547037146038801333356L\n";
    return (n >= 2 && b[0] == 0x80 && b[1] >= 2 && b[1] <= 5) ||
           (n >= sizeof magic - 1 && memcmp(b, magic, sizeof magic - 1) == 0);
}

enum container sniff(const unsigned char *b, size_t n, uint64_t size, const char **what)
{
    if (size == 0) {
        *what = "is empty";
        return CONTAINER_OTHER;
    }
    if (is_safetensors(b, n))
        return CONTAINER_SAFETENSORS;
    if (n >= 8 && memcmp(b, "THINv0\0\0", 8) == 0)
        return CONTAINER_THIN;
    if (n >= 4 && memcmp(b, "PK\3\4", 4) == 0)
        return CONTAINER_TORCH_ZIP;
    if (tar_is(b, n))
        return CONTAINER_TORCH_TAR;
    if (is_pickle(b, n))
        return CONTAINER_TORCH_LEGACY;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (n >= known[i].at + known[i].len && memcmp(b + known[i].at, known[i].magic, known[i].len) == 0) {
            *what = known[i].what;
            return known[i].magic[0] == '{' ? CONTAINER_JSON : CONTAINER_OTHER;
        }
    return CONTAINER_SAFETENSORS; /* whose reader says what is wrong with it */
}
