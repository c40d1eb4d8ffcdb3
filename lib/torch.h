/* SPDX-License-Identifier: MIT
 * PyTorch checkpoints: what the readers of their containers (zip, legacy stream, tar) share. A container says
 * where storages lie and runs the pickles; the rest - what names mean, tensors, the walk over the object -
 * is the same for all. */
#ifndef TORCH_H
#define TORCH_H

#include "model.h"
#include "pickle.h"
#include "safetensors/tensor.h"
#include "unpack.h"
#include "view.h"

/* The readers. */
int torch_zip_read(struct model *m, struct report *r);
int torch_legacy_read(struct model *m, struct report *r);
int torch_tar_read(struct model *m, struct report *r);

/* A type of storage, which is also what tensors over it hold. */
struct storage_class {
    const char *name; /* "Float", of FloatStorage and FloatTensor */
    tm_dtype dtype;
    uint8_t item; /* bytes that one element counts for in the storage */
    bool untyped;
};

struct storage {
    const char *key;
    const struct storage_class *cls;
    uint64_t numel;          /* of cls, or bytes if that is untyped */
    uint64_t nbytes;         /* that may be used */
    uint64_t at;             /* in the source, once placed */
    struct unpacked *packed; /* it is compressed */
    uint32_t key_len;
    bool placed;
};

/* VALUE_STORAGE: a storage or a part of one. */
struct storage_part {
    struct storage *root;
    const struct storage_class *cls;
    uint64_t first, nbytes; /* bytes of the root */
};

/* Named parts of something, and the name it goes by where it is no tensor itself. */
struct parts {
    const char *object;
    uint32_t n;
    struct {
        const char *name;
        struct value *value;
    } part[6];
};

enum {
    TENSOR_PENDING = 1, /* made but not filled yet */
    TENSOR_ARRAY = 2,   /* of NumPy */
    TENSOR_SWAPPED = 4, /* a big-endian array */
    TENSOR_CONJUGATE = 8,
    TENSOR_NEGATED = 16,
    TENSOR_PARAMETER = 32,
};

/* VALUE_TENSOR. */
struct torch_tensor {
    const struct storage_part *storage;
    const struct value_bytes *bytes; /* or the bytes of an array */
    const char *nothing;             /* why there are neither */
    tm_dtype dtype;
    uint32_t rank, flags;
    const uint64_t *shape, *stride; /* in the model's arena; stride in elements */
    uint64_t offset;                /* in elements */
    uint64_t nbytes;                /* as served */
    const struct global *cls;       /* while pending: what it will be */
    struct value *attributes;       /* dict or NULL: what Python had attached */
    struct parts *parts;            /* or NULL: of a quantized tensor */

    const struct view *view; /* as for struct tensor; made when first listed */
    uint64_t at;
    bool listed;
};

enum torch_form { TORCH_ZIP, TORCH_LEGACY, TORCH_TAR };

struct torch {
    struct model *m;
    struct report *r;
    enum torch_form form;
    bool big_endian;
    struct values values;
    struct pickle pickle;
    struct storage **storage; /* all, found by key */
    size_t n_storages, room_storages;
    struct index by_key;
    uint64_t pickle_bytes; /* that the pickles take in the file */
    void *container;       /* of the container's reader */
    struct value *(*by_id)(struct torch *t, const char *id, size_t len); /* tar: what a persistent id means */
    struct unpacker *unpacker; /* NULL: nothing is compressed. The model takes it */
};

/* Values may take memory in proportion to the pickle's size. */
void torch_init(struct torch *t, struct model *m, struct report *r, enum torch_form form,
                uint64_t pickle_bytes);
void torch_free(struct torch *t);

/* torch_names.c: what global names mean. */
enum meaning_kind { MEANS_CALL, MEANS_STORAGE, MEANS_DTYPE, MEANS_TENSOR, MEANS_QSCHEME };
struct meaning {
    enum meaning_kind kind;
    const char *name;                /* as in struct global's full */
    const struct storage_class *cls; /* MEANS_STORAGE, MEANS_TENSOR (NULL there: any) */
    int dtype;                       /* MEANS_DTYPE: a tm_dtype, -1 if it has no size */
    bool rebuilds;                   /* MEANS_CALL: it makes a tensor */
    int (*call)(struct torch *t, const struct global *f, struct value *args, struct value **out);
};
extern const struct pickle_hooks torch_hooks;
const struct meaning *torch_meaning(const struct value *v); /* NULL: no known global */
/* What a type is shown as: quantized ones as their integers. */
tm_dtype torch_shown(tm_dtype d);

