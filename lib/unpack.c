/* SPDX-License-Identifier: MIT */
#include "unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "checked.h"

enum { BLOCK = 262144 };

enum state { PACKED, BUSY, DONE, DAMAGED };

struct unpacked {
    struct unpacker *u;
    struct unpacked *next;
    uint64_t at, packed, size; /* in the archive */
    uint64_t to;               /* in the temporary file */
    enum state state;          /* guarded by u->lock */
};

struct unpacker {
    struct source *from;
    struct source *file; /* the temporary one; NULL until it is made */
    struct unpacked *first;
    uint64_t size;
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

static _Thread_local struct {
    bool (*asked)(void *ctx);
    void *ctx;
} interrupt;

void unpack_interrupt(bool (*asked)(void *ctx), void *ctx)
{
    interrupt.asked = asked;
    interrupt.ctx = ctx;
}

static bool interrupted(void)
{
    return interrupt.asked && interrupt.asked(interrupt.ctx);
}

int unpack_to_memory(void *ctx, uint64_t at, const unsigned char *p, size_t len)
{
    memcpy((unsigned char *)ctx + at, p, len);
    return 0;
}

/* Inflates what is in z's input; *done is how much has come out in all. 1: the stream has ended. */
static int inflate_block(z_stream *z, unsigned char *out, uint64_t size, uint64_t *done, unpack_sink sink,
                         void *ctx)
{
    do {
        /* One byte more than the rest, so that a stream that goes on is noticed. */
        uint64_t room = size - *done < BLOCK ? size - *done + 1 : BLOCK;
        z->next_out = out;
        z->avail_out = (uInt)room;
        int ret = inflate(z, Z_NO_FLUSH);
        size_t n = (size_t)room - z->avail_out;
        if (ret == Z_MEM_ERROR)
            return -ENOMEM;
        if ((ret != Z_OK && ret != Z_STREAM_END && ret != Z_BUF_ERROR) || n > size - *done)
            return -EBADMSG;
        int err = n ? sink(ctx, *done, out, n) : 0;
        if (err < 0)
            return err;
        *done += n;
        if (ret == Z_STREAM_END)
            return 1;
        if (interrupted())
            return -EINTR;
    } while (z->avail_in || z->avail_out == 0);
    return 0;
}

int unpack(const struct source *s, uint64_t at, uint64_t packed, uint64_t size, unpack_sink sink, void *ctx)
{
    z_stream z = {0};
    unsigned char *in = malloc(2 * (size_t)BLOCK);
    uint64_t done = 0;
    int err = -ENOMEM;
    if (!in || inflateInit2(&z, -MAX_WBITS) != Z_OK)
        goto out;
    err = 0;
    while (packed && err == 0) {
        size_t n = packed < BLOCK ? (size_t)packed : BLOCK;
        err = source_read(s, at, in, n);
        if (err < 0)
            break;
        z.next_in = in;
        z.avail_in = (uInt)n;
        at += n;
        packed -= n;
        err = inflate_block(&z, in + BLOCK, size, &done, sink, ctx);
    }
    if (err >= 0) /* it ends exactly where it should, in both counts */
        err = err == 1 && packed == 0 && z.avail_in == 0 && done == size ? 0 : -EBADMSG;
    inflateEnd(&z);
out:
    free(in);
    return err;
}

struct unpacker *unpacker_new(struct source *s)
{
    struct unpacker *u = calloc(1, sizeof *u);
    if (!u)
        return NULL;
    u->from = source_ref(s);
    pthread_mutex_init(&u->lock, NULL);
    pthread_cond_init(&u->changed, NULL);
    return u;
}

void unpacker_free(struct unpacker *u)
{
    if (!u)
        return;
    while (u->first) {
        struct unpacked *next = u->first->next;
        free(u->first);
        u->first = next;
    }
    source_free(u->from);
    source_free(u->file);
    pthread_mutex_destroy(&u->lock);
    pthread_cond_destroy(&u->changed);
    free(u);
}

struct unpacked *unpacker_add(struct unpacker *u, uint64_t at, uint64_t packed, uint64_t size)
{
    uint64_t total, aligned;
    struct unpacked *x = calloc(1, sizeof *x);
    if (!x || add_overflows(size, 63, &aligned) || add_overflows(u->size, aligned & ~UINT64_C(63), &total) ||
        total > INT64_MAX) {
        free(x);
        return NULL;
    }
    *x = (struct unpacked){.u = u, .next = u->first, .at = at, .packed = packed, .size = size, .to = u->size};
    u->first = x;
    u->size = total;
    return x;
}

/* A file without a name, on a disk where that can be. */
static int temporary(void)
{
    const char *const dirs[] = {getenv("TMPDIR"), "/var/tmp", "/tmp"};
    for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++) {
        int fd = dirs[i] && dirs[i][0] == '/' ? open(dirs[i], O_TMPFILE | O_RDWR | O_CLOEXEC, 0600) : -1;
        if (fd >= 0)
            return fd;
    }
    return memfd_create("unpacked", MFD_CLOEXEC); /* counts as memory, but is always there */
}

