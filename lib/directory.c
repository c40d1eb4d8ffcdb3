/* SPDX-License-Identifier: MIT */
#include "directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "header.h"
#include "leaves.h"
#include "shards.h"

static int no_memory(struct report *r)
{
    return report_fatal(r, -ENOMEM, NULL, 0, FS_NO_OFFSET, "out of memory");
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool is_file(int dir, const char *name)
{
    struct stat st;
    return fstatat(dir, name, &st, 0) == 0 && S_ISREG(st.st_mode);
}

bool directory_is_file(const struct directory *d, const char *name)
{
    return is_file(shelf_dir(d->shelf), name);
}

/* A shard that is a link to nowhere, as in a cache only half filled, is not left out in silence. */
static bool is_wanted(int dir, const struct dirent *e)
{
    return e->d_type == DT_REG || directory_ends(e->d_name, ".safetensors") ||
           ((e->d_type == DT_LNK || e->d_type == DT_UNKNOWN) && is_file(dir, e->d_name));
}

static int list(struct directory *d, struct report *r)
{
    int fd = openat(shelf_dir(d->shelf), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *all = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e;
    size_t room = 0;
    int err = 0;
    if (!all) {
        err = -errno;
        if (fd >= 0)
            close(fd);
        return report_fatal(r, err, NULL, 0, FS_NO_OFFSET, "%s", strerror(-err));
    }
    while (err == 0 && (e = readdir(all)) != NULL) {
        if (!is_wanted(fd, e))
            continue;
        if (d->n_names == room) {
            room = room ? room * 2 : 16;
            char **v = realloc(d->names, room * sizeof(char *));
            if (!v)
                err = no_memory(r);
            else
                d->names = v;
        }
        if (err == 0 && !(d->names[d->n_names] = strdup(e->d_name)))
            err = no_memory(r);
        d->n_names += err == 0;
    }
    closedir(all);
    if (d->n_names)
        qsort(d->names, d->n_names, sizeof(char *), by_text);
    return err;
}

int directory_new(const char *path, struct directory **out, struct report *r)
{
    struct directory *d = calloc(1, sizeof *d);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), err = 0;
    if (fd < 0 || fstat(fd, d ? &d->st : &(struct stat){0}) < 0) {
        err = -errno;
        report_fatal(r, err, NULL, 0, FS_NO_OFFSET, "%s", strerror(-err));
        if (fd >= 0)
            close(fd);
        free(d);
        return err;
    }
    if (!d)
        close(fd);
    else
        d->shelf = shelf_new(fd);
    if (!d || !d->shelf) {
        free(d);
        return no_memory(r);
    }
    err = list(d, r);
    if (err < 0)
        directory_free(d);
    else
        *out = d;
    return err;
}

void directory_free(struct directory *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < d->n_names; i++)
        free(d->names[i]);
    free(d->names);
    shelf_free(d->shelf);
    free(d);
}

bool directory_ends(const char *name, const char *ending)
{
    size_t n = strlen(name), e = strlen(ending);
    return n >= e && memcmp(name + n - e, ending, e) == 0;
}

/* Of JSON that describes a model, no more than HEADER_MAX bytes are read: a file may be large without taking
 * room on its disk. */
static int read_source(const struct source *s, struct buf *out)
{
    char room[16384];
    int err = 0;
    for (uint64_t at = 0; at < s->size && err == 0;) {
        size_t n = s->size - at < sizeof room ? (size_t)(s->size - at) : sizeof room;
        err = source_read(s, at, room, n);
        if (err == 0)
            buf_add(out, room, n);
        if (out->failed)
            err = -ENOMEM;
        at += n;
    }
    if (err == 0)
        buf_str(out, ""); /* never NULL */
    return err;
}

