/* SPDX-License-Identifier: MIT
 * The pickle machine: every opcode, with values worked out by hand from the description of the format. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "number.h"
#include "pickle.h"
#include "support.h"

static void show(struct buf *b, const struct value *v, int depth);

static void show_items(struct buf *b, const struct value *v, int depth, const char *around)
{
    buf_char(b, around[0]);
    for (uint32_t i = 0; i < v->n; i++) {
        if (i)
            buf_str(b, ", ");
        show(b, v->item[i], depth);
    }
    buf_char(b, around[1]);
}

static void show_object(struct buf *b, const struct object *o, int depth)
{
    buf_str(b, o->cls->full);
    show(b, o->args, depth);
    if (o->keywords)
        show(b, o->keywords, depth);
    if (o->items) {
        buf_str(b, "+");
        show(b, o->items, depth);
    }
    if (o->dict) {
        buf_str(b, "+");
        show(b, o->dict, depth);
    }
    if (o->state) {
        buf_str(b, "!");
        show(b, o->state, depth);
    }
}

/* As Python would print it, more or less; "..." for what is nested too deep (a cycle). */
static void show(struct buf *b, const struct value *v, int depth)
{
    if (depth == 0) {
        buf_str(b, "...");
        return;
    }
    depth--;
    switch (v->kind) {
    case VALUE_NONE: buf_str(b, "None"); break;
    case VALUE_BOOL: buf_str(b, v->truth ? "True" : "False"); break;
    case VALUE_INT: buf_printf(b, "%lld", (long long)v->i); break;
    case VALUE_BIG: buf_big(b, (const unsigned char *)v->text, v->n); break;
    case VALUE_FLOAT: buf_float(b, v->f); break;
    case VALUE_TEXT:
        buf_char(b, '\'');
        buf_add(b, v->text, v->n);
        buf_char(b, '\'');
        break;
    case VALUE_BYTES:
        buf_str(b, v->flags & VALUE_MUTABLE_BYTES ? "a\"" : "b\"");
        for (uint64_t i = 0; i < v->bytes->len; i++)
            buf_printf(b, "%02x", v->bytes->p[i]);
        buf_char(b, '"');
        break;
    case VALUE_TUPLE: show_items(b, v, depth, "()"); break;
    case VALUE_LIST: show_items(b, v, depth, "[]"); break;
    case VALUE_SET: show_items(b, v, depth, v->flags & VALUE_FROZEN ? "<>" : "{}"); break;
    case VALUE_DICT:
        buf_char(b, '{');
        for (uint32_t i = 0; i < dict_len(v); i++) {
            if (i)
                buf_str(b, ", ");
            show(b, v->dict->pair[i].key, depth);
            buf_str(b, ": ");
            show(b, v->dict->pair[i].value, depth);
        }
        buf_char(b, '}');
        break;
    case VALUE_GLOBAL: buf_str(b, v->global->full); break;
    case VALUE_OBJECT: show_object(b, v->object, depth); break;
    default: buf_printf(b, "kind %d", v->kind); break;
    }
}

/* What the pickle says, or "ERROR: ..."; to be freed. */
static char *result(const char *p, size_t len, const struct pickle_hooks *hooks)
{
    struct values values = {.most = 1 << 20, .hash_left = 1 << 20};
    struct report r = {0};
    struct pickle m = {.values = &values, .r = &r, .hooks = hooks};
    struct bytes_in in;
    struct value *v = NULL;
    struct buf b = {0};
    bytes_in_memory(&in, p, len);
    int err = pickle_read(&m, &in, &v);
    if (err < 0)
        buf_printf(&b, "ERROR: %s", r.first.message);
    else {
        show(&b, v, 6);
        if (bytes_in_left(&in))
            buf_printf(&b, " and %d more bytes", (int)bytes_in_left(&in));
    }
    pickle_free(&m);
    arena_free(&values.arena);
    return b.p;
}

struct sample {
    const char *p;
    size_t len;
    const char *expected;
};
#define SAMPLE(bytes, text)                                                                                  \
    {                                                                                                        \
        bytes, sizeof(bytes) - 1, text                                                                       \
    }

