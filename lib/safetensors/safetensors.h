/* SPDX-License-Identifier: MIT
 *
 * Reading model files. What a file is, is told by its content, never by its name.
 *
 *     fs_error e;
 *     fs_file *f = fs_mmap_e("model.safetensors", &e);
 *     if (!f) { fprintf(stderr, "%s\n", e.message); return 1; }
 *     tm_tensor *t = fs_get_tensor(f, "model.norm.weight");
 *     ...tm_tensor_data(t)...
 *     tm_tensor_free(t);
 *     fs_close(f);
 *
 * Every call that can fail has a form ending in _e that says why. Results of type int are 0 (or what is
 * documented) or a negative errno; where a pointer is returned, NULL means failure and errno is set.
 *
 * Threads: one fs_file may be used by many threads at once; fs_close must be the last use of it. One
 * fs_writer is for one thread at a time; different ones do not know of each other. Pointers that are passed
 * must not be NULL unless it says so.
 *
 * The format facts are those of the safetensors format description (README of huggingface/safetensors) and
 * its reference implementation (safetensors 0.4.5 and 0.6): a header of at most 100,000,000 bytes, the order
 * of tensors in a file, how sizes are computed, what a name may be.
 */
#ifndef SAFETENSORS_SAFETENSORS_H
#define SAFETENSORS_SAFETENSORS_H

#include <safetensors/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FS_NO_OFFSET UINT64_MAX

/* Why something failed. All text is part of the struct: nothing to release. */
typedef struct fs_error {
    int code;          /* negative errno; 0: no error. -EBADMSG: the content breaks a rule of its format;
                          -ENOTSUP: a format (or a part of one) that is not read here */
    uint64_t offset;   /* byte of the file where it was found, or FS_NO_OFFSET */
    char kind[32];     /* the rule that is broken, where a format's rules have names, else "" */
    char tensor[256];  /* tensor concerned, escaped for display and cut; "" if none or if its name is empty */
    char message[768]; /* one line, escaped for display, without the file's name; tells tensor and byte as
                          well */
} fs_error;

typedef struct fs_file fs_file;

/* Opens a model file. fs_open reads it into memory (the file may then change or go); fs_mmap maps it: nothing
 * is copied, opening reads the header only, and the tensors' data are pages of the file. Symbolic links are
 * followed. Release with fs_close. NULL on failure:
 * ENOENT, EACCES and the like from the file itself, EBADMSG for damaged content, ENOTSUP for another kind of
 * file, ENOMEM. */
fs_file *fs_open(const char *path);
fs_file *fs_mmap(const char *path);
fs_file *fs_open_e(const char *path, fs_error *e);
fs_file *fs_mmap_e(const char *path, fs_error *e);

/* Maps a PyTorch checkpoint (.pth, .pt, .bin, .ckpt, TorchScript) and nothing else; fs_open and fs_mmap take
 * these too, by content. Nothing in the file is ever executed: the pickle in it is read by a machine that
 * calls nothing. What is stored in order stays in the file; strided, compressed or big-endian tensors are put
 * in order when they are asked for. Names are the keys on the way to a tensor, joined with "."; one that
 * comes again is NAME#2, NAME#3; a tensor that is the whole file is called "tensor". */
fs_file *fs_load_pytorch(const char *path);
fs_file *fs_load_pytorch_e(const char *path, fs_error *e);

/* What a PyTorch checkpoint holds besides tensors, as a JSON array of objects with name, kind and value, *len
 * bytes, NUL-terminated (len may be NULL). NULL for other formats. Owned by f. */
const char *fs_leaves(fs_file *f, size_t *len);

/* Releases f. Tensors taken from it stay valid until they are released themselves. NULL is allowed. */
void fs_close(fs_file *f);

/* How many tensors there are. Cannot fail. */
int fs_num_tensors(fs_file *f);

/* Names of all tensors, in the order in which the file lists them; fs_num_tensors entries and a NULL. Owned
 * by f. A name with a NUL inside looks cut here: see fs_tensor_name. NULL if there is no memory. */
const char **fs_tensor_names(fs_file *f);

/* The i-th name, i from 0: UTF-8, NUL-terminated, *len bytes without that NUL (len may be NULL). Owned
 * by f. NULL if there is no i-th. */
const char *fs_tensor_name(fs_file *f, int i, size_t *len);

/* A new reference to the tensor of that name, to be released with tm_tensor_free; it outlives fs_close. NULL:
 * ENOENT if there is no such tensor, ENOMEM, EIO. No data are read or copied for a mapped file where they lie
 * there as they are served, and it is O(1); else they are put in order in memory of the tensor's own. The _n
 * form takes names with a NUL inside. */
