/* SPDX-License-Identifier: MIT */
#include "view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "source.h"
#include "unpack.h"

enum {
    PIECES = 1024,     /* small reads at once; IOV_MAX of Linux */
    PIECE = 8192,      /* bytes of one of them */
    SCRATCH = 1 << 20, /* bytes of the storage held at once */
    SAMPLES = 8,       /* of the pieces, to be asked about */
    SPARSENESS = 16,   /* a block is read whole if at least one byte in so many is used */
};

bool view_contiguous(uint32_t rank, const uint64_t *shape, const uint64_t *stride)
{
    uint64_t expected = 1;
    for (uint32_t i = 0; i < rank; i++)
        if (shape[i] == 0)
            return true;
    for (uint32_t i = rank; i-- > 0;) {
        if (shape[i] != 1 && stride[i] != expected)
            return false;
        expected *= shape[i];
    }
    return true;
}

int view_shape(struct view *v, struct arena *a, uint32_t rank, const uint64_t *shape, const uint64_t *stride)
{
    uint64_t *s = arena_alloc(a, ((size_t)rank + 1) * sizeof *s, true);
    uint64_t *t = arena_alloc(a, ((size_t)rank + 1) * sizeof *t, true);
    uint32_t n = 0;
    if (!s || !t)
        return -ENOMEM;
    for (uint32_t i = 0; i < rank; i++) {
        if (shape[i] == 1)
            continue;
        if (n && t[n - 1] == shape[i] * stride[i]) { /* the outer one goes on where this one ends */
            s[n - 1] *= shape[i];
            t[n - 1] = stride[i];
            continue;
        }
        s[n] = shape[i];
        t[n++] = stride[i];
    }
    if (n == 0) { /* a scalar */
        s[n] = 1;
        t[n++] = 1;
    }
    v->rank = n;
    v->shape = s;
    v->stride = t;
    return 0;
}

/* Bytes of the storage, counted from the first element. */
static int storage_read(const struct view *v, uint64_t off, void *buf, size_t len)
{
    if (off > v->end - v->start || len > v->end - v->start - off)
        return -EIO;
    off += v->start;
    if (v->packed)
        return unpacked_read(v->packed, off, buf, len);
    if (v->source)
        return source_read(v->source, off, buf, len);
    if (v->extents) {
        ssize_t got = extents_read(v->extents, off, buf, len);
        return got < 0 ? (int)got : (size_t)got == len ? 0 : -EIO;
    }
    if (!v->memory)
        return -EIO;
    memcpy(buf, v->memory + off, len);
    return 0;
}

/* Where the storage is mapped, if it is and need not be unpacked first; *base: of its first element. */
static const unsigned char *storage_map(const struct view *v, uint64_t *base)
{
    *base = v->start;
    if (v->source)
        return v->source->fd >= 0 || v->source->shelf ? source_mapped(v->source) : NULL;
    const struct source *s = v->packed ? unpacked_source(v->packed, base) : NULL;
    *base += s ? v->start : 0;
    return s ? s->map : NULL;
}

/* Copies n elements that lie `stride` bytes apart. */
static void pick(const unsigned char *from, uint64_t stride, unsigned char *to, uint64_t n, uint32_t item)
{
    for (uint64_t i = 0; i < n; i++, from += stride, to += item) {
        switch (item) {
        case 1: *to = *from; break;
        case 2: memcpy(to, from, 2); break;
        case 4: memcpy(to, from, 4); break;
        case 8: memcpy(to, from, 8); break;
        default: memcpy(to, from, item); break;
        }
    }
}

/* A range of elements in progress. */
struct gather {
    const struct view *v;
    unsigned char *scratch;
    unsigned char *to;
    uint64_t at, n; /* the next element, and how many are wanted yet */
};

/* Elements from the first to the last one of a block of dimensions `from` and below, both counted: how much
 * of the storage it lies in. */
static uint64_t span(const struct view *v, uint32_t from)
{
    uint64_t last = 0;
    for (uint32_t i = from; i < v->rank; i++)
        last += (v->shape[i] - 1) * v->stride[i];
    return last + 1;
}

static uint64_t block_size(const struct view *v, uint32_t from)
{
    uint64_t n = 1;
    for (uint32_t i = from; i < v->rank; i++)
        n *= v->shape[i];
    return n;
}

/* Where element number i of the block of dimensions `from` and below lies. */
static uint64_t place(const struct view *v, uint32_t from, uint64_t i)
{
    uint64_t at = 0;
    for (uint32_t d = v->rank; d-- > from;) {
        at += i % v->shape[d] * v->stride[d];
        i /= v->shape[d];
    }
    return at;
}

/* The outermost dimension from which on a block fits the scratch and is used well enough; rank: none. */
static uint32_t dense_from(const struct view *v)
{
    uint32_t best = v->rank;
    for (uint32_t from = v->rank; from-- > 0;) {
        uint64_t lies = span(v, from);
        if (lies > SCRATCH / v->item || lies / SPARSENESS > block_size(v, from))
            break;
        best = from;
    }
    return best;
}

