/* SPDX-License-Identifier: MIT
 *
 * | operation                                | here                                          |
 * | ---------------------------------------- | --------------------------------------------- |
 * | init lookup getattr opendir readdir      | below                                         |
 * | readdirplus open read release statfs     | below                                         |
 * | getxattr listxattr                       | below                                         |
 * | access                                   | not set: the kernel checks (default_permissions) |
 * | what writes                              | below, for kinds that can be written; a mount |
 * |                                          | without any is read-only to the kernel        |
 * | mknod symlink                            | EPERM in .staging, else EROFS                 |
 * | lseek ioctl poll                         | not set: the kernel's own answer is right     |
 *
 * A node's number for the kernel, and its inode number: eight times its number within its kind, plus the
 * kind, plus one; so the root, node 0 of kind 0, is FUSE_ROOT_ID. They are the same at every mount of the
 * same file.
 */
#include "ops_i.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stats.h"
#include "unpack.h"
#include "waiting.h"

static const double FOREVER = 1e8, NEVER = 0; /* seconds */

enum { MOST_VECTORS = 128 };

static fuse_ino_t ino_of(const struct fs *fs, const struct kind *k, uint64_t id)
{
    size_t i = 0;
    while (fs->kind[i] != k)
        i++;
    return id * 8 + i + FUSE_ROOT_ID;
}

struct kind *ops_kind_of(const struct fs *fs, fuse_ino_t ino, uint64_t *id)
{
    *id = (ino - FUSE_ROOT_ID) / 8;
    return fs->kind[(ino - FUSE_ROOT_ID) % 8]; /* the kernel asks only for numbers it was given */
}

double ops_timeout(const struct kind *k)
{
    return k->ops->forever ? FOREVER : NEVER;
}

/* The one place where errors turn positive. */
void ops_reply_err(fuse_req_t req, int err)
{
    fuse_reply_err(req, err < 0 ? -err : 0);
}

int ops_get_attr(const struct fs *fs, struct kind *k, uint64_t id, struct stat *st)
{
    *st = fs->base;
    st->st_ino = ino_of(fs, k, id);
    st->st_nlink = 1;
    int err = k->ops->getattr(k, id, st);
    if (S_ISDIR(st->st_mode))
        st->st_mode |= (st->st_mode & 0444) >> 2;
    st->st_blocks = (st->st_size + 511) / 512;
    return err;
}

int ops_get_entry(const struct fs *fs, struct kind *k, uint64_t id, struct fuse_entry_param *e)
{
    *e = (struct fuse_entry_param){.attr_timeout = ops_timeout(k), .entry_timeout = ops_timeout(k)};
    e->ino = ino_of(fs, k, id);
    return ops_get_attr(fs, k, id, &e->attr);
}

/* The kernel now knows the node once more; unless it no longer wants the answer. */
void ops_reply_entry(fuse_req_t req, struct kind *k, uint64_t id, const struct fuse_entry_param *e)
{
    if (k->ops->hold && e->ino)
        k->ops->hold(k, id, 1);
    if (fuse_reply_entry(req, e) < 0 && k->ops->hold && e->ino)
        k->ops->hold(k, id, -1);
}

void ops_forget(const struct fs *fs, fuse_ino_t ino, uint64_t n)
{
    uint64_t id;
    struct kind *k = ops_kind_of(fs, ino, &id);
    if (k->ops->hold)
        k->ops->hold(k, id, -(int64_t)n);
}

static void op_init(void *userdata, struct fuse_conn_info *conn)
{
    struct fs *fs = userdata;
    const unsigned wanted = FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_READDIRPLUS | FUSE_CAP_ASYNC_READ |
                            FUSE_CAP_CACHE_SYMLINKS
#ifdef FUSE_CAP_DIRECT_IO_ALLOW_MMAP
                            | FUSE_CAP_DIRECT_IO_ALLOW_MMAP
#endif
        ;
    conn->want |= conn->capable & wanted;
    conn->want &= ~(unsigned)(FUSE_CAP_AUTO_INVAL_DATA      /* the model's files never change */
                              | FUSE_CAP_READDIRPLUS_AUTO); /* large directories would need look-ups */
    conn->want &= ~(unsigned)FUSE_CAP_ATOMIC_O_TRUNC;       /* truncation comes as setattr */
    conn->max_read = fs->max_read; /* libfuse insists that both places say the same */
    fs->no_opendir = conn->capable & FUSE_CAP_NO_OPENDIR_SUPPORT;
    for (size_t i = 0; i < fs->n_kinds; i++)
        fs->no_opendir &= fs->kind[i]->ops->same_names;
    conn->max_background = 64;
    conn->congestion_threshold = 48;
}

