/* SPDX-License-Identifier: MIT
 * The machine itself: stack, marks, memo, and one function for each opcode. */
#include "pickle_i.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int pickle_refuse(struct pickle *p, const char *fmt, ...)
{
    char why[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    if (p->packed)
        return report_fatal(p->r, -EBADMSG, NULL, 0, FS_NO_OFFSET, "%s, opcode %llu of the unpacked record",
                            why, (unsigned long long)p->op_at);
    return report_fatal(p->r, -EBADMSG, NULL, 0, p->op_at, "%s", why);
}

int pickle_failed(struct pickle *p, int err)
{
    switch (err) {
    case 0: return 0;
    case -E2BIG: return pickle_refuse(p, "the pickle takes more work than a file of this size can need");
    case -EINVAL: return pickle_refuse(p, "something that cannot be a key is used as one");
    default: break;
    }
    if (p->values->used > p->values->most / 2)
        return pickle_refuse(p, "the pickle takes more memory than a file of this size can need");
    return report_fatal(p->r, -ENOMEM, NULL, 0, FS_NO_OFFSET, "out of memory");
}

/* The end of the input, or a failure to read it. */
int pickle_cut(struct pickle *p)
{
    if (p->in->err < 0)
        return report_fatal(p->r, p->in->err, NULL, 0, p->op_at, "cannot be read: %s", strerror(-p->in->err));
    return pickle_refuse(p, "the pickle is cut off");
}

static int grow(void **array, size_t *room, size_t n, size_t size)
{
    if (n < *room)
        return 0;
    size_t want = n < 64 ? 128 : n + n / 2;
    void *q = realloc(*array, want * size);
    if (!q)
        return -ENOMEM;
    *array = q;
    *room = want;
    return 0;
}

int pickle_push(struct pickle *p, struct value *v)
{
    if (!v)
        return pickle_failed(p, -ENOMEM);
    if (p->n_stack == PICKLE_STACK)
        return pickle_refuse(p, "more than %d values on the stack", PICKLE_STACK);
    if (grow((void **)&p->stack, &p->room_stack, p->n_stack, sizeof(struct value *)) < 0)
        return pickle_failed(p, -ENOMEM);
    p->stack[p->n_stack++] = v;
    return 0;
}

/* The n topmost values may be used. */
int pickle_need(struct pickle *p, size_t n)
{
    if (p->n_stack - p->base < n)
        return pickle_refuse(p, "an opcode needs %zu values above the mark, there are %zu", n,
                             p->n_stack - p->base);
    return 0;
}

struct value *pickle_top(struct pickle *p)
{
    return p->stack[p->n_stack - 1];
}

static int op_mark(struct pickle *p)
{
    if (p->n_mark == PICKLE_STACK)
        return pickle_refuse(p, "more than %d marks", PICKLE_STACK);
    if (grow((void **)&p->mark, &p->room_mark, p->n_mark, sizeof *p->mark) < 0)
        return pickle_failed(p, -ENOMEM);
    p->mark[p->n_mark++] = p->base;
    p->base = p->n_stack;
    return 0;
}

/* Takes the top mark: the values above it are *item, *n of them, and stay there until the stack grows. */
int pickle_unmark(struct pickle *p, struct value ***item, uint32_t *n)
{
    if (p->n_mark == 0)
        return pickle_refuse(p, "an opcode needs a mark, there is none");
    *item = p->stack ? p->stack + p->base : NULL;
    *n = (uint32_t)(p->n_stack - p->base);
    p->n_stack = p->base;
    p->base = p->mark[--p->n_mark];
    return 0;
}

static int op_pop(struct pickle *p)
{
    if (p->n_stack > p->base) {
        p->n_stack--;
        return 0;
    }
    if (p->n_mark == 0)
        return pickle_need(p, 1);
    p->base = p->mark[--p->n_mark];
    return 0;
}

static int op_pop_mark(struct pickle *p)
{
    struct value **item;
    uint32_t n;
    return pickle_unmark(p, &item, &n);
}

static int op_dup(struct pickle *p)
{
    int err = pickle_need(p, 1);
    return err < 0 ? err : pickle_push(p, pickle_top(p));
}

/* Indices are dense in what any writer makes: a sparse one far up would cost memory for nothing. */
static int put(struct pickle *p, uint64_t index)
{
    int err = pickle_need(p, 1);
    if (err < 0)
        return err;
    if (index >= PICKLE_MEMO || index > 4096 + 4 * p->op_count)
        return pickle_refuse(p, "memo number %llu is out of any proportion", (unsigned long long)index);
    if (index >= p->room_memo) {
        size_t room = (size_t)index < 256 ? 512 : (size_t)index * 2;
        struct value **memo = realloc(p->memo, room * sizeof *memo);
        if (!memo)
            return pickle_failed(p, -ENOMEM);
        memset(memo + p->room_memo, 0, (room - p->room_memo) * sizeof *memo);
        p->memo = memo;
        p->room_memo = room;
    }
    if (!p->memo[index])
        p->n_memo++;
    if (index >= p->top_memo)
        p->top_memo = (size_t)index + 1;
    p->memo[index] = pickle_top(p);
    return 0;
}

static int get(struct pickle *p, uint64_t index)
{
    if (index >= p->room_memo || !p->memo[index])
        return pickle_refuse(p, "nothing was put under memo number %llu", (unsigned long long)index);
    return pickle_push(p, p->memo[index]);
}

static int op_binput(struct pickle *p)
{
    uint64_t i;
    int err = pickle_number(p, 1, &i);
    return err < 0 ? err : put(p, i);
}

static int op_long_binput(struct pickle *p)
{
    uint64_t i;
    int err = pickle_number(p, 4, &i);
    return err < 0 ? err : put(p, i);
}

static int op_put(struct pickle *p)
{
    uint64_t i;
    int err = pickle_index(p, &i);
    return err < 0 ? err : put(p, i);
}

static int op_memoize(struct pickle *p)
{
    return put(p, p->n_memo);
}

static int op_binget(struct pickle *p)
{
    uint64_t i;
    int err = pickle_number(p, 1, &i);
    return err < 0 ? err : get(p, i);
}

static int op_long_binget(struct pickle *p)
{
    uint64_t i;
    int err = pickle_number(p, 4, &i);
    return err < 0 ? err : get(p, i);
}

static int op_get(struct pickle *p)
{
    uint64_t i;
    int err = pickle_index(p, &i);
    return err < 0 ? err : get(p, i);
}

/* Numbers of protocols that do not exist yet may mean anything. */
static int op_proto(struct pickle *p)
{
    uint64_t i;
    int err = pickle_number(p, 1, &i);
    if (err == 0 && i > 5)
        err = pickle_refuse(p, "pickle protocol %llu, 5 is the highest known", (unsigned long long)i);
    return err;
}

/* Frames only help readers that fetch the pickle over a wire. */
static int op_frame(struct pickle *p)
{
    uint64_t n;
    int err = pickle_number(p, 8, &n);
    if (err == 0 && n > bytes_in_left(p->in))
        err = pickle_refuse(p, "a frame of %llu bytes, %llu are left", (unsigned long long)n,
                            (unsigned long long)bytes_in_left(p->in));
    return err;
}

static int op_none(struct pickle *p)
{
    return pickle_push(p, p->none);
}

static int op_true(struct pickle *p)
{
    return pickle_push(p, p->yes);
}

static int op_false(struct pickle *p)
{
    return pickle_push(p, p->no);
}

static int op_legacy(struct pickle *p)
{
    return pickle_refuse(p,
                         "an opcode that makes an instance the old way or takes what lies outside the file; "
                         "no checkpoint has it, exploits do");
}

#define PUSHES(name, expression)                                                                             \
    static int name(struct pickle *p)                                                                        \
    {                                                                                                        \
        return pickle_push(p, expression);                                                                   \
    }

PUSHES(op_empty_tuple, p->empty_tuple)
PUSHES(op_empty_list, value_new(p->values, VALUE_LIST))
PUSHES(op_empty_dict, value_new(p->values, VALUE_DICT))
PUSHES(op_empty_set, value_new(p->values, VALUE_SET))

static int (*const opcodes[256])(struct pickle *p) = {
    [0x80] = op_proto,
    [0x95] = op_frame,
    ['N'] = op_none,
    [0x88] = op_true,
    [0x89] = op_false,
    ['J'] = pickle_op_binint,
    ['K'] = pickle_op_binint1,
    ['M'] = pickle_op_binint2,
    [0x8A] = pickle_op_long1,
    [0x8B] = pickle_op_long4,
    ['I'] = pickle_op_int,
    ['L'] = pickle_op_long,
    ['G'] = pickle_op_binfloat,
    ['F'] = pickle_op_float,
    ['X'] = pickle_op_text4,
    [0x8C] = pickle_op_text1,
    [0x8D] = pickle_op_text8,
    ['V'] = pickle_op_text_line,
    ['U'] = pickle_op_string1,
    ['T'] = pickle_op_string4,
    ['S'] = pickle_op_string_line,
    ['C'] = pickle_op_bytes1,
    ['B'] = pickle_op_bytes4,
    [0x8E] = pickle_op_bytes8,
    [0x96] = pickle_op_bytearray8,
    [')'] = op_empty_tuple,
    [0x85] = pickle_op_tuple1,
    [0x86] = pickle_op_tuple2,
    [0x87] = pickle_op_tuple3,
    ['t'] = pickle_op_tuple,
    [']'] = op_empty_list,
    ['a'] = pickle_op_append,
    ['e'] = pickle_op_appends,
    ['l'] = pickle_op_list,
    ['}'] = op_empty_dict,
    ['s'] = pickle_op_setitem,
    ['u'] = pickle_op_setitems,
    ['d'] = pickle_op_dict,
    [0x8F] = op_empty_set,
    [0x90] = pickle_op_additems,
    [0x91] = pickle_op_frozenset,
    ['('] = op_mark,
    ['0'] = op_pop,
    ['1'] = op_pop_mark,
    ['2'] = op_dup,
    ['q'] = op_binput,
    ['r'] = op_long_binput,
    ['p'] = op_put,
    [0x94] = op_memoize,
    ['h'] = op_binget,
    ['j'] = op_long_binget,
    ['g'] = op_get,
    ['c'] = pickle_op_global,
    [0x93] = pickle_op_stack_global,
    ['R'] = pickle_op_reduce,
    [0x81] = pickle_op_newobj,
    [0x92] = pickle_op_newobj_ex,
    ['b'] = pickle_op_build,
    ['Q'] = pickle_op_binpersid,
    ['P'] = op_legacy,
    [0x82] = op_legacy,
    [0x83] = op_legacy,
    [0x84] = op_legacy,
    ['i'] = op_legacy,
    ['o'] = op_legacy,
    [0x97] = op_legacy,
    [0x98] = op_legacy,
};

/* What is needed in every pickle; made once for all pickles of a file. */
static int prepare(struct pickle *p)
{
    if (p->empty_tuple)
        return 0;
    index_init();
    p->none = value_new(p->values, VALUE_NONE);
    p->yes = value_new(p->values, VALUE_BOOL);
    p->no = value_new(p->values, VALUE_BOOL);
    p->empty_tuple = value_new(p->values, VALUE_TUPLE);
    for (int i = 0; i < 256; i++)
        if (!(p->small[i] = value_int(p->values, i)))
            return -ENOMEM;
    if (!p->none || !p->yes || !p->no || !p->empty_tuple)
        return -ENOMEM;
    p->yes->truth = true;
    return 0;
}

static int run(struct pickle *p)
{
    for (;;) {
        p->op_at = bytes_in_at(p->in);
        int op = bytes_in_byte(p->in);
        if (op < 0)
            return pickle_cut(p);
        if (op == '.')
            return 0;
        if (++p->op_count > PICKLE_OPCODES)
            return pickle_refuse(p, "more than %d opcodes", PICKLE_OPCODES);
        if (!opcodes[op])
            return pickle_refuse(p, "0x%02x is no opcode that a checkpoint can have", (unsigned)op);
        int err = opcodes[op](p);
        if (err < 0)
            return err;
    }
}

int pickle_read(struct pickle *p, struct bytes_in *in, struct value **out)
{
    p->in = in;
    p->op_at = bytes_in_at(in);
    p->n_stack = p->base = p->n_mark = p->n_memo = 0;
    p->op_count = 0;
    if (p->top_memo)
        memset(p->memo, 0, p->top_memo * sizeof(struct value *));
    p->top_memo = 0;
    int err = pickle_failed(p, prepare(p));
    if (err == 0)
        err = run(p);
    p->opcodes += p->op_count;
    if (err < 0)
        return err;
    if (p->n_mark || p->n_stack != 1)
        return pickle_refuse(p, "the pickle ends with %zu values and %zu open marks, not with one value",
                             p->n_stack, p->n_mark);
    *out = p->stack[0];
    return 0;
}

void pickle_free(struct pickle *p)
{
    free(p->stack);
    free(p->mark);
    free(p->memo);
    free(p->names);
    index_free(&p->name_index);
}
