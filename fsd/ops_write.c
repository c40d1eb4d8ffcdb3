/* SPDX-License-Identifier: MIT
 * The operations that write, for kinds that can be written; the others answer EROFS. The table is in ops.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ops_i.h"

static struct node_caller caller(fuse_req_t req)
{
    const struct fuse_ctx *c = fuse_req_ctx(req);
    return (struct node_caller){c->uid, c->gid};
}

static int make_node(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t type, struct kind **k,
                     uint64_t *id, struct fuse_entry_param *e)
{
    uint64_t dir;
    *k = ops_kind_of(ops_fs_of(req), parent, &dir);
    if (strlen(name) > 255)
        return -ENAMETOOLONG;
    int err = (*k)->ops->make ? (*k)->ops->make(*k, dir, name, type, caller(req), id) : -EROFS;
    return err < 0 ? err : ops_get_entry(ops_fs_of(req), *k, *id, e);
}

static int find_node(fuse_req_t req, fuse_ino_t parent, const char *name, struct kind **k, uint64_t *id,
                     struct fuse_entry_param *e)
{
    uint64_t dir;
    *k = ops_kind_of(ops_fs_of(req), parent, &dir);
    int err = (*k)->ops->lookup(*k, dir, name, id);
    if (err == 0)
        err = ops_get_entry(ops_fs_of(req), *k, *id, e);
    return err < 0 ? err : S_ISDIR(e->attr.st_mode) ? -EISDIR : 0;
}

/* mkdir and mknod. The mode asked for is accepted; what is shown is the kind's affair. */
static void make(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t type)
{
    struct fuse_entry_param e = {0};
    struct kind *k;
    uint64_t id;
    int err = make_node(req, parent, name, type, &k, &id, &e);
    if (err < 0)
        ops_reply_err(req, err);
    else
        ops_reply_entry(req, k, id, &e);
}

void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
    (void)mode;
    make(req, parent, name, S_IFDIR);
}

void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t dev)
{
    (void)dev;
    make(req, parent, name, mode & S_IFMT);
}

void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
    (void)target;
    make(req, parent, name, S_IFLNK);
}

void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi)
{
    struct fuse_entry_param e = {0};
    struct kind *k;
    uint64_t id;
    (void)mode;
    int err = make_node(req, parent, name, S_IFREG, &k, &id, &e);
    if (err == -EEXIST && !(fi->flags & O_EXCL)) /* another was faster */
        err = find_node(req, parent, name, &k, &id, &e);
    if (err == 0)
        err = ops_open_node(ops_fs_of(req), k, id, fi);
    if (err < 0) {
        ops_reply_err(req, err);
        return;
    }
    if (k->ops->hold)
        k->ops->hold(k, id, 1);
    if (fuse_reply_create(req, &e, fi) < 0) {
        ops_free_content((struct content *)(uintptr_t)fi->fh);
        ops_forget(ops_fs_of(req), e.ino, 1);
    }
}

static void remove_node(fuse_req_t req, fuse_ino_t parent, const char *name, bool is_dir)
{
    uint64_t dir;
    struct kind *k = ops_kind_of(ops_fs_of(req), parent, &dir);
    ops_reply_err(req, k->ops->remove ? k->ops->remove(k, dir, name, is_dir) : -EROFS);
}

void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    remove_node(req, parent, name, false);
}

void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    remove_node(req, parent, name, true);
}

void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
               const char *new_name, unsigned flags)
{
    uint64_t dir, new_dir;
    struct kind *k = ops_kind_of(ops_fs_of(req), parent, &dir),
                *to = ops_kind_of(ops_fs_of(req), new_parent, &new_dir);
    int err = k->ops->rename && to->ops->rename ? 0 : -EROFS;
    if (err == 0 && k != to)
        err = -EXDEV;
    if (err == 0 && strlen(new_name) > 255)
        err = -ENAMETOOLONG;
    ops_reply_err(req, err < 0 ? err : k->ops->rename(k, dir, name, new_dir, new_name, flags));
}

/* The content of any node, to be copied or linked from. */
struct origin {
    struct content c;
    struct node_tensor tensor;
    struct node_origin o;
};

static int open_origin(const struct fs *fs, fuse_ino_t ino, struct origin *out)
{
    uint64_t id;
    struct kind *k = ops_kind_of(fs, ino, &id);
    int err = k->ops->open(k, id, &out->c);
    bool is_tensor = err == 0 && k->ops->tensor && k->ops->tensor(k, id, &out->tensor) == 0;
    out->o = (struct node_origin){&out->c.x, is_tensor ? &out->tensor : NULL};
    return err;
}

static void free_origin(struct origin *o)
{
    extents_free(&o->c.x);
    free(o->tensor.shape);
}

/* A link here is a copy that belongs to who asks for it, so he must be allowed to read what he links. */
static int check_readable(fuse_req_t req, fuse_ino_t ino)
{
    struct stat st;
    uint64_t id;
    struct node_caller who = caller(req);
    struct kind *k = ops_kind_of(ops_fs_of(req), ino, &id);
    int err = ops_get_attr(ops_fs_of(req), k, id, &st);
    mode_t bit = who.uid == st.st_uid ? 0400 : who.gid == st.st_gid ? 0040 : 0004;
    return err < 0 ? err : who.uid == 0 || (st.st_mode & bit) ? 0 : -EPERM;
}