static const struct sample right[] = {
    /* protocol, frame, stop */
    SAMPLE("N.", "None"),
    SAMPLE("\x80\2N.", "None"),
    SAMPLE("\x80\4\x95\2\0\0\0\0\0\0\0N.", "None"),
    SAMPLE("N.xyz", "None and 3 more bytes"),
    SAMPLE("\x88.", "True"),
    SAMPLE("\x89.", "False"),
    /* integers */
    SAMPLE("J\xff\xff\xff\xff.", "-1"),
    SAMPLE("J\0\0\0\x80.", "-2147483648"),
    SAMPLE("K\xff.", "255"),
    SAMPLE("M\x34\x12.", "4660"),
    SAMPLE("\x8a\0.", "0"),
    SAMPLE("\x8a\1\xff.", "-1"),
    SAMPLE("\x8a\2\xff\0.", "255"),
    SAMPLE("\x8a\x08\0\0\0\0\0\0\0\x80.", "-9223372036854775808"),
    SAMPLE("\x8a\x09\0\0\0\0\0\0\0\x80\0.", "9223372036854775808"),
    SAMPLE("\x8a\x0b\0\0\0\0\0\0\0\0\0\0\1.", "1208925819614629174706176"), /* 2^80 */
    SAMPLE("\x8a\x0b\0\0\0\0\0\0\0\0\0\0\xff.", "-1208925819614629174706176"),
    SAMPLE("\x8a\x0a\x05\0\0\0\0\0\0\0\0\0.", "5"), /* longer than it need be */
    SAMPLE("\x8b\2\0\0\0\x00\x01.", "256"),
    SAMPLE("I12\n.", "12"),
    SAMPLE("I-12\n.", "-12"),
    SAMPLE("I00\n.", "False"),
    SAMPLE("I01\n.", "True"),
    SAMPLE("L123L\n.", "123"),
    SAMPLE("L-9223372036854775809L\n.", "-9223372036854775809"),
    SAMPLE("L18446744073709551616\n.", "18446744073709551616"),
    /* floats */
    SAMPLE("G\x3f\xb9\x99\x99\x99\x99\x99\x9a.", "0.1"),
    SAMPLE("G\x7f\xf0\0\0\0\0\0\0.", "inf"),
    SAMPLE("G\x80\0\0\0\0\0\0\0.", "-0.0"),
    SAMPLE("F2.5\n.", "2.5"),
    SAMPLE("F1e-08\n.", "1e-08"),
    /* text */
    SAMPLE("X\2\0\0\0hi.", "'hi'"),
    SAMPLE("X\0\0\0\0.", "''"),
    SAMPLE("\x8c\2\xc3\xa9.", "'\xc3\xa9'"),
    SAMPLE("\x8c\3\xed\xa0\x80.", "'\xed\xa0\x80'"), /* a surrogate by itself */
    SAMPLE("\x8d\2\0\0\0\0\0\0\0hi.", "'hi'"),
    SAMPLE("Vh\\u00e9\\U0001f600\n.", "'h\xc3\xa9\xf0\x9f\x98\x80'"),
    SAMPLE("V\xe9\n.", "'\xc3\xa9'"), /* other bytes of such a line are Latin-1 */
    SAMPLE("U\2hi.", "'hi'"),
    SAMPLE("U\1\xff.", "b\"ff\""), /* a str of Python 2 that is no UTF-8 */
    SAMPLE("T\2\0\0\0hi.", "'hi'"),
    SAMPLE("S'a\\tb\\x41\\101\\\\\\'c'\n.", "'a\tbAA\\'c'"),
    SAMPLE("S\"x\"\n.", "'x'"),
    /* bytes */
    SAMPLE("C\2\0\xff.", "b\"00ff\""),
    SAMPLE("B\1\0\0\0\7.", "b\"07\""),
    SAMPLE("\x8e\1\0\0\0\0\0\0\0\7.", "b\"07\""),
    SAMPLE("\x96\1\0\0\0\0\0\0\0\7.", "a\"07\""),
    /* tuples, lists, dicts, sets */
    SAMPLE(").", "()"),
    SAMPLE("K\1\x85.", "(1)"),
    SAMPLE("K\1K\2\x86.", "(1, 2)"),
    SAMPLE("K\1K\2K\3\x87.", "(1, 2, 3)"),
    SAMPLE("(K\1K\2K\3K\4t.", "(1, 2, 3, 4)"),
    SAMPLE("(t.", "()"),
    SAMPLE("].", "[]"),
    SAMPLE("]K\1a.", "[1]"),
    SAMPLE("](K\1K\2K\3K\4K\5e.", "[1, 2, 3, 4, 5]"),
    SAMPLE("](e.", "[]"),
    SAMPLE("(K\1K\2l.", "[1, 2]"),
    SAMPLE("}.", "{}"),
    SAMPLE("}K\1K\2s.", "{1: 2}"),
    SAMPLE("}(K\1K\2K\3K\4u.", "{1: 2, 3: 4}"),
    SAMPLE("(K\1K\2d.", "{1: 2}"),
    SAMPLE("\x8f(K\1K\2\x90.", "{1, 2}"),
    SAMPLE("(K\1\x91.", "<1>"),
    /* keys as Python compares them: the first place, the last value */
    SAMPLE("}(K\1K\2K\3K\4K\1K\5u.", "{1: 5, 3: 4}"),
    SAMPLE("}(K\1K\2\x88K\3u.", "{1: 3}"),
    SAMPLE("}(K\1K\2G\x3f\xf0\0\0\0\0\0\0K\3u.", "{1: 3}"),
    SAMPLE("}(U\1aK\1C\1aK\2u.", "{'a': 1, b\"61\": 2}"),
    SAMPLE("}(K\1\x85K\2K\1\x85K\3u.", "{(1): 3}"),
    SAMPLE("}(NK\1\x89K\2K\0K\3u.", "{None: 1, False: 3}"),
    SAMPLE("}(K\0K\0K\1K\1K\2K\2K\3K\3K\4K\4K\5K\5K\6K\6K\7K\7K\x08K\x08K\x09K\x09K\4K\0u.",
           "{0: 0, 1: 1, 2: 2, 3: 3, 4: 0, 5: 5, 6: 6, 7: 7, 8: 8, 9: 9}"),
    /* stack and marks */
    SAMPLE("K\1K\2"
           "0.",
           "1"),
    SAMPLE("K\1(K\2K\3"
           "1.",
           "1"),
    SAMPLE("K\1("
           "0.",
           "1"), /* POP of an empty segment takes the mark */
    SAMPLE("K\1"
           "2\x86.",
           "(1, 1)"),
    SAMPLE("((K\1t(tt.", "((1), ())"),
    /* memo: references, not copies */
    SAMPLE("]q\0K\1ah\0\x86.", "([1], [1])"),
    SAMPLE("]q\0(h\0K\1e.", "[[[[[[..., ...], 1], 1], 1], 1], 1]"), /* a list that holds itself */
    SAMPLE("}q\7K\1h\7s.", "{1: {1: {1: {1: {1: {...: ...}}}}}}"),
    SAMPLE("K\5q\0"
           "0K\6q\0"
           "0h\0.",
           "6"), /* written twice: the last counts */
    SAMPLE("K\5r\1\0\0\0"
           "0j\1\0\0\0.",
           "5"),
    SAMPLE("K\5p12\n0g12\n.", "5"),
    SAMPLE("K\5\x94K\6\x94\x86h\1\x86.", "((5, 6), 6)"),
    /* names and objects: nothing is looked up, nothing called */
    SAMPLE("cmod\nname\n.", "mod.name"),
    SAMPLE("\x8c\3mod\x8c\3a.b\x93.", "mod.a.b"),
    SAMPLE("c__builtin__\nunicode\n.", "builtins.str"),
    SAMPLE("ccopy_reg\n_reconstructor\n.", "copyreg._reconstructor"),
    SAMPLE("cnumpy.core.multiarray\nscalar\n.", "numpy._core.multiarray.scalar"),
    SAMPLE("cos\nsystem\n(U\5touchtR.", "os.system('touch')"),
    SAMPLE("cm\nC\n)\x81}U\1aK\1sb.", "m.C()!{'a': 1}"),
    SAMPLE("cm\nC\n)}U\1kK\2s\x92.", "m.C(){'k': 2}"),
    SAMPLE("cm\nC\n)\x81(K\1K\2e.", "m.C()+[1, 2]"),
    SAMPLE("cm\nC\n)\x81U\1aK\1s.", "m.C()+{'a': 1}"),
};

