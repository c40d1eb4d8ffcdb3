/* SPDX-License-Identifier: MIT
 * Lines as the names of tensors: the tree must be one that a file system can show, must show each tensor
 * once, and must not depend on the order of the names. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "safetensors/tensor.h"
#include "tree.h"
#include "utf8.h"

static struct source *source;

static void open_source(void)
{
    char path[40];
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    must(fd >= 0 && write(fd, "x", 1) == 1);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    must(source_open(path, SOURCE_MAP, &source, NULL) == 0);
    close(fd);
}

static void add(struct model *m, const char *s, size_t len)
{
    static const uint64_t shape[1] = {1};
    struct tensor *t;
    must(model_add_tensor(m, &t) == 0);
    t->name = arena_text(&m->arena, s, len);
    t->name_len = (uint32_t)len;
    t->dtype = TM_U8;
    t->shape = shape;
    t->rank = 1;
    t->nbytes = 1;
    if (model_index(m, (uint32_t)m->n_tensors - 1) < 0)
        m->n_tensors--; /* a name twice */
}

/* A reader gives valid UTF-8 only: what is not is left out. */
static struct model *model_of(const char *p, size_t n)
{
    struct model *m = model_new(source);
    must(m != NULL);
    for (;;) {
        const char *nl = memchr(p, '\n', n);
        size_t len = nl ? (size_t)(nl - p) : n;
        if (utf8_span(p, len) == len)
            add(m, p, len);
        if (!nl)
            return m;
        p += len + 1;
        n -= len + 1;
    }
}

static struct model *reversed(const struct model *m)
{
    struct model *r = model_new(source);
    must(r != NULL);
    for (size_t i = m->n_tensors; i-- > 0;)
        add(r, m->tensors[i].name, m->tensors[i].name_len);
    must(r->n_tensors == m->n_tensors);
    return r;
}

static void check_component(const char *s, size_t len)
{
    must(len > 0 && len <= 255 && utf8_span(s, len) == len);
    must(!(len == 1 && s[0] == '.') && !(len == 2 && s[0] == '.' && s[1] == '.'));
    for (size_t i = 0; i < len; i++)
        must(s[i] != '/' && (unsigned char)s[i] >= 0x20 && s[i] != 0x7F);
}

/* Along the path, component by component, to the tensor itself. That each path leads to another tensor shows
 * that they are all different. */
static void check_path(const struct tree *t, uint32_t i, struct buf *path)
{
    uint32_t at = TREE_ROOT;
    path->len = 0;
    tree_path(t, (uint32_t)t->n_dirs + i, path);
    must(!path->failed);
    for (const char *p = path->p, *end = p + path->len; p <= end;) {
        const char *slash = memchr(p, '/', (size_t)(end - p));
        size_t len = (size_t)((slash ? slash : end) - p);
        check_component(p, len);
        if (at == TREE_ROOT)
            for (int r = 0; r < 3; r++)
                must(strlen(reserved_names[r]) != len || memcmp(reserved_names[r], p, len) != 0);
        must(tree_is_dir(t, at));
        at = tree_find(t, at, p, len);
        must(at != INDEX_NONE);
        p += len + 1;
    }
    must(at == t->n_dirs + i);
    must(t->layout == LAYOUT_TREE || memchr(t->model->tensors[i].name, '/', t->model->tensors[i].name_len) ||
         !memchr(path->p, '/', path->len));
}

/* Every entry is listed once, in its directory, and every directory leads to something. */
static void check_listing(const struct tree *t)
{
    size_t seen = 1;
    for (uint32_t d = 0; d < t->n_dirs; d++) {
        uint32_t dirs = 0;
        must(d == TREE_ROOT || t->dir[d].first);
        for (uint32_t e = t->dir[d].first; e; e = t->entry[e].next) {
            must(t->entry[e].parent == d && ++seen <= t->n_dirs + t->model->n_tensors);
            dirs += tree_is_dir(t, e);
        }
        must(dirs == t->dir[d].n_dirs);
    }
    must(seen == t->n_dirs + t->model->n_tensors);
}

static void check_raw(const struct tree *t)
{
    const struct model *m = t->model;
    for (uint32_t i = 0; i < m->n_tensors; i++) {
        const struct tensor *x = &m->tensors[i];
        if (x->name_len)
            must(tree_find_raw(t, TREE_ROOT, x->name, x->name_len) != INDEX_NONE);
    }
}

static void check_order(const struct tree *t)
{
    struct model *m = reversed(t->model);
    struct tree *other = NULL;
    struct buf a = {0}, b = {0};
    must(tree_build(m, t->layout, &other) == 0);
    for (uint32_t i = 0; i < m->n_tensors; i++) {
        a.len = b.len = 0;
        tree_path(t, (uint32_t)t->n_dirs + i, &a);
        tree_path(other, (uint32_t)(other->n_dirs + m->n_tensors) - 1 - i, &b);
        must(a.len == b.len && memcmp(a.p, b.p, a.len) == 0);
    }
    buf_free(&a);
    buf_free(&b);
    tree_free(other);
    model_free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    if (!source)
        open_source();
    struct model *m = model_of(n ? (const char *)p : "", n);
    for (int layout = LAYOUT_TREE; layout <= LAYOUT_FLAT; layout++) {
        struct tree *t = NULL;
        struct buf path = {0};
        must(tree_build(m, (enum layout)layout, &t) == 0);
        for (uint32_t i = 0; i < m->n_tensors; i++)
            check_path(t, i, &path);
        check_listing(t);
        check_raw(t);
        check_order(t);
        buf_free(&path);
        tree_free(t);
    }
    model_free(m);
    return 0;
}
