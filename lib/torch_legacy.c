/* SPDX-License-Identifier: MIT
 * The legacy form (PyTorch 0.1.11 to 1.5): five pickles one after the other, then the storages' bytes. */
#include <errno.h>
#include <string.h>

#include "checked.h"
#include "little.h"
#include "torch.h"

enum { PROTOCOL = 1001 };

/* 0x1950a86a20f9469cfc6c, the first pickle's value. */
static const unsigned char magic[] = {0x6C, 0xFC, 0x9C, 0x46, 0xF9, 0x20, 0x6A, 0xA8, 0x50, 0x19};

static int bad(struct torch *t, uint64_t at, const char *why)
{
    return report_fatal(t->r, -EBADMSG, NULL, 0, at, "%s", why);
}

/* Another integer, another kind of pickle: whatever else begins like one is no checkpoint. */
static int check_magic(struct torch *t, struct bytes_in *in)
{
    struct value *v = NULL;
    const char *what = t->r->what;
    struct report quiet = {.what = what};
    t->pickle.r = &quiet;
    int err = pickle_read(&t->pickle, in, &v);
    t->pickle.r = t->r;
    if (err == 0 && v->kind == VALUE_BIG && v->n == sizeof magic && memcmp(v->text, magic, sizeof magic) == 0)
        return 0;
    if (err < 0 && err != -EBADMSG) { /* not about the content */
        t->r->first = quiet.first;
        return err;
    }
    if (err < 0 && strstr(quiet.first.message, "payload")) /* say that first */
        return report_fatal(t->r, -EBADMSG, NULL, 0, FS_NO_OFFSET, "is a bare pickle that %s",
                            quiet.first.message + strlen(what) + 2);
    t->r->what = NULL;
    err = report_fatal(t->r, -ENOTSUP, NULL, 0, FS_NO_OFFSET, "is a bare pickle, not a PyTorch checkpoint");
    t->r->what = what;
    return err;
}

static int check_protocol(struct torch *t, struct bytes_in *in)
{
    struct value *v = NULL;
    int err = pickle_read(&t->pickle, in, &v);
    if (err == 0 && (v->kind != VALUE_INT || v->i != PROTOCOL))
        err = bad(t, FS_NO_OFFSET, "a version of the legacy format that is not known");
    return err;
}

static int check_system(struct torch *t, struct bytes_in *in)
{
    struct value *v = NULL, *version;
    int err = pickle_read(&t->pickle, in, &v);
    if (err < 0)
        return err;
    version = value_get_text(v, "protocol_version");
    if (v->kind != VALUE_DICT || (version && (version->kind != VALUE_INT || version->i != PROTOCOL)))
        return bad(t, FS_NO_OFFSET, "the description of the writing system is none");
    return 0;
}

static int place_storage(struct torch *t, struct bytes_in *in, const struct value *key)
{
    unsigned char count[8];
    size_t len;
    const char *text = torch_text(key, &len);
    struct storage *s = text && len && text[0] != '/' ? torch_find_storage(t, text, len) : NULL;
    uint64_t at = bytes_in_at(in);
    if (!s || s->placed)
        return bad(t, at, "the list of storages names one that is not used or was named before");
    if (bytes_in_take(in, count, sizeof count) < 0)
        return bad(t, at, "the file is cut off before a storage");
    if (little64(count) != s->numel)
        return report_fatal(t->r, -EBADMSG, NULL, 0, at, "storage %s has %llu elements, not %llu", s->key,
                            (unsigned long long)little64(count), (unsigned long long)s->numel);
    s->at = bytes_in_at(in);
    s->placed = true;
    if (bytes_in_take(in, NULL, s->nbytes) < 0)
        return report_fatal(t->r, -EBADMSG, NULL, 0, s->at,
                            "the file is cut off: storage %s has %llu bytes, %llu are left", s->key,
                            (unsigned long long)s->nbytes, (unsigned long long)bytes_in_left(in));
    return 0;
}

static int place_storages(struct torch *t, struct bytes_in *in)
{
    struct value *keys = NULL;
    int err = pickle_read(&t->pickle, in, &keys);
    if (err == 0 && keys->kind != VALUE_LIST)
        err = bad(t, FS_NO_OFFSET, "the list of storages is none");
    for (uint32_t i = 0; err == 0 && i < keys->n; i++)
        err = place_storage(t, in, keys->item[i]);
    for (size_t i = 0; err == 0 && i < t->n_storages; i++)
        if (!t->storage[i]->placed)
            err = report_fatal(t->r, -EBADMSG, NULL, 0, FS_NO_OFFSET, "storage %s is not in the file",
                               t->storage[i]->key);
    return err;
}

int torch_legacy_read(struct model *m, struct report *r)
{
    struct torch t;
    struct bytes_in in = {0};
    struct value *root = NULL;
    m->format = "pytorch-legacy";
    r->what = "PyTorch legacy checkpoint";
    torch_init(&t, m, r, TORCH_LEGACY, m->source->size);
    int err = bytes_in_source(&in, m->source, 0, m->source->size);
    if (err < 0)
        report_fatal(r, err, NULL, 0, FS_NO_OFFSET, "out of memory");
    if (err == 0)
        err = check_magic(&t, &in);
    if (err == 0)
        err = check_protocol(&t, &in);
    if (err == 0)
        err = check_system(&t, &in);
    if (err == 0)
        err = pickle_read(&t.pickle, &in, &root);
    if (err == 0)
        err = place_storages(&t, &in);
    if (err == 0)
        err = torch_walk(&t, root);
    bytes_in_free(&in);
    torch_free(&t);
    return err;
}