int unpacker_start(struct unpacker *u, struct report *r)
{
    int fd = temporary();
    if (fd < 0 || ftruncate(fd, (off_t)u->size) < 0) {
        int err = -errno;
        if (fd >= 0)
            close(fd);
        return report_fatal(r, err, NULL, 0, FS_NO_OFFSET, "no temporary file to unpack into: %s",
                            strerror(-err));
    }
    u->file = source_own(fd, u->size);
    return u->file ? 0 : report_fatal(r, -ENOMEM, NULL, 0, FS_NO_OFFSET, "out of memory");
}

static int to_file(void *ctx, uint64_t at, const unsigned char *p, size_t len)
{
    const struct unpacked *x = ctx;
    while (len) {
        ssize_t n = pwrite(x->u->file->fd, p, len, (off_t)(x->to + at));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        p += n;
        at += (uint64_t)n;
        len -= (size_t)n;
    }
    return 0;
}

/* Waits until nobody is at it; in steps, so as to hear of an interruption. */
static int wait_idle(struct unpacked *x)
{
    while (x->state == BUSY) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 100000000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_nsec -= 1000000000;
            until.tv_sec++;
        }
        pthread_cond_timedwait(&x->u->changed, &x->u->lock, &until);
        if (x->state == BUSY && interrupted())
            return -EINTR;
    }
    return 0;
}

int unpacked_need(struct unpacked *x)
{
    struct unpacker *u = x->u;
    pthread_mutex_lock(&u->lock);
    int err = wait_idle(x);
    if (err == 0 && x->state == DAMAGED)
        err = -EIO;
    if (err < 0 || x->state == DONE) {
        pthread_mutex_unlock(&u->lock);
        return err;
    }
    x->state = BUSY;
    pthread_mutex_unlock(&u->lock);
    err = u->file ? source_check(u->from) : -EIO;
    if (err == 0)
        err = unpack(u->from, x->at, x->packed, x->size, to_file, x);
    if (err == 0)
        err = source_check(u->from);
    pthread_mutex_lock(&u->lock);
    x->state = err == 0 ? DONE : err == -EBADMSG ? DAMAGED : PACKED;
    pthread_cond_broadcast(&u->changed);
    pthread_mutex_unlock(&u->lock);
    return err == -EBADMSG ? -EIO : err;
}

int unpacked_read(struct unpacked *x, uint64_t off, void *buf, size_t len)
{
    if (!range_fits(off, len, x->size))
        return -EIO;
    int err = unpacked_need(x);
    return err < 0 ? err : source_read(x->u->file, x->to + off, buf, len);
}

struct source *unpacked_source(struct unpacked *x, uint64_t *off)
{
    pthread_mutex_lock(&x->u->lock);
    bool done = x->state == DONE;
    pthread_mutex_unlock(&x->u->lock);
    *off = x->to;
    return done ? x->u->file : NULL;
}