/* ENOENT for the model's tree is kept by the kernel as well: an answer with number 0 and a time to live. */
static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    struct fs *fs = ops_fs_of(req);
    struct fuse_entry_param e;
    uint64_t dir, id = 0;
    struct kind *k = ops_kind_of(fs, parent, &dir);
    int err = -ENOENT;
    stats_count(&stats.lookups, 1);
    if (strlen(name) > 255) {
        ops_reply_err(req, -ENAMETOOLONG);
        return;
    }
    for (size_t i = 0; parent == FUSE_ROOT_ID && i < fs->n_kinds; i++)
        if (fs->kind[i]->ops->name && strcmp(fs->kind[i]->ops->name, name) == 0) {
            k = fs->kind[i];
            err = 0;
        }
    if (err < 0)
        err = k->ops->lookup(k, dir, name, &id);
    if (err == 0)
        err = ops_get_entry(fs, k, id, &e);
    else if (err == -ENOENT && k->ops->forever) {
        e = (struct fuse_entry_param){.entry_timeout = FOREVER};
        err = 0;
    }
    if (err < 0)
        ops_reply_err(req, err);
    else
        ops_reply_entry(req, k, id, &e);
}

static void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t n)
{
    ops_forget(ops_fs_of(req), ino, n);
    fuse_reply_none(req);
}

static void op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *all)
{
    for (size_t i = 0; i < count; i++)
        ops_forget(ops_fs_of(req), all[i].ino, all[i].nlookup);
    fuse_reply_none(req);
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct fs *fs = ops_fs_of(req);
    struct stat st;
    uint64_t id;
    struct kind *k = ops_kind_of(fs, ino, &id);
    (void)fi;
    stats_count(&stats.getattrs, 1);
    int err = ops_get_attr(fs, k, id, &st);
    if (err < 0)
        ops_reply_err(req, err);
    else
        fuse_reply_attr(req, &st, ops_timeout(k));
}

/* After one ENOSYS the kernel opens directories by itself, and keeps the listing of every one: only where no
 * kind has names that come and go. */
static void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    const struct fs *fs = ops_fs_of(req);
    uint64_t id;
    const struct kind *k = ops_kind_of(fs, ino, &id);
    fi->cache_readdir = fi->keep_cache = k->ops->same_names;
    if (fs->no_opendir)
        ops_reply_err(req, -ENOSYS);
    else
        fuse_reply_open(req, fi);
}

/* A listing on its way into one reply. */
struct listing {
    fuse_req_t req;
    struct fs *fs;
    struct kind *kind;
    char *p;
    size_t left;
    bool plus;
    int err;
};

enum { DOTS = 2 }; /* offsets 1 and 2 stand behind "." and ".."; those of the kind follow */

static bool add_entry(struct listing *l, const char *name, const struct fuse_entry_param *e, uint64_t next)
{
    size_t n = l->plus ? fuse_add_direntry_plus(l->req, l->p, l->left, name, e, (off_t)next)
                       : fuse_add_direntry(l->req, l->p, l->left, name, &e->attr, (off_t)next);
    if (n > l->left)
        return false;
    l->p += n;
    l->left -= n;
    return true;
}

static bool emit(void *ctx, const char *name, size_t len, uint64_t id, mode_t type, uint64_t next)
{
    struct listing *l = ctx;
    struct fuse_entry_param e = {.attr = {.st_ino = ino_of(l->fs, l->kind, id), .st_mode = type}};
    char text[256];
    memcpy(text, name, len);
    text[len] = 0;
    if (l->plus && (l->err = ops_get_entry(l->fs, l->kind, id, &e)) < 0)
        return false;
    if (!add_entry(l, text, &e, next + DOTS))
        return false;
    if (l->plus && l->kind->ops->hold)
        l->kind->ops->hold(l->kind, id, 1);
    return true;
}

