/* SPDX-License-Identifier: MIT
 * What a pickle says, as inert values: a graph in one arena that is freed at once. A value may be reached by
 * several ways and may contain itself, so nothing here walks it by recursion, but for tuples as keys. */
#ifndef VALUE_H
#define VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"

enum value_kind {
    VALUE_NONE,
    VALUE_BOOL,
    VALUE_INT, /* fits 64 bits */
    VALUE_BIG, /* does not: n bytes of two's complement, little-endian */
    VALUE_FLOAT,
    VALUE_COMPLEX, /* pair */
    VALUE_TEXT,    /* n bytes of UTF-8 that may hold lone surrogates */
    VALUE_BYTES,
    VALUE_TUPLE,
    VALUE_LIST,
    VALUE_DICT,
    VALUE_SET,
    VALUE_GLOBAL,
    VALUE_OBJECT,
    VALUE_STORAGE, /* the kinds from here on are the affair of who reads checkpoints */
    VALUE_TENSOR,
    VALUE_PARTS,  /* something made of named parts: a sparse tensor, a nested one */
    VALUE_DTYPE,  /* NumPy's; PyTorch's are globals */
    VALUE_SCALAR, /* NumPy's */
    VALUE_WORD,   /* a device or a layout: text, the kind of word in `word` */
};

enum value_word { WORD_DEVICE = 1, WORD_LAYOUT };

/* Flags: a tuple that is a torch.Size; a set that never changes; being walked over at the moment. */
enum { VALUE_SIZE = 1, VALUE_FROZEN = 2, VALUE_ON_PATH = 4, VALUE_MUTABLE_BYTES = 8 };

struct value {
    uint8_t kind, flags, word;
    uint32_t n; /* bytes of a text, items of a tuple, list or set */
    union {
        bool truth;
        int64_t i;
        double f;
        const double *pair;
        const char *text; /* VALUE_TEXT, VALUE_BIG, VALUE_WORD; not NUL-terminated */
        const struct value_bytes *bytes;
        struct value **item;
        struct value_dict *dict; /* NULL: empty */
        const struct global *global;
        struct object *object;
        void *any; /* of the kinds above VALUE_OBJECT */
    };
};

struct value_bytes {
    const unsigned char *p; /* NULL: too long to be kept, only the place is known */
    uint64_t len;
    uint64_t at; /* place in the source that the pickle was read from; VALUE_NOWHERE: none */
};

#define VALUE_NOWHERE UINT64_MAX

struct value_pair {
    struct value *key, *value;
};

struct value_dict {
    struct value_pair *pair; /* in the order of insertion */
    uint32_t n, room;
    uint32_t *slot; /* numbers of pairs + 1, by hash of the key; NULL while there are few */
    uint32_t mask;
};

/* A name in a module. It is only a name: nothing is ever looked up by it. */
struct global {
    const char *module, *name; /* as the pickle writes them, NUL-terminated */
    const char *full;          /* "module.name", the module by its present-day name */
    const void *meaning;       /* what the reader of the pickle knows it as; NULL: nothing */
};

/* Something whose class means nothing to the reader: all that the pickle says about it, nothing done. */
struct object {
    const struct global *cls;
    struct value *args;     /* tuple */
    struct value *keywords; /* dict or NULL */
    struct value *state;    /* NULL: none */
    struct value *items;    /* list or NULL */
    struct value *dict;     /* dict or NULL */
};

/* Where values live. Memory for values is bounded by `most` bytes in all. */
struct values {
    struct arena arena;
    uint64_t used, most;
    uint64_t hash_left; /* how many bytes of keys may yet be hashed */
};

enum { VALUE_KEY_DEPTH = 16 };

/* All give NULL, or -ENOMEM, if there is no memory or it would be more than `most`; -E2BIG: too much else. */
void *values_alloc(struct values *v, size_t size);
struct value *value_new(struct values *v, enum value_kind kind);
struct value *value_int(struct values *v, int64_t i);
struct value *value_text(struct values *v, const char *s, size_t len); /* borrows s */
struct value *value_tuple(struct values *v, struct value *const *item, uint32_t n);

/* Appends to a list or set. */
int value_append(struct values *v, struct value *list, struct value *item);

/* Sets a key as Python does: a key that is there keeps its place and takes the new value. -EINVAL: a key that
 * cannot be one; -E2BIG: keys that cost too much. */
int value_set(struct values *v, struct value *dict, struct value *key, struct value *item);

/* The value of a key, NULL if there is none. */
struct value *value_get(struct values *v, const struct value *dict, const struct value *key);

/* The value of a text as key, NULL if there is none or it is no dict. */
struct value *value_get_text(const struct value *dict, const char *key);

/* The same for a set, whose items must be fit for keys; equal ones are kept. -EINVAL as above. */
int value_set_add(struct values *v, struct value *set, struct value *item);

static inline uint32_t dict_len(const struct value *d)
{
    return d->dict ? d->dict->n : 0;
}

bool value_is_text(const struct value *v, const char *text);

#endif
