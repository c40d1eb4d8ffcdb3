/* SPDX-License-Identifier: MIT */
#include "source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "checked.h"
#include "shelf.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#endif

void (*source_on_change)(const struct source *s);

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

int source_read_fd(int fd, uint64_t off, void *buf, size_t len)
{
    char *p = buf;
    while (len) {
        ssize_t n = pread(fd, p, len, (off_t)off);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            return -EIO;
        p += n;
        off += (uint64_t)n;
        len -= (size_t)n;
    }
    return 0;
}

const unsigned char *source_map_file(int fd, uint64_t size, bool shared)
{
    if (size == 0 || size > SIZE_MAX)
        return NULL;
    /* Private: some file systems refuse shared mappings. NORESERVE: the size may exceed memory. */
    int how = shared ? MAP_SHARED : MAP_PRIVATE | MAP_NORESERVE;
    void *p = mmap(NULL, (size_t)size, PROT_READ, how, fd, 0);
    if (p == MAP_FAILED)
        return NULL;
    (void)madvise(p, (size_t)size, MADV_HUGEPAGE); /* a wish: not every kernel and file system has it */
    return p;
}

void source_unmap(const unsigned char *p, uint64_t size)
{
    munmap((void *)(uintptr_t)p, (size_t)size);
}

static int copy(struct source *s)
{
    if (s->size > SIZE_MAX)
        return -ENOMEM;
    unsigned char *p = malloc(s->size ? (size_t)s->size : 1);
    if (!p)
        return -ENOMEM;
    s->map = p;
    int err = source_read_fd(s->fd, 0, p, (size_t)s->size);
    close(s->fd);
    s->fd = -1;
    return err;
}

static int open_regular(struct source *s, const char *path, struct report *r)
{
    /* NONBLOCK: opening a pipe must not hang. */
    s->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (s->fd < 0 || fstat(s->fd, &s->st) < 0)
        return report_fatal(r, -errno, NULL, 0, FS_NO_OFFSET, "%s", strerror(errno));
    if (S_ISDIR(s->st.st_mode))
        return report_fatal(r, -EISDIR, NULL, 0, FS_NO_OFFSET, "is a directory");
    if (!S_ISREG(s->st.st_mode))
        return report_fatal(r, -ENOTSUP, NULL, 0, FS_NO_OFFSET, "is not a regular file");
    s->size = (uint64_t)s->st.st_size;
    return 0;
}

int source_open(const char *path, enum source_how how, struct source **out, struct report *r)
{
    int err = -ENOMEM;
    struct source *s = calloc(1, sizeof *s);
    if (!s)
        return report_fatal(r, -ENOMEM, NULL, 0, FS_NO_OFFSET, "out of memory");
    s->refs = 1;
    s->fd = -1;
    s->name = strdup(base_name(path));
    s->path = realpath(path, NULL);
    if (!s->name) {
        report_fatal(r, err, NULL, 0, FS_NO_OFFSET, "out of memory");
        goto out;
    }
    err = open_regular(s, path, r);
    if (err < 0)
        goto out;
    if (how == SOURCE_MAP)
        s->map = source_map_file(s->fd, s->size, s->own);
    else if ((err = copy(s)) < 0) {
        report_fatal(r, err, NULL, 0, FS_NO_OFFSET, "cannot be read: %s", strerror(-err));
        goto out;
    }
    *out = s;
    s = NULL;
out:
    source_free(s);
    return err;
}

struct source *source_own_at(int dir, const char *name)
{
    struct source *s = calloc(1, sizeof *s);
    if (s)
        s->name = strdup(name);
    if (!s || !s->name) {
        free(s);
        return NULL;
    }
    s->refs = 1;
    s->fd = -1;
    s->dir = dir;
    s->own = true;
    s->size = SOURCE_GROWS;
    return s;
}

struct source *source_own(int fd, uint64_t size)
{
    struct source *s = source_own_at(-1, "");
    if (!s) {
        close(fd);
        return NULL;
    }
    s->fd = fd;
    s->size = size;
    if (size != SOURCE_GROWS)
        s->map = source_map_file(fd, size, true);
    return s;
}

int source_pin(struct source *s)
{
    int fd = source_fd(s), none = -1;
    if (fd >= 0 && fd != s->fd && !atomic_compare_exchange_strong(&s->fd, &none, fd))
        close(fd);
    return fd < 0 ? fd : 0;
}

