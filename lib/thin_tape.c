/* SPDX-License-Identifier: MIT
 * The execution tape: stages in the order in which a decoder runs, each with the pages it needs. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "thin_build.h"

struct tape {
    struct thin_build *b;
    const char *norm; /* operator */
    fs_text eps;      /* its parameters as JSON text, no s if there are none */
    size_t room;
    fs_text *refs; /* of the stage in the making */
    size_t n_refs, room_refs;
    uint32_t layer;
    fs_opt_u64 no_q_norm, no_k_norm; /* how many layers lack one */
    int err;
};

/* The tensor of that name in the present layer. */
static const struct thin_tensor *in_layer(const struct tape *t, const char *name)
{
    return thin_findf(t->b, "model.layers.%" PRIu32 ".%s", t->layer, name);
}

static void no_memory(struct tape *t)
{
    if (t->err == 0)
        t->err = thin_no_memory(t->b);
}

static void fail(struct tape *t, const char *kind, const char *name)
{
    fs_text whole = thin_print(t->b, "model.layers.%" PRIu32 ".%s", t->layer, name);
    if (t->err == 0)
        t->err = thin_fail(t->b, kind, &whole, "");
}

static void ref(struct tape *t, const struct thin_tensor *x)
{
    if (t->n_refs == t->room_refs) {
        size_t room = t->room_refs ? t->room_refs * 2 : 64;
        fs_text *v = realloc(t->refs, room * sizeof *v);
        if (!v) {
            no_memory(t);
            return;
        }
        t->refs = v;
        t->room_refs = room;
    }
    t->refs[t->n_refs++] = x->id;
}

/* Adds it if it is there. */
static bool maybe(struct tape *t, const char *name)
{
    const struct thin_tensor *x = in_layer(t, name);
    if (x)
        ref(t, x);
    return x != NULL;
}

static void require(struct tape *t, const char *name)
{
    if (!in_layer(t, name))
        fail(t, "tensor-missing", name);
}

/* A weight, or what stands for it in packed form, with its scales and the like. */
static bool group(struct tape *t, const char *stem)
{
    static const char *const packed[] = {"weight", "qweight", "weight_packed", "weight_blocks"};
    static const char *const more[] = {"scales",     "qzeros", "g_idx", "weight_scale", "weight_zero_point",
                                       "input_scale"};
    char name[128];
    bool found = false;
    for (int i = 0; i < 4 && !found; i++) {
        snprintf(name, sizeof name, "%s.%s", stem, packed[i]);
        found = maybe(t, name);
        if (found && i == 0)
            return true;
    }
    for (int i = 0; i < 6 && found; i++) {
        snprintf(name, sizeof name, "%s.%s", stem, more[i]);
        maybe(t, name);
    }
    return found;
}

static void require_group(struct tape *t, const char *stem)
{
    char name[128];
    if (group(t, stem) || t->err < 0)
        return;
    snprintf(name, sizeof name, "%s.weight", stem);
    fail(t, "role-missing", name);
}

/* Ends the stage in the making. */
static void stage_named(struct tape *t, fs_text name, const char *operator, fs_text params)
{
    struct thin_manifest *m = &t->b->manifest;
    if (t->err < 0)
        return;
    if (m->n_stages == t->room) {
        size_t room = t->room ? t->room * 2 : 64;
        struct thin_stage *v = realloc(m->stages, room * sizeof *v);
        if (!v) {
            no_memory(t);
            return;
        }
        m->stages = v;
        t->room = room;
    }
    fs_text *refs = t->n_refs ? arena_alloc(t->b->arena, t->n_refs * sizeof *refs, 1) : NULL;
    if ((t->n_refs && !refs) || !name.s) {
        no_memory(t);
        return;
    }
    if (refs)
        memcpy(refs, t->refs, t->n_refs * sizeof *refs);
    m->stages[m->n_stages++] = (struct thin_stage){
        .stage = name, .operator= {operator, strlen(operator)}, .params = params, .refs = {refs, t->n_refs}};
    t->n_refs = 0;
}

static const fs_text nothing = {NULL, 0};

static void stage(struct tape *t, const char *name, const char *operator)
{
    bool norm = operator== t->norm;
    stage_named(t, thin_copy(t->b, name, strlen(name)), operator, norm ? t->eps : nothing);
}