static const struct sample wrong[] = {
    SAMPLE("", "cut off"),
    SAMPLE("N", "cut off"),
    SAMPLE("J\0\0", "cut off"),
    SAMPLE("I12", "cut off"),
    SAMPLE("\x80\6N.", "protocol 6"),
    SAMPLE("\x95\xff\0\0\0\0\0\0\0N.", "frame of 255 bytes"),
    SAMPLE("NN.", "2 values"),
    SAMPLE(".", "0 values"),
    SAMPLE("N(.", "1 open marks"),
    SAMPLE("\xff.", "0xff is no opcode"),
    SAMPLE("Ix\n.", "should be an integer"),
    SAMPLE("I\n.", "should be an integer"),
    SAMPLE("F1,5\n.", "should be a number"),
    SAMPLE("F0x10\n.", "should be a number"),
    SAMPLE("\x8b\xff\xff\xff\xff.", "negative length"),
    SAMPLE("\x8b\0\0\1\0.", "an integer of 65536 bytes"),
    SAMPLE("X\xff\xff\xff\x7fx.", "a length of 2147483647 bytes"),
    SAMPLE("\x8e\0\0\0\0\0\0\0\x40x.", "a length of 4611686018427387904 bytes"),
    SAMPLE("\x96\0\0\0\0\0\1\0\0x.", "a length of 1099511627776 bytes"),
    SAMPLE("\x8c\1\xff.", "no UTF-8"),
    SAMPLE("T\xff\xff\xff\xff.", "negative length"),
    SAMPLE("V\\u12\n.", "bad escape"),
    SAMPLE("S'a\n.", "quotes"),
    SAMPLE("S'\\x4'\n.", "bad escape"),
    SAMPLE("0.", "needs 1 values"),
    SAMPLE("K\1(\x85.", "needs 1 values above the mark, there are 0"),
    SAMPLE("K\1(a.", "needs 2 values"),
    SAMPLE("t.", "needs a mark"),
    SAMPLE("1.", "needs a mark"),
    SAMPLE("(e.", "needs 1 values"),
    SAMPLE("K\1K\2a.", "no list"),
    SAMPLE("}(K\1e.", "no list"),
    SAMPLE("]K\1K\2s.", "no dict"),
    SAMPLE("}(K\1u.", "a key without a value"),
    SAMPLE("}]K\1s.", "cannot be a key"),
    SAMPLE("}}K\1s.", "cannot be a key"),
    SAMPLE("}\x8fK\1s.", "cannot be a key"),
    SAMPLE("}]\x85K\1s.", "cannot be a key"),
    SAMPLE("}\x96\1\0\0\0\0\0\0\0\7K\1s.", "cannot be a key"),
    SAMPLE("\x8f(]\x90.", "cannot be a key"),
    SAMPLE("](K\1\x90.", "no set"),
    SAMPLE("q\0.", "needs 1 values"),
    SAMPLE("\x94.", "needs 1 values"),
    SAMPLE("h\0.", "memo number 0"),
    SAMPLE("Nr\xff\xff\xff\xff.", "out of any proportion"),
    SAMPLE("Npx\n.", "a memo number that is none"),
    SAMPLE("Np\n.", "a memo number that is none"),
    SAMPLE("c\n\n.", "the name of a global"),
    SAMPLE("ca\x1b[1m\nb\n.", "the name of a global"),
    SAMPLE("cmod", "cut off"),
    SAMPLE("K\1K\2\x93.", "no text"),
    SAMPLE("K\1)R.", "no name but was computed"),
    SAMPLE("cm\nf\n)R)R.", "no name but was computed"),
    SAMPLE("cm\nf\n]R.", "no tuple"),
    SAMPLE("cm\nC\n)]\x92.", "no dict"),
    SAMPLE("K\1}b.", "has none"),
    SAMPLE("cm\nC\n}b.", "has none"),
    SAMPLE("K\1Q.", "persistent id"),
    SAMPLE("P1\n.", "the old way"),
    SAMPLE("\x82\1.", "the old way"),
    SAMPLE("\x83\1\0.", "the old way"),
    SAMPLE("\x84\1\0\0\0.", "the old way"),
    SAMPLE("(ios\nsystem\n.", "the old way"),
    SAMPLE("(cos\nsystem\no.", "the old way"),
    SAMPLE("\x97.", "the old way"),
    SAMPLE("N\x98.", "the old way"),
};