int directory_read(const struct directory *d, const char *name, struct buf *out, struct report *r)
{
    struct source *s = NULL;
    struct report sub = {.part = name};
    int err = shelf_open(d->shelf, name, SOURCE_MAP, &s, &sub);
    if (err == -ENOENT)
        return err;
    if (err == 0 && s->size > HEADER_MAX)
        err = report_fatal(r, -EFBIG, name, strlen(name), FS_NO_OFFSET,
                           "has %" PRIu64 " bytes, more than %d are not read", s->size, HEADER_MAX);
    else if (err == 0)
        err = read_source(s, out);
    source_free(s);
    if (err < 0)
        report_fatal(r, err, name, strlen(name), FS_NO_OFFSET, "cannot be read: %s", strerror(-err));
    return err;
}

bool directory_is_index(const struct source *s)
{
    struct buf text = {0};
    struct arena a = {0};
    const char *why;
    bool yes =
        s->size <= HEADER_MAX && read_source(s, &text) == 0 && shards_weight_map(&text, &a, &why) != NULL;
    buf_free(&text);
    arena_free(&a);
    return yes;
}

int directory_part(const struct directory *d, const char *name, enum source_how how, struct model **out,
                   struct report *r)
{
    struct source *s = NULL;
    struct report sub = {.deep = r->deep, .part = name, .each = r->each, .note = r->note, .ctx = r->ctx};
    int err = shelf_open(d->shelf, name, how, &s, &sub);
    if (err == 0)
        err = model_read(s, out, &sub);
    source_free(s);
    if (err == -ENOENT)
        return err;
    r->count += sub.count;
    if (r->first.code == 0)
        r->first = sub.first;
    return err;
}

void directory_restrict(struct stat *st, const struct stat *also)
{
    mode_t mode = also->st_mode & 0777;
    /* Who is owner or in the group of the one may be neither of the other. */
    if (also->st_gid != st->st_gid)
        mode &= 0707u | (mode & 07) << 3;
    if (also->st_uid != st->st_uid)
        mode &= 0077u | (mode & 07) << 6;
    st->st_mode &= ~(mode_t)0777 | mode;
}

static bool has_key(const void *ctx, uint32_t number, const void *key, size_t len)
{
    const struct json_text *k = &((const struct model *)ctx)->metadata[number].key;
    return k->len == len && (len == 0 || memcmp(k->s, key, len) == 0);
}

/* Of a key that several parts have, the first value stays. keys: of the metadata that are there. */
static int add_metadata(struct model *m, const struct model *part, struct index *keys)
{
    for (size_t i = 0; i < part->n_metadata; i++) {
        const struct metadata *d = &part->metadata[i];
        uint64_t hash = hash_bytes(0, d->key.s, d->key.len);
        if (index_find(keys, hash, has_key, m, d->key.s, d->key.len) != INDEX_NONE)
            continue;
        if (model_add_metadata(m, d->key, d->value) < 0 ||
            index_add(keys, hash, (uint32_t)(m->n_metadata - 1)) < 0)
            return -ENOMEM;
    }
    return 0;
}

/* The part's tensors become the model's; what their names and shapes point to stays with the part. */
static int add_tensors(struct model *m, struct model *part, struct report *r)
{
    for (size_t i = 0; i < part->n_tensors; i++) {
        struct tensor *t;
        if (model_add_tensor(m, &t) < 0)
            return no_memory(r);
        *t = part->tensors[i];
        int err = model_index(m, (uint32_t)(m->n_tensors - 1));
        if (err == -EEXIST) {
            uint32_t first = model_find(m, hash_bytes(0, t->name, t->name_len), t->name, t->name_len);
            err = report_kind(r, "tensor-duplicate", -EBADMSG, t->name, t->name_len, FS_NO_OFFSET,
                              "in %.100s and in %.100s", m->tensors[first].source->name, t->source->name);
        }
        if (err < 0)
            return err == -ENOMEM ? no_memory(r) : err;
    }
    free(part->tensors);
    part->tensors = NULL;
    part->n_tensors = 0;
    index_free(&part->by_name);
    return 0;
}

