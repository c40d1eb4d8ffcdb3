/* SPDX-License-Identifier: MIT
 * The tar form (PyTorch up to 0.1.10, 2017): four members of which two mix pickles and raw bytes. */
#include <errno.h>
#include <string.h>

#include "checked.h"
#include "little.h"
#include "tar.h"
#include "torch.h"

enum { SYS_INFO, PICKLE, TENSORS, STORAGES, N_MEMBERS, RANK_MAX = 64, PROTOCOL = 1000 };
static const char *const member_names[N_MEMBERS] = {"sys_info", "pickle", "tensors", "storages"};

/* What a persistent id stands for: a tensor or a storage, by key. */
struct ids {
    struct value *table; /* dict of integer keys */
};

static int bad(struct torch *t, uint64_t at, const char *why)
{
    return report_fatal(t->r, -EBADMSG, NULL, 0, at, "%s", why);
}

static struct value *by_id(struct torch *t, const char *id, size_t len)
{
    const struct ids *x = t->container;
    struct value key = {.kind = VALUE_INT};
    if (len == 0 || len > 18)
        return NULL;
    for (size_t i = 0; i < len; i++) {
        if (id[i] < '0' || id[i] > '9')
            return NULL;
        key.i = key.i * 10 + (id[i] - '0');
    }
    return value_get(&t->values, x->table, &key);
}

static int find_members(struct torch *t, struct tar_member member[N_MEMBERS])
{
    struct tar tar = {.source = t->m->source};
    struct tar_member m;
    bool seen[N_MEMBERS] = {false};
    int got;
    while ((got = tar_next(&tar, &m, t->r)) > 0) {
        size_t i = 0;
        while (i < N_MEMBERS && strcmp(m.name, member_names[i]) != 0)
            i++;
        if (i == N_MEMBERS) {
            t->r->what = NULL;
            return report_fatal(t->r, -ENOTSUP, NULL, 0, FS_NO_OFFSET,
                                "is a tar archive with other members than a PyTorch checkpoint of 2017 has");
        }
        if (seen[i])
            return bad(t, m.at, "a member for the second time");
        seen[i] = true;
        member[i] = m;
    }
    for (size_t i = 0; got == 0 && i < N_MEMBERS; i++)
        if (!seen[i])
            return report_fatal(t->r, -EBADMSG, NULL, 0, FS_NO_OFFSET, "no member %s", member_names[i]);
    return got;
}

static int open_member(struct torch *t, struct bytes_in *in, const struct tar_member *m)
{
    bytes_in_free(in);
    if (bytes_in_source(in, t->m->source, m->at, m->at + m->size) == 0)
        return 0;
    return report_fatal(t->r, -ENOMEM, NULL, 0, FS_NO_OFFSET, "out of memory");
}

static int read_count(struct torch *t, struct bytes_in *in, uint64_t *n)
{
    struct value *v = NULL;
    int err = pickle_read(&t->pickle, in, &v);
    if (err < 0)
        return err;
    if (v->kind != VALUE_INT || v->i < 0 || (uint64_t)v->i > bytes_in_left(in))
        return bad(t, bytes_in_at(in), "a count that is none");
    *n = (uint64_t)v->i;
    return 0;
}

static int read_system(struct torch *t, struct bytes_in *in)
{
    struct value *v = NULL;
    int err = pickle_read(&t->pickle, in, &v);
    if (err < 0)
        return err;
    const struct value *version = value_get_text(v, "protocol_version");
    if (!version || version->kind != VALUE_INT || version->i != PROTOCOL)
        return bad(t, bytes_in_at(in), "a version of the tar format that is not known");
    return 0;
}

/* Three items, the first one a key; NULL: it is none. */
static struct value **read_triple(struct torch *t, struct bytes_in *in)
{
    struct value *v = NULL;
    if (pickle_read(&t->pickle, in, &v) < 0)
        return NULL;
    if (v->kind == VALUE_TUPLE && v->n == 3 && v->item[0]->kind == VALUE_INT)
        return v->item;
    bad(t, bytes_in_at(in), "the description of a tensor or storage is none");
    return NULL;
}

