/* SPDX-License-Identifier: MIT
 * Reading the record of a staged model (the format is described in safetensorsfs(5)) and rebuilding what it
 * says. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checked.h"
#include "json.h"
#include "say.h"
#include "source.h"
#include "staged_content.h"
#include "store.h"

enum { MOST_FIELDS = 8 };

struct field {
    const char *key;
    struct json_text text; /* s NULL: a number */
    uint64_t number;
};

struct load {
    struct model_dir *m;
    struct field field[MOST_FIELDS];
    size_t n;
    void *blobs; /* of tsearch: numbered files met so far, one reference held on each */
    bool damaged;
    struct buf path;
};

/* ---- a line ---- */

static int parse_line(struct load *l, struct arena *a, const char *line, size_t len)
{
    struct json j = {.start = line, .p = line, .end = line + len};
    struct json_text key;
    l->n = 0;
    if (json_take(&j, '{') < 0)
        return -EBADMSG;
    do {
        struct field *f = &l->field[l->n];
        if (l->n == MOST_FIELDS || json_string(&j, a, &key) < 0 || json_take(&j, ':') < 0)
            return -EBADMSG;
        *f = (struct field){.key = key.s};
        if (json_peek(&j) == '"' ? json_string(&j, a, &f->text) < 0 : json_u64(&j, &f->number) < 0)
            return -EBADMSG;
        l->n++;
    } while (json_taken(&j, ','));
    return json_take(&j, '}') < 0 || json_end(&j) < 0 || !l->field[0].text.s ? -EBADMSG : 0;
}

static const struct field *field(const struct load *l, const char *key, bool text)
{
    for (size_t i = 1; i < l->n; i++)
        if (strcmp(l->field[i].key, key) == 0 && (l->field[i].text.s != NULL) == text)
            return &l->field[i];
    return NULL;
}

static uint64_t number(const struct load *l, const char *key)
{
    const struct field *f = field(l, key, false);
    return f ? f->number : 0;
}

static struct json_text text(const struct load *l, const char *key)
{
    const struct field *f = field(l, key, true);
    return f ? f->text : (struct json_text){NULL, 0};
}

static const char *decode_path(struct load *l, struct json_text t)
{
    l->path.len = 0;
    for (size_t i = 0; i < t.len; i++) {
        unsigned c;
        if (t.s[i] == '%' && i + 2 < t.len && sscanf(t.s + i + 1, "%2X", &c) == 1) {
            buf_char(&l->path, (char)c);
            i += 2;
        } else
            buf_char(&l->path, t.s[i]);
    }
    if (t.len == 0)
        buf_add(&l->path, "", 0);
    return l->path.failed ? NULL : l->path.p;
}

static struct staged *node(struct load *l)
{
    const char *path = decode_path(l, l->field[0].text);
    return path ? staged_walk(&l->m->store->tree, l->m->top, path) : NULL;
}

/* The directory and the name that a path ends in; changes the path. NULL: there can be none. */
static struct staged *parent(struct load *l, const char **name)
{
    char *path = l->path.p, *slash = strrchr(path, '/');
    struct staged *dir = l->m->top;
    *name = path;
    if (slash) {
        *slash = 0;
        *name = slash + 1;
        dir = staged_walk(&l->m->store->tree, dir, path);
    }
    bool good = **name && strlen(*name) <= 255 && strcmp(*name, ".") != 0 && strcmp(*name, "..") != 0;
    return good && dir && dir->is_dir && staged_path_length(dir) + strlen(*name) + 1 < PATH_MAX ? dir : NULL;
}

static struct staged *file(struct load *l)
{
    struct staged *n = node(l);
    return n && !n->is_dir ? n : NULL;
}

/* ---- what refers to what ---- */

