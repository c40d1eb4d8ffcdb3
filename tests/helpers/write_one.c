/* SPDX-License-Identifier: MIT
 * For tests of writing: a model over an existing file, by the public calls.
 *
 *     write_one TARGET SOURCE       all tensors of SOURCE, mapped, and 2 MiB of memory as tensor "memory"
 *     write_one TARGET SOURCE plain the same without that
 *     write_one TARGET SOURCE own   the tensors of SOURCE only, and with an owner set, as the daemon does it
 *
 * Exit status 0: written. 1: not, with a line that says why. 3: bad use, or SOURCE cannot be read. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "canonical.h"
#include "save.h"

static int add_memory(fs_writer *w)
{
    const uint64_t shape[] = {2 << 20};
    tm_tensor *t = tm_tensor_new(TM_U8, 1, shape);
    if (t)
        memset(tm_tensor_data(t), 'm', 2 << 20);
    int err = fs_add_tensor(w, "memory", t);
    tm_tensor_free(t);
    return err;
}

static int write_public(const char *target, const char *source, int memory, fs_error *e)
{
    fs_file *f = fs_mmap_e(source, e);
    fs_writer *w = fs_writer_new(target);
    int err = !f || !w ? -1 : memory ? add_memory(w) : 0;
    for (int i = 0; err == 0 && i < fs_num_tensors(f); i++) {
        size_t len;
        const char *name = fs_tensor_name(f, i, &len);
        tm_tensor *t = fs_get_tensor_n(f, name, len);
        err = fs_add_tensor_e(w, name, len, t, e);
        tm_tensor_free(t);
    }
    fs_close(f);
    int status = err < 0 ? 3 : fs_write_e(w, e) < 0 ? 1 : 0;
    fs_writer_free(w);
    return status;
}

static int write_owned(const char *target, const char *source, fs_error *e)
{
    struct report r = {0};
    struct model *m = NULL;
    struct extents x = {0};
    struct save_options o = save_plain;
    o.uid = getuid();
    o.gid = getgid();
    int status = 3;
    if (model_open(source, SOURCE_MAP, &m, &r) == 0 && canonical_extents(m, &x, &r) == 0)
        status = save_extents(target, &x, &o, &r) < 0 ? 1 : 0;
    *e = r.first;
    extents_free(&x);
    model_free(m);
    return status;
}

int main(int argc, char **argv)
{
    fs_error e = {0};
    if (argc != 3 && argc != 4)
        return 3;
    int own = argc == 4 && strcmp(argv[3], "own") == 0;
    int status = own ? write_owned(argv[1], argv[2], &e) : write_public(argv[1], argv[2], argc == 3, &e);
    if (status)
        fprintf(stderr, "%s\n", e.message);
    return status;
}
