/* SPDX-License-Identifier: MIT */
#include "save.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "source.h"

const struct save_options save_plain = {.uid = (uid_t)-1, .gid = (gid_t)-1, .dir = AT_FDCWD};

#define TEMPORARY ".safetensors-"

/* Bytes in one write, in one copy_file_range, in one part that is sent to disk. */
enum { PIECE = 1 << 20, LARGE = 16 << 20, STRETCH = 32 << 20 };

struct save {
    const struct extents *x;
    const struct save_options *o;
    struct report *r;
    char *dir_name;
    const char *base;
    char temporary[64];
    int dir, fd;
    void *piece;
    uint64_t done;
};

int save_is_temporary(const char *name)
{
    size_t n = strlen(name), head = sizeof TEMPORARY - 1;
    return n == head + 16 + 4 && memcmp(name, TEMPORARY, head) == 0 && strcmp(name + n - 4, ".tmp") == 0;
}

void save_clean(int dir, const char *name)
{
    int fd = save_is_temporary(name) ? openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
    if (fd < 0)
        return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        unlinkat(dir, name, 0);
    close(fd);
}

static int failed(struct save *s, int err, const char *what)
{
    return report_fatal(s->r, err, NULL, 0, FS_NO_OFFSET, "%s: %s", what, strerror(-err));
}

int save_make_parents(int dir, const char *path)
{
    char *part = strdup(path);
    int err = part ? 0 : -ENOMEM;
    for (char *p = part; err == 0 && (p = strchr(p + 1, '/')) != NULL; *p = '/') {
        *p = 0;
        if (mkdirat(dir, part, 0777) < 0 && errno != EEXIST)
            err = -errno;
    }
    free(part);
    return err;
}

