/* SPDX-License-Identifier: MIT */
#include "thin_export.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "checked.h"
#include "json.h"
#include "thin.h"
#include "thin_input.h"
#include "thin_write.h"
#include "utf8.h"

bool (*thin_export_interrupted)(void);

struct thin_export {
    struct thin_input in;
    struct directory *own_dir; /* when opened by path */
    struct thin_build b;
    uint32_t *order; /* tensors in the order of the blobs */
    uint64_t prefix, size;
    struct hash_control control;
    uint64_t total; /* bytes to be hashed */

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    enum { IDLE, RUNNING, DONE, FAILED } state;
    pthread_t thread;
    bool joinable;
    int err;
    char *text; /* the first `prefix` bytes, once DONE */
};

/* Blobs in the order of the tape, then the rest by id. */
static int make_order(struct thin_export *x)
{
    const struct thin_manifest *m = &x->b.manifest;
    bool *taken = calloc(x->b.n_tensors + 1, sizeof *taken);
    size_t n = 0;
    x->order = malloc((x->b.n_tensors + 1) * sizeof *x->order);
    if (!taken || !x->order) {
        free(taken);
        return thin_no_memory(&x->b);
    }
    for (size_t i = 0; i < m->n_stages; i++)
        for (size_t k = 0; k < m->stages[i].refs.n; k++) {
            const fs_text *id = &m->stages[i].refs.v[k];
            size_t number = (size_t)(thin_find(&x->b, id->s, id->len) - x->b.tensors);
            if (!taken[number])
                x->order[n++] = (uint32_t)number;
            taken[number] = true;
        }
    for (size_t i = 0; i < x->b.n_tensors; i++)
        if (!taken[i])
            x->order[n++] = (uint32_t)i;
    free(taken);
    return 0;
}

static int hash_small(struct thin_export *x, const char *name, fs_text *out)
{
    struct buf text = {0};
    unsigned char digest[32];
    char hex[65];
    struct report quiet = {0};
    int err = directory_read(x->in.dir, name, &text, &quiet);
    if (err < 0 && err != -ENOENT)
        report_kind(x->b.r, "io", err, name, strlen(name), FS_NO_OFFSET, "%s", quiet.first.message);
    if (err == 0) {
        blake3_hash(text.p, text.len, digest);
        thin_hex(digest, hex);
        *out = thin_copy(&x->b, hex, 64);
    }
    buf_free(&text);
    return err;
}

static int hash_tokenizer(struct thin_export *x)
{
    fs_thin_spec *s = &x->b.manifest.model;
    int err = hash_small(x, "tokenizer.json", &s->tokenizer_json_hash);
    if (err == -ENOENT)
        thin_warn(&x->b, "tokenizer-missing", "%s", "");
    if (err == 0 || err == -ENOENT)
        err = hash_small(x, "tokenizer_config.json", &s->tokenizer_config_json_hash);
    return err == -ENOENT ? 0 : err;
}

/* The rules that every archive must keep, as one error. */
static int check_rules(struct thin_export *x)
{
    struct index pages = {0};
    int err = thin_index_pages(&x->b.manifest, &pages);
    err = err < 0 ? thin_no_memory(&x->b) : thin_refuse_manifest(&x->b.manifest, &pages, x->b.r);
    index_free(&pages);
    return err;
}

static unsigned digits(uint64_t v)
{
    unsigned n = 1;
    for (; v >= 10; v /= 10)
        n++;
    return n;
}

static int hash_some(struct thin_export *x, bool only_like_sized, struct hash_control *control);

/* The plan as far as the length of its text goes: which tensors hold the same bytes is not known without
 * their digests, but often the number of digits is the same either way. */
