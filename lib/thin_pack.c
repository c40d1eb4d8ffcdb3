/* SPDX-License-Identifier: MIT
 * An archive from a manifest and files of pages. */
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>

#include "hashing.h"
#include "shelf.h"
#include "thin_repack.h"
#include "thin_write.h"
#include "utf8.h"

struct pack {
    struct report *r;
    struct thin_manifest m;
    struct index pages;
    struct shelf *shelf;
    char **files;              /* paths below the directory, of each page's file, NULL */
    struct hash_range *ranges; /* of the pages with blobs, in their order */
    uint32_t *of;              /* whose they are */
    size_t n;
    struct index seen; /* names of files met */
    char **names;
    size_t n_names, room_names;
};

static int fail(struct pack *p, const char *kind, const char *name, size_t len, const char *why)
{
    report_kind(p->r, kind, -EINVAL, name, len, FS_NO_OFFSET, "%s", why);
    return -EINVAL;
}

static int no_memory(struct pack *p)
{
    return report_fatal(p->r, -ENOMEM, NULL, 0, FS_NO_OFFSET, "out of memory");
}

static int read_manifest(struct pack *p, const char *path)
{
    struct source *s = NULL;
    const char *why = NULL;
    size_t at;
    int err = source_open(path, SOURCE_MAP, &s, p->r);
    if (err < 0)
        return err;
    char *text = s->size < SIZE_MAX ? malloc((size_t)s->size + 1) : NULL;
    err = text ? source_read(s, 0, text, (size_t)s->size) : -ENOMEM;
    if (err == 0)
        err = thin_manifest_read(&p->m, text, (size_t)s->size, &why, &at);
    free(text);
    source_free(s);
    if (err == -EBADMSG)
        return fail(p, "manifest-parse", path, strlen(path), why);
    if (err < 0)
        return report_fatal(p->r, err, NULL, 0, FS_NO_OFFSET, "%s", strerror(-err));
    return thin_index_pages(&p->m, &p->pages) < 0 ? no_memory(p) : 0;
}

static bool has_name(const void *ctx, uint32_t number, const void *key, size_t len)
{
    const char *name = ((char *const *)ctx)[number];
    return strlen(name) == len && memcmp(name, key, len) == 0;
}

/* A name for the second time is an error, whether a page needs it or not. */
static int note_name(struct pack *p, const char *name, size_t len)
{
    uint64_t hash = hash_bytes(0, name, len);
    if (index_find(&p->seen, hash, has_name, p->names, name, len) != INDEX_NONE)
        return fail(p, "page-file-duplicate", name, len, "");
    if (p->n_names == p->room_names) {
        size_t room = p->room_names ? p->room_names * 2 : 64;
        char **v = realloc(p->names, room * sizeof(char *));
        if (!v)
            return no_memory(p);
        p->names = v;
        p->room_names = room;
    }
    p->names[p->n_names] = strndup(name, len);
    if (!p->names[p->n_names] || index_add(&p->seen, hash, (uint32_t)p->n_names) < 0)
        return no_memory(p);
    p->n_names++;
    return 0;
}

static int note_file(struct pack *p, const FTSENT *e, size_t skip)
{
    size_t len = e->fts_namelen;
    if (len < 5 || memcmp(e->fts_name + len - 4, ".bin", 4) != 0 || utf8_span(e->fts_name, len) != len)
        return 0; /* an id is UTF-8 */
    fs_text id = {e->fts_name, len - 4};
    int err = note_name(p, id.s, id.len);
    uint32_t page = thin_find_page(&p->m, &p->pages, &id);
    if (err < 0 || page == INDEX_NONE)
        return err;
    p->files[page] = strdup(e->fts_path + skip);
    return p->files[page] ? 0 : no_memory(p);
}

static int find_files(struct pack *p, const char *dir)
{
    char *copy = strdup(dir), *paths[] = {copy, NULL};
    FTS *all = copy ? fts_open(paths, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, NULL) : NULL;
    FTSENT *e;
    int err = 0;
    size_t skip = strlen(dir);
    while (skip && dir[skip - 1] == '/')
        skip--;
    if (!all)
        err = no_memory(p);
    while (err == 0 && (e = fts_read(all)) != NULL) {
        if (e->fts_info == FTS_DNR || e->fts_info == FTS_ERR || e->fts_info == FTS_NS)
            err = report_fatal(p->r, -e->fts_errno, e->fts_path, e->fts_pathlen, FS_NO_OFFSET, "%s",
                               strerror(e->fts_errno));
        else if (e->fts_info == FTS_F)
            err = note_file(p, e, skip + strspn(e->fts_path + skip, "/"));
    }
    if (all)
        fts_close(all);
    free(copy);
    return err;
}