static void layer_stage(struct tape *t, const char *name, const char *operator)
{
    bool norm = operator== t->norm;
    stage_named(t, thin_print(t->b, "layer_%" PRIu32 "_%s", t->layer, name), operator,
                norm ? t->eps : nothing);
}

static void linear_attention(struct tape *t)
{
    static const char *const names[] = {"linear_attn.in_proj_qkv.weight",
                                        "linear_attn.in_proj_z.weight",
                                        "linear_attn.in_proj_a.weight",
                                        "linear_attn.in_proj_b.weight",
                                        "linear_attn.conv1d.weight",
                                        "linear_attn.dt_bias",
                                        "linear_attn.A_log",
                                        "linear_attn.norm.weight",
                                        "linear_attn.out_proj.weight"};
    for (size_t i = 0; i < sizeof names / sizeof names[0] && t->err == 0; i++)
        if (!maybe(t, names[i]))
            fail(t, "tensor-missing", names[i]);
    layer_stage(t, "linear_attention", "gated_delta_net");
}

/* The numbers of the attention stage: 64 bits, each with its own way out if it is not given. */
static void attention(struct tape *t)
{
    const struct thin_config *c = &t->b->config;
    fs_opt_u64 hidden = thin_u64(c, "hidden_size"), heads = thin_u64(c, "num_attention_heads");
    fs_opt_u64 kv = thin_u64(c, "num_key_value_heads"), dim = thin_u64(c, "head_dim");
    fs_opt_u64 window = thin_u64(c, "sliding_window");
    fs_text type = thin_layer_type(c, t->layer);
    if (!hidden.present)
        hidden = thin_infer_hidden(t->b);
    if (!hidden.present)
        hidden.value = 1;
    if (!heads.present)
        heads = thin_infer_heads(t->b, hidden.value);
    if (!heads.present)
        heads.value = 1;
    if (!kv.present)
        kv = thin_infer_kv_heads(t->b);
    if (!kv.present)
        kv.value = heads.value;
    if (!dim.present && heads.value == 0) {
        if (t->err == 0)
            t->err = thin_fail(t->b, "manifest-invalid", NULL, "model-zero: model.heads");
        return;
    }
    if (!dim.present)
        dim.value = hidden.value / heads.value ? hidden.value / heads.value : 1;
    struct buf params = {0};
    buf_printf(&params,
               "{\n  \"causal\": true,\n  \"head_dim\": %" PRIu64 ",\n  \"heads\": %" PRIu64
               ",\n  \"kv_heads\": %" PRIu64,
               dim.value, heads.value, kv.value);
    if (type.s && thin_has(&type, "sliding") && window.present)
        buf_printf(&params, ",\n  \"window\": %" PRIu64, window.value);
    buf_str(&params, "\n}");
    fs_text text = params.failed ? nothing : thin_copy(t->b, params.p, params.len);
    buf_free(&params);
    if (!text.s)
        no_memory(t);
    stage_named(t, thin_print(t->b, "layer_%" PRIu32 "_attention", t->layer),
                kv.value == heads.value ? "mha_attention"
                : kv.value == 1         ? "mqa_attention"
                                        : "gqa_attention",
                text);
}

/* The refs of QKV, which are looked for before other parts are missed. */
static void qkv_groups(struct tape *t, bool shared)
{
    if (group(t, "self_attn.qkv_proj"))
        return;
    if (shared)
        return; /* later: its own parts are missed after o_proj and the norm */
    require_group(t, "self_attn.q_proj");
    if (t->err == 0)
        require_group(t, "self_attn.k_proj");
    if (t->err == 0)
        require_group(t, "self_attn.v_proj");
}

static void check_presence(struct tape *t, bool linear, bool shared)
{
    require(t, "input_layernorm.weight");
    if (!linear && t->err == 0)
        qkv_groups(t, shared);
    if (!linear && t->err == 0)
        require_group(t, "self_attn.o_proj");
    if (t->err == 0)
        require(t, "post_attention_layernorm.weight");
    t->n_refs = 0;
}

