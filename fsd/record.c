/* SPDX-License-Identifier: MIT
 * The record of a staged model: one JSON object a line, the first member of which is the verb and the path it
 * is about. safetensorsfs(5) describes them all.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "say.h"
#include "source.h"
#include "staged_content.h"
#include "store.h"
#include "utf8.h"

/* ---- writing ---- */

static void add_path(struct buf *out, const char *path, size_t len)
{
    struct buf text = {0};
    for (size_t i = 0; i < len;) {
        unsigned char c = (unsigned char)path[i];
        size_t n = utf8_char(path + i, len - i);
        if (n == 0 || c < 0x20 || c == 0x7F || c == '%') {
            buf_printf(&text, "%%%02X", c);
            n = 1;
        } else
            buf_add(&text, path + i, n);
        i += n;
    }
    buf_json_string(out, text.len ? text.p : "", text.len);
    out->failed |= text.failed;
    buf_free(&text);
}

void record_begin(struct record_line *l, const char *verb, const char *path, size_t len)
{
    *l = (struct record_line){.skip = false};
    buf_printf(&l->text, "{\"%s\":", verb);
    add_path(&l->text, path, len);
}

void record_node(struct record_line *l, const char *verb, const struct staged *n)
{
    struct buf path = {0};
    staged_path(n, &path);
    record_begin(l, verb, path.len ? path.p : "", path.len);
    l->skip = !n->parent; /* removed, though still open: nothing to remember */
    l->text.failed |= path.failed;
    buf_free(&path);
}

void record_number(struct record_line *l, const char *key, uint64_t value)
{
    buf_printf(&l->text, ",\"%s\":%" PRIu64, key, value);
}

void record_text(struct record_line *l, const char *key, const char *value, size_t len)
{
    buf_printf(&l->text, ",\"%s\":", key);
    buf_json_string(&l->text, value, len);
}

void record_path(struct record_line *l, const char *key, const char *path, size_t len)
{
    buf_printf(&l->text, ",\"%s\":", key);
    add_path(&l->text, path, len);
}

/* The text is there as a whole or not at all: a part of it, left by a full disk, is cut off again. */
static int append(struct model_dir *m, const struct buf *text)
{
    ssize_t n;
    off_t end = lseek(m->record, 0, SEEK_END);
    if (text->failed)
        return -ENOMEM;
    do
        n = write(m->record, text->p, text->len);
    while (n < 0 && errno == EINTR);
    int err = n < 0 ? -errno : (size_t)n < text->len ? -ENOSPC : 0;
    if (err < 0 && ftruncate(m->record, end) < 0 && !m->broken) {
        m->broken = true;
        say("record", "damaged: %s", strerror(errno));
    }
    return err;
}

int record_end(struct record_line *l, struct model_dir *m)
{
    int err = 0;
    buf_str(&l->text, "}\n");
    if (l->skip)
        ;
    else if (m->batching && !l->alone) {
        buf_add(&m->batch, l->text.p, l->text.len);
        m->batch.failed |= l->text.failed;
        m->lines++;
    } else {
        err = append(m, &l->text);
        m->lines += err == 0;
    }
    buf_free(&l->text);
    return err;
}

void record_batch(struct model_dir *m)
{
    m->batching = true;
}

int record_batch_end(struct model_dir *m, bool keep)
{
    int err = keep && m->batch.len ? append(m, &m->batch) : 0;
    m->batching = false;
    buf_free(&m->batch);
    return err;
}

int record_new_node(const struct staged *n)
{
    struct record_line l;
    record_node(&l, n->is_dir ? "dir" : "file", n);
    record_number(&l, "uid", n->uid);
    record_number(&l, "gid", n->gid);
    return record_end(&l, n->model);
}

int record_ref(const struct staged *n, const struct ref *r)
{
    struct record_line l;
    uint64_t number = r->blob ? r->blob->number : store_source_number(n->model, r->source);
    if (number == 0)
        return -ENOMEM;
    record_node(&l, "ref", n);
    record_number(&l, "start", r->start);
    record_number(&l, "bytes", r->len);
    record_number(&l, "offset", r->off);
    record_number(&l, r->blob ? "number" : "source", number);
    return record_end(&l, n->model);
}

static const char *const attribute_names[N_ATTRS] = {"dtype", "shape", "name"};

int record_attribute(const struct staged *n, enum attribute a, const char *value, size_t len)
{
    struct record_line l;
    record_node(&l, "set", n);
    record_text(&l, "what", attribute_names[a], strlen(attribute_names[a]));
    if (value)
        record_path(&l, "value", value, len);
    return record_end(&l, n->model);
}