/* Of a checkpoint in several files. */
static void add_leaves(struct model *m, struct model *part)
{
    if (part->leaves.len && m->leaves.len == 0)
        leaves_begin(&m->leaves);
    leaves_join(&m->leaves, &part->leaves);
    buf_free(&part->leaves);
}

static int add_part(struct model *m, const char *name, enum source_how how, struct index *keys,
                    struct report *r)
{
    struct model *part = NULL;
    size_t before = r->count;
    int err = directory_part(m->dir, name, how, &part, r);
    if (err == -ENOENT)
        err = report_kind(r, "shard-missing", -EBADMSG, name, strlen(name), FS_NO_OFFSET,
                          "named by the index, or by a link that leads nowhere");
    else if (err < 0 && r->each && r->count > before)
        err = 0; /* said; the others are looked at as well */
    if (err < 0 || !part)
        return err;
    m->part[m->n_parts++] = part;
    err = add_tensors(m, part, r);
    if (err == 0 && add_metadata(m, part, keys) < 0)
        err = no_memory(r);
    add_leaves(m, part);
    directory_restrict(&m->source->st, &part->source->st);
    return err;
}

static void note_extra(const struct model *m, const struct shards *x, struct report *r)
{
    for (size_t i = 0, k = 0; i < m->dir->n_names && x->weight_map; i++) {
        const char *name = m->dir->names[i];
        while (k < x->n && strcmp(x->names[k], name) < 0) /* both are sorted */
            k++;
        bool used = k < x->n && strcmp(x->names[k], name) == 0;
        if (!used && directory_ends(name, ".safetensors"))
            report_note(r, "extra-file", name, strlen(name), "not in the index, not part of the model");
    }
}

/* The model's own source stands for the directory: owner, mode and times. */
static int new_model(const char *path, const struct directory *d, struct model **out, struct report *r)
{
    struct stat st = d->st;
    /* Files can be reached by those who may search the directory. */
    st.st_mode = S_IFREG | ((st.st_mode & 0111) << 2);
    char *real = realpath(path, NULL);
    struct source *s = real ? source_none(real, &st) : NULL;
    *out = s ? model_new(s) : NULL;
    source_free(s);
    free(real);
    return *out ? 0 : no_memory(r);
}

static int read_parts(struct model *m, const struct shards *x, enum source_how how, struct report *r)
{
    struct index keys = {0};
    int err = 0;
    m->part = calloc(x->n + 1, sizeof(struct model *));
    if (!m->part)
        return no_memory(r);
    for (size_t i = 0; i < x->n && err == 0; i++)
        err = add_part(m, x->names[i], how, &keys, r);
    index_free(&keys);
    if (m->leaves.len)
        leaves_end(&m->leaves);
    if (err == 0 && m->leaves.failed)
        err = no_memory(r);
    if (err == 0)
        err = shards_compare(x, m, r);
    if (err == 0)
        note_extra(m, x, r);
    return err;
}

int directory_open(const char *path, const char *index, enum source_how how, struct model **out,
                   struct report *r)
{
    struct directory *d = NULL;
    struct shards x = {0};
    struct model *m = NULL;
    size_t before = r->count;
    int err = directory_new(path, &d, r);
    if (err == 0)
        err = shards_find(&x, d, index, r);
    if (err == 0)
        err = new_model(path, d, &m, r);
    if (err < 0)
        goto out;
    m->format = "directory";
    m->dir = d;
    d = NULL;
    r->what = "model directory";
    err = read_parts(m, &x, how, r);
    if (err == 0 && r->count > before)
        err = -EBADMSG;
    if (err == 0) {
        *out = m;
        m = NULL;
    }
out:
    model_free(m);
    directory_free(d);
    shards_free(&x);
    return err;
}

int directory_open_index(const char *path, enum source_how how, struct model **out, struct report *r)
{
    const char *slash = strrchr(path, '/');
    char *dir = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    if (!dir)
        return no_memory(r);
    int err = directory_open(dir, slash ? slash + 1 : path, how, out, r);
    free(dir);
    return err;
}
