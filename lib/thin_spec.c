/* SPDX-License-Identifier: MIT
 * The model section of the manifest. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "thin_build.h"

/* The members that are the value of one key, as their type reads it. */
static const struct {
    const char *key;
    enum { U64, F64, BOOL } type;
    size_t at;
} plain[] = {
#define AT(member) offsetof(fs_thin_spec, member)
    {"head_dim", U64, AT(head_dim)},
    {"intermediate_size", U64, AT(intermediate_size)},
    {"rms_norm_eps", F64, AT(rms_norm_eps)},
    {"rope_theta", F64, AT(rope_theta)},
    {"partial_rotary_factor", F64, AT(partial_rotary_factor)},
    {"vocab_size", U64, AT(vocab_size)},
    {"tie_word_embeddings", BOOL, AT(tie_word_embeddings)},
    {"attention_bias", BOOL, AT(attention_bias)},
    {"no_rope_layer_interval", U64, AT(no_rope_layer_interval)},
    {"sliding_window", U64, AT(sliding_window)},
    {"use_sliding_window", BOOL, AT(use_sliding_window)},
    {"max_position_embeddings", U64, AT(max_position_embeddings)},
    {"original_max_position_embeddings", U64, AT(original_max_position_embeddings)},
    {"linear_conv_kernel_dim", U64, AT(linear_conv_kernel_dim)},
    {"linear_key_head_dim", U64, AT(linear_key_head_dim)},
    {"linear_value_head_dim", U64, AT(linear_value_head_dim)},
    {"linear_num_key_heads", U64, AT(linear_num_key_heads)},
    {"linear_num_value_heads", U64, AT(linear_num_value_heads)},
    {"attn_output_gate", BOOL, AT(attention_output_gate)},
    {"global_head_dim", U64, AT(global_head_dim)},
    {"num_global_key_value_heads", U64, AT(num_global_key_value_heads)},
    {"num_kv_shared_layers", U64, AT(num_kv_shared_layers)},
    {"hidden_size_per_layer_input", U64, AT(hidden_size_per_layer_input)},
    {"vocab_size_per_layer_input", U64, AT(vocab_size_per_layer_input)},
    {"use_double_wide_mlp", BOOL, AT(use_double_wide_mlp)},
    {"norm_topk_prob", BOOL, AT(norm_topk_prob)},
    {"swiglu_alpha", F64, AT(swiglu_alpha)},
    {"swiglu_limit", F64, AT(swiglu_limit)},
    {"query_pre_attn_scalar", F64, AT(query_pre_attn_scalar)},
    {"attn_logit_softcapping", F64, AT(attention_logit_softcap)},
    {"final_logit_softcapping", F64, AT(final_logit_softcap)},
};

static void copy_plain(const struct thin_config *c, fs_thin_spec *s)
{
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        char *at = (char *)s + plain[i].at;
        fs_opt_u64 u;
        fs_opt_f64 f;
        fs_opt_bool b;
        switch (plain[i].type) {
        case U64:
            u = thin_u64(c, plain[i].key);
            memcpy(at, &u, sizeof u);
            break;
        case F64:
            f = thin_f64(c, plain[i].key);
            memcpy(at, &f, sizeof f);
            break;
        case BOOL:
            b = thin_bool(c, plain[i].key);
            memcpy(at, &b, sizeof b);
            break;
        }
    }
}

static fs_text word(const char *s)
{
    return (fs_text){s, strlen(s)};
}

/* A list in the making; its longest has some twenty members. */
struct words {
    fs_text v[32];
    size_t n;
};

static void add(struct words *w, const char *s)
{
    w->v[w->n++] = word(s);
}

static fs_texts keep(struct thin_build *b, const fs_text *v, size_t n)
{
    fs_text *copy = n ? arena_alloc(b->arena, n * sizeof *v, 1) : NULL;
    b->no_memory |= n && !copy;
    if (copy)
        memcpy(copy, v, n * sizeof *v);
    return (fs_texts){copy, copy ? n : 0};
}

static fs_text json(struct thin_build *b, const struct jvalue *v)
{
    struct buf text = {0};
    fs_text t = {NULL, 0};
    if (!v || v->type == J_NULL)
        return t;
    if (jtree_write(&text, v, 0) < 0)
        b->no_memory = true;
    else
        t = thin_copy(b, text.p, text.len);
    buf_free(&text);
    return t;
}

