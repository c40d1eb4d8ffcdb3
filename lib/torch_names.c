/* SPDX-License-Identifier: MIT
 * The fixed list of global names that mean something, and what they mean. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "danger.h"
#include "torch.h"

#define S(word, code, bytes)                                                                                 \
    {                                                                                                        \
        word, code, bytes, false                                                                             \
    }
static const struct storage_class classes[] = {
    S("Double", TM_F64, 8),     S("Float", TM_F32, 4),        S("Half", TM_F16, 2),
    S("BFloat16", TM_BF16, 2),  S("Long", TM_I64, 8),         S("Int", TM_I32, 4),
    S("Short", TM_I16, 2),      S("Char", TM_I8, 1),          S("Byte", TM_U8, 1),
    S("Bool", TM_BOOL, 1),      S("ComplexFloat", TM_C64, 8), S("ComplexDouble", TM_C128, 16),
    S("QInt8", TM_QI8, 1),      S("QUInt8", TM_QU8, 1),       S("QInt32", TM_QI32, 4),
    S("QUInt4x2", TM_QU4X2, 1), S("QUInt2x4", TM_QU2X4, 1),
};
static const struct storage_class untyped = {"Untyped", TM_U8, 1, true};
enum { N_CLASSES = sizeof classes / sizeof classes[0] };
#undef S

#define D(word, code)                                                                                        \
    {                                                                                                        \
        .kind = MEANS_DTYPE, .name = "torch." word, .dtype = code                                            \
    }
static const struct meaning dtypes[] = {
    D("float64", TM_F64),
    D("float32", TM_F32),
    D("float16", TM_F16),
    D("bfloat16", TM_BF16),
    D("int64", TM_I64),
    D("int32", TM_I32),
    D("int16", TM_I16),
    D("int8", TM_I8),
    D("uint8", TM_U8),
    D("bool", TM_BOOL),
    D("complex64", TM_C64),
    D("complex128", TM_C128),
    D("complex32", TM_C32),
    D("bcomplex32", TM_BC32),
    D("uint16", TM_U16),
    D("uint32", TM_U32),
    D("uint64", TM_U64),
    D("float8_e4m3fn", TM_F8_E4M3),
    D("float8_e5m2", TM_F8_E5M2),
    D("float8_e4m3fnuz", TM_F8_E4M3FNUZ),
    D("float8_e5m2fnuz", TM_F8_E5M2FNUZ),
    D("float8_e8m0fnu", TM_F8_E8M0),
    D("float4_e2m1fn_x2", TM_F4_X2),
    D("bits8", TM_BITS8),
    D("bits1x8", TM_BITS1X8),
    D("bits2x4", TM_BITS2X4),
    D("bits4x2", TM_BITS4X2),
    D("bits16", TM_BITS16),
    D("qint8", TM_QI8),
    D("quint8", TM_QU8),
    D("qint32", TM_QI32),
    D("quint4x2", TM_QU4X2),
    D("quint2x4", TM_QU2X4),
    D("double", TM_F64),
    D("float", TM_F32),
    D("half", TM_F16),
    D("long", TM_I64),
    D("int", TM_I32),
    D("short", TM_I16),
    D("cfloat", TM_C64),
    D("cdouble", TM_C128),
    D("chalf", TM_C32),
    D("int1", -1),
    D("int2", -1),
    D("int3", -1),
    D("int4", -1),
    D("int5", -1),
    D("int6", -1),
    D("int7", -1),
    D("uint1", -1),
    D("uint2", -1),
    D("uint3", -1),
    D("uint4", -1),
    D("uint5", -1),
    D("uint6", -1),
    D("uint7", -1),
};
#undef D

tm_dtype torch_shown(tm_dtype d)
{
    return d == TM_QI8 ? TM_I8 : d == TM_QU8 ? TM_U8 : d == TM_QI32 ? TM_I32 : d;
}

#define CALL(full, function)                                                                                 \
    {                                                                                                        \
        .kind = MEANS_CALL, .name = full, .call = function                                                   \
    }
#define REBUILDS(full, function)                                                                             \
    {                                                                                                        \
        .kind = MEANS_CALL, .name = full, .call = function, .rebuilds = true                                 \
    }
#define QSCHEME(full)                                                                                        \
    {                                                                                                        \
        .kind = MEANS_QSCHEME, .name = full                                                                  \
    }
static const struct meaning names[] = {
    REBUILDS("torch._utils._rebuild_tensor", torch_rebuild_tensor),
    REBUILDS("torch._utils._rebuild_tensor_v2", torch_rebuild_tensor),
    REBUILDS("torch._utils._rebuild_tensor_v3", torch_rebuild_tensor_v3),
    REBUILDS("torch._utils._rebuild_parameter", torch_rebuild_parameter),
    REBUILDS("torch._utils._rebuild_parameter_with_state", torch_rebuild_parameter),
    REBUILDS("torch._utils._rebuild_qtensor", torch_rebuild_quantized),
    REBUILDS("torch._utils._rebuild_sparse_tensor", torch_rebuild_sparse),
    REBUILDS("torch._utils._rebuild_sparse_csr_tensor", torch_rebuild_sparse),
    REBUILDS("torch._utils._rebuild_meta_tensor_no_storage", torch_rebuild_meta),
    REBUILDS("torch._utils._rebuild_nested_tensor", torch_rebuild_nested),
    REBUILDS("torch._utils._rebuild_device_tensor_from_cpu_tensor", torch_rebuild_device),
    REBUILDS("torch._utils._rebuild_device_tensor_from_numpy", torch_rebuild_device),
    REBUILDS("torch._utils._rebuild_xla_tensor", torch_rebuild_device),
    REBUILDS("torch._utils._rebuild_wrapper_subclass", torch_rebuild_wrapper),
    REBUILDS("torch._tensor._rebuild_from_type_v2", torch_rebuild_typed),
    REBUILDS("torch._tensor._rebuild_from_type", torch_rebuild_typed),
    CALL("torch.nn.parameter.Parameter", torch_parameter),
    CALL("torch.nn.parameter.Buffer", torch_parameter),
    CALL("torch.autograd.variable.Variable", torch_parameter),
    CALL("torch.Size", torch_make_size),
    CALL("torch.device", torch_make_device),
    CALL("torch.serialization._get_layout", torch_make_layout),
    CALL("torch.jit._pickle.build_intlist", torch_give_first),
    CALL("torch.jit._pickle.build_doublelist", torch_give_first),
    CALL("torch.jit._pickle.build_boollist", torch_give_first),
    CALL("torch.jit._pickle.build_tensorlist", torch_give_first),
    CALL("torch.jit._pickle.restore_type_tag", torch_give_first),
    CALL("torch.jit._pickle.build_tensor_from_id", torch_from_elsewhere),
    CALL("collections.OrderedDict", torch_make_dict),
    CALL("collections.defaultdict", torch_make_dict),
    CALL("collections.Counter", torch_make_dict),
    CALL("collections.deque", torch_make_list),
    CALL("builtins.dict", torch_make_dict),
    CALL("builtins.list", torch_make_list),
    CALL("builtins.tuple", torch_make_tuple),
    CALL("builtins.set", torch_make_set),
    CALL("builtins.frozenset", torch_make_set),
    CALL("builtins.bytes", torch_make_bytes),
    CALL("builtins.bytearray", torch_make_bytes),
    CALL("_codecs.encode", torch_make_bytes),
    CALL("builtins.complex", torch_make_complex),
    CALL("builtins.getattr", torch_make_getattr),
    CALL("numpy._core.multiarray._reconstruct", torch_numpy_array),
    CALL("numpy._core.multiarray.scalar", torch_numpy_scalar),
    CALL("numpy._core.numeric._frombuffer", torch_numpy_buffer),
    CALL("numpy.dtype", torch_numpy_dtype),
    QSCHEME("torch.per_tensor_affine"),
    QSCHEME("torch.per_channel_affine"),
    QSCHEME("torch.per_tensor_symmetric"),
    QSCHEME("torch.per_channel_symmetric"),
    QSCHEME("torch.per_channel_affine_float_qparams"),
};

static bool ends(const char *s, size_t len, const char *with)
{
    size_t n = strlen(with);
    return len >= n && memcmp(s + len - n, with, n) == 0;
}

static const struct storage_class *class_of(const char *name, size_t len)
{
    for (size_t i = 0; i < N_CLASSES; i++)
        if (strlen(classes[i].name) == len && memcmp(classes[i].name, name, len) == 0)
            return &classes[i];
    return NULL;
}

/* torch.FloatStorage, torch.cuda.FloatTensor, ... */
static int class_meaning(struct pickle *p, struct global *g)
{
    static const char *const modules[] = {"torch.storage.", "torch.cuda.", "torch.sparse.", "torch."};
    const char *name = NULL;
    for (size_t i = 0; !name && i < sizeof modules / sizeof modules[0]; i++)
        if (strncmp(g->full, modules[i], strlen(modules[i])) == 0)
            name = g->full + strlen(modules[i]);
    size_t len = name ? strlen(name) : 0;
    bool storage = len && ends(name, len, "Storage"), tensor = len && ends(name, len, "Tensor");
    if (!storage && !tensor)
        return 0;
    const struct storage_class *cls = class_of(name, len - (storage ? 7 : 6));
    if (storage && (strcmp(name, "UntypedStorage") == 0 || strcmp(name, "_UntypedStorage") == 0))
        cls = &untyped;
    if (!cls && !(tensor && len == 6))
        return 0;
    struct meaning *m = values_alloc(p->values, sizeof *m);
    if (!m)
        return pickle_failed(p, -ENOMEM);
    *m = (struct meaning){.kind = storage ? MEANS_STORAGE : MEANS_TENSOR, .name = g->full, .cls = cls};
    m->call = tensor ? torch_old_tensor : NULL;
    g->meaning = m;
    return 0;
}