/* "." and ".." carry no attributes: number 0 tells the kernel so. */
static bool emit_dots(struct listing *l, fuse_ino_t dir, off_t off)
{
    struct fuse_entry_param e = {.attr = {.st_ino = dir, .st_mode = S_IFDIR}};
    return (off > 0 || add_entry(l, ".", &e, 1)) && (off > 1 || add_entry(l, "..", &e, 2));
}

static void list(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, bool plus)
{
    struct fs *fs = ops_fs_of(req);
    char *room = malloc(size);
    struct listing l = {.req = req, .fs = fs, .p = room, .left = size, .plus = plus};
    uint64_t id;
    l.kind = ops_kind_of(fs, ino, &id);
    stats_count(&stats.readdirs, 1);
    if (!room) {
        ops_reply_err(req, -ENOMEM);
        return;
    }
    if (emit_dots(&l, ino, off)) {
        int err = l.kind->ops->readdir(l.kind, id, off > DOTS ? (uint64_t)off - DOTS : 0, emit, &l);
        if (l.err == 0)
            l.err = err;
    }
    if (l.err < 0 && l.left == size)
        ops_reply_err(req, l.err);
    else
        fuse_reply_buf(req, room, size - l.left);
    free(room);
}

static void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
    (void)fi;
    list(req, ino, size, off, false);
}

static void op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
    (void)fi;
    list(req, ino, size, off, true);
}

void ops_free_content(struct content *c)
{
    if (c)
        extents_free(&c->x);
    free(c);
}

/* 0 and an open file in fi->fh, or an error. */
int ops_open_node(struct fs *fs, struct kind *k, uint64_t id, struct fuse_file_info *fi)
{
    struct content *c = NULL;
    bool writes = (fi->flags & O_ACCMODE) != O_RDONLY;
    int err = writes && !k->ops->write ? -EROFS : 0;
    if (err == 0 && !(c = calloc(1, sizeof *c)))
        err = -ENOMEM;
    if (err == 0)
        err = k->ops->open(k, id, c);
    if (err == 0 && writes && !c->live)
        err = -EPERM;
    if (err < 0) {
        ops_free_content(c);
        return err;
    }
    fi->fh = (uintptr_t)c;
    fi->direct_io = c->fresh || (fs->direct_io && !c->live);
    fi->keep_cache = k->ops->forever;
    c->writes = writes;
    fi->noflush = !c->live || !writes;
    return 0;
}

static void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    uint64_t id;
    struct kind *k = ops_kind_of(ops_fs_of(req), ino, &id);
    stats_count(&stats.opens, 1);
    int err = ops_open_node(ops_fs_of(req), k, id, fi);
    if (err < 0)
        ops_reply_err(req, err);
    else if (fuse_reply_open(req, fi) < 0) /* the caller was interrupted: there will be no release */
        ops_free_content((struct content *)(uintptr_t)fi->fh);
}

static bool interrupted(void *ctx)
{
    return fuse_req_interrupted((fuse_req_t)ctx) != 0;
}

/* What is written meanwhile may be cut short just when it is read: then it is looked at once more. */
static ssize_t read_live(struct kind *k, uint64_t id, struct content *now, uint64_t off, size_t size,
                         struct iovec *iov, int *n, void **scratch)
{
    ssize_t got = -EIO;
    for (int tries = 0; tries < 3 && got == -EIO; tries++) {
        extents_free(&now->x);
        free(*scratch);
        *scratch = NULL;
        *n = MOST_VECTORS;
        got = k->ops->open(k, id, now);
        if (got == 0)
            got = extents_iov(&now->x, off, size, iov, n, scratch);
    }
    return got;
}

/* The read path: everything that can be read comes through here. The kernel copies straight from the mapping.
 * Should the source shrink just then, the kernel itself ends the request with EIO, and nothing is left to
 * reply to. */
static void answer_read(fuse_req_t req, fuse_ino_t ino, const struct content *c, size_t size, uint64_t off)
{
    struct iovec iov[MOST_VECTORS];
    int n = MOST_VECTORS;
    void *scratch = NULL;
    struct content now = {0};
    uint64_t id;
    struct kind *k = ops_kind_of(ops_fs_of(req), ino, &id);
    waiting_for(req);
    unpack_interrupt(interrupted, req);
    ssize_t got = c->live ? read_live(k, id, &now, off, size, iov, &n, &scratch)
                          : extents_iov(&c->x, off, size, iov, &n, &scratch);
    unpack_interrupt(NULL, NULL);
    waiting_for(NULL);
    stats_count(&stats.reads, 1);
    if (got < 0) {
        stats_count(&stats.read_errors, 1);
        ops_reply_err(req, (int)got);
    } else if (fuse_reply_iov(req, iov, n) < 0)
        stats_count(&stats.read_errors, 1);
    else
        stats_count(&stats.bytes_read, (unsigned long long)got);
    extents_free(&now.x);
    free(scratch);
}