static fs_text normal_arch(struct thin_build *b, const fs_text *raw)
{
    static const struct {
        const char *part, *arch;
    } known[] = {{"qwen3_5", "qwen3_5"}, {"qwen3.5", "qwen3_5"}, {"qwen", "qwen"}, {"llama", "llama"}};
    fs_text lower = thin_copy(b, raw->s, raw->len);
    for (size_t i = 0; i < lower.len; i++)
        if (lower.s[i] >= 'A' && lower.s[i] <= 'Z')
            ((char *)(uintptr_t)lower.s)[i] |= 32;
    for (size_t i = 0; i < sizeof known / sizeof known[0] && lower.s; i++)
        if (thin_has(&lower, known[i].part))
            return word(known[i].arch);
    return lower;
}

static void set_arch(struct thin_build *b, const char *arch, fs_thin_spec *s)
{
    const struct jvalue *all = thin_get(&b->config, "architectures");
    if (all && all->type == J_ARRAY && all->n)
        s->raw_arch = thin_as_text(all->item[0]);
    if (arch)
        s->arch = thin_copy(b, arch, strlen(arch));
    else if (s->raw_arch.s)
        s->arch = normal_arch(b, &s->raw_arch);
    else {
        s->arch = word("unknown");
        thin_warn(b, "arch-unknown", "%s", "");
    }
}

static int set_sizes(struct thin_build *b, fs_thin_spec *s)
{
    fs_opt_u64 hidden = thin_u64(&b->config, "hidden_size"), heads, kv;
    if (!hidden.present) {
        hidden = thin_infer_hidden(b);
        if (!hidden.present)
            return thin_fail(b, "inference-failed", NULL, "hidden_size");
        thin_warn(b, "hidden-inferred", "%" PRIu64, hidden.value);
    }
    s->hidden_size = hidden.value;
    heads = thin_u32(&b->config, "num_attention_heads");
    if (!heads.present) {
        heads = thin_infer_heads(b, hidden.value);
        if (!heads.present)
            return thin_fail(b, "inference-failed", NULL, "num_attention_heads");
        thin_warn(b, "heads-inferred", "%" PRIu64, heads.value);
    }
    s->heads = heads.value;
    kv = thin_u32(&b->config, "num_key_value_heads");
    s->kv_heads = kv.value;
    if (!kv.present) {
        kv = thin_infer_kv_heads(b);
        s->kv_heads = kv.present ? kv.value : s->heads;
        if (s->kv_heads != s->heads)
            thin_warn(b, "kv-heads-inferred", "%" PRIu64, s->kv_heads);
    }
    return 0;
}

static void set_norm(struct thin_build *b, bool olmoe, fs_thin_spec *s)
{
    if (s->rms_norm_eps.present || olmoe)
        s->norm_kind = word("rms_norm");
    else if (thin_f64(&b->config, "layer_norm_eps").present)
        s->norm_kind = word("layer_norm");
    if (!s->rms_norm_eps.present && olmoe)
        s->rms_norm_eps = (fs_opt_f64){1e-5, 1};
    s->norm_eps = thin_norm_eps(b);
}

static void set_rope(struct thin_build *b, fs_thin_spec *s)
{
    const struct thin_config *c = &b->config;
    const struct jvalue *parameters = thin_get(c, "rope_parameters"), *scaling = thin_get(c, "rope_scaling");
    if (!s->rope_theta.present)
        s->rope_theta = thin_as_f64(jtree_get(parameters, "rope_theta"));
    if (!s->partial_rotary_factor.present)
        s->partial_rotary_factor = thin_as_f64(jtree_get(parameters, "partial_rotary_factor"));
    s->rope_scaling = json(b, scaling);
    s->rope_parameters = json(b, parameters ? parameters : scaling);
    const struct jvalue *type = jtree_get(scaling, "rope_type");
    s->rope_variant = thin_as_text(type ? type : jtree_get(scaling, "type"));
}

static bool has_linear(const struct thin_config *c)
{
    const struct jvalue *v = thin_get(c, "layer_types");
    for (uint32_t i = 0; v && v->type == J_ARRAY && i < v->n; i++) {
        fs_text t = thin_as_text(v->item[i]);
        if (thin_is(&t, "linear_attention"))
            return true;
    }
    return false;
}

