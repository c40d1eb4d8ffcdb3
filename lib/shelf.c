/* SPDX-License-Identifier: MIT */
#include "shelf.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MOST_OPEN = 256 };

struct shelf {
    atomic_int refs;
    int dir;
    unsigned most;        /* files to be open at a time, but for those in use */
    pthread_mutex_t lock; /* guards what follows, and fd, pins, newer and older of its sources */
    unsigned open;
    struct source *newest, *oldest; /* of the open ones */
};

struct shelf *shelf_new(int dir)
{
    struct rlimit limit;
    struct shelf *f = calloc(1, sizeof *f);
    if (!f) {
        close(dir);
        return NULL;
    }
    f->refs = 1;
    f->dir = dir;
    f->most = MOST_OPEN;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur / 4 < f->most)
        f->most = (unsigned)(limit.rlim_cur / 4);
    pthread_mutex_init(&f->lock, NULL);
    return f;
}

struct shelf *shelf_ref(struct shelf *f)
{
    atomic_fetch_add(&f->refs, 1);
    return f;
}

void shelf_free(struct shelf *f)
{
    if (!f || atomic_fetch_sub(&f->refs, 1) != 1)
        return;
    close(f->dir);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

int shelf_dir(const struct shelf *f)
{
    return f->dir;
}

static void unlink_source(struct source *s)
{
    struct shelf *f = s->shelf;
    *(s->newer ? &s->newer->older : &f->newest) = s->older;
    *(s->older ? &s->older->newer : &f->oldest) = s->newer;
    s->newer = s->older = NULL;
    f->open--;
}

static void link_source(struct source *s)
{
    struct shelf *f = s->shelf;
    s->older = f->newest;
    s->newer = NULL;
    *(f->newest ? &f->newest->newer : &f->oldest) = s;
    f->newest = s;
    f->open++;
}

/* Closes the file that was not used for the longest time. */
static void make_room(struct shelf *f)
{
    struct source *s = f->oldest;
    while (s && f->open >= f->most) {
        struct source *next = s->newer;
        if (s->pins == 0) {
            unlink_source(s);
            close(s->fd);
            s->fd = -1;
        }
        s = next;
    }
}

/* NONBLOCK: opening a pipe must not hang. */
static int open_file(const struct shelf *f, const char *name, struct stat *st)
{
    int fd = openat(f->dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return -errno;
    if (fstat(fd, st) == 0)
        return fd;
    int err = -errno;
    close(fd);
    return err;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static int open_again(struct source *s)
{
    struct stat now;
    make_room(s->shelf);
    int fd = open_file(s->shelf, s->name, &now);
    if (fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM)
        return fd;
    if (fd < 0 || !same_file(&now, &s->st)) {
        if (fd >= 0)
            close(fd);
        s->changed = true;
        return -EIO;
    }
    s->fd = fd;
    link_source(s);
    return 0;
}

int shelf_pin(struct source *s)
{
    struct shelf *f = s->shelf;
    pthread_mutex_lock(&f->lock);
    int err = s->fd < 0 ? open_again(s) : 0;
    if (err == 0) {
        s->pins++;
        if (f->newest != s) {
            unlink_source(s);
            link_source(s);
        }
    }
    int fd = s->fd;
    pthread_mutex_unlock(&f->lock);
    return err < 0 ? err : fd;
}

void shelf_unpin(struct source *s)
{
    pthread_mutex_lock(&s->shelf->lock);
    s->pins--;
    pthread_mutex_unlock(&s->shelf->lock);
}

const unsigned char *shelf_map(struct source *s)
{
    const unsigned char *p = __atomic_load_n(&s->map, __ATOMIC_ACQUIRE), *none = NULL;
    int fd = p || s->size == 0 ? -1 : shelf_pin(s);
    if (fd < 0)
        return p;
    p = source_map_file(fd, s->size, false);
    if (p && !__atomic_compare_exchange_n(&s->map, &none, p, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        source_unmap(p, s->size); /* another thread was first */
        p = none;
    }
    shelf_unpin(s);
    return p;
}

void shelf_forget(struct source *s)
{
    struct shelf *f = s->shelf;
    pthread_mutex_lock(&f->lock);
    if (s->fd >= 0) {
        unlink_source(s);
        close(s->fd);
        s->fd = -1;
    }
    pthread_mutex_unlock(&f->lock);
    if (s->map)
        source_unmap(s->map, s->size);
    s->map = NULL;
    shelf_free(f);
}

/* Of a file that is read into memory at once, nothing stays open. */
static int take_copy(struct source *s, int fd, struct report *r)
{
    unsigned char *p = s->size < SIZE_MAX ? malloc(s->size ? (size_t)s->size : 1) : NULL;
    int err = p ? source_read_fd(fd, 0, p, (size_t)s->size) : -ENOMEM;
    close(fd);
    s->map = p; /* to be freed with the source */
    return err < 0 ? report_fatal(r, err, NULL, 0, FS_NO_OFFSET, "cannot be read: %s", strerror(-err)) : 0;
}

static void put_on_shelf(struct shelf *f, struct source *s, int fd)
{
    s->shelf = shelf_ref(f);
    pthread_mutex_lock(&f->lock);
    make_room(f);
    s->fd = fd;
    link_source(s);
    pthread_mutex_unlock(&f->lock);
}

/* Where the kernel says that an open file lies; NULL if it does not. */
static char *path_of(int fd)
{
    char link[40], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path);
    return n > 0 && (size_t)n < sizeof path && path[0] == '/' ? strndup(path, (size_t)n) : NULL;
}

/* Under the name by which it can be opened again, which may lead into directories below. */
static int rename_source(struct source *s, const char *name)
{
    char *whole = strdup(name);
    if (!whole)
        return -ENOMEM;
    free(s->name);
    s->name = whole;
    return 0;
}

int shelf_open(struct shelf *f, const char *name, enum source_how how, struct source **out, struct report *r)
{
    struct stat st;
    int fd = open_file(f, name, &st);
    if (fd < 0)
        return report_fatal(r, fd, NULL, 0, FS_NO_OFFSET, "%s", strerror(-fd));
    if (!S_ISREG(st.st_mode)) {
        close(fd);
        return report_fatal(r, S_ISDIR(st.st_mode) ? -EISDIR : -ENOTSUP, NULL, 0, FS_NO_OFFSET,
                            "is not a regular file");
    }
    struct source *s = source_none(name, &st);
    if (!s) {
        close(fd);
        return report_fatal(r, -ENOMEM, NULL, 0, FS_NO_OFFSET, "out of memory");
    }
    s->size = (uint64_t)st.st_size;
    s->path = path_of(fd);
    int err = rename_source(s, name);
    if (err < 0) {
        close(fd);
        report_fatal(r, err, NULL, 0, FS_NO_OFFSET, "out of memory");
    } else if (how == SOURCE_MAP)
        put_on_shelf(f, s, fd);
    else
        err = take_copy(s, fd, r);
    if (err < 0)
        source_free(s);
    else
        *out = s;
    return err;
}