static void answer_slowly(struct waiting *w)
{
    answer_read(w->req, w->ino, w->content, w->size, w->off);
}

static void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
    const struct content *c = (const struct content *)(uintptr_t)fi->fh;
    const struct waiting w = {req, ino, c, size, (uint64_t)off, answer_slowly};
    if (c->slow && c->slow(c->slow_ctx, (uint64_t)off) && waiting_start(&w))
        return;
    answer_read(req, ino, c, size, (uint64_t)off);
}

static void op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    (void)ino;
    ops_free_content((struct content *)(uintptr_t)fi->fh);
    ops_reply_err(req, 0);
}

static void op_statfs(fuse_req_t req, fuse_ino_t ino)
{
    const struct fs *fs = ops_fs_of(req);
    struct statvfs v = {.f_bsize = 4096, .f_frsize = 512, .f_namemax = 255};
    uint64_t id;
    struct kind *k = ops_kind_of(fs, ino, &id);
    v.f_blocks = fs->blocks;
    v.f_files = fs->files;
    int err = k->ops->statfs ? k->ops->statfs(k, &v) : 0;
    if (err < 0)
        ops_reply_err(req, err);
    else
        fuse_reply_statfs(req, &v);
}

/* size 0 asks for the length only. */
static void reply_xattr(fuse_req_t req, int err, const struct buf *b, size_t size)
{
    if (err == 0 && b->failed)
        err = -ENOMEM;
    if (err == 0 && size && b->len > size)
        err = -ERANGE;
    if (err < 0)
        ops_reply_err(req, err);
    else if (size == 0)
        fuse_reply_xattr(req, b->len);
    else
        fuse_reply_buf(req, b->p, b->len);
}

/* What the system itself asks for (ACLs, SELinux labels) no file has: ENOTSUP says that, and `ls -l` then
 * asks once instead of twice for each file. */
static int get_attribute(struct kind *k, uint64_t id, const char *name, struct buf *value)
{
    if (strncmp(name, "security.", 9) == 0 || strncmp(name, "system.", 7) == 0)
        return -ENOTSUP;
    return k->ops->getxattr ? k->ops->getxattr(k, id, name, value) : -ENODATA;
}

static void op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
    uint64_t id;
    struct kind *k = ops_kind_of(ops_fs_of(req), ino, &id);
    struct buf value = {0};
    stats_count(&stats.getxattrs, 1);
    reply_xattr(req, get_attribute(k, id, name, &value), &value, size);
    buf_free(&value);
}

static void op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
    uint64_t id;
    struct kind *k = ops_kind_of(ops_fs_of(req), ino, &id);
    struct buf names = {0};
    int err = k->ops->listxattr ? k->ops->listxattr(k, id, &names) : 0;
    reply_xattr(req, err, &names, size);
    buf_free(&names);
}

const struct fuse_lowlevel_ops fs_ops = {
    .init = op_init,
    .lookup = op_lookup,
    .getattr = op_getattr,
    .opendir = op_opendir,
    .readdir = op_readdir,
    .readdirplus = op_readdirplus,
    .open = op_open,
    .read = op_read,
    .release = op_release,
    .statfs = op_statfs,
    .getxattr = op_getxattr,
    .listxattr = op_listxattr,
    .forget = op_forget,
    .forget_multi = op_forget_multi,
    .mkdir = op_mkdir,
    .mknod = op_mknod,
    .symlink = op_symlink,
    .create = op_create,
    .unlink = op_unlink,
    .rmdir = op_rmdir,
    .rename = op_rename,
    .link = op_link,
    .copy_file_range = op_copy_file_range,
    .write = op_write,
    .setattr = op_setattr,
    .flush = op_flush,
    .fsync = op_fsync,
    .fsyncdir = op_fsyncdir,
    .setxattr = op_setxattr,
    .removexattr = op_removexattr,
};