static void set_layer_types(struct thin_build *b, bool gemma2, fs_thin_spec *s)
{
    const struct jvalue *v = thin_get(&b->config, "layer_types");
    bool array = v && v->type == J_ARRAY;
    /* With fewer tensors than layers the tape will fail: each needs one of its own. */
    size_t made = gemma2 && s->layers <= b->n_tensors ? (size_t)s->layers : 0;
    size_t n = array ? v->n : made, used = 0;
    fs_text *list = n ? arena_alloc(b->arena, n * sizeof *list, 1) : NULL;
    b->no_memory |= n && !list;
    for (size_t i = 0; i < n && list; i++) {
        fs_text t = array ? thin_as_text(v->item[i]) : word(i % 2 ? "full_attention" : "sliding_attention");
        if (t.s)
            list[used++] = t;
    }
    s->layer_types = (fs_texts){list, used};
}

static void set_no_rope(struct thin_build *b, fs_thin_spec *s)
{
    const struct jvalue *v = thin_get(&b->config, "no_rope_layers");
    size_t n = v && v->type == J_ARRAY ? v->n : 0, used = 0;
    unsigned char *list = n ? arena_alloc(b->arena, n, 0) : NULL;
    b->no_memory |= n && !list;
    for (size_t i = 0; i < n && list; i++) {
        fs_opt_bool yes = thin_as_bool(v->item[i]);
        fs_opt_u64 number = thin_as_u64(v->item[i]);
        if (yes.present || number.present)
            list[used++] = yes.present ? yes.value : number.value != 0;
    }
    s->no_rope_layers = (fs_bools){list, used};
}

static void set_variants(struct thin_build *b, fs_thin_spec *s)
{
    const struct jvalue *types = thin_get(&b->config, "layer_types");
    bool off = s->use_sliding_window.present && !s->use_sliding_window.value;
    struct words w = {.n = 0};
    add(&w, "causal_kv");
    add(&w, "current_only_smoke");
    if ((types && types->type == J_ARRAY && types->n) || (s->sliding_window.present && !off))
        add(&w, "sliding_causal_kv");
    s->attention_variants = keep(b, w.v, w.n);
}

static void set_modes(struct thin_build *b, bool moe, fs_thin_spec *s)
{
    const struct jvalue *method = jtree_get(thin_get(&b->config, "quantization_config"), "quant_method");
    struct words w = {.n = 0};
    if (method && method->type == J_TEXT) {
        struct buf text = {0}; /* the method may hold NULs */
        buf_str(&text, "native_");
        buf_add(&text, method->text.s, method->text.len);
        b->no_memory |= text.failed;
        if (!text.failed)
            w.v[w.n++] = thin_copy(b, text.p, text.len);
        buf_free(&text);
    }
    add(&w, "bf16");
    add(&w, "head8");
    if (!moe) {
        add(&w, "down_fp8");
        add(&w, "gate_up_fp8");
        add(&w, "mlp_fp8");
    }
    s->supported_precision_modes = keep(b, w.v, w.n);
}

static bool any_id(const struct thin_build *b, bool (*test)(const fs_text *t, const char *part),
                   const char *part)
{
    for (size_t i = 0; i < b->n_tensors; i++)
        if (test(&b->tensors[i].id, part))
            return true;
    return false;
}

static bool positive(fs_opt_u64 u)
{
    return u.present && u.value > 0;
}