static int number(struct torch *t, struct bytes_in *in, int64_t *n)
{
    unsigned char b[8];
    uint64_t at = bytes_in_at(in);
    if (bytes_in_take(in, b, sizeof b) < 0)
        return bad(t, at, "a member is cut off");
    *n = (int64_t)little64(b);
    return 0;
}

static int add(struct torch *t, struct value *key, struct value *v)
{
    struct ids *x = t->container;
    if (!v)
        return torch_no_memory(t);
    if (value_get(&t->values, x->table, key))
        return bad(t, FS_NO_OFFSET, "two tensors or storages with one key");
    return pickle_failed(&t->pickle, value_set(&t->values, x->table, key, v));
}

/* (key, location, class), count, bytes */
static int read_storage(struct torch *t, struct bytes_in *in)
{
    struct storage *s = values_alloc(&t->values, sizeof *s);
    struct value **d = read_triple(t, in);
    int64_t n;
    if (!d || !s)
        return d ? torch_no_memory(t) : t->r->first.code;
    const struct meaning *m = torch_meaning(d[2]);
    if (!m || m->kind != MEANS_STORAGE)
        return bad(t, bytes_in_at(in), "a storage of a class that is none");
    int err = number(t, in, &n);
    if (err < 0)
        return err;
    *s = (struct storage){
        .key = "", .cls = m->cls, .numel = (uint64_t)n, .at = bytes_in_at(in), .placed = true};
    if (n < 0 || mul_overflows(s->numel, m->cls->item, &s->nbytes) || s->nbytes > bytes_in_left(in))
        return bad(t, s->at, "a storage that reaches past its member");
    bytes_in_take(in, NULL, s->nbytes);
    return add(t, d[0], torch_storage_value(t, s, m->cls, 0, s->nbytes));
}

/* (view key, root key, offset, count) */
static int add_view(struct torch *t, const struct value *v)
{
    const struct ids *x = t->container;
    if (v->kind != VALUE_TUPLE || v->n != 4)
        return bad(t, FS_NO_OFFSET, "a view of a storage that is none");
    struct value **d = v->item,
                 *root = d[0]->kind == VALUE_INT ? value_get(&t->values, x->table, d[1]) : NULL;
    if (!root || root->kind != VALUE_STORAGE || d[2]->kind != VALUE_INT || d[3]->kind != VALUE_INT)
        return bad(t, FS_NO_OFFSET, "a view of a storage that is none");
    const struct storage_part *p = root->any;
    if (d[2]->i < 0 || d[3]->i < 0 ||
        !range_fits((uint64_t)d[2]->i, (uint64_t)d[3]->i, p->nbytes / p->cls->item))
        return bad(t, FS_NO_OFFSET, "a view that reaches past its storage");
    return add(t, d[0],
               torch_storage_value(t, p->root, p->cls, p->first + (uint64_t)d[2]->i * p->cls->item,
                                   (uint64_t)d[3]->i * p->cls->item));
}

static int read_storages(struct torch *t, struct bytes_in *in)
{
    struct value *views = NULL;
    uint64_t n = 0;
    int err = read_count(t, in, &n);
    for (uint64_t i = 0; i < n && err == 0; i++)
        err = read_storage(t, in);
    if (err == 0)
        err = pickle_read(&t->pickle, in, &views);
    if (err == 0 && views->kind != VALUE_LIST)
        err = bad(t, bytes_in_at(in), "the list of views is none");
    for (uint32_t i = 0; err == 0 && i < views->n; i++)
        err = add_view(t, views->item[i]);
    return err;
}

/* rank, sizes or strides as numbers of 64 bits. */
static int read_dims(struct torch *t, struct bytes_in *in, uint32_t rank, struct value **out)
{
    struct value *item[RANK_MAX];
    int err = 0;
    for (uint32_t i = 0; i < rank && err == 0; i++) {
        int64_t n = 0;
        err = number(t, in, &n);
        item[i] = value_int(&t->values, n);
        if (err == 0 && !item[i])
            err = torch_no_memory(t);
    }
    *out = err < 0 ? NULL : value_tuple(&t->values, item, rank);
    return err < 0 || *out ? err : torch_no_memory(t);
}

