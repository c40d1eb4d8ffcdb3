/* SPDX-License-Identifier: MIT
 * --dry-run: a conversion's report as JSON, in the form of the ThinTensor tool. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "convert.h"
#include "jtree.h"
#include "say.h"

static void key(struct buf *out, const char *name, unsigned level)
{
    if (out->p[out->len - 1] != '{' && out->p[out->len - 1] != '[')
        buf_char(out, ',');
    jtree_line(out, level);
    if (name)
        buf_printf(out, "\"%s\": ", name);
}

static void put_text(struct buf *out, const char *name, unsigned level, const char *text)
{
    key(out, name, level);
    buf_json_string(out, text, strlen(text));
}

static void put_number(struct buf *out, const char *name, unsigned level, uint64_t v)
{
    key(out, name, level);
    buf_printf(out, "%" PRIu64, v);
}

static void put_word(struct buf *out, const char *name, unsigned level, const char *word)
{
    key(out, name, level);
    buf_str(out, word);
}

/* Where the target's directory is, or, as far as it would be made, where that would be. */
static uint64_t free_space(const char *path)
{
    struct statvfs v;
    char *dir = strdup(path), *slash;
    int err = -1;
    while (dir && err < 0 && (slash = strrchr(dir, '/')) != NULL && slash != dir) {
        *slash = 0;
        err = statvfs(dir, &v);
    }
    if (dir && err < 0)
        err = statvfs(*path == '/' ? "/" : ".", &v);
    free(dir);
    return err == 0 ? (uint64_t)v.f_bavail * v.f_frsize : 0;
}

/* Shards in the order of their names, each with what the archive takes from it. */
struct shard {
    const struct source *source;
    uint64_t pages;
    size_t last; /* blob after which it is no longer needed */
};

static void list_shards(struct thin_export *x, struct shard *v, size_t n)
{
    const struct thin_build *b = thin_export_build(x);
    for (size_t i = 0; i < n; i++)
        v[i] = (struct shard){.source = thin_export_shard(x, i)};
    for (size_t i = 0, k = 0; i < b->n_tensors; i++) {
        const struct source *s = b->tensors[thin_export_page(x, i)].tensor->source;
        for (size_t tries = 0; tries < n && v[k].source != s; tries++) /* mostly that of the page before */
            k = k + 1 < n ? k + 1 : 0;
        v[k].pages++;
        v[k].last = i;
    }
}

static void put_path(struct buf *out, const char *name, unsigned level, const char *dir, const char *file)
{
    struct buf path = {0};
    buf_printf(&path, "%s/%s", dir, file);
    put_text(out, name, level, path.p ? path.p : "");
    out->failed |= path.failed;
    buf_free(&path);
}

static void put_order(struct buf *out, const char *dir, const struct shard *v, size_t n)
{
    key(out, "shard_order", 1);
    buf_char(out, '[');
    for (size_t i = 0; i < n; i++)
        put_path(out, NULL, 2, dir, v[i].source->name);
    if (n)
        jtree_line(out, 1);
    buf_char(out, ']');
}

static void put_points(struct buf *out, struct thin_export *x, const char *dir, const struct shard *v,
                       size_t n)
{
    const struct thin_build *b = thin_export_build(x);
    key(out, "deletion_points", 1);
    buf_char(out, '[');
    for (size_t i = 0; i < n; i++) {
        const fs_text *id = v[i].pages ? &b->tensors[thin_export_page(x, v[i].last)].id : NULL;
        key(out, NULL, 2);
        buf_char(out, '{');
        put_path(out, "source_shard", 3, dir, v[i].source->name);
        put_number(out, "source_bytes", 3, v[i].source->size);
        put_number(out, "retained_pages", 3, v[i].pages);
        if (id) {
            put_number(out, "after_page_index", 3, v[i].last);
            key(out, "after_page_id", 3);
            buf_json_string(out, id->s, id->len);
        } else {
            put_word(out, "after_page_index", 3, "null");
            put_word(out, "after_page_id", 3, "null");
        }
        jtree_line(out, 2);
        buf_char(out, '}');
    }
    if (n)
        jtree_line(out, 1);
    buf_char(out, ']');
}

static void put_warnings(struct buf *out, const struct thin_build *b)
{
    key(out, "warnings", 1);
    buf_char(out, '[');
    for (size_t i = 0; i < b->n_warnings; i++) {
        struct buf text = {0};
        const struct thin_warning *w = &b->warnings[i];
        buf_printf(&text, w->detail.len ? "%s: %s" : "%s", w->kind, w->detail.s);
        put_text(out, NULL, 2, text.p ? text.p : "");
        buf_free(&text);
    }
    if (b->n_warnings)
        jtree_line(out, 1);
    buf_char(out, ']');
}

/* What must fit beside the archive: manifest, a record and more for each page, a megabyte. */
static uint64_t peak_bytes(struct thin_export *x)
{
    const struct thin_build *b = thin_export_build(x);
    struct buf text = {0};
    thin_manifest_write(&b->manifest, &text);
    uint64_t sum = text.len + (1 << 20);
    buf_free(&text);
    for (size_t i = 0; i < b->n_tensors; i++)
        sum += b->tensors[i].id.len + 256;
    return sum;
}

static void put_report(struct buf *out, const struct convert_job *j, struct thin_export *x, const char *dir,
                       const struct shard *shards, size_t n)
{
    uint64_t size = thin_export_size(x), available = free_space(j->to);
    buf_char(out, '{');
    put_text(out, "schema", 1, "thintensor.conversion_dry_run.v1");
    put_text(out, "hf_dir", 1, dir);
    put_text(out, "out_path", 1, j->to);
    put_order(out, dir, shards, n);
    put_number(out, "expected_archive_bytes", 1, size);
    put_number(out, "archive_payload_bytes", 1, size - thin_export_prefix(x));
    put_number(out, "peak_temporary_bytes_upper_bound", 1, peak_bytes(x));
    put_number(out, "available_bytes_before", 1, available);
    put_number(out, "projected_minimum_available_bytes", 1, available > size ? available - size : 0);
    put_number(out, "minimum_free_bytes", 1, 0);
    put_word(out, "consume_source_shards", 1, "false");
    put_word(out, "payload_checksums_computed", 1, "true");
    put_word(out, "meets_minimum_free_requirement", 1, available >= size ? "true" : "false");
    put_points(out, x, dir, shards, n);
    put_warnings(out, thin_export_build(x));
    buf_str(out, "\n}\n");
}

int convert_report(const struct convert_job *j, struct thin_export *x)
{
    struct buf out = {0};
    char *dir = realpath(j->from, NULL);
    size_t n = 0;
    while (thin_export_shard(x, n))
        n++;
    struct shard *shards = calloc(n + 1, sizeof *shards);
    int err = dir && shards ? 0 : -ENOMEM;
    if (err == 0) {
        list_shards(x, shards, n);
        put_report(&out, j, x, dir, shards, n);
        err = out.failed ? -ENOMEM : 0;
    }
    if (err < 0)
        say(j->from, "%s", strerror(-err));
    else if (fwrite(out.p, 1, out.len, stdout) != out.len || fflush(stdout) != 0) {
        say("stdout", "%s", strerror(errno));
        err = -EIO;
    }
    free(shards);
    free(dir);
    buf_free(&out);
    return err;
}
