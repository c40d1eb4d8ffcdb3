/* SPDX-License-Identifier: MIT
 * The zip form (PyTorch since 1.6, TorchScript): data.pkl and a record for each storage. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "torch.h"
#include "zip.h"

#define PICKLE_MAX (1ULL << 30) /* bytes that data.pkl may unpack to */
enum { KEY_MAX = 64, SMALL = 64 };

static int refuse(struct report *r, const char *why)
{
    return report_fatal(r, -EBADMSG, NULL, 0, FS_NO_OFFSET, "%s", why);
}

static bool has(const struct zip *z, const char *name)
{
    return zip_find(z, name, strlen(name)) != NULL;
}

/* A zip archive that is something else, as far as its records tell. */
static int not_ours(const struct zip *z, struct report *r)
{
    static const struct {
        const char *record, *what;
    } kinds[] = {
        {"model.json", "a TorchScript archive of before PyTorch 1.4, which is not read"},
        {".data/extern_modules", "a torch.package archive, which is not read"},
        {"archive_format", "a torch.export archive (.pt2), which is not read"},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (has(z, kinds[i].record))
            return report_fatal(r, -ENOTSUP, NULL, 0, FS_NO_OFFSET, "is %s", kinds[i].what);
    if (!has(z, "data.pkl"))
        return report_fatal(r, -ENOTSUP, NULL, 0, FS_NO_OFFSET,
                            "is a zip archive without a data.pkl, no PyTorch checkpoint");
    return 0;
}

/* A record of a few characters, a NUL behind them. */
static int read_small(const struct zip *z, const char *name, char text[SMALL + 1], struct report *r)
{
    const struct zip_entry *e = zip_find(z, name, strlen(name));
    unsigned char *p = NULL;
    int err = zip_read(z, e, SMALL, &p, r);
    if (err < 0)
        return err;
    memcpy(text, p, (size_t)e->size);
    text[e->size] = 0;
    if (memchr(text, 0, (size_t)e->size))
        text[0] = 0;
    free(p);
    return 0;
}

static int check_version(const struct zip *z, struct report *r)
{
    const char *name = has(z, ".data/version") ? ".data/version" : "version";
    char text[SMALL + 1];
    if (!has(z, name))
        return refuse(r, "no version record");
    int err = read_small(z, name, text, r);
    if (err < 0)
        return err;
    size_t digits = strspn(text, "0123456789");
    long version =
        digits && digits < 4 && text[digits + strspn(text + digits, " \r\n")] == 0 ? atol(text) : 0;
    return version >= 1 && version <= 10 ? 0 : refuse(r, "the version record holds no version that is known");
}

static int read_byteorder(const struct zip *z, bool *big, struct report *r)
{
    char text[SMALL + 1];
    *big = false;
    if (!has(z, "byteorder"))
        return 0;
    int err = read_small(z, "byteorder", text, r);
    if (err < 0)
        return err;
    *big = strcmp(text, "big") == 0;
    return *big || strcmp(text, "little") == 0 ? 0 : refuse(r, "an unknown byte order");
}

/* Runs data.pkl, from the file or, where it is compressed, from memory. */
static int run_pickle(struct torch *t, const struct zip *z, const struct zip_entry *e, struct value **root)
{
    struct bytes_in in = {0};
    unsigned char *unpacked = NULL;
    int err = 0;
    if (e->size == 0)
        return refuse(t->r, "data.pkl is empty");
    t->pickle.packed = e->method != ZIP_STORED;
    if (t->pickle.packed) {
        err = zip_read(z, e, PICKLE_MAX, &unpacked, t->r);
        if (err == 0)
            bytes_in_memory(&in, unpacked, (size_t)e->size);
    } else if (bytes_in_source(&in, t->m->source, e->data, e->data + e->size) < 0) {
        err = report_fatal(t->r, -ENOMEM, NULL, 0, FS_NO_OFFSET, "out of memory");
    }
    if (err == 0) {
        t->r->what = "PyTorch checkpoint, data.pkl";
        err = pickle_read(&t->pickle, &in, root);
        if (err == 0 && bytes_in_left(&in))
            err = pickle_refuse(&t->pickle, "bytes behind the end of the pickle");
    }
    bytes_in_free(&in);
    free(unpacked);
    return err;
}

/* The record may be longer than its elements, but by less than one. */
static int place_storage(struct torch *t, const struct zip *z, struct storage *s)
{
    char name[5 + KEY_MAX] = "data/";
    memcpy(name + 5, s->key, s->key_len);
    const struct zip_entry *e = zip_find(z, name, 5 + s->key_len);
    if (!e)
        return report_fatal(t->r, -EBADMSG, NULL, 0, FS_NO_OFFSET, "the record data/%s is missing", s->key);
    if (e->size < s->nbytes || e->size - s->nbytes >= s->cls->item)
        return report_fatal(t->r, -EBADMSG, NULL, 0, e->header, "the record data/%s has %llu bytes, not %llu",
                            s->key, (unsigned long long)e->size, (unsigned long long)s->nbytes);
    s->placed = true;
    s->at = e->data;
    if (e->method == ZIP_STORED)
        return 0;
    if (!t->unpacker)
        t->unpacker = unpacker_new(t->m->source);
    s->packed = t->unpacker ? unpacker_add(t->unpacker, e->data, e->packed, e->size) : NULL;
    return s->packed ? 0 : report_fatal(t->r, -ENOMEM, NULL, 0, FS_NO_OFFSET, "out of memory");
}

static int read_archive(struct torch *t, const struct zip *z)
{
    struct value *root = NULL;
    int err = run_pickle(t, z, zip_find(z, "data.pkl", 8), &root);
    t->r->what = "PyTorch checkpoint";
    for (size_t i = 0; i < t->n_storages && err == 0; i++)
        err = place_storage(t, z, t->storage[i]);
    if (err == 0)
        err = torch_walk(t, root);
    if (err == 0 && t->unpacker)
        err = unpacker_start(t->unpacker, t->r);
    t->m->unpacker = t->unpacker;
    t->unpacker = NULL;
    return err;
}

int torch_zip_read(struct model *m, struct report *r)
{
    struct zip z = {0};
    struct torch t;
    bool big = false;
    r->what = "zip archive";
    int err = zip_open(&z, m->source, r);
    if (err < 0)
        goto out;
    r->what = NULL;
    err = not_ours(&z, r);
    r->what = "PyTorch checkpoint";
    if (err == 0)
        err = check_version(&z, r);
    if (err == 0)
        err = read_byteorder(&z, &big, r);
    if (err < 0)
        goto out;
    const struct zip_entry *pickle = zip_find(&z, "data.pkl", 8);
    m->format = has(&z, "constants.pkl") ? "torchscript" : "pytorch-zip";
    torch_init(&t, m, r, TORCH_ZIP, pickle->packed);
    t.big_endian = big;
    err = read_archive(&t, &z);
    torch_free(&t);
out:
    zip_free(&z);
    return err;
}