static int make_plan(struct thin_export *x)
{
    struct thin_plan low, *high = &x->b.manifest.plan;
    int err = thin_make_plan(&x->b, THIN_SAME_ALL_OF_A_SIZE, &low);
    if (err == 0)
        err = thin_make_plan(&x->b, THIN_SAME_NONE, high);
    if (err < 0)
        return thin_no_memory(&x->b);
    if (digits(low.min_vram) == digits(high->min_vram) &&
        digits(low.recommended_vram) == digits(high->recommended_vram))
        return 0;
    err = hash_some(x, true, NULL);
    if (err == 0 && thin_make_plan(&x->b, THIN_SAME_BY_DIGEST, high) < 0)
        err = -ENOMEM;
    return err < 0 ? report_fatal(x->b.r, err, NULL, 0, FS_NO_OFFSET, "a shard cannot be read: %s",
                                  strerror(-err))
                   : 0;
}

static int make_sizes(struct thin_export *x)
{
    struct buf text = {0};
    uint64_t size;
    thin_manifest_write(&x->b.manifest, &text);
    size = THIN_HEADER + text.len;
    struct json j = {.start = text.p, .p = text.p, .end = text.p + text.len};
    bool failed = text.failed, nested = !failed && json_skip(&j, 0) < 0;
    buf_free(&text);
    if (failed)
        return thin_no_memory(&x->b);
    if (nested) /* what the configuration nests is in the manifest one level deeper */
        return thin_fail(&x->b, "verify-failed", NULL,
                         "manifest-parse: more than 127 arrays and objects inside each other");
    for (size_t i = 0; i < x->b.n_tensors; i++) {
        if (x->b.tensors[i].id.len > THIN_ID_MAX)
            return thin_fail(&x->b, "manifest-invalid", &x->b.tensors[i].id, "an id of more than 4096 bytes");
        size += THIN_RECORD + x->b.tensors[i].id.len;
    }
    x->prefix = x->size = size;
    for (size_t i = 0; i < x->b.n_tensors; i++)
        if (add_overflows(x->size, x->b.tensors[i].tensor->nbytes, &x->size))
            return thin_fail(&x->b, "manifest-invalid", NULL, "the archive would be too large");
    x->total = x->size - x->prefix;
    return 0;
}

static int read_layers(struct thin_build *b)
{
    fs_opt_u64 layers = thin_u64(&b->config, "num_hidden_layers");
    fs_text key = {"num_hidden_layers", 17};
    if (!layers.present)
        return thin_fail(b, "config-key-missing", &key, "");
    if (layers.value > UINT32_MAX)
        return thin_fail(b, "config-key-overflow", &key, "");
    b->layers = layers.value;
    return 0;
}

/* The steps of a conversion; which comes first decides which error is seen. */
static int build(struct thin_export *x, const struct thin_options *o)
{
    struct thin_build *b = &x->b;
    if (o->arch && utf8_span(o->arch, strlen(o->arch)) != strlen(o->arch))
        return report_fatal(b->r, -EINVAL, NULL, 0, FS_NO_OFFSET, "the architecture's name is not UTF-8");
    int err = thin_input_config(&x->in, b->r);
    if (err == 0)
        err = thin_input_tensors(&x->in, b);
    if (err == 0 && thin_config_set(&b->config, x->in.config, &x->in.arena) < 0)
        err = thin_no_memory(b);
    if (err == 0)
        err = thin_filter_names(b);
    if (err == 0)
        err = read_layers(b);
    if (err == 0)
        err = thin_make_spec(b, o->arch);
    if (err == 0)
        err = thin_make_pages(b);
    if (err == 0)
        err = thin_make_tape(b);
    if (err == 0)
        thin_warn_unknown(b);
    if (err == 0)
        err = make_order(x);
    if (err == 0)
        err = make_plan(x);
    if (err == 0 && !o->no_tokenizer)
        err = hash_tokenizer(x);
    if (err == 0 && b->no_memory)
        err = thin_no_memory(b);
    b->manifest.format = (fs_text){"thintensor", 10};
    if (err == 0)
        err = check_rules(x);
    return err < 0 ? err : make_sizes(x);
}