static void full_attention(struct tape *t, bool shared)
{
    static const char *const more[] = {"self_attn.qkv_proj.bias", "self_attn.q_proj.bias",
                                       "self_attn.k_proj.bias", "self_attn.v_proj.bias", "self_attn.sinks"};
    qkv_groups(t, shared);
    if (shared && t->n_refs == 0)
        require_group(t, "self_attn.q_proj");
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++)
        maybe(t, more[i]);
    t->no_q_norm.value += !maybe(t, "self_attn.q_norm.weight");
    t->no_k_norm.value += !maybe(t, "self_attn.k_norm.weight") && !shared;
    layer_stage(t, "attn_qkv", "qkv_projection");
    layer_stage(t, "rope", "rope");
    attention(t);
    require_group(t, "self_attn.o_proj");
    maybe(t, "self_attn.o_proj.bias");
    layer_stage(t, "attn_out", "o_projection");
}

static const char *first_of(const struct tape *t, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (in_layer(t, names[i]))
            return names[i];
    return NULL;
}

static void packed_experts(struct tape *t, const char *gate_up, const char *down)
{
    maybe(t, gate_up);
    maybe(t, "mlp.experts.gate_up_proj_scales");
    maybe(t, "mlp.experts.gate_up_proj_bias");
    layer_stage(t, "moe_gate_up", "sparse_experts");
    maybe(t, down);
    maybe(t, "mlp.experts.down_proj_scales");
    maybe(t, "mlp.experts.down_proj_bias");
    layer_stage(t, "moe_down", "sparse_experts");
}

