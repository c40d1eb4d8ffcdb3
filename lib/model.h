/* SPDX-License-Identifier: MIT
 * What any container says: tensors with names, types, shapes and the place of their bytes; metadata. Readers
 * fill a model, nobody changes it afterwards, so that many threads may read it. */
#ifndef MODEL_H
#define MODEL_H

#include "arena.h"
#include "buf.h"
#include "extent.h"
#include "index.h"
#include "json.h"
#include "source.h"
#include "unpack.h"
#include "view.h"

struct tensor {
    const char *name; /* UTF-8, NUL-terminated, may hold NULs */
    const uint64_t *shape;
    const struct view *view; /* NULL: the bytes lie in the source as they are served */
    struct source *source;   /* one of the model's */
    uint64_t offset, nbytes; /* in the source, where there is no view */
    uint32_t name_len, rank;
    uint8_t dtype;                /* tm_dtype, or DTYPE_OTHER */
    const struct thin_page *page; /* in a ThinTensor archive: what its manifest says */
};

enum { DTYPE_OTHER = 255 }; /* in an archive: none of the table's, or its size does not fit the shape */

struct metadata {
    struct json_text key, value;
};

struct model {
    const char *format; /* "safetensors", "pytorch-zip", ... */
    struct source *source;
    struct tensor *tensors; /* in the order in which the file lists them */
    size_t n_tensors, room_tensors;
    struct metadata *metadata;
    size_t n_metadata, room_metadata;
    struct index by_name;
    uint64_t lengths;          /* bit n: there may be a name of n bytes, modulo 64 */
    struct arena arena;        /* names, shapes, metadata */
    struct buf leaves;         /* JSON: what the file holds that is no tensor; see leaves.h */
    struct unpacker *unpacker; /* NULL: nothing in it is compressed */
    struct directory *dir;     /* owned; of a model directory, whose shards are its parts */
    struct model **part;
    size_t n_parts;
    struct thin *thin;               /* owned; of a ThinTensor archive */
    uint64_t header_off, header_len; /* the header text as stored; length 0 if the format has none */
};

/* Opens a model file of any known kind, told by its content. */
int model_open(const char *path, enum source_how how, struct model **out, struct report *r);

/* A model without tensors, from nowhere. -ENOMEM. */
int model_none(struct model **out);
void model_free(struct model *m);

/* Reads what an opened source holds. */
int model_read(struct source *s, struct model **out, struct report *r);

/* Was one of its files truncated or overwritten in place? */
bool model_changed(const struct model *m);

/* For readers. All -ENOMEM; model_add_tensor gives the new tensor, zeroed, in *out, which is valid until the
 * next is added. model_index says under which name it can be found: -EEXIST if that name is taken.
 * model_expect makes room for about n tensors at once, if it can. */
struct model *model_new(struct source *s);
void model_expect(struct model *m, size_t n);
int model_add_tensor(struct model *m, struct tensor **out);
int model_index(struct model *m, uint32_t number);

/* The same in two steps, for who has something to do while the memory in question is fetched. */
uint64_t model_hash(const struct model *m, const char *name, size_t len);
int model_index_hashed(struct model *m, uint32_t number, uint64_t hash);
int model_add_metadata(struct model *m, struct json_text key, struct json_text value);

/* Number of the tensor of that name, INDEX_NONE if there is none; `hash` is hash_bytes(0, name, len). */
uint32_t model_find(const struct model *m, uint64_t hash, const char *name, size_t len);

/* The code of its dtype, as its format writes it. */
const char *tensor_code(const struct tensor *t);

/* Does it lie in the source as it is served, so that others may map it from there? */
static inline bool tensor_in_place(const struct tensor *t)
{
    return t->view == NULL;
}

/* Has it a shape but no bytes anywhere (a "meta" tensor)? Reading it is an error. */
static inline bool tensor_is_empty(const struct tensor *t)
{
    return t->view && view_is_empty(t->view);
}

/* Appends the tensor's bytes, as they are served, to x. -ENOMEM. */
int model_extents(const struct model *m, const struct tensor *t, struct extents *x);

#endif