static int make(struct thin_export *x, const struct thin_options *o, struct thin_export **out,
                struct report *r)
{
    pthread_mutex_init(&x->lock, NULL);
    pthread_cond_init(&x->changed, NULL);
    index_init();
    x->b.r = r;
    x->b.arena = &x->b.manifest.arena;
    int err = build(x, o);
    x->b.r = NULL;
    if (err < 0)
        thin_export_free(x);
    else
        *out = x;
    return err;
}

int thin_export_open(const char *path, const struct thin_options *o, struct thin_export **out,
                     struct report *r)
{
    struct directory *d = NULL;
    int err = directory_new(path, &d, r);
    if (err < 0)
        return err;
    struct thin_export *x = calloc(1, sizeof *x);
    if (!x) {
        directory_free(d);
        return report_fatal(r, -ENOMEM, NULL, 0, FS_NO_OFFSET, "out of memory");
    }
    x->in.dir = x->own_dir = d;
    return make(x, o, out, r);
}

int thin_export_model(const struct model *m, const struct thin_options *o, struct thin_export **out,
                      struct report *r)
{
    if (!m->dir) {
        report_kind(r, "config-missing", -EINVAL, NULL, 0, FS_NO_OFFSET,
                    "only a model directory says in its config.json what the model is");
        return -EINVAL;
    }
    struct thin_export *x = calloc(1, sizeof *x);
    if (!x)
        return report_fatal(r, -ENOMEM, NULL, 0, FS_NO_OFFSET, "out of memory");
    x->in.dir = m->dir;
    x->in.model = m;
    return make(x, o, out, r);
}

void thin_export_free(struct thin_export *x)
{
    if (!x)
        return;
    x->control.stop = true;
    if (x->joinable)
        pthread_join(x->thread, NULL);
    pthread_mutex_destroy(&x->lock);
    pthread_cond_destroy(&x->changed);
    free(x->order);
    free(x->text);
    free(x->b.tensors);
    free(x->b.warnings);
    index_free(&x->b.by_id);
    thin_manifest_free(&x->b.manifest);
    thin_input_free(&x->in);
    directory_free(x->own_dir);
    free(x);
}

uint64_t thin_export_size(const struct thin_export *x)
{
    return x->size;
}

uint64_t thin_export_prefix(const struct thin_export *x)
{
    return x->prefix;
}

const struct thin_build *thin_export_build(const struct thin_export *x)
{
    return &x->b;
}

const struct source *thin_export_shard(const struct thin_export *x, size_t i)
{
    return i < x->in.n_parts ? x->in.part[i]->source : NULL;
}

uint32_t thin_export_page(const struct thin_export *x, size_t i)
{
    return x->order[i];
}

void thin_export_progress(struct thin_export *x, uint64_t *done, uint64_t *total)
{
    *done = atomic_load(&x->control.bytes);
    *total = x->total;
}

/* Has another tensor this size? v is sorted by size. */
static bool like_sized(const uint64_t *sizes, size_t n, uint64_t size)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (sizes[mid] < size)
            low = mid + 1;
        else
            high = mid;
    }
    return low + 1 < n && sizes[low + 1] == size;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static int hash_list(struct thin_export *x, const uint32_t *list, size_t n, struct hash_control *control)
{
    struct hash_range *v = calloc(n + 1, sizeof *v);
    if (!v)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const struct tensor *t = x->b.tensors[list[i]].tensor;
        v[i] = (struct hash_range){.source = t->source, .off = t->offset, .len = t->nbytes};
    }
    int err = hash_ranges(v, n, control);
    for (size_t i = 0; i < n && err == 0; i++) {
        struct thin_tensor *t = &x->b.tensors[list[i]];
        err = v[i].err;
        memcpy(t->digest, v[i].digest, sizeof t->digest);
        thin_hex(t->digest, t->hex);
    }
    free(v);
    return err;
}

