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

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#endif

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static int read_fully(int fd, uint64_t off, void *buf, size_t len)
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

static void map(struct source *s)
{
    if (s->size == 0 || s->size > SIZE_MAX)
        return;
    /* Private: some file systems refuse shared mappings. NORESERVE: the size may exceed memory. */
    void *p = mmap(NULL, (size_t)s->size, PROT_READ, MAP_PRIVATE | MAP_NORESERVE, s->fd, 0);
    if (p == MAP_FAILED)
        return;
    s->map = p;
    (void)madvise(p, (size_t)s->size, MADV_HUGEPAGE); /* a wish: not every kernel and file system has it */
}

static int copy(struct source *s)
{
    if (s->size > SIZE_MAX)
        return -ENOMEM;
    unsigned char *p = malloc(s->size ? (size_t)s->size : 1);
    if (!p)
        return -ENOMEM;
    s->map = p;
    int err = read_fully(s->fd, 0, p, (size_t)s->size);
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
        map(s);
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
    s->size = UINT64_MAX;
    return s;
}

struct source *source_own(int fd)
{
    struct source *s = source_own_at(-1, "staged");
    if (s)
        s->fd = fd;
    else
        close(fd);
    return s;
}

int source_use(const struct source *s)
{
    int fd = s->fd;
    if (fd < 0 && s->own)
        fd = openat(s->dir, s->name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    else if (fd < 0)
        return -EBADF;
    return fd >= 0 ? fd : errno == ENOENT || errno == ELOOP ? -EIO : -errno;
}

void source_used(const struct source *s, int fd)
{
    if (fd >= 0 && fd != s->fd)
        close(fd);
}

struct source *source_empty(const char *name)
{
    struct source *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->refs = 1;
    s->fd = -1;
    s->name = strdup(name);
    s->st.st_mode = S_IFREG | 0444;
    s->st.st_uid = geteuid();
    s->st.st_gid = getegid();
    clock_gettime(CLOCK_REALTIME, &s->st.st_mtim);
    s->st.st_atim = s->st.st_ctim = s->st.st_mtim;
    if (s->name)
        return s;
    source_free(s);
    return NULL;
}

struct source *source_lost(const char *path)
{
    struct source *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->refs = 1;
    s->fd = -1;
    s->changed = true;
    s->size = UINT64_MAX;
    s->name = strdup(base_name(path));
    s->path = strdup(path);
    if (s->name && s->path)
        return s;
    source_free(s);
    return NULL;
}

int source_pin(struct source *s)
{
    int fd = source_use(s), none = -1;
    if (fd >= 0 && fd != s->fd && !atomic_compare_exchange_strong(&s->fd, &none, fd))
        close(fd);
    return fd < 0 ? fd : 0;
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
    if (s->map && s->fd >= 0)
        munmap((void *)(uintptr_t)s->map, (size_t)s->size);
    else
        free((void *)(uintptr_t)s->map);
    if (s->fd >= 0)
        close(s->fd);
    free(s->name);
    free(s->path);
    free(s);
}

int source_read(const struct source *s, uint64_t off, void *buf, size_t len)
{
    if (!range_fits(off, len, s->size) || (s->changed && s->fd < 0))
        return -EIO;
    if (s->fd < 0 && !s->own) {
        memcpy(buf, s->map + off, len); /* a copy in our own memory */
        return 0;
    }
    int fd = source_use(s);
    int err = fd < 0 ? fd : read_fully(fd, off, buf, len);
    source_used(s, fd);
    return err;
}

int source_check(struct source *s)
{
    struct stat now;
    if (s->changed)
        return -EIO;
    if (s->fd < 0 || s->own)
        return 0;
    if (fstat(s->fd, &now) == 0 && now.st_size == s->st.st_size &&
        now.st_mtim.tv_sec == s->st.st_mtim.tv_sec && now.st_mtim.tv_nsec == s->st.st_mtim.tv_nsec)
        return 0;
    s->changed = true;
    return -EIO;
}

int source_populate(const struct source *s, uint64_t off, uint64_t len)
{
    static long page;
    if (page == 0)
        page = sysconf(_SC_PAGESIZE);
    if (!s->map || s->fd < 0 || len == 0)
        return 0;
    uint64_t start = off - off % (uint64_t)page;
    if (madvise((void *)(uintptr_t)(s->map + start), (size_t)(off + len - start), MADV_POPULATE_READ) == 0)
        return 0;
    /* EINVAL: a kernel without it. EAGAIN, ENOMEM: it may still be read the slow way. */
    return errno == EFAULT || errno == EHWPOISON || errno == EIO ? -EIO : 0;
}