static int compare_blobs(const void *a, const void *b)
{
    const struct blob *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

static struct blob *known_blob(const struct load *l, uint64_t number)
{
    struct blob key = {.number = number};
    struct blob **found = tfind(&key, &l->blobs, compare_blobs);
    return found ? *found : NULL;
}

/* That there is such a file is looked at in the end only: it may be of something that was removed later. */
static int blob(struct load *l, uint64_t number, struct blob **out)
{
    *out = known_blob(l, number);
    if (*out)
        return 0;
    if (number == 0 || number > INT64_MAX)
        return -EBADMSG;
    if (number > l->m->last_number) /* even if it is gone: no other file may be taken for it */
        l->m->last_number = number;
    *out = blob_new(l->m, number, -1);
    if (*out && !tsearch(*out, &l->blobs, compare_blobs)) {
        (*out)->refs++; /* the file stays */
        *out = NULL;
    }
    return *out ? 0 : -ENOMEM;
}

static bool is_that(const struct source *s, const char *path, const struct load *l)
{
    return s->path && strcmp(s->path, path) == 0 && (uint64_t)s->st.st_size == number(l, "bytes") &&
           (uint64_t)s->st.st_mtim.tv_sec == number(l, "seconds") &&
           (uint64_t)s->st.st_mtim.tv_nsec == number(l, "nanoseconds");
}

/* That file among those that are mounted: a directory has one for each shard. */
static struct source *mounted_source(const struct model *m, const char *path, const struct load *l)
{
    if (is_that(m->source, path, l))
        return m->source;
    for (size_t i = 0; i < m->n_parts; i++)
        if (is_that(m->part[i]->source, path, l))
            return m->part[i]->source;
    return NULL;
}

/* The mounted source itself, or the file opened again, or something that only fails, after a word about it.
 */
static struct source *find_source(struct load *l, const char *path)
{
    const struct model *mounted = l->m->store->model;
    struct source *s = mounted ? mounted_source(mounted, path, l) : NULL;
    if (s)
        return source_ref(s);
    if (source_open(path, SOURCE_MAP, &s, NULL) == 0 && is_that(s, path, l))
        return s;
    say(l->m->top->name, "staged from %s, which is %s: what refers to it cannot be read", path,
        s ? "no longer the same file" : "gone");
    source_free(s);
    return source_lost(path);
}

/* ---- the verbs ---- */

static int on_model(struct load *l)
{
    l->m->top->uid = (uid_t)number(l, "uid");
    l->m->top->gid = (gid_t)number(l, "gid");
    return number(l, "version") == 1 ? 0 : -ENOTSUP;
}

static int on_entry(struct load *l)
{
    struct staged_tree *t = &l->m->store->tree;
    const char *name;
    if (!decode_path(l, l->field[0].text))
        return -ENOMEM;
    struct staged *dir = parent(l, &name);
    if (!dir || staged_find(t, dir, name))
        return -EBADMSG;
    struct node_caller who = {(uid_t)number(l, "uid"), (gid_t)number(l, "gid")};
    return staged_add(t, dir, name, l->field[0].key[0] == 'd', who) ? 0 : -ENOMEM;
}

static int on_own(struct load *l)
{
    struct staged *n = file(l);
    struct blob *b = NULL;
    int err = n && !n->own ? blob(l, number(l, "number"), &b) : -EBADMSG;
    if (err < 0 || b->writer || b->refs > 1)
        return err < 0 ? err : -EBADMSG;
    b->refs++;
    b->writer = n;
    n->own = b;
    return 0;
}

static int on_source(struct load *l)
{
    struct model_dir *m = l->m;
    struct source **p = realloc(m->sources, (m->n_sources + 1) * sizeof *p);
    const char *path = decode_path(l, l->field[0].text);
    if (p)
        m->sources = p;
    if (!p || !path)
        return -ENOMEM;
    if (number(l, "number") != m->n_sources + 1)
        return -EBADMSG;
    p[m->n_sources] = find_source(l, path);
    return p[m->n_sources] ? (m->n_sources++, 0) : -ENOMEM;
}

static int on_ref(struct load *l)
{
    struct staged *n = file(l);
    uint64_t start = number(l, "start"), bytes = number(l, "bytes"), off = number(l, "offset"),
             k = number(l, "source");
    struct blob *b = NULL;
    bool cut;
    if (!n || !range_fits(start, bytes, INT64_MAX) || !range_fits(off, bytes, INT64_MAX) ||
        k > l->m->n_sources)
        return -EBADMSG;
    int err = k ? 0 : blob(l, number(l, "number"), &b);
    if (err == 0)
        err = content_cut(n, start, bytes, &cut);
    return err < 0 ? err : content_refer(n, start, bytes, k ? l->m->sources[k - 1] : b->source, b, off);
}

static int on_cut(struct load *l)
{
    struct staged *n = file(l);
    bool cut;
    if (!n || !range_fits(number(l, "start"), number(l, "bytes"), INT64_MAX))
        return -EBADMSG;
    return content_cut(n, number(l, "start"), number(l, "bytes"), &cut);
}

static int on_size(struct load *l)
{
    struct staged *n = file(l);
    uint64_t bytes = number(l, "bytes");
    bool cut;
    if (!n)
        return -EBADMSG;
    if (n->size > bytes)
        n->size = bytes;
    return content_cut(n, bytes, UINT64_MAX - bytes, &cut);
}

static int on_freeze(struct load *l)
{
    struct staged *n = file(l);
    if (!n || number(l, "bytes") > INT64_MAX)
        return -EBADMSG;
    n->size = number(l, "bytes");
    int err = content_freeze(n);
    return err < 0 ? err : 0;
}

static int on_set(struct load *l)
{
    static const char *const names[N_ATTRS] = {"dtype", "shape", "name"};
    struct staged *n = file(l);
    struct json_text what = text(l, "what"), value = text(l, "value");
    struct buf path = {0};
    for (int a = 0; n && what.s && a < N_ATTRS; a++) {
        if (strcmp(names[a], what.s) != 0)
            continue;
        if (value.s && !decode_path(l, value))
            return -ENOMEM;
        int err = staged_set_text(&n->attr[a], value.s ? l->path.p : NULL, l->path.len);
        if (err == 0 && a == ATTR_NAME) {
            n->name_len = l->path.len;
            staged_path(n, &path);
            err = path.failed ? -ENOMEM : staged_set_text(&n->name_path, path.p, path.len);
            buf_free(&path);
        }
        return err;
    }
    return -EBADMSG;
}

static int on_owner(struct load *l)
{
    struct staged *n = node(l);
    if (!n)
        return -EBADMSG;
    n->uid = (uid_t)number(l, "uid");
    n->gid = (gid_t)number(l, "gid");
    return 0;
}

static int on_bound(struct load *l)
{
    struct staged *n = file(l);
    struct json_text dtype = text(l, "dtype"), shape = text(l, "shape");
    if (!n)
        return -EBADMSG;
    n->npy = number(l, "npy") == 1;
    n->is_bound = true;
    int err = staged_set_text(&n->bound[0], dtype.s, dtype.len);
    return err < 0 ? err : staged_set_text(&n->bound[1], shape.s, shape.len);
}

static int on_rename(struct load *l)
{
    struct staged_tree *t = &l->m->store->tree;
    struct staged *n = node(l);
    const char *name;
    if (!n || n == l->m->top)
        return -EBADMSG;
    if (!decode_path(l, text(l, "to")))
        return -ENOMEM;
    struct staged *dir = parent(l, &name), *old = dir ? staged_find(t, dir, name) : NULL;
    if (!dir || staged_is_below(dir, n) || (old && (old == n || old->first)))
        return -EBADMSG;
    if (old)
        staged_unlink(t, old);
    return staged_move(t, n, dir, name);
}

static int on_remove(struct load *l)
{
    struct staged *n = node(l);
    if (!n || n->first || n == l->m->top)
        return -EBADMSG;
    staged_unlink(&l->m->store->tree, n);
    return 0;
}

static int on_metadata(struct load *l)
{
    struct json_text key = text(l, "key"), value = text(l, "value");
    if (!key.s)
        return -EBADMSG;
    int err = store_set_metadata(l->m, key.s, key.len, value.s, value.len);
    return err == -ENODATA ? 0 : err;
}

static int on_inherited(struct load *l)
{
    l->m->inherited = true;
    return 0;
}

static int on_committed(struct load *l)
{
    l->m->committed = (struct committed){
        .done = true,
        .bytes = number(l, "bytes"),
        .dev = number(l, "device"),
        .ino = number(l, "inode"),
        .took = number(l, "took"),
        .mtime = {.tv_sec = (time_t)number(l, "seconds"), .tv_nsec = (long)number(l, "nanoseconds")}};
    uint64_t later = number(l, "later");
    if (later > l->m->edits)
        l->m->edits = later;
    l->m->committed_edits = l->m->edits - later;
    return 0;
}

static int on_renamed(struct load *l)
{
    (void)l;
    return 0;
}

static const struct {
    const char *verb;
    int (*act)(struct load *l);
    bool edit; /* changes what would be committed */
} verbs[] = {
    {"model", on_model, false},      {"dir", on_entry, true},
    {"file", on_entry, true},        {"own", on_own, true},
    {"source", on_source, false},    {"ref", on_ref, true},
    {"cut", on_cut, true},           {"size", on_size, true},
    {"freeze", on_freeze, false},    {"set", on_set, true},
    {"bound", on_bound, true},       {"owner", on_owner, false},
    {"rename", on_rename, true},     {"remove", on_remove, true},
    {"metadata", on_metadata, true}, {"inherited", on_inherited, true},
    {"renamed", on_renamed, true},   {"committed", on_committed, false},
};

static int act(struct load *l)
{
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
        if (strcmp(verbs[i].verb, l->field[0].key) == 0) {
            l->m->edits += verbs[i].edit;
            return verbs[i].act(l);
        }
    return -EBADMSG;
}

/* A line that makes no sense is said and passed over: the others still tell what they tell. */
static int load_lines(struct load *l, const char *p, const char *end)
{
    struct arena a = {0};
    int err = 0;
    while (p < end && err == 0) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        if (!nl)
            break; /* cut short by a crash: it never was answered */
        l->m->lines++;
        err = parse_line(l, &a, p, (size_t)(nl - p));
        if (err == 0)
            err = act(l);
        if (err == -EBADMSG) {
            say(l->m->top->name, "line %" PRIu64 " of its record makes no sense and is passed over",
                l->m->lines);
            l->damaged = true;
            err = 0;
        }
        arena_reset(&a);
        p = nl + 1;
    }
    arena_free(&a);
    return err;
}