static void set_operators(struct thin_build *b, bool moe, bool hybrid, fs_thin_spec *s)
{
    struct words w = {.n = 0};
    char attention[32];
    snprintf(attention, sizeof attention, "%s_attention", s->attention_kind.s);
    fs_text kind = thin_copy(b, attention, strlen(attention));
    add(&w, "embedding");
    add(&w, thin_uses_layer_norm(b) ? "layer_norm" : "rms_norm");
    add(&w, "qkv_projection");
    add(&w, "rope");
    w.v[w.n++] = kind;
    add(&w, "o_projection");
    add(&w, "lm_head");
    if (hybrid) {
        add(&w, "gated_delta_net");
        add(&w, "depthwise_causal_conv1d");
        add(&w, "recurrent_state_cache");
        add(&w, "gated_full_attention");
    }
    if (positive(s->hidden_size_per_layer_input) || positive(s->vocab_size_per_layer_input) ||
        positive(s->num_kv_shared_layers) || positive(s->global_head_dim)) {
        add(&w, "per_layer_embeddings");
        add(&w, "variable_head_dim_attention");
        add(&w, "shared_kv_attention");
        add(&w, "post_attention_norm");
        add(&w, "post_feedforward_norm");
    }
    if (any_id(b, thin_ends, "pre_feedforward_layernorm.weight") &&
        any_id(b, thin_ends, "post_feedforward_layernorm.weight")) {
        add(&w, "post_attention_norm");
        add(&w, "post_feedforward_norm");
    }
    if (s->attention_sinks.value)
        add(&w, "attention_sinks");
    if (moe) {
        add(&w, "topk_router");
        add(&w, "sparse_experts");
        add(&w, "expert_weighted_sum");
    } else {
        add(&w, "gated_activation");
        add(&w, "down_projection");
    }
    s->required_operators = keep(b, w.v, w.n);
}

static void set_texts(struct thin_build *b, fs_thin_spec *s)
{
    const struct thin_config *c = &b->config;
    s->model_type = thin_text(c, "model_type");
    s->source_dtype = thin_text(c, "torch_dtype");
    if (!s->source_dtype.s)
        s->source_dtype = thin_text(c, "dtype");
    s->dtype = s->source_dtype.s ? s->source_dtype : word("unknown");
    s->activation = thin_text(c, "hidden_act");
    if (!s->activation.s)
        s->activation = thin_text(c, "hidden_activation");
    s->tensor_naming_scheme = word("hf_decoder_layers");
    s->quantization_config = json(b, thin_get(c, "quantization_config"));
    s->qkv_bias = thin_as_bool(thin_get2(c, "qkv_bias", "attention_bias"));
}

static void set_by_type(fs_thin_spec *s)
{
    const fs_text *type = &s->model_type;
    bool gemma2 = thin_is(type, "gemma2");
    if (!s->tie_word_embeddings.present)
        s->tie_word_embeddings = (fs_opt_bool){gemma2 || thin_is(type, "gemma"), 1};
    if (gemma2 || thin_is(type, "qwen3_5"))
        s->norm_weight_offset = (fs_opt_f64){1.0, 1};
    if (gemma2 || thin_begins(type, "gemma4"))
        s->embedding_scale = (fs_opt_f64){sqrt((double)s->hidden_size), 1};
}

int thin_make_spec(struct thin_build *b, const char *arch)
{
    fs_thin_spec *s = &b->manifest.model;
    *s = (fs_thin_spec){.layers = b->layers};
    set_arch(b, arch, s);
    int err = set_sizes(b, s);
    if (err < 0)
        return err;
    copy_plain(&b->config, s);
    set_texts(b, s);
    set_norm(b, thin_is(&s->model_type, "olmoe"), s);
    set_rope(b, s);
    set_by_type(s);
    if (!s->intermediate_size.present)
        s->intermediate_size = thin_infer_intermediate(b);
    s->num_local_experts = thin_experts(b);
    s->num_experts_per_token = thin_experts_per_token(b);
    s->attention_sinks = (fs_opt_bool){any_id(b, thin_ends, ".self_attn.sinks"), 1};
    bool moe = s->num_local_experts.present || any_id(b, thin_has, ".mlp.experts.") ||
               any_id(b, thin_has, ".block_sparse_moe.experts.");
    bool hybrid = has_linear(&b->config);
    s->attention_kind = word(s->kv_heads == s->heads ? "mha" : s->kv_heads == 1 ? "mqa" : "gqa");
    s->architecture_family = word(hybrid ? "hybrid_decoder" : moe ? "decoder_moe" : "decoder_dense");
    s->mlp_kind = word(moe ? "sparse_moe" : "gated_dense");
    set_layer_types(b, thin_is(&s->model_type, "gemma2"), s);
    set_no_rope(b, s);
    set_variants(b, s);
    set_modes(b, moe, s);
    set_operators(b, moe, hybrid, s);
    return b->no_memory ? thin_no_memory(b) : 0;
}