/* The new name is an object of its own: it may be answered with another inode than the one linked. */
void op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name)
{
    struct fs *fs = ops_fs_of(req);
    struct fuse_entry_param e = {0};
    struct origin from = {0};
    uint64_t dir, id;
    struct kind *k = ops_kind_of(fs, parent, &dir);
    int err = k->ops->link ? check_readable(req, ino) : -EROFS;
    if (err == 0)
        err = open_origin(fs, ino, &from);
    if (err == 0 && strlen(name) > 255)
        err = -ENAMETOOLONG;
    if (err == 0)
        err = k->ops->link(k, dir, name, &from.o, caller(req), &id);
    if (err == 0)
        err = ops_get_entry(fs, k, id, &e);
    free_origin(&from);
    if (err < 0)
        ops_reply_err(req, err);
    else
        ops_reply_entry(req, k, id, &e);
}

void op_copy_file_range(fuse_req_t req, fuse_ino_t ino_in, off_t off_in, struct fuse_file_info *fi_in,
                        fuse_ino_t ino_out, off_t off_out, struct fuse_file_info *fi_out, size_t len,
                        int flags)
{
    struct fs *fs = ops_fs_of(req);
    struct origin from = {0};
    uint64_t id, from_off = (uint64_t)off_in;
    struct kind *k = ops_kind_of(fs, ino_out, &id);
    (void)fi_in;
    (void)fi_out;
    (void)flags;
    int64_t n = k->ops->copy ? open_origin(fs, ino_in, &from) : -EROFS;
    if (n == 0) {
        uint64_t left = from_off < from.c.x.size ? from.c.x.size - from_off : 0;
        len = left < len ? (size_t)left : len;
        len = len < INT32_MAX ? len : INT32_MAX & ~(size_t)4095; /* the answer has 32 bits */
        n = len ? k->ops->copy(k, id, (uint64_t)off_out, &from.o, from_off, len) : 0;
    }
    free_origin(&from);
    if (n < 0)
        ops_reply_err(req, (int)n);
    else
        fuse_reply_write(req, (size_t)n);
}

void op_write(fuse_req_t req, fuse_ino_t ino, const char *p, size_t size, off_t off,
              struct fuse_file_info *fi)
{
    uint64_t id;
    struct kind *k = ops_kind_of(ops_fs_of(req), ino, &id);
    (void)fi;
    int err = k->ops->write ? k->ops->write(k, id, p, size, (uint64_t)off) : -EROFS;
    if (err < 0)
        ops_reply_err(req, err);
    else
        fuse_reply_write(req, size);
}

static int set_attr(struct kind *k, uint64_t id, const struct stat *st, int set)
{
    int err = 0;
    struct timespec t = st->st_mtim;
    if (!k->ops->resize)
        return -EROFS;
    if (set & FUSE_SET_ATTR_SIZE)
        err = k->ops->resize(k, id, (uint64_t)st->st_size);
    if (err == 0 && (set & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)))
        err = k->ops->chown(k, id, set & FUSE_SET_ATTR_UID ? st->st_uid : (uid_t)-1,
                            set & FUSE_SET_ATTR_GID ? st->st_gid : (gid_t)-1);
    if (set & FUSE_SET_ATTR_MTIME_NOW)
        clock_gettime(CLOCK_REALTIME, &t);
    if (err == 0 && (set & (FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_MTIME_NOW)))
        err = k->ops->touch(k, id, &t);
    return err; /* the mode is accepted, and stays as it is */
}

void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *st, int set, struct fuse_file_info *fi)
{
    struct stat now;
    uint64_t id;
    struct kind *k = ops_kind_of(ops_fs_of(req), ino, &id);
    (void)fi;
    int err = set_attr(k, id, st, set);
    if (err == 0)
        err = ops_get_attr(ops_fs_of(req), k, id, &now);
    if (err < 0)
        ops_reply_err(req, err);
    else
        fuse_reply_attr(req, &now, ops_timeout(k));
}

void op_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    uint64_t id;
    struct kind *k = ops_kind_of(ops_fs_of(req), ino, &id);
    const struct content *c = (const struct content *)(uintptr_t)fi->fh;
    ops_reply_err(req, c->live && c->writes && k->ops->flush ? k->ops->flush(k, id) : 0);
}

void op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
    uint64_t id;
    struct kind *k = ops_kind_of(ops_fs_of(req), ino, &id);
    (void)datasync;
    (void)fi;
    ops_reply_err(req, k->ops->fsync ? k->ops->fsync(k, id) : 0);
}

static void synced(void *req, int err)
{
    ops_reply_err(req, err);
}

static bool sync_interrupted(void *req)
{
    return fuse_req_interrupted(req) != 0;
}

/* May take long: answered from another thread, so that those here stay free. */
void op_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
    uint64_t id;
    struct kind *k = ops_kind_of(ops_fs_of(req), ino, &id);
    (void)datasync;
    (void)fi;
    if (k->ops->sync)
        k->ops->sync(k, id, synced, sync_interrupted, req);
    else
        ops_reply_err(req, 0);
}

void op_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size, int flags)
{
    uint64_t id;
    struct kind *k = ops_kind_of(ops_fs_of(req), ino, &id);
    ops_reply_err(req, k->ops->setxattr ? k->ops->setxattr(k, id, name, value, size, flags) : -EROFS);
}

void op_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
    uint64_t id;
    struct kind *k = ops_kind_of(ops_fs_of(req), ino, &id);
    ops_reply_err(req, k->ops->removexattr ? k->ops->removexattr(k, id, name) : -EROFS);
}
