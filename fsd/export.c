/* SPDX-License-Identifier: MIT */
#include "export.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "canonical.h"
#include "thin_export.h"

struct export_kind;
static int as_safetensors(struct export_kind *k, struct extents *x, struct report *r);
static int as_thin(struct export_kind *k, struct extents *x, struct report *r);

/* What a model can be exported as. */
static const struct form {
    const char *ending;
    int (*extents)(struct export_kind *k, struct extents *x, struct report *r);
} forms[] = {
    {".safetensors", as_safetensors},
    {".thin", as_thin},
};

enum { N_FORMS = sizeof forms / sizeof forms[0] };

/* Node 0 is the directory, node i + 1 the model as forms[i]. */
struct export_kind {
    struct kind kind;
    const struct model *model;
    const char *base;
    pthread_mutex_t lock;     /* guards state and thin */
    struct thin_export *thin; /* made when first asked for, then kept: it holds the digests */
    struct {
        bool tried;
        int err;       /* of making it */
        uint64_t size; /* else */
        char why[768];
    } state[N_FORMS];
};

static int as_safetensors(struct export_kind *k, struct extents *x, struct report *r)
{
    return canonical_extents(k->model, x, r);
}

static int as_thin(struct export_kind *k, struct extents *x, struct report *r)
{
    static const struct thin_options plain = {.arch = NULL};
    int err = 0;
    pthread_mutex_lock(&k->lock);
    if (!k->thin)
        err = thin_export_model(k->model, &plain, &k->thin, r);
    pthread_mutex_unlock(&k->lock);
    return err < 0 ? err : thin_export_extents(k->thin, x);
}

static bool must_hash(const void *thin, uint64_t off)
{
    return !thin_export_ready(thin, off);
}

/* Makes the file's content, and remembers its size: that asks for the whole header. */
static int make(struct export_kind *k, size_t form, struct content *c)
{
    struct report r = {0};
    int err = forms[form].extents(k, &c->x, &r);
    if (err == 0 && forms[form].extents == as_thin) {
        c->slow = must_hash;
        c->slow_ctx = k->thin;
    }
    pthread_mutex_lock(&k->lock);
    k->state[form].tried = true;
    k->state[form].err = err;
    k->state[form].size = c->x.size;
    snprintf(k->state[form].why, sizeof k->state[form].why, "%s", r.first.message);
    pthread_mutex_unlock(&k->lock);
    return err;
}

/* Can it be exported so? Its size if it can. */
static int look(struct export_kind *k, size_t form, uint64_t *size)
{
    struct content c = {0};
    int err = 0;
    pthread_mutex_lock(&k->lock);
    bool tried = k->state[form].tried;
    if (tried) {
        err = k->state[form].err;
        *size = k->state[form].size;
    }
    pthread_mutex_unlock(&k->lock);
    if (!tried) {
        err = make(k, form, &c);
        *size = c.x.size;
        extents_free(&c.x);
    }
    return err;
}

static bool is_name(const struct export_kind *k, size_t form, const char *name)
{
    size_t n = strlen(k->base);
    return strncmp(name, k->base, n) == 0 && strcmp(name + n, forms[form].ending) == 0;
}

static int lookup(struct kind *kind, uint64_t dir, const char *name, uint64_t *id)
{
    struct export_kind *k = (struct export_kind *)kind;
    uint64_t size;
    if (dir != 0)
        return -ENOTDIR;
    for (size_t i = 0; i < N_FORMS; i++)
        if (is_name(k, i, name) && look(k, i, &size) == 0) {
            *id = i + 1;
            return 0;
        }
    return -ENOENT;
}

static int getattr(struct kind *kind, uint64_t id, struct stat *st)
{
    struct export_kind *k = (struct export_kind *)kind;
    uint64_t size = 0;
    if (id == 0) {
        st->st_mode |= S_IFDIR;
        st->st_nlink = 2;
        return 0;
    }
    st->st_mode |= S_IFREG;
    int err = look(k, id - 1, &size);
    st->st_size = (off_t)size;
    return err;
}

static int list(struct kind *kind, uint64_t dir, uint64_t from, node_emit emit, void *ctx)
{
    struct export_kind *k = (struct export_kind *)kind;
    uint64_t size;
    (void)dir;
    for (size_t i = from; i < N_FORMS; i++) {
        char name[256];
        int n = snprintf(name, sizeof name, "%s%s", k->base, forms[i].ending);
        if (look(k, i, &size) == 0 && !emit(ctx, name, (size_t)n, i + 1, S_IFREG, i + 1))
            break;
    }
    return 0;
}

static int open_content(struct kind *kind, uint64_t id, struct content *c)
{
    return make((struct export_kind *)kind, id - 1, c);
}

void export_errors(struct kind *kind, struct buf *out)
{
    struct export_kind *k = (struct export_kind *)kind;
    uint64_t size;
    for (size_t i = 0; i < N_FORMS; i++)
        if (look(k, i, &size) < 0)
            buf_printf(out, "%s: %s\n", forms[i].ending + 1, k->state[i].why);
}

void export_stats(struct kind *kind, struct buf *out)
{
    struct export_kind *k = (struct export_kind *)kind;
    uint64_t done, total;
    pthread_mutex_lock(&k->lock);
    struct thin_export *x = k->thin;
    pthread_mutex_unlock(&k->lock);
    if (!x)
        return;
    thin_export_progress(x, &done, &total);
    buf_printf(out, "hashed %" PRIu64 "\nto_hash %" PRIu64 "\n", done, total);
}

char *export_base(const char *source)
{
    static const char *const endings[] = {".safetensors", ".pth", ".pt", ".bin", ".ckpt", ".thin"};
    const char *slash = strrchr(source, '/');
    const char *name = slash && slash[1] ? slash + 1 : source;
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        size_t e = strlen(endings[i]);
        if (n > e && strcmp(name + n - e, endings[i]) == 0) {
            n -= e;
            break;
        }
    }
    /* Room for the longest ending: a listed name has at most 255 bytes. */
    return strndup(name, n <= 255 - strlen(".safetensors") ? n : 255 - strlen(".safetensors"));
}

static void destroy(struct kind *kind)
{
    struct export_kind *k = (struct export_kind *)kind;
    thin_export_free(k->thin);
    pthread_mutex_destroy(&k->lock);
    free(k);
}

static const struct kind_ops ops = {
    .name = ".export",
    .forever = true,
    .same_names = true,
    .lookup = lookup,
    .getattr = getattr,
    .readdir = list,
    .open = open_content,
    .free = destroy,
};

struct kind *export_kind_new(const struct model *m, const char *base)
{
    struct export_kind *k = calloc(1, sizeof *k);
    if (!k)
        return NULL;
    k->kind.ops = &ops;
    k->model = m;
    k->base = base;
    pthread_mutex_init(&k->lock, NULL);
    return &k->kind;
}