static void advance(struct gather *g, uint64_t n)
{
    g->to += n * g->v->item;
    g->at += n;
    g->n -= n;
}

/* One block of dimensions `from` and below, as far as it is wanted, from the scratch. */
static int take_block(struct gather *g, uint32_t from)
{
    const struct view *v = g->v;
    uint64_t size = block_size(v, from), skip = g->at % size, inner = v->shape[v->rank - 1];
    uint64_t n = size - skip < g->n ? size - skip : g->n;
    uint64_t base = place(v, 0, g->at - skip) * v->item, step = v->stride[v->rank - 1] * v->item;
    int err = storage_read(v, base, g->scratch, (size_t)(span(v, from) * v->item));
    while (n && err == 0) {
        uint64_t run = inner - skip % inner < n ? inner - skip % inner : n;
        pick(g->scratch + place(v, from, skip) * v->item, step, g->to, run, v->item);
        advance(g, run);
        skip += run;
        n -= run;
    }
    return err;
}

/* Elements in a row that lie one after the other. */
static int take_run(struct gather *g)
{
    const struct view *v = g->v;
    uint64_t inner = v->shape[v->rank - 1], n = inner - g->at % inner;
    if (n > g->n)
        n = g->n;
    int err = storage_read(v, place(v, 0, g->at) * v->item, g->to, (size_t)(n * v->item));
    advance(g, n);
    return err;
}

/* One element again and again. */
static int take_repeated(struct gather *g)
{
    const struct view *v = g->v;
    uint64_t inner = v->shape[v->rank - 1], n = inner - g->at % inner;
    if (n > g->n)
        n = g->n;
    int err = storage_read(v, place(v, 0, g->at) * v->item, g->scratch, v->item);
    pick(g->scratch, 0, g->to, n, v->item);
    advance(g, n);
    return err;
}

/* Elements in a row that lie a small step apart: what lies between them is read along. */
static int take_stepped(struct gather *g)
{
    const struct view *v = g->v;
    uint64_t inner = v->shape[v->rank - 1], n = inner - g->at % inner;
    uint64_t step = v->stride[v->rank - 1] * v->item, most = (SCRATCH - v->item) / step + 1;
    if (n > g->n)
        n = g->n;
    if (n > most)
        n = most;
    int err = storage_read(v, place(v, 0, g->at) * v->item, g->scratch, (size_t)((n - 1) * step + v->item));
    pick(g->scratch, step, g->to, n, v->item);
    advance(g, n);
    return err;
}

/* Does memory seem to hold what is mapped there already? A few of the places are asked about. Where it does
 * not, each fault in a mapping has the kernel read megabytes around it; a read of the file is of what is
 * asked for. */
static bool resident(const struct iovec *v, size_t n)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < n; i += n / SAMPLES + 1) {
        unsigned char in = 0;
        if (mincore((void *)((uintptr_t)v[i].iov_base & ~(page - 1)), 1, &in) < 0 || !(in & 1))
            return false;
    }
    return true;
}

/* Many small pieces of one length, from `at` each, one after the other to `to`. The kernel copies them out of
 * the mapping for us, many in one call; it says so where the file has shrunk, instead of SIGBUS. */
static int read_pieces(const struct view *v, const uint64_t *at, size_t n, size_t len, unsigned char *to)
{
    struct iovec local = {to, n * len}, remote[PIECES];
    uint64_t base;
    const unsigned char *map = storage_map(v, &base);
    for (size_t i = 0; map && i < n; i++) {
        if (at[i] > v->end - v->start || len > v->end - v->start - at[i])
            return -EIO;
        remote[i] = (struct iovec){(void *)(uintptr_t)(map + base + at[i]), len};
    }
    if (map && resident(remote, n) &&
        process_vm_readv(getpid(), &local, 1, remote, n, 0) == (ssize_t)(n * len))
        return 0;
    for (size_t i = 0; i < n; i++) {
        int err = storage_read(v, at[i], to + i * len, len);
        if (err < 0)
            return err;
    }
    return 0;
}

/* The dimension whose neighbours are taken together: of those of which at least two whole blocks of what lies
 * below are wanted, the one whose elements lie closest. rank: none. */
static uint32_t closest(const struct gather *g, uint64_t *rows)
{
    const struct view *v = g->v;
    uint32_t best = v->rank;
    uint64_t cols = 1;
    for (uint32_t d = v->rank - 1; d-- > 0;) {
        cols *= v->shape[d + 1];
        uint64_t left = v->shape[d] - g->at / cols % v->shape[d], n = g->n / cols < left ? g->n / cols : left;
        if (g->at % cols || n < 2)
            break;
        if (v->stride[d] <= SPARSENESS && (best == v->rank || v->stride[d] < v->stride[best])) {
            best = d;
            *rows = n;
        }
    }
    return best;
}

/* Elements that lie far apart. If there is a dimension along which they lie close together (a transposed
 * matrix), whole rows are made at once of what is read from each column; else each element is read alone. */