START_TEST(right_pickles)
{
    const struct sample *s = &right[_i];
    char *got = result(s->p, s->len, NULL);
    ck_assert_str_eq(got, s->expected);
    free(got);
}
END_TEST

START_TEST(wrong_pickles)
{
    const struct sample *s = &wrong[_i];
    char *got = result(s->p, s->len, NULL);
    ck_assert_msg(strncmp(got, "ERROR: ", 7) == 0 && strstr(got, s->expected), "'%s' does not say '%s'", got,
                  s->expected);
    free(got);
}
END_TEST

/* Tuples as keys are hashed by recursion: 16 of them inside each other are allowed, 17 are not. */
START_TEST(deep_keys)
{
    for (int depth = 16; depth <= 17; depth++) {
        struct buf b = {0};
        buf_str(&b, "})");
        for (int i = 1; i < depth; i++)
            buf_char(&b, (char)0x85);
        buf_str(&b, "K\1s.");
        char *got = result(b.p, b.len, NULL);
        ck_assert_msg((strncmp(got, "ERROR", 5) == 0) == (depth > 16), "%d: %s", depth, got);
        free(got);
        buf_free(&b);
    }
}
END_TEST

/* One long key named again and again costs its length each time: the sum is bounded. */
START_TEST(costly_keys)
{
    struct buf b = {0};
    buf_str(&b, "}X");
    buf_add(&b, "\x10\x27\0\0", 4); /* 10000 */
    for (int i = 0; i < 10000; i++)
        buf_char(&b, 'k');
    buf_add(&b, "q\0000", 3);
    for (int i = 0; i < 200; i++) /* 200 * 10000 is more than the 2^20 that result() allows */
        buf_add(&b, "h\0Ns", 4);
    buf_char(&b, '.');
    char *got = result(b.p, b.len, NULL);
    ck_assert_msg(strstr(got, "more work than") != NULL, "%.100s", got);
    free(got);
    buf_free(&b);
}
END_TEST

