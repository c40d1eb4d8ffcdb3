/* SPDX-License-Identifier: MIT
 * What ops.c and ops_write.c share. */
#ifndef OPS_I_H
#define OPS_I_H

#include "ops.h"

static inline struct fs *ops_fs_of(fuse_req_t req)
{
    return fuse_req_userdata(req);
}

struct kind *ops_kind_of(const struct fs *fs, fuse_ino_t ino, uint64_t *id);
double ops_timeout(const struct kind *k);

/* The one place where errors turn positive. */
void ops_reply_err(fuse_req_t req, int err);

int ops_get_attr(const struct fs *fs, struct kind *k, uint64_t id, struct stat *st);
int ops_get_entry(const struct fs *fs, struct kind *k, uint64_t id, struct fuse_entry_param *e);

/* The kernel now knows the node once more; unless it no longer wants the answer. */
void ops_reply_entry(fuse_req_t req, struct kind *k, uint64_t id, const struct fuse_entry_param *e);
void ops_forget(const struct fs *fs, fuse_ino_t ino, uint64_t n);

/* 0 and an open file in fi->fh, or an error. */
int ops_open_node(struct fs *fs, struct kind *k, uint64_t id, struct fuse_file_info *fi);
void ops_free_content(struct content *c);

void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode);
void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t dev);
void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name);
void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi);
void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name);
void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name);
void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
               const char *new_name, unsigned flags);
void op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name);
void op_copy_file_range(fuse_req_t req, fuse_ino_t ino_in, off_t off_in, struct fuse_file_info *fi_in,
                        fuse_ino_t ino_out, off_t off_out, struct fuse_file_info *fi_out, size_t len,
                        int flags);
void op_write(fuse_req_t req, fuse_ino_t ino, const char *p, size_t size, off_t off,
              struct fuse_file_info *fi);
void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *st, int set, struct fuse_file_info *fi);
void op_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi);
void op_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi);
void op_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size, int flags);
void op_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name);

#endif