static int name_hook(struct pickle *p, struct global *g)
{
    if (danger_named(g->full)) {
        struct buf b = {0};
        buf_printable(&b, g->full, strlen(g->full), 120);
        int err = pickle_refuse(p, "refers to %s: looks like a code-execution payload", b.p ? b.p : "");
        buf_free(&b);
        return err;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(g->full, names[i].name) == 0) {
            g->meaning = &names[i];
            return 0;
        }
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++)
        if (strcmp(g->full, dtypes[i].name) == 0) {
            g->meaning = &dtypes[i];
            return 0;
        }
    return class_meaning(p, g);
}

const struct meaning *torch_meaning(const struct value *v)
{
    return v->kind == VALUE_GLOBAL ? v->global->meaning : NULL;
}

static int call_hook(struct pickle *p, const struct global *f, struct value *args, struct value *keywords,
                     struct value **out)
{
    struct torch *t = p->ctx;
    const struct meaning *m = f->meaning;
    if (!m && strncmp(f->full, "torch._utils._rebuild_", 22) == 0)
        return pickle_refuse(p, "%s makes a kind of tensor that is not known here", f->full);
    if (!m)
        return 0;
    if (!m->call)
        return m->kind == MEANS_STORAGE ? 0 : pickle_refuse(p, "%s is called, which is no function", f->full);
    if (keywords && dict_len(keywords))
        return pickle_refuse(p, "%s with keywords", f->full);
    return m->call(t, f, args, out);
}

