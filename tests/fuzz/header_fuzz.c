/* SPDX-License-Identifier: MIT
 * Any bytes as a model file. What is accepted must hold what the format promises: tensors of different names
 * that cover the data without hole or overlap, each readable. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "header.h"
#include "safetensors/tensor.h"

static void found(void *ctx, const fs_error *e)
{
    (void)ctx;
    must(e->code < 0 && e->message[0] && !strchr(e->message, '\n'));
}

static void check_tensor(const struct model *m, const struct tensor *t, uint64_t *sum)
{
    struct extents x = {0};
    uint64_t size = 0;
    must(tm_nbytes(t->dtype, (int)t->rank, t->shape, &size) == 0 && size == t->nbytes);
    must(t->offset >= m->header_off + m->header_len);
    must(t->offset <= m->source->size && t->nbytes <= m->source->size - t->offset);
    must(strlen(t->name) <= t->name_len && t->name[t->name_len] == 0);
    must(model_find(m, hash_bytes(0, t->name, t->name_len), t->name, t->name_len) ==
         (uint32_t)(t - m->tensors));
    must(model_extents(m, t, &x) == 0 && x.size == t->nbytes);
    char *bytes = malloc((size_t)t->nbytes + 1), *again = malloc((size_t)t->nbytes + 1);
    must(extents_read(&x, 0, bytes, (size_t)t->nbytes + 1) == (ssize_t)t->nbytes);
    must(source_read(m->source, t->offset, again, (size_t)t->nbytes) == 0);
    must(memcmp(bytes, again, (size_t)t->nbytes) == 0);
    *sum += t->nbytes;
    free(bytes);
    free(again);
    extents_free(&x);
}

static void check(const char *path, enum source_how how)
{
    struct model *m = NULL;
    struct report first = {0}, all = {.each = found};
    uint64_t sum = 0;
    int err = model_open(path, how, &m, &first);
    must((err == 0) == (m != NULL) && (err == 0) == (first.first.code == 0));
    if (m) {
        for (size_t i = 0; i < m->n_tensors; i++)
            check_tensor(m, &m->tensors[i], &sum);
        must(m->header_off + m->header_len + sum == m->source->size);
    }
    model_free(m);
    m = NULL;
    must((model_open(path, how, &m, &all) == 0) == (err == 0)); /* collecting finds no less */
    must((all.count == 0) == (err == 0));
    model_free(m);
}

static void check_bytes(const uint8_t *head, const uint8_t *p, size_t n)
{
    char path[40];
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    must(fd >= 0 && (!head || write(fd, head, 8) == 8) && write(fd, p, n) == (ssize_t)n);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    check(path, SOURCE_MAP);
    check(path, SOURCE_COPY);
    close(fd);
}

/* Once as it is, once with the length of a header that ends at the last brace: mutations would hardly ever
 * keep the two together. */
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    uint8_t head[8] = {0};
    check_bytes(NULL, p, n);
    if (n < 8)
        return 0;
    p += 8;
    n -= 8;
    size_t len = n;
    while (len > 0 && p[len - 1] != '}')
        len--;
    for (int i = 0; i < 8; i++)
        head[i] = (uint8_t)((uint64_t)len >> (8 * i));
    check_bytes(head, p, n);
    return 0;
}
