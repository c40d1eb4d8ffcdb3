/* SPDX-License-Identifier: MIT */
#include "store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "save.h"
#include "say.h"
#include "source.h"
#include "staged_content.h"

enum { LOCK_SECONDS = 5 };

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void store_hold(struct model_dir *m)
{
    m->holds++;
}

void store_release(struct model_dir *m)
{
    if (atomic_fetch_sub(&m->holds, 1) != 1)
        return;
    close_fd(&m->dir);
    close_fd(&m->record);
    for (size_t i = 0; i < m->n_sources; i++)
        source_free(m->sources[i]);
    for (size_t i = 0; i < m->n_metadata; i++) {
        free(m->metadata[i].key);
        free(m->metadata[i].value);
    }
    free(m->sources);
    free(m->metadata);
    free(m);
}

/* The model's directory on disk and its place in the tree; the record is not opened. */
static struct model_dir *add_model(struct store *s, const char *name, struct node_caller who)
{
    struct model_dir *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->holds = 1;
    m->store = s;
    m->record = -1;
    m->dir = openat(s->staging, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (m->dir >= 0) {
        m->top = staged_add(&s->tree, s->tree.top, name, true, who);
        if (!m->top)
            errno = ENOMEM;
    }
    if (!m->top) {
        int err = errno;
        store_release(m);
        errno = err;
        return NULL;
    }
    m->top->model = m;
    m->next = s->models;
    s->models = m;
    return m;
}

static void forget_model(struct model_dir *m)
{
    struct model_dir **p = &m->store->models;
    while (*p != m)
        p = &(*p)->next;
    *p = m->next;
    m->top = NULL;
    store_release(m);
}

static int open_record(struct model_dir *m)
{
    m->record = openat(m->dir, "record", O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    return m->record < 0 ? -errno : 0;
}

static int begin_record(struct model_dir *m)
{
    struct record_line l = {0};
    int err = open_record(m);
    if (err < 0)
        return err;
    record_begin(&l, "model", "", 0);
    record_number(&l, "version", 1);
    record_number(&l, "uid", m->top->uid);
    record_number(&l, "gid", m->top->gid);
    return record_end(&l, m);
}

struct model_dir *store_new_model(struct store *s, const char *name, struct node_caller who, int *err)
{
    struct model_dir *m = NULL;
    *err = 0;
    if (mkdirat(s->staging, name, 0700) < 0) {
        *err = -errno;
        return NULL;
    }
    m = add_model(s, name, who);
    *err = m ? begin_record(m) : -errno;
    if (*err < 0) {
        if (m) {
            staged_unlink(&s->tree, m->top);
            unlinkat(m->dir, "record", 0);
            forget_model(m);
        }
        unlinkat(s->staging, name, AT_REMOVEDIR);
        return NULL;
    }
    return m;
}

/* Everything in the directory; files that are still open go on without a name. */
static void empty_directory(int dir)
{
    int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = copy >= 0 ? fdopendir(copy) : NULL;
    const struct dirent *e;
    while (d && (e = readdir(d)))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            unlinkat(dir, e->d_name, 0);
    if (d)
        closedir(d);
    else
        close_fd(&copy);
}

int store_remove_model(struct model_dir *m)
{
    struct store *s = m->store;
    for (const struct staged *n = s->tree.orphans; n; n = n->next)
        if (n->model == m)
            content_pin(n); /* still open somewhere */
    empty_directory(m->dir);
    if (unlinkat(s->staging, m->top->name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        return -errno;
    forget_model(m);
    return 0;
}

int store_rename_model(struct model_dir *m, const char *name)
{
    struct store *s = m->store;
    return renameat(s->staging, m->top->name, s->staging, name) < 0 ? -errno : 0;
}

void store_number_name(char out[STORE_NAME], uint64_t number)
{
    snprintf(out, STORE_NAME, "%" PRIu64, number);
}

/* A new numbered file; of a model that was removed, one that never had a name. */
static struct blob *create_file(struct model_dir *m, uint64_t size, int *err)
{
    char name[STORE_NAME];
    uint64_t number = m->last_number + 1;
    struct blob *b = NULL;
    store_number_name(name, number);
    int fd = m->top ? openat(m->dir, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600)
                    : openat(m->store->staging, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
    *err = fd < 0 ? -errno : 0;
    if (fd < 0)
        return NULL;
    m->last_number = number;
    /* As long as the file: what nothing refers to must be there to be read. */
    if (size && ftruncate(fd, (off_t)size) < 0)
        *err = -errno;
    if (*err == 0 && m->top) {
        close(fd);
        fd = -1;
    }
    if (*err == 0 && !(b = blob_new(m, number, fd)))
        *err = -ENOMEM;
    else if (*err < 0)
        close(fd);
    if (!b)
        store_remove_file(m, number);
    return b;
}

int store_new_file(struct staged *n)
{
    struct model_dir *m = n->model;
    struct record_line l = {0};
    int err;
    n->own = create_file(m, n->size, &err);
    if (!n->own)
        return err;
    n->own->writer = n;
    record_node(&l, "own", n);
    record_number(&l, "number", n->own->number);
    err = record_end(&l, m);
    if (err < 0) {
        blob_free(n->own);
        n->own = NULL;
    }
    return err;
}

void store_remove_file(const struct model_dir *m, uint64_t number)
{
    char name[STORE_NAME];
    store_number_name(name, number);
    unlinkat(m->dir, name, 0);
}

struct blob *store_link_file(struct model_dir *m, struct blob *b, int *err)
{
    char from[STORE_NAME], to[STORE_NAME];
    *err = 0;
    if (b->model == m) {
        b->refs++;
        return b;
    }
    store_number_name(from, b->number);
    store_number_name(to, ++m->last_number);
    if (linkat(b->model->dir, from, m->dir, to, 0) < 0) {
        *err = -errno;
        return NULL;
    }
    struct blob *copy = blob_new(m, m->last_number, -1);
    if (!copy) {
        *err = -ENOMEM;
        store_remove_file(m, m->last_number);
    }
    return copy;
}

uint64_t store_source_number(struct model_dir *m, struct source *s)
{
    struct record_line l = {0};
    for (size_t i = 0; i < m->n_sources; i++)
        if (m->sources[i] == s)
            return i + 1;
    struct source **p = realloc(m->sources, (m->n_sources + 1) * sizeof *p);
    if (!p)
        return 0;
    m->sources = p;
    record_begin(&l, "source", s->path, strlen(s->path));
    l.alone = true;
    record_number(&l, "number", m->n_sources + 1);
    record_number(&l, "bytes", (uint64_t)s->st.st_size);
    record_number(&l, "seconds", (uint64_t)s->st.st_mtim.tv_sec);
    record_number(&l, "nanoseconds", (uint64_t)s->st.st_mtim.tv_nsec);
    if (record_end(&l, m) < 0)
        return 0;
    p[m->n_sources++] = source_ref(s);
    return m->n_sources;
}

struct staged_pair *store_metadata(struct model_dir *m, const char *key, size_t key_len)
{
    for (size_t i = 0; i < m->n_metadata; i++)
        if (m->metadata[i].key_len == key_len && memcmp(m->metadata[i].key, key, key_len) == 0)
            return &m->metadata[i];
    return NULL;
}

static char *copy_text(const char *p, size_t len)
{
    char *copy = malloc(len + 1);
    if (copy) {
        memcpy(copy, p, len);
        copy[len] = 0;
    }
    return copy;
}

int store_set_metadata(struct model_dir *m, const char *key, size_t key_len, const char *value,
                       size_t value_len)
{
    struct staged_pair *have = store_metadata(m, key, key_len);
    if (!value) {
        if (!have)
            return -ENODATA;
        free(have->key);
        free(have->value);
        memmove(have, have + 1, (size_t)(m->metadata + m->n_metadata - have - 1) * sizeof *have);
        m->n_metadata--;
        return 0;
    }
    char *copy = copy_text(value, value_len);
    if (!copy)
        return -ENOMEM;
    if (!have) {
        struct staged_pair *p = realloc(m->metadata, (m->n_metadata + 1) * sizeof *p);
        char *k = p ? copy_text(key, key_len) : NULL;
        if (p)
            m->metadata = p;
        if (!k) {
            free(copy);
            return -ENOMEM;
        }
        have = &p[m->n_metadata++];
        *have = (struct staged_pair){.key = k, .key_len = key_len};
    }
    free(have->value);
    have->value = copy;
    have->value_len = value_len;
    return 0;
}

/* Temporary files that a crash left in DIR. The lock is held: nobody else is writing one. */
static void remove_leftovers(int dir)
{
    int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = copy >= 0 ? fdopendir(copy) : NULL;
    const struct dirent *e;
    while (d && (e = readdir(d)))
        save_clean(dir, e->d_name);
    if (d)
        closedir(d);
    else
        close_fd(&copy);
}

static int take_lock(struct store *s)
{
    s->lock = openat(s->staging, ".lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (s->lock < 0)
        return -errno;
    for (int i = 0; flock(s->lock, LOCK_EX | LOCK_NB) < 0; i++) {
        if (errno != EWOULDBLOCK || i == LOCK_SECONDS * 20)
            return -errno;
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    return 0;
}

/* One directory below DIR/.staging. */
static int load_model(struct store *s, const char *name)
{
    struct model_dir *m = add_model(s, name, (struct node_caller){geteuid(), getegid()});
    if (!m && (errno == ENOTDIR || errno == ELOOP))
        return 0; /* not ours */
    int err = m ? open_record(m) : -errno;
    return err < 0 ? err : record_load(m);
}

static int load_models(struct store *s)
{
    int copy = openat(s->staging, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), err = 0;
    DIR *d = copy >= 0 ? fdopendir(copy) : NULL;
    const struct dirent *e;
    if (!d) {
        close_fd(&copy);
        return -errno;
    }
    while (err == 0 && (e = readdir(d)))
        if (e->d_name[0] != '.' || (e->d_name[1] && strcmp(e->d_name, "..") != 0))
            err = load_model(s, e->d_name);
    closedir(d);
    return err;
}

/* Could nobody else have put something there? What a record says is believed: it names the files that staged
 * ones are read from. */
static bool is_ours(int dir)
{
    struct stat st;
    return fstat(dir, &st) == 0 && st.st_uid == geteuid() && (st.st_mode & 022) == 0;
}

int store_open(struct store *s, const char *path, const struct model *mounted)
{
    int err;
    *s = (struct store){.model = mounted, .out = -1, .staging = -1, .lock = -1};
    s->out_path = realpath(path, NULL);
    s->out = s->out_path ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (s->out < 0) {
        say(path, "output directory: %s", strerror(errno));
        return EXIT_USAGE;
    }
    if (mkdirat(s->out, ".staging", 0700) < 0 && errno != EEXIST) {
        say(path, "output directory: nothing can be written there: %s", strerror(errno));
        return EXIT_USAGE;
    }
    s->staging = openat(s->out, ".staging", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (s->staging >= 0 && !is_ours(s->staging)) {
        say(path, "output directory: its .staging belongs to somebody else");
        return EXIT_USAGE;
    }
    err = s->staging < 0 ? -errno : take_lock(s);
    if (err < 0) {
        say(path, err == -EWOULDBLOCK ? "output directory: another mount has it" : "output directory: %s",
            strerror(-err));
        return EXIT_MOUNT;
    }
    remove_leftovers(s->out);
    err = staged_init(&s->tree);
    if (err == 0)
        err = load_models(s);
    if (err < 0) {
        say(path, "what is staged there cannot be read: %s", strerror(-err));
        return EXIT_MOUNT;
    }
    return 0;
}

void store_close(struct store *s)
{
    s->closing = true; /* numbered files stay */
    staged_free(&s->tree);
    while (s->models) {
        struct model_dir *m = s->models;
        s->models = m->next;
        m->top = NULL;
        store_release(m);
    }
    close_fd(&s->lock);
    close_fd(&s->staging);
    close_fd(&s->out);
    free(s->out_path);
    s->out_path = NULL;
}