static bool is_there(const struct blob *b, uint64_t *size)
{
    struct stat st;
    bool yes = fstatat(b->model->dir, b->source->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
    *size = yes ? (uint64_t)st.st_size : 0;
    return yes;
}

/* A file without references is as long as its numbered file. */
static void set_size(struct staged *n)
{
    const struct ref *last = n->n_refs ? &n->refs[n->n_refs - 1] : NULL;
    uint64_t size = 0;
    bool there = true;
    for (size_t i = 0; i < n->n_refs && there; i++)
        there = !n->refs[i].blob || is_there(n->refs[i].blob, &size);
    n->size = last ? last->start + last->len : 0;
    if (n->own) {
        there &= is_there(n->own, &size);
        n->size = size > n->size ? size : n->size;
    }
    if (!there)
        say(n->name, "staged bytes of it are gone: it cannot be read");
}

static void set_sizes(const struct model_dir *m)
{
    for (struct staged *n = staged_next(m->top, m->top); n; n = staged_next(m->top, n))
        set_size(n);
}

/* Numbered files that nothing refers to: of what was removed while it was open. Unless something is wrong
 * with the record: it may be that one of them was meant. */
static void remove_unknown(struct load *l)
{
    int copy = openat(l->m->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = copy >= 0 ? fdopendir(copy) : NULL;
    const struct dirent *e;
    while (d && (e = readdir(d))) {
        char *end;
        uint64_t n = strtoull(e->d_name, &end, 10);
        if (*end != 0 || n == 0 || n > INT64_MAX)
            continue;
        if (!l->damaged && !known_blob(l, n))
            unlinkat(l->m->dir, e->d_name, 0);
        else if (n > l->m->last_number)
            l->m->last_number = n;
    }
    if (d)
        closedir(d);
    else if (copy >= 0)
        close(copy);
}

static int read_all(int fd, char **out, size_t *len)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    size_t size = (size_t)st.st_size;
    *out = malloc(size + 1);
    if (!*out)
        return -ENOMEM;
    while (*len < size) {
        ssize_t n = pread(fd, *out + *len, size - *len, (off_t)*len);
        if (n < 0 && errno != EINTR)
            return -errno;
        if (n == 0)
            break;
        *len += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

static void free_blob(void *b)
{
    blob_free(b);
}

int record_load(struct model_dir *m)
{
    struct load l = {.m = m};
    char *all = NULL;
    size_t len = 0;
    int err = read_all(m->record, &all, &len);
    if (err == 0)
        err = load_lines(&l, all, all + len);
    if (err == 0) {
        const char *end = len ? memrchr(all, '\n', len) : NULL;
        size_t whole = end ? (size_t)(end + 1 - all) : 0;
        if (whole < len && ftruncate(m->record, (off_t)whole) < 0)
            err = -errno;
        unlinkat(m->dir, "record.new", 0); /* of a killed compaction */
        set_sizes(m);
        remove_unknown(&l);
    }
    if (err == -ENOTSUP)
        say(m->top->name, "its record is of a newer version");
    free(all);
    buf_free(&l.path);
    l.m->keep_files = l.damaged || err < 0;
    tdestroy(l.blobs, free_blob);
    l.m->keep_files = false;
    return err;
}