static int open_page(struct pack *p, uint32_t i)
{
    const struct thin_page *page = &p->m.pages[i];
    struct source *s = NULL;
    if (!p->files[i])
        return fail(p, "page-file-missing", page->id.s, page->id.len, "");
    int err = shelf_open(p->shelf, p->files[i], SOURCE_MAP, &s, p->r);
    if (err < 0)
        return err;
    p->ranges[p->n] = (struct hash_range){.source = s, .len = s->size};
    p->of[p->n++] = i;
    return s->size == page->size ? 0 : fail(p, "page-file-size", page->id.s, page->id.len, "");
}

static int open_pages(struct pack *p)
{
    int err = 0;
    for (uint32_t i = 0; i < p->m.n_pages && err == 0; i++)
        if (!p->m.pages[i].fused_to.s)
            err = open_page(p, i);
    if (err == 0 && hash_ranges(p->ranges, p->n, NULL) < 0)
        err = no_memory(p);
    for (size_t i = 0; i < p->n && err == 0; i++) {
        const struct thin_page *page = &p->m.pages[p->of[i]];
        char hex[65];
        thin_hex(p->ranges[i].digest, hex);
        if (p->ranges[i].err < 0 || memcmp(hex, page->checksum.s, 64) != 0)
            err = fail(p, "page-file-checksum", page->id.s, page->id.len, "");
    }
    return err;
}

static int put(struct pack *p, struct extents *out)
{
    struct thin_entry *v = malloc((p->n + 1) * sizeof *v);
    struct buf head = {0};
    if (!v)
        return -ENOMEM;
    for (size_t i = 0; i < p->n; i++)
        v[i] = (struct thin_entry){&p->m.pages[p->of[i]].id, p->ranges[i].len, p->ranges[i].digest};
    int err = thin_write_head(&p->m, v, p->n, &head);
    if (err == 0)
        err = extents_add_memory(out, head.p, head.len);
    for (size_t i = 0; i < p->n && err == 0; i++)
        err = extents_add_source(out, p->ranges[i].source, 0, p->ranges[i].len);
    buf_free(&head);
    free(v);
    return err;
}

static void release(struct pack *p)
{
    for (size_t i = 0; i < p->n; i++)
        source_free(p->ranges[i].source);
    for (size_t i = 0; p->files && i < p->m.n_pages; i++)
        free(p->files[i]);
    for (size_t i = 0; i < p->n_names; i++)
        free(p->names[i]);
    free(p->names);
    free(p->files);
    free(p->ranges);
    free(p->of);
    index_free(&p->seen);
    index_free(&p->pages);
    shelf_free(p->shelf);
    thin_manifest_free(&p->m);
}

int thin_pack_extents(const char *manifest, const char *pages, struct extents *out, struct report *r)
{
    struct pack p = {.r = r};
    int dir = -1, err = read_manifest(&p, manifest);
    if (err == 0)
        err = thin_refuse_manifest(&p.m, &p.pages, r);
    if (err == 0) {
        dir = open(pages, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dir < 0)
            err = report_fatal(r, -errno, pages, strlen(pages), FS_NO_OFFSET, "%s", strerror(errno));
        else if (!(p.shelf = shelf_new(dir)))
            err = no_memory(&p);
    }
    if (err == 0) {
        p.files = calloc(p.m.n_pages + 1, sizeof(char *));
        p.ranges = calloc(p.m.n_pages + 1, sizeof *p.ranges);
        p.of = calloc(p.m.n_pages + 1, sizeof *p.of);
        if (!p.files || !p.ranges || !p.of)
            err = no_memory(&p);
    }
    if (err == 0)
        err = find_files(&p, pages);
    if (err == 0)
        err = open_pages(&p);
    if (err == 0 && put(&p, out) < 0)
        err = no_memory(&p);
    release(&p);
    return err;
}
