/* SPDX-License-Identifier: MIT
 * What a checkpoint holds besides tensors, as JSON: an array with one object a line,
 *
 *     {"name":"optimizer.param_groups.0.lr","kind":"float","value":0.001,"bits":"3f50624dd2f1a9fc"}
 *
 * kind is none, bool, int, float, complex, str, bytes (hexadecimal), size, dtype, device, layout, global,
 * object (value: its class; what it holds follows under its name), set, empty, cycle, np_scalar (its bytes in
 * hexadecimal, little-endian, and its dtype) or tensor (what is to be said about one beyond its attributes).
 * Floats are exact by `bits`; integers beyond 64 bits are strings ("big":true); text that is no UTF-8 is
 * given as "wtf8" in hexadecimal; long text and bytes are cut, and "len" says how long they are. */
#ifndef LEAVES_H
#define LEAVES_H

#include "buf.h"
#include "value.h"

struct torch_tensor;

/* Appends one leaf. module: an object that is an nn.Module. */
void leaf_value(struct buf *b, const char *name, size_t len, const struct value *v, bool module);

/* kind "empty" or "cycle", with a word as its value (NULL: none). */
void leaf_word(struct buf *b, const char *name, size_t len, const char *kind, const char *word);

/* What is special about a tensor, if anything is. */
enum { LEAF_NOT_SAVED = 1, LEAF_EXTRA = 2 }; /* a buffer that state_dict leaves out; a plain attribute */
void leaf_tensor(struct buf *b, const char *name, size_t len, const struct torch_tensor *x, unsigned how);

/* Begins the array, appends what another, whole one holds, and ends it. */
void leaves_begin(struct buf *b);
void leaves_join(struct buf *to, const struct buf *array);
void leaves_end(struct buf *b);

/* A value as a component of names: "b:00ff", "(1, a)", "<torch.float32>". */
void value_component(struct buf *b, const struct value *v);

#endif