int record_bound(const struct staged *n)
{
    struct record_line l;
    record_node(&l, "bound", n);
    if (n->bound[0])
        record_text(&l, "dtype", n->bound[0], strlen(n->bound[0]));
    if (n->bound[1])
        record_text(&l, "shape", n->bound[1], strlen(n->bound[1]));
    if (n->npy)
        record_number(&l, "npy", 1);
    return record_end(&l, n->model);
}

int record_committed(struct model_dir *m)
{
    const struct committed *c = &m->committed;
    struct record_line l;
    record_begin(&l, "committed", "", 0);
    record_number(&l, "bytes", c->bytes);
    record_number(&l, "device", c->dev);
    record_number(&l, "inode", c->ino);
    record_number(&l, "seconds", (uint64_t)c->mtime.tv_sec);
    record_number(&l, "nanoseconds", (uint64_t)c->mtime.tv_nsec);
    record_number(&l, "took", c->took);
    record_number(&l, "later", m->edits - m->committed_edits);
    return record_end(&l, m);
}

static int write_node(const struct staged *n)
{
    struct record_line l;
    int err = record_new_node(n);
    if (n->is_dir)
        return err;
    if (err == 0 && n->own) {
        record_node(&l, "own", n);
        record_number(&l, "number", n->own->number);
        err = record_end(&l, n->model);
    }
    for (size_t i = 0; i < n->n_refs && err == 0; i++)
        err = record_ref(n, &n->refs[i]);
    for (int a = 0; a < N_ATTRS && err == 0; a++)
        if (n->attr[a])
            err = record_attribute(n, (enum attribute)a, n->attr[a],
                                   a == ATTR_NAME ? n->name_len : strlen(n->attr[a]));
    if (err == 0 && n->is_bound)
        err = record_bound(n);
    return err;
}

static int write_head(struct model_dir *m)
{
    struct record_line l;
    record_begin(&l, "model", "", 0);
    record_number(&l, "version", 1);
    record_number(&l, "uid", m->top->uid);
    record_number(&l, "gid", m->top->gid);
    int err = record_end(&l, m);
    for (size_t i = 0; i < m->n_metadata && err == 0; i++) {
        const struct staged_pair *p = &m->metadata[i];
        record_begin(&l, "metadata", "", 0);
        record_text(&l, "key", p->key, p->key_len);
        record_text(&l, "value", p->value, p->value_len);
        err = record_end(&l, m);
    }
    if (err == 0 && m->inherited) {
        record_begin(&l, "inherited", "", 0);
        err = record_end(&l, m);
    }
    return err;
}

/* Everything once more, into m->record. */
static int write_all(struct model_dir *m)
{
    m->lines = 0;
    int err = write_head(m);
    for (struct staged *n = staged_next(m->top, m->top); n && err == 0; n = staged_next(m->top, n))
        err = write_node(n);
    if (err == 0 && m->committed.done)
        err = record_committed(m);
    return err < 0 ? err : fsync(m->record) < 0 ? -errno : 0;
}

/* Sources are numbered anew as references to them come up; the old numbers come back if the new record fails.
 */
static bool replace_record(struct model_dir *m)
{
    static const char temporary[] = "record.new";
    struct source **sources = m->sources;
    size_t n_sources = m->n_sources;
    int old = m->record;
    m->sources = NULL;
    m->n_sources = 0;
    m->record =
        openat(m->dir, temporary, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool done = m->record >= 0 && write_all(m) == 0 && renameat(m->dir, temporary, m->dir, "record") == 0;
    struct source **drop = done ? sources : m->sources;
    for (size_t i = 0, n = done ? n_sources : m->n_sources; i < n; i++)
        source_free(drop[i]);
    free(drop);
    if (done) {
        close(old);
        return true;
    }
    if (m->record >= 0)
        close(m->record);
    unlinkat(m->dir, temporary, 0);
    m->record = old;
    m->sources = sources;
    m->n_sources = n_sources;
    return false;
}

void record_compact(struct model_dir *m)
{
    uint64_t lines = m->lines, needed = 1000;
    if (!m->top || lines < m->compact_at)
        return;
    for (struct staged *n = staged_next(m->top, m->top); n; n = staged_next(m->top, n))
        needed += 4 * (4 + n->n_refs);
    if (lines > needed && !replace_record(m))
        m->lines = lines;
    m->compact_at = needed + (lines > needed ? lines : 0);
}