/* Memory for values is bounded: a megabyte here. */
START_TEST(costly_values)
{
    struct buf b = {0};
    buf_char(&b, '(');
    for (int i = 0; i < 100000; i++)
        buf_char(&b, ']');
    buf_str(&b, "t.");
    char *got = result(b.p, b.len, NULL);
    ck_assert_msg(strstr(got, "more memory than") != NULL, "%.100s", got);
    free(got);
    buf_free(&b);
}
END_TEST

START_TEST(floats_as_text)
{
    static const struct {
        double f;
        const char *text;
    } floats[] = {
        {0.1, "0.1"},
        {1, "1.0"},
        {1e16, "1e+16"},
        {123456789012345680, "1.2345678901234568e+17"},
        {1e15, "1000000000000000.0"},
        {0.0001, "0.0001"},
        {0.00001, "1e-05"},
        {1e22, "1e+22"},
        {5e-324, "5e-324"},
        {1.7976931348623157e308, "1.7976931348623157e+308"},
        {-2.5, "-2.5"},
        {100, "100.0"},
        {123.456, "123.456"},
        {2.0 / 3, "0.6666666666666666"},
    };
    for (size_t i = 0; i < sizeof floats / sizeof floats[0]; i++) {
        struct buf b = {0};
        buf_float(&b, floats[i].f);
        ck_assert_str_eq(b.p, floats[i].text);
        buf_free(&b);
    }
}
END_TEST

static void tests(TCase *t)
{
    tcase_set_timeout(t, 4);
    tcase_add_loop_test(t, right_pickles, 0, sizeof right / sizeof right[0]);
    tcase_add_loop_test(t, wrong_pickles, 0, sizeof wrong / sizeof wrong[0]);
    tcase_add_test(t, deep_keys);
    tcase_add_test(t, costly_keys);
    tcase_add_test(t, costly_values);
    tcase_add_test(t, floats_as_text);
}

int main(void)
{
    return unit_run("pickle", tests);
}