static int build_hook(struct pickle *p, struct value *obj, struct value *state, bool *done)
{
    struct torch *t = p->ctx;
    *done = true;
    switch (obj->kind) {
    case VALUE_DICT: /* an OrderedDict's attributes are no content */
        return state->kind == VALUE_DICT || state->kind == VALUE_NONE || state->kind == VALUE_TUPLE
                   ? 0
                   : pickle_refuse(p, "a dict is given a state that is none");
    case VALUE_TENSOR:
        return ((struct torch_tensor *)obj->any)->flags & TENSOR_ARRAY ? torch_build_array(t, obj, state)
                                                                       : torch_build_tensor(t, obj, state);
    case VALUE_PARTS: return torch_attach(t, obj, state);
    case VALUE_DTYPE: return torch_build_dtype(t, obj, state);
    default: *done = false; return 0;
    }
}

const struct pickle_hooks torch_hooks = {
    .name = name_hook,
    .call = call_hook,
    .build = build_hook,
    .persistent = torch_persistent,
};

void torch_init(struct torch *t, struct model *m, struct report *r, enum torch_form form,
                uint64_t pickle_bytes)
{
    uint64_t most = 16ULL << 20;
    most += pickle_bytes > UINT64_MAX / 128 ? UINT64_MAX / 2 : pickle_bytes * 64;
    *t = (struct torch){.m = m, .r = r, .form = form, .pickle_bytes = pickle_bytes};
    t->values.most = t->values.hash_left = most;
    t->pickle = (struct pickle){.values = &t->values, .r = r, .hooks = &torch_hooks, .ctx = t};
}

void torch_free(struct torch *t)
{
    pickle_free(&t->pickle);
    arena_free(&t->values.arena);
    free(t->storage);
    index_free(&t->by_key);
    unpacker_free(t->unpacker);
}