/* Hashes all tensors, in the order in which they lie in the archive, or only those that can be equal. */
static int hash_some(struct thin_export *x, bool only_like_sized, struct hash_control *control)
{
    size_t n = x->b.n_tensors, used = 0;
    uint64_t *sizes = malloc((n + 1) * sizeof *sizes);
    uint32_t *list = malloc((n + 1) * sizeof *list);
    int err = sizes && list ? 0 : -ENOMEM;
    for (size_t i = 0; i < n && err == 0; i++)
        sizes[i] = x->b.tensors[i].tensor->nbytes;
    if (err == 0 && n)
        qsort(sizes, n, sizeof *sizes, by_number);
    for (size_t i = 0; i < n && err == 0; i++)
        if (!only_like_sized || like_sized(sizes, n, x->b.tensors[x->order[i]].tensor->nbytes))
            list[used++] = x->order[i];
    if (err == 0)
        err = hash_list(x, list, used, control);
    free(sizes);
    free(list);
    return err;
}

static int make_text(struct thin_export *x)
{
    struct buf text = {0};
    int err = thin_make_plan(&x->b, THIN_SAME_BY_DIGEST, &x->b.manifest.plan);
    if (err == 0)
        err = thin_write_prefix(&x->b, x->order, &text);
    if (err == 0 && text.len != x->prefix)
        err = -EIO; /* the length was known wrongly: never to be served */
    if (err == 0)
        x->text = text.p;
    else
        buf_free(&text);
    return err;
}

static void *hash_all(void *ctx)
{
    struct thin_export *x = ctx;
    int err = hash_some(x, false, &x->control);
    if (err == 0)
        err = make_text(x);
    pthread_mutex_lock(&x->lock);
    x->err = err;
    x->state = err < 0 ? FAILED : DONE;
    pthread_cond_broadcast(&x->changed);
    pthread_mutex_unlock(&x->lock);
    return NULL;
}

/* Called with the lock. */
static int start(struct thin_export *x)
{
    int err = pthread_create(&x->thread, NULL, hash_all, x);
    if (err != 0)
        return -err;
    x->joinable = true;
    x->state = RUNNING;
    return 0;
}

static void wait_a_little(struct thin_export *x)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_nsec += 50000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_nsec -= 1000000000;
        t.tv_sec++;
    }
    pthread_cond_timedwait(&x->changed, &x->lock, &t);
}

int thin_export_hash(struct thin_export *x, bool (*stop)(void *ctx), void *ctx)
{
    int err = 0;
    pthread_mutex_lock(&x->lock);
    if (x->state == IDLE)
        err = start(x);
    while (err == 0 && x->state == RUNNING) {
        if (stop && stop(ctx))
            err = -EINTR;
        else
            wait_a_little(x);
    }
    if (err == 0 && x->state == FAILED)
        err = x->err;
    pthread_mutex_unlock(&x->lock);
    return err;
}

bool thin_export_ready(const struct thin_export *x, uint64_t off)
{
    struct thin_export *w = (struct thin_export *)(uintptr_t)x;
    pthread_mutex_lock(&w->lock);
    bool over = x->state == DONE || x->state == FAILED;
    pthread_mutex_unlock(&w->lock);
    return over || off >= x->prefix;
}

static bool interrupted(void *ctx)
{
    (void)ctx;
    return thin_export_interrupted && thin_export_interrupted();
}

/* An extent_fill: header, manifest and page table. */
static int fill_prefix(const void *ctx, uint64_t off, void *buf, size_t len)
{
    struct thin_export *x = (struct thin_export *)(uintptr_t)ctx;
    int err = thin_export_hash(x, interrupted, NULL);
    if (err == 0)
        memcpy(buf, x->text + off, len);
    return err;
}

int thin_export_extents(struct thin_export *x, struct extents *out)
{
    int err = extents_add_computed(out, fill_prefix, x, x->prefix);
    for (size_t i = 0; i < x->b.n_tensors && err == 0; i++) {
        const struct tensor *t = x->b.tensors[x->order[i]].tensor;
        err = extents_add_source(out, t->source, t->offset, t->nbytes);
    }
    return err;
}