static int take_columns(struct gather *g)
{
    const struct view *v = g->v;
    uint64_t at[PIECES], inner = v->shape[v->rank - 1], rows = 1, step = 0;
    uint64_t cols = inner - g->at % inner < g->n ? inner - g->at % inner : g->n;
    uint32_t d = closest(g, &rows);
    int err = 0;
    if (d < v->rank) {
        cols = block_size(v, d + 1);
        step = v->stride[d] * v->item;
        if (step && rows > PIECE / step)
            rows = PIECE / step;
    }
    size_t len = (size_t)((rows - 1) * step) + v->item,
           many = SCRATCH / len < PIECES ? SCRATCH / len : PIECES;
    for (uint64_t c = 0, n; c < cols && err == 0; c += n) {
        n = cols - c < many ? cols - c : many;
        for (uint64_t i = 0; i < n; i++)
            at[i] = place(v, 0, g->at + c + i) * v->item;
        err = read_pieces(v, at, (size_t)n, len, g->scratch);
        for (uint64_t r = 0; r < rows && err == 0; r++)
            pick(g->scratch + r * step, len, g->to + (r * cols + c) * v->item, n, v->item);
    }
    advance(g, rows * cols);
    return err;
}

static int gather(const struct view *v, uint64_t at, uint64_t n, void *to)
{
    struct gather g = {.v = v, .to = to, .at = at, .n = n};
    uint64_t stride = v->stride[v->rank - 1];
    uint32_t dense = dense_from(v);
    int err = 0;
    if (stride != 1 || (dense + 1 < v->rank && v->shape[v->rank - 1] * v->item < 4096)) {
        g.scratch = malloc(SCRATCH);
        if (!g.scratch)
            return -ENOMEM;
    }
    while (g.n && err == 0) {
        if (stride == 1 && (!g.scratch || dense + 1 >= v->rank))
            err = take_run(&g);
        else if (stride == 0 && dense + 1 >= v->rank)
            err = take_repeated(&g);
        else if (dense < v->rank)
            err = take_block(&g, dense);
        else if (stride <= SPARSENESS)
            err = take_stepped(&g);
        else
            err = take_columns(&g);
    }
    free(g.scratch);
    return err;
}

static void swap_bytes(unsigned char *p, uint64_t n, uint32_t unit)
{
    for (; n >= unit; n -= unit, p += unit)
        for (uint32_t i = 0; i < unit / 2; i++) {
            unsigned char c = p[i];
            p[i] = p[unit - 1 - i];
            p[unit - 1 - i] = c;
        }
}

static int whole_elements(const struct view *v, uint64_t at, uint64_t n, void *to)
{
    int err = gather(v, at, n, to);
    if (err == 0 && v->swap)
        swap_bytes(to, n * v->item, v->swap);
    return err;
}

/* A part of one element. */
static int part_element(const struct view *v, uint64_t off, void *buf, size_t len)
{
    unsigned char element[16];
    int err = whole_elements(v, off / v->item, 1, element);
    memcpy(buf, element + off % v->item, len);
    return err;
}

int view_fill(const void *ctx, uint64_t off, void *buf, size_t len)
{
    const struct view *v = ctx;
    unsigned char *p = buf;
    int err = v->source ? source_check(v->source) : 0;
    if (view_is_empty(v))
        return -EIO;
    while (len && err == 0) {
        size_t inside = (size_t)(off % v->item), n = v->item - inside;
        if (inside || len < v->item) {
            n = n < len ? n : len;
            err = part_element(v, off, p, n);
        } else {
            n = len / v->item * v->item;
            err = whole_elements(v, off / v->item, n / v->item, p);
        }
        p += n;
        off += n;
        len -= n;
    }
    return err;
}

static bool in_order(const struct view *v)
{
    return v->rank == 1 && v->stride[0] == 1;
}

int view_unpack(const struct view *v, struct source **s, uint64_t *at)
{
    *s = NULL;
    if (!v->packed || !in_order(v) || v->swap)
        return 0;
    int err = unpacked_need(v->packed);
    if (err < 0)
        return err;
    *s = unpacked_source(v->packed, at);
    *at += v->start;
    return 0;
}

int view_extents(const struct view *v, struct extents *x)
{
    uint64_t at;
    struct source *s = v->packed && in_order(v) && !v->swap ? unpacked_source(v->packed, &at) : NULL;
    if (s)
        return extents_add_source(x, s, at + v->start, v->nbytes);
    if (v->memory && in_order(v) && !v->swap)
        return extents_add_borrowed(x, v->memory + v->start, v->nbytes);
    return extents_add_computed(x, view_fill, v, v->nbytes);
}

const char *view_transform(const struct view *v)
{
    static const char *const words[] = {
        "",         "gather",          "inflate",          "gather,inflate",
        "byteswap", "gather,byteswap", "inflate,byteswap", "gather,inflate,byteswap",
    };
    return words[(in_order(v) ? 0 : 1) | (v->packed ? 2 : 0) | (v->swap ? 4 : 0)];
}