/* The first tensor whose id is not before `prefix`. */
static size_t lower_bound(const struct thin_build *b, const fs_text *prefix)
{
    size_t low = 0, high = b->n_tensors;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const fs_text *id = &b->tensors[mid].id;
        size_t n = id->len < prefix->len ? id->len : prefix->len;
        int c = memcmp(id->s, prefix->s, n);
        if (c < 0 || (c == 0 && id->len < prefix->len))
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* All tensors of the layer's experts in order of their ids; "block..." comes before "mlp...". */
static void all_experts(struct tape *t)
{
    static const char *const parts[] = {"block_sparse_moe.", "mlp.experts."};
    for (int i = 0; i < 2; i++) {
        fs_text prefix = thin_print(t->b, "model.layers.%" PRIu32 ".%s", t->layer, parts[i]);
        if (!prefix.s) {
            no_memory(t);
            return;
        }
        for (size_t k = lower_bound(t->b, &prefix);
             k < t->b->n_tensors && thin_begins(&t->b->tensors[k].id, prefix.s); k++)
            ref(t, &t->b->tensors[k]);
    }
    if (t->n_refs == 0 && t->err == 0) {
        fs_text name = thin_print(t->b, "layer %" PRIu32, t->layer);
        t->err = thin_fail(t->b, "moe-without-experts", &name, "");
    }
    layer_stage(t, "moe_experts", "sparse_experts");
}

static void dense_mlp(struct tape *t)
{
    bool fused = group(t, "mlp.gate_up_proj");
    if (fused)
        maybe(t, "mlp.gate_up_proj.bias");
    else {
        require_group(t, "mlp.gate_proj");
        if (t->err == 0)
            require_group(t, "mlp.up_proj");
    }
    layer_stage(t, "mlp_gate_up", "gated_activation");
    if (t->err == 0)
        require_group(t, "mlp.down_proj");
    layer_stage(t, "mlp_down", "down_projection");
}

static void feed_forward(struct tape *t)
{
    static const char *const routers[] = {"mlp.router.weight", "block_sparse_moe.gate.weight",
                                          "mlp.gate.weight"};
    static const char *const ups[] = {"mlp.experts.gate_up_proj", "mlp.experts.gate_up_proj_blocks"};
    static const char *const downs[] = {"mlp.experts.down_proj", "mlp.experts.down_proj_blocks"};
    const char *router = first_of(t, routers, 3), *up = first_of(t, ups, 2), *down = first_of(t, downs, 2);
    if (!router) {
        dense_mlp(t);
        return;
    }
    maybe(t, router);
    maybe(t, "mlp.router.bias");
    layer_stage(t, "moe_router", "topk_router");
    if (up && down)
        packed_experts(t, up, down);
    else
        all_experts(t);
}

static void per_layer_input(struct tape *t)
{
    static const char *const names[] = {"per_layer_input_gate.weight", "per_layer_projection.weight",
                                        "post_per_layer_input_norm.weight"};
    for (int i = 0; i < 3; i++)
        if (!in_layer(t, names[i]))
            return;
    for (int i = 0; i < 3; i++)
        maybe(t, names[i]);
    maybe(t, "layer_scalar");
    layer_stage(t, "per_layer_input", "per_layer_embeddings");
}

static void layer(struct tape *t, bool shared)
{
    fs_text type = thin_layer_type(&t->b->config, t->layer);
    bool linear = thin_is(&type, "linear_attention");
    check_presence(t, linear, shared);
    if (t->err < 0)
        return;
    maybe(t, "input_layernorm.weight");
    maybe(t, "input_layernorm.bias");
    layer_stage(t, "input_norm", t->norm);
    if (linear)
        linear_attention(t);
    else
        full_attention(t, shared);
    maybe(t, "post_attention_layernorm.weight");
    maybe(t, "post_attention_layernorm.bias");
    layer_stage(t, "post_attn_norm", t->norm);
    if (maybe(t, "pre_feedforward_layernorm.weight"))
        layer_stage(t, "pre_feedforward_norm", t->norm);
    if (t->err == 0)
        feed_forward(t);
    if (maybe(t, "post_feedforward_layernorm.weight"))
        layer_stage(t, "post_feedforward_norm", t->norm);
    per_layer_input(t);
}

static void begin(struct tape *t)
{
    static const char *const names[] = {"model.embed_tokens_per_layer.weight",
                                        "model.per_layer_model_projection.weight",
                                        "model.per_layer_projection_norm.weight"};
    const struct thin_tensor *embed = thin_findf(t->b, "model.embed_tokens.weight"), *x[3];
    if (!embed) {
        fs_text name = {"model.embed_tokens.weight", 25};
        t->err = thin_fail(t->b, "tensor-missing", &name, "");
        return;
    }
    ref(t, embed);
    stage(t, "embed", "embedding");
    for (int i = 0; i < 3; i++) {
        x[i] = thin_findf(t->b, "%s", names[i]);
        if (!x[i])
            return;
    }
    for (int i = 0; i < 3; i++)
        ref(t, x[i]);
    stage(t, "per_layer_inputs", "per_layer_embeddings");
}

static void end(struct tape *t)
{
    const struct thin_tensor *norm = thin_findf(t->b, "model.norm.weight");
    const struct thin_tensor *bias = thin_findf(t->b, "model.norm.bias");
    const struct thin_tensor *head = thin_findf(t->b, "lm_head.weight");
    if (t->no_q_norm.value)
        thin_warn(t->b, "q-norm-missing", "%" PRIu64, t->no_q_norm.value);
    if (t->no_k_norm.value)
        thin_warn(t->b, "k-norm-missing", "%" PRIu64, t->no_k_norm.value);
    if (norm) {
        ref(t, norm);
        if (bias)
            ref(t, bias);
        stage(t, "final_norm", t->norm);
    }
    if (head) {
        ref(t, head);
        stage(t, "lm_head", "lm_head");
    } else
        thin_warn(t->b, "lm-head-missing", "%s", "");
}

static void set_norm(struct tape *t)
{
    fs_opt_f64 eps = thin_norm_eps(t->b);
    struct buf text = {0};
    t->norm = thin_uses_layer_norm(t->b) ? "layer_norm" : "rms_norm";
    if (!eps.present)
        return;
    buf_str(&text, "{\n  \"eps\": ");
    jnumber_write_double(&text, eps.value);
    buf_str(&text, "\n}");
    if (text.failed || !(t->eps = thin_copy(t->b, text.p, text.len)).s)
        no_memory(t);
    buf_free(&text);
}

int thin_make_tape(struct thin_build *b)
{
    struct tape t = {.b = b};
    uint64_t shared = thin_u64(&b->config, "num_kv_shared_layers").value;
    uint64_t own = shared < b->layers ? b->layers - shared : 0; /* layers with keys and values of their own */
    set_norm(&t);
    if (t.err == 0)
        begin(&t);
    for (uint64_t i = 0; i < b->layers && t.err == 0; i++) {
        t.layer = (uint32_t)i;
        layer(&t, i >= own);
    }
    if (t.err == 0)
        end(&t);
    free(t.refs);
    if (t.err == 0 && b->no_memory)
        t.err = thin_no_memory(b);
    return t.err;
}