tm_tensor *fs_get_tensor(fs_file *f, const char *name);
tm_tensor *fs_get_tensor_n(fs_file *f, const char *name, size_t len);
tm_tensor *fs_get_tensor_e(fs_file *f, const char *name, size_t len, fs_error *e);

/* The file's metadata (`__metadata__`: text to text), in its order. fs_num_metadata is their number.
 * fs_metadata_entry gives the i-th; any of the out-pointers may be NULL; -ENOENT if there is no i-th. Owned
 * by f. */
int fs_num_metadata(fs_file *f);
int fs_metadata_entry(fs_file *f, int i, const char **key, size_t *key_len, const char **value,
                      size_t *value_len);

/* The value of a key, NUL-terminated; NULL if there is none. Owned by f. O(number of entries). */
const char *fs_metadata(fs_file *f, const char *key);

/* What the container is: "safetensors", "pytorch-zip", "pytorch-legacy", "pytorch-tar", "torchscript",
 * "thin", "directory". Static memory. */
const char *fs_format(fs_file *f);

/* Where the bytes of the i-th tensor lie in the file, in bytes from its start, so that a program can map them
 * itself. -ENOENT if there is no i-th, -ENODATA if they do not lie there as they are served. */
int fs_tensor_offset(fs_file *f, int i, uint64_t *offset);

/* Writing. A writer collects tensors and metadata; fs_write makes the file from them, byte for byte as the
 * reference implementation would. Nothing of the file exists before. One writer is for one thread at a time.
 */
typedef struct fs_writer fs_writer;

/* A writer for a file at path, which need not exist; it is copied, and nothing is looked at before fs_write.
 * Release with fs_writer_free. NULL: ENOMEM. */
fs_writer *fs_writer_new(const char *path);

/* Adds a tensor; the order does not matter. The writer takes a reference of its own, so t may be released at
 * once; the bytes of a wrapped tensor must stay, and may change, until the last fs_write has returned. The
 * name is copied; the _n and _e forms take names with a NUL inside. -EEXIST: a name twice; -EINVAL: no UTF-8,
 * the name
 * "__metadata__", a dtype without a safetensors code, or t is NULL (as tm_tensor_new gives it for a bad
 * shape); -EFBIG: the name alone is longer than a header may be; -ENOMEM. A failed call adds nothing. */
int fs_add_tensor(fs_writer *w, const char *name, tm_tensor *t);
int fs_add_tensor_n(fs_writer *w, const char *name, size_t len, tm_tensor *t);
int fs_add_tensor_e(fs_writer *w, const char *name, size_t len, tm_tensor *t, fs_error *e);

/* Sets one entry of `__metadata__`; the last value of a key stays. -EINVAL: no UTF-8; -ENOMEM. */
int fs_set_metadata(fs_writer *w, const char *key, const char *value);
int fs_set_metadata_e(fs_writer *w, const char *key, size_t key_len, const char *value, size_t value_len,
                      fs_error *e);

/* Writes the file: a temporary file in the same directory, fsync, rename, fsync of the directory. What stands
 * under the path is at any time the old file or the complete new one; a file that is mapped (also the one the
 * tensors come from) may be replaced. A symbolic link is replaced, not followed. The mode is that of the
 * replaced file, else 0666 & ~umask. Without tensors it is a file of a header only.
 *
 * -ENOENT, -ENOTDIR, -EACCES, -EROFS: the directory; -EISDIR: the target is one; -EINVAL: it is a device, a
 * pipe or a socket; -ENOSPC, -EDQUOT, -EIO: the disk; -EIO also: a file that tensors come from was truncated
 * or overwritten in place; -EFBIG: a header of more than 100,000,000 bytes, or a file larger than is allowed
 * (where the program ignores SIGXFSZ); -EOVERFLOW: more than 2^64 bytes; -ENOMEM. Then the target is as it
 * was and no temporary file is left; but if syncing the directory is what failed, the new file is in place.
 * May be called again. */
int fs_write(fs_writer *w);
int fs_write_e(fs_writer *w, fs_error *e);

/* Drops what was collected. NULL is allowed. */
void fs_writer_free(fs_writer *w);

/* Checks a file and calls found() (of this thread, before fs_check returns) for everything that is wrong with
 * it, not only for the first thing. Returns the number of findings, or a negative errno if the file could not
 * be read (that is then not a finding; *e says why, and may be NULL). */
int fs_check(const char *path, void (*found)(void *ctx, const fs_error *what), void *ctx, fs_error *e);

#ifdef __cplusplus
}
#endif
#endif