/* torch_calls.c: containers, bytes, small values. */
int torch_make_dict(struct torch *t, const struct global *f, struct value *args, struct value **out);
int torch_make_list(struct torch *t, const struct global *f, struct value *args, struct value **out);
int torch_make_tuple(struct torch *t, const struct global *f, struct value *args, struct value **out);
int torch_make_set(struct torch *t, const struct global *f, struct value *args, struct value **out);
int torch_make_size(struct torch *t, const struct global *f, struct value *args, struct value **out);
int torch_make_device(struct torch *t, const struct global *f, struct value *args, struct value **out);
int torch_make_layout(struct torch *t, const struct global *f, struct value *args, struct value **out);
int torch_make_complex(struct torch *t, const struct global *f, struct value *args, struct value **out);
int torch_make_bytes(struct torch *t, const struct global *f, struct value *args, struct value **out);
int torch_make_getattr(struct torch *t, const struct global *f, struct value *args, struct value **out);
int torch_give_first(struct torch *t, const struct global *f, struct value *args, struct value **out);
int torch_from_elsewhere(struct torch *t, const struct global *f, struct value *args, struct value **out);

/* torch_storage.c: persistent ids. */
int torch_persistent(struct pickle *p, struct value *id, struct value **out);
struct storage *torch_find_storage(struct torch *t, const char *key, size_t len);
/* A new storage, or the one of that key if it says the same. */
int torch_add_storage(struct torch *t, const char *key, size_t len, const struct storage_class *cls,
                      uint64_t numel, struct storage **out);
struct value *torch_storage_value(struct torch *t, struct storage *s, const struct storage_class *cls,
                                  uint64_t first, uint64_t nbytes);
/* Text of a str, also of Python 2; NULL: it is none. */
const char *torch_text(const struct value *v, size_t *len);

/* torch_tensor.c */
struct value *torch_new_tensor(struct torch *t, struct torch_tensor **out);
int torch_dims(struct torch *t, const struct value *v, const uint64_t **dims, uint32_t *rank);
/* Checks a tensor whose dtype, rank, shape, stride and offset are set against the bytes there are. */
int torch_check_tensor(struct torch *t, struct torch_tensor *x, uint64_t storage_bytes);
int torch_rebuild_tensor(struct torch *t, const struct global *f, struct value *args, struct value **out);
int torch_rebuild_tensor_v3(struct torch *t, const struct global *f, struct value *args, struct value **out);
int torch_rebuild_parameter(struct torch *t, const struct global *f, struct value *args, struct value **out);
int torch_rebuild_meta(struct torch *t, const struct global *f, struct value *args, struct value **out);
int torch_rebuild_wrapper(struct torch *t, const struct global *f, struct value *args, struct value **out);
int torch_rebuild_device(struct torch *t, const struct global *f, struct value *args, struct value **out);
int torch_rebuild_typed(struct torch *t, const struct global *f, struct value *args, struct value **out);
int torch_parameter(struct torch *t, const struct global *f, struct value *args, struct value **out);
int torch_old_tensor(struct torch *t, const struct global *f, struct value *args, struct value **out);
int torch_build_tensor(struct torch *t, struct value *v, struct value *state);
int torch_attach(struct torch *t, struct value *v, struct value *state);
int torch_strided(struct torch *t, const struct value *storage, tm_dtype dtype, const struct value *offset,
                  const struct value *size, const struct value *stride, struct value **out);

/* torch_parts.c: what is made of several tensors. */
int torch_rebuild_quantized(struct torch *t, const struct global *f, struct value *args, struct value **out);
int torch_rebuild_sparse(struct torch *t, const struct global *f, struct value *args, struct value **out);
int torch_rebuild_nested(struct torch *t, const struct global *f, struct value *args, struct value **out);

/* torch_numpy.c */
int torch_numpy_dtype(struct torch *t, const struct global *f, struct value *args, struct value **out);
int torch_numpy_array(struct torch *t, const struct global *f, struct value *args, struct value **out);
int torch_numpy_buffer(struct torch *t, const struct global *f, struct value *args, struct value **out);
int torch_numpy_scalar(struct torch *t, const struct global *f, struct value *args, struct value **out);
int torch_build_dtype(struct torch *t, struct value *v, struct value *state);
int torch_build_array(struct torch *t, struct value *v, struct value *state);

/* VALUE_DTYPE and VALUE_SCALAR. */
struct numpy_dtype {
    const char *code; /* "f4" */
    uint32_t code_len;
    int dtype; /* tm_dtype, -1: none of ours */
    char order;
    bool refused; /* structured, or of Python objects */
};
struct numpy_scalar {
    const struct numpy_dtype *dtype;
    const struct value_bytes *bytes;
};

/* torch_place.c: finds out where the bytes of a tensor lie. -ENOMEM. */
int torch_place(struct torch *t, struct torch_tensor *x);

/* torch_walk.c: lists all tensors of the object in the model, and all else as its leaves. */
int torch_walk(struct torch *t, struct value *root);

/* Refuses what the present opcode says. */
#define torch_refuse(t, ...) pickle_refuse(&(t)->pickle, __VA_ARGS__)

static inline int torch_no_memory(struct torch *t)
{
    return pickle_failed(&t->pickle, -12 /* ENOMEM */);
}

#endif