/* A tensor without a storage is an empty one. */
static struct value *empty_tensor(struct torch *t, const struct storage_class *cls)
{
    static const uint64_t none[1], one[1] = {1};
    struct torch_tensor *x;
    struct value *v = torch_new_tensor(t, &x);
    if (v)
        *x = (struct torch_tensor){.nothing = "no storage",
                                   .dtype = cls ? cls->dtype : TM_F32,
                                   .rank = 1,
                                   .shape = none,
                                   .stride = one};
    return v;
}

/* (key, storage key or None, class), rank, sizes, strides, offset. The upper half of the rank is garbage: its
 * writer copied eight bytes of a number of four. */
static int read_tensor(struct torch *t, struct bytes_in *in)
{
    const struct ids *x = t->container;
    struct value **d = read_triple(t, in), *size = NULL, *stride = NULL, *made = NULL,
                 offset = {.kind = VALUE_INT};
    int64_t rank;
    if (!d)
        return t->r->first.code;
    const struct meaning *m = torch_meaning(d[2]);
    if (!m || m->kind != MEANS_TENSOR)
        return bad(t, bytes_in_at(in), "a tensor of a class that is none");
    int err = number(t, in, &rank);
    rank = (int32_t)(uint32_t)rank;
    if (err == 0 && (rank < 0 || rank > RANK_MAX))
        err = bad(t, bytes_in_at(in), "a tensor of an impossible rank");
    if (err == 0)
        err = read_dims(t, in, (uint32_t)rank, &size);
    if (err == 0)
        err = read_dims(t, in, (uint32_t)rank, &stride);
    if (err == 0)
        err = number(t, in, &offset.i);
    if (err < 0)
        return err;
    if (d[1]->kind == VALUE_NONE)
        return add(t, d[0], empty_tensor(t, m->cls));
    const struct value *storage = value_get(&t->values, x->table, d[1]);
    if (!storage || storage->kind != VALUE_STORAGE)
        return bad(t, bytes_in_at(in), "a tensor over a storage that is not in the file");
    const struct storage_part *p = storage->any;
    t->pickle.op_at = bytes_in_at(in);
    err = torch_strided(t, storage, p->cls->dtype, &offset, size, stride, &made);
    return err < 0 ? err : add(t, d[0], made);
}

static int read_tensors(struct torch *t, struct bytes_in *in)
{
    uint64_t n = 0;
    int err = read_count(t, in, &n);
    for (uint64_t i = 0; err == 0 && i < n; i++)
        err = read_tensor(t, in);
    return err;
}

static int read_archive(struct torch *t, struct bytes_in *in)
{
    struct tar_member member[N_MEMBERS];
    struct value *root = NULL;
    int err = find_members(t, member);
    if (err == 0)
        err = open_member(t, in, &member[SYS_INFO]);
    if (err == 0)
        err = read_system(t, in);
    if (err == 0)
        err = open_member(t, in, &member[STORAGES]);
    if (err == 0)
        err = read_storages(t, in);
    if (err == 0)
        err = open_member(t, in, &member[TENSORS]);
    if (err == 0)
        err = read_tensors(t, in);
    if (err == 0)
        err = open_member(t, in, &member[PICKLE]);
    if (err == 0)
        err = pickle_read(&t->pickle, in, &root);
    return err < 0 ? err : torch_walk(t, root);
}

int torch_tar_read(struct model *m, struct report *r)
{
    struct torch t;
    struct ids ids = {0};
    struct bytes_in in = {0};
    m->format = "pytorch-tar";
    r->what = "PyTorch tar checkpoint";
    torch_init(&t, m, r, TORCH_TAR, m->source->size);
    t.container = &ids;
    t.by_id = by_id;
    index_init();
    ids.table = value_new(&t.values, VALUE_DICT);
    int err = ids.table ? read_archive(&t, &in) : torch_no_memory(&t);
    bytes_in_free(&in);
    torch_free(&t);
    return err;
}