static int open_directory(struct save *s, const char *path)
{
    const char *slash = strrchr(path, '/');
    s->base = slash ? slash + 1 : path;
    s->dir_name = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    if (!s->dir_name)
        return failed(s, -ENOMEM, "cannot be written");
    if (*path == 0)
        return failed(s, -ENOENT, "cannot be written");
    if (*s->base == 0 || strcmp(s->base, ".") == 0 || strcmp(s->base, "..") == 0)
        return failed(s, -EISDIR, "cannot be written");
    int err = s->o->parents ? save_make_parents(s->o->dir, s->dir_name) : 0;
    if (err < 0)
        return failed(s, err, "its directory");
    s->dir = openat(s->o->dir, s->dir_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return s->dir < 0 ? failed(s, -errno, "its directory") : 0;
}

/* The temporary file, with the mode that the new file shall have. It is nobody else's to read until it has
 * the mode of the file that it replaces, which may be a secret one. */
static int create(struct save *s)
{
    struct stat old;
    uint64_t number;
    bool replaces = fstatat(s->dir, s->base, &old, AT_SYMLINK_NOFOLLOW) == 0;
    if (!replaces && errno != ENOENT) /* a name too long is better said before than after the work */
        return failed(s, -errno, "cannot be written");
    if (replaces && S_ISDIR(old.st_mode))
        return failed(s, -EISDIR, "cannot be replaced");
    if (replaces && !S_ISREG(old.st_mode) && !S_ISLNK(old.st_mode))
        return report_fatal(s->r, -EINVAL, NULL, 0, FS_NO_OFFSET, "cannot be replaced: is no regular file");
    bool keeps_mode = replaces && S_ISREG(old.st_mode);
    do {
        if (getrandom(&number, sizeof number, GRND_NONBLOCK) < 0)
            return failed(s, -errno, "cannot be written");
        snprintf(s->temporary, sizeof s->temporary, TEMPORARY "%016" PRIx64 ".tmp", number);
        s->fd = openat(s->dir, s->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, keeps_mode ? 0600 : 0666);
    } while (s->fd < 0 && errno == EEXIST);
    if (s->fd < 0) {
        int err = -errno;
        s->temporary[0] = 0;
        return failed(s, err, "cannot be written in its directory");
    }
    (void)flock(s->fd, LOCK_EX | LOCK_NB); /* tells who cleans up that somebody is still at work on it */
    if ((s->o->uid != (uid_t)-1 || s->o->gid != (gid_t)-1) && fchown(s->fd, s->o->uid, s->o->gid) < 0)
        return failed(s, -errno, "cannot be given to its owner");
    if (keeps_mode && fchmod(s->fd, old.st_mode & 07777) < 0)
        return failed(s, -errno, "cannot be given the mode of the file it replaces");
    return 0;
}

static int write_fully(int fd, const char *p, size_t len)
{
    while (len) {
        ssize_t n = write(fd, p, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

/* How the kernel says that it cannot copy between these two files, though both can be read and written. */
static int must_copy_ourselves(int err)
{
    return err == EXDEV || err == EINVAL || err == ENOSYS || err == EOPNOTSUPP || err == EBADF ||
           err == ETXTBSY || err == EPERM;
}

/* Lets the kernel copy up to LARGE bytes of a source. The number copied, 0 if it cannot, or a negative errno.
 */
static int64_t copy_range(struct save *s, const struct extent *e, uint64_t skip)
{
    uint64_t left = e->len - skip;
    off_t from = (off_t)(e->off + skip);
    int err = source_check(e->source), fd = err == 0 ? source_fd(e->source) : -1;
    if (fd < 0)
        return err < 0 ? err : fd == -1 ? 0 : fd;
    ssize_t n = copy_file_range(fd, &from, s->fd, NULL, left < LARGE ? (size_t)left : LARGE, 0);
    if (n < 0)
        n = must_copy_ourselves(errno) ? 0 : -errno;
    source_fd_done(e->source, fd);
    return n;
}

/* Copies through our memory: as much as one piece holds of what follows, many small extents at once. */
static int64_t copy_piece(struct save *s)
{
    ssize_t n = extents_read(s->x, s->done, s->piece, PIECE);
    if (n < 0)
        return n;
    int err = write_fully(s->fd, s->piece, (size_t)n);
    return err < 0 ? err : n;
}

/* Writes some of extent e, from s->done on. */
static int64_t copy_some(struct save *s, const struct extent *e)
{
    uint64_t skip = s->done - e->start, left = e->len - skip;
    int64_t n = 0;
    if (e->kind == EXTENT_SOURCE && left >= PIECE)
        n = copy_range(s, e, skip);
    else if (e->kind == EXTENT_MEMORY && left >= PIECE) {
        int err = write_fully(s->fd, (char *)e->memory + skip, PIECE);
        return err < 0 ? err : PIECE;
    }
    return n != 0 ? n : copy_piece(s);
}

/* Lets the disk begin early, and waits for what it was given before: so the last fsync is a short one, which
 * a signal need not wait for, and others who write are not held up by all that is dirty. */
static void write_back(struct save *s, uint64_t from)
{
    uint64_t now = s->done - s->done % STRETCH, before = from - from % STRETCH;
    if (now == before)
        return;
    (void)sync_file_range(s->fd, (off_t)before, (off_t)(now - before), SYNC_FILE_RANGE_WRITE);
    if (before >= STRETCH)
        (void)sync_file_range(s->fd, (off_t)(before - STRETCH), STRETCH,
                              SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                                  SYNC_FILE_RANGE_WAIT_AFTER);
}

static int copy_all(struct save *s)
{
    size_t i = 0;
    int err = 0;
    while (s->done < s->x->size) {
        while (s->done >= s->x->v[i].start + s->x->v[i].len)
            i++;
        int64_t n = copy_some(s, &s->x->v[i]);
        if (n == -EINTR)
            n = 0;
        if (n < 0)
            return failed(s, (int)n,
                          n == -EIO ? "a source changed or cannot be read, or the disk failed"
                                    : "cannot be written");
        s->done += (uint64_t)n;
        write_back(s, s->done - (uint64_t)n);
        err = s->o->progress ? s->o->progress(s->o->ctx, s->done, s->x->size) : 0;
        if (err < 0)
            return failed(s, err, "stopped");
    }
    return 0;
}

/* What was copied while a source changed is a mixture: looked at once more when all is copied. */
static int check_sources(struct save *s)
{
    const struct source *last = NULL;
    for (size_t i = 0; i < s->x->n; i++) {
        const struct extent *e = &s->x->v[i];
        if (e->kind != EXTENT_SOURCE || e->source == last)
            continue;
        if (source_check(e->source) < 0)
            return report_fatal(s->r, -EIO, NULL, 0, FS_NO_OFFSET, "source %s changed meanwhile",
                                e->source->name);
        last = e->source;
    }
    return 0;
}

static int settle(struct save *s)
{
    if (fsync(s->fd) < 0)
        return failed(s, -errno, "cannot be written to disk");
    if (renameat(s->dir, s->temporary, s->dir, s->base) < 0)
        return failed(s, -errno, "cannot be replaced");
    s->temporary[0] = 0;
    if (fsync(s->dir) < 0 && errno != EINVAL) /* EINVAL: a file system whose directories need none */
        return failed(s, -errno, "is replaced, but its directory cannot be written to disk");
    return 0;
}

int save_extents(const char *path, const struct extents *x, const struct save_options *o, struct report *r)
{
    struct save s = {.x = x, .o = o, .r = r, .dir = -1, .fd = -1, .piece = malloc(PIECE)};
    if (!s.piece)
        return failed(&s, -ENOMEM, "cannot be written");
    int err = open_directory(&s, path);
    if (err == 0)
        err = create(&s);
    if (err == 0)
        err = copy_all(&s);
    if (err == 0)
        err = check_sources(&s);
    if (err == 0 && o->approve)
        err = o->approve(s.fd, r);
    if (err == 0)
        err = settle(&s);
    if (s.temporary[0])
        unlinkat(s.dir, s.temporary, 0);
    if (s.fd >= 0)
        close(s.fd);
    if (s.dir >= 0)
        close(s.dir);
    free(s.dir_name);
    free(s.piece);
    return err;
}
