/* SPDX-License-Identifier: MIT
 * Inside the pickle machine: what its parts (stack and memo, constants, containers and objects) share. */
#ifndef PICKLE_I_H
#define PICKLE_I_H

#include "pickle.h"

int pickle_cut(struct pickle *p);
int pickle_push(struct pickle *p, struct value *v); /* NULL: there was no memory for it */
int pickle_need(struct pickle *p, size_t n);
struct value *pickle_top(struct pickle *p);
int pickle_unmark(struct pickle *p, struct value ***item, uint32_t *n);

/* An unsigned little-endian number of 1, 2, 4 or 8 bytes. */
int pickle_number(struct pickle *p, unsigned bytes, uint64_t *out);
/* A line without its end, in a buffer of the machine's of at most `most` bytes. */
enum { PICKLE_LINE = 4096 };
int pickle_line(struct pickle *p, char line[PICKLE_LINE], size_t *len);
/* A decimal line as a memo index. */
int pickle_index(struct pickle *p, uint64_t *out);
/* A copy of len bytes of the input among the values. */
int pickle_copy(struct pickle *p, uint64_t len, char **out);

/* pickle_const.c */
int pickle_op_binint(struct pickle *p);
int pickle_op_binint1(struct pickle *p);
int pickle_op_binint2(struct pickle *p);
int pickle_op_long1(struct pickle *p);
int pickle_op_long4(struct pickle *p);
int pickle_op_int(struct pickle *p);
int pickle_op_long(struct pickle *p);
int pickle_op_binfloat(struct pickle *p);
int pickle_op_float(struct pickle *p);
int pickle_op_text1(struct pickle *p);
int pickle_op_text4(struct pickle *p);
int pickle_op_text8(struct pickle *p);
int pickle_op_text_line(struct pickle *p);
int pickle_op_string1(struct pickle *p);
int pickle_op_string4(struct pickle *p);
int pickle_op_string_line(struct pickle *p);
int pickle_op_bytes1(struct pickle *p);
int pickle_op_bytes4(struct pickle *p);
int pickle_op_bytes8(struct pickle *p);
int pickle_op_bytearray8(struct pickle *p);

/* pickle_object.c */
int pickle_op_tuple1(struct pickle *p);
int pickle_op_tuple2(struct pickle *p);
int pickle_op_tuple3(struct pickle *p);
int pickle_op_tuple(struct pickle *p);
int pickle_op_append(struct pickle *p);
int pickle_op_appends(struct pickle *p);
int pickle_op_list(struct pickle *p);
int pickle_op_setitem(struct pickle *p);
int pickle_op_setitems(struct pickle *p);
int pickle_op_dict(struct pickle *p);
int pickle_op_additems(struct pickle *p);
int pickle_op_frozenset(struct pickle *p);
int pickle_op_global(struct pickle *p);
int pickle_op_stack_global(struct pickle *p);
int pickle_op_reduce(struct pickle *p);
int pickle_op_newobj(struct pickle *p);
int pickle_op_newobj_ex(struct pickle *p);
int pickle_op_build(struct pickle *p);
int pickle_op_binpersid(struct pickle *p);

#endif
