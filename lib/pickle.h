/* SPDX-License-Identifier: MIT
 * The pickle machine. It reads what Python's pickle module writes (protocols 0 to 5, but for out-of-band
 * buffers, extension codes and the two old ways to make instances) and builds inert values. It calls nothing:
 * where Python would import a name, there is a name; where Python would call it, the reader's hooks say what
 * the call means, and without them there is a record of the call.
 *
 * Every length is compared with the bytes that are left before anything is allocated; no input makes the
 * machine recurse. */
#ifndef PICKLE_H
#define PICKLE_H

#include "bytes_in.h"
#include "index.h"
#include "report.h"
#include "value.h"

enum {
    PICKLE_OPCODES = 50000000,
    PICKLE_STACK = 4000000,
    PICKLE_MEMO = 8000000,
    PICKLE_NAME = 512,    /* bytes of a module's or a global's name */
    PICKLE_INTEGER = 1024 /* bytes of an integer */
};

struct pickle;

/* What names and calls mean; each may be NULL, ctx is p->ctx. 0, or a negative errno after a report by
 * pickle_refuse. */
struct pickle_hooks {
    /* g was named: sets g->meaning, or refuses. */
    int (*name)(struct pickle *p, struct global *g);
    /* f(*args, **keywords); keywords may be NULL. *out NULL: it means nothing, keep a record. */
    int (*call)(struct pickle *p, const struct global *f, struct value *args, struct value *keywords,
                struct value **out);
    /* obj is given its state. *done false: it is not for the hook. */
    int (*build)(struct pickle *p, struct value *obj, struct value *state, bool *done);
    /* The object behind a persistent id. */
    int (*persistent)(struct pickle *p, struct value *id, struct value **out);
};

struct pickle {
    struct values *values;
    struct report *r;
    const struct pickle_hooks *hooks; /* NULL: none */
    void *ctx;
    bool packed;      /* it was compressed: places in it are no places in the file */
    uint64_t opcodes; /* that all pickles of this file have had so far */

    /* The machine's own. */
    struct bytes_in *in;
    uint64_t op_at; /* where the present opcode lies */
    struct value **stack;
    size_t n_stack, room_stack, base; /* base: the top mark, below which nothing may be taken */
    size_t *mark;
    size_t n_mark, room_mark;
    struct value **memo;
    size_t n_memo, top_memo, room_memo; /* how many have been put, one more than the highest, room for them */
    uint64_t op_count;
    struct value *none, *yes, *no, *empty_tuple, *small[256];
    struct global **names; /* all so far, found by name_index */
    size_t n_names, room_names;
    struct index name_index;
};

/* Reads one pickle, up to and with its STOP; what follows is left in `in`. */
int pickle_read(struct pickle *p, struct bytes_in *in, struct value **out);
void pickle_free(struct pickle *p);

/* Reports why the pickle cannot be read, at the present opcode: -EBADMSG. */
int pickle_refuse(struct pickle *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* -ENOMEM (or -E2BIG, -EINVAL of the values' functions) with its report. */
int pickle_failed(struct pickle *p, int err);

#endif