struct source *source_lost(const char *path)
{
    struct source *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->refs = 1;
    s->fd = -1;
    s->changed = true;
    s->size = SOURCE_GROWS;
    s->name = strdup(base_name(path));
    s->path = strdup(path);
    if (s->name && s->path)
        return s;
    source_free(s);
    return NULL;
}

struct source *source_ref(struct source *s)
{
    atomic_fetch_add(&s->refs, 1);
    return s;
}

void source_free(struct source *s)
{
    if (!s || atomic_fetch_sub(&s->refs, 1) != 1)
        return;
    if (s->gone)
        s->gone(s);
    if (s->shelf)
        shelf_forget(s);
    else if (s->map && s->fd >= 0)
        source_unmap(s->map, s->size);
    else
        free((void *)(uintptr_t)s->map);
    if (s->fd >= 0)
        close(s->fd);
    free(s->name);
    free(s->path);
    free(s);
}

struct source *source_none(const char *name, const struct stat *st)
{
    struct source *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->refs = 1;
    s->fd = -1;
    s->name = strdup(base_name(name));
    if (!s->name) {
        free(s);
        return NULL;
    }
    if (st) {
        s->st = *st;
        return s;
    }
    s->st.st_mode = S_IFREG | 0444;
    s->st.st_uid = geteuid();
    s->st.st_gid = getegid();
    clock_gettime(CLOCK_REALTIME, &s->st.st_mtim);
    s->st.st_atim = s->st.st_ctim = s->st.st_mtim;
    return s;
}

const unsigned char *source_mapped(struct source *s)
{
    return s->shelf ? shelf_map(s) : s->map;
}

/* -1 means something else here, and it is the number of EPERM. */
static int open_error(int err)
{
    return err == ENOENT || err == ELOOP ? -EIO : err == EPERM ? -EACCES : -err;
}

int source_fd(const struct source *s)
{
    if (s->shelf)
        return shelf_pin((struct source *)(uintptr_t)s);
    if (s->fd >= 0 || !s->own)
        return s->fd;
    int fd = openat(s->dir, s->name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    return fd >= 0 ? fd : open_error(errno);
}

void source_fd_done(const struct source *s, int fd)
{
    if (s->shelf)
        shelf_unpin((struct source *)(uintptr_t)s);
    else if (fd >= 0 && fd != s->fd)
        close(fd);
}

int source_read(const struct source *s, uint64_t off, void *buf, size_t len)
{
    if (!range_fits(off, len, s->size) || (!s->shelf && s->changed && s->fd < 0))
        return -EIO;
    if (!s->shelf && !s->own && s->fd < 0) {
        if (len)
            memcpy(buf, s->map + off, len); /* a copy in our own memory */
        return 0;
    }
    int fd = source_fd(s);
    if (fd < 0)
        return fd;
    int err = source_read_fd(fd, off, buf, len);
    source_fd_done(s, fd);
    return err;
}

static bool unchanged(const struct source *s, int fd)
{
    struct stat now;
    return fstat(fd, &now) == 0 && now.st_size == s->st.st_size &&
           now.st_mtim.tv_sec == s->st.st_mtim.tv_sec && now.st_mtim.tv_nsec == s->st.st_mtim.tv_nsec;
}

int source_check(struct source *s)
{
    if (s->changed)
        return -EIO;
    if (!s->shelf && (s->fd < 0 || s->own))
        return 0;
    int fd = source_fd(s);
    if (fd < 0)
        return fd;
    if (!unchanged(s, fd) && !atomic_exchange(&s->changed, true) && source_on_change)
        source_on_change(s);
    source_fd_done(s, fd);
    return s->changed ? -EIO : 0;
}

int source_populate(const struct source *s, uint64_t off, uint64_t len)
{
    static long page;
    if (page == 0)
        page = sysconf(_SC_PAGESIZE);
    if (!s->map || (!s->shelf && s->fd < 0) || len == 0)
        return 0;
    uint64_t start = off - off % (uint64_t)page;
    if (madvise((void *)(uintptr_t)(s->map + start), (size_t)(off + len - start), MADV_POPULATE_READ) == 0)
        return 0;
    /* EINVAL: a kernel without it. EAGAIN, ENOMEM: it may still be read the slow way. */
    return errno == EFAULT || errno == EHWPOISON || errno == EIO ? -EIO : 0;
}
