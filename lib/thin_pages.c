/* SPDX-License-Identifier: MIT
 * The pages of the manifest: one for each tensor, labelled by its name. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "safetensors/tensor.h"
#include "thin_build.h"

enum test { IS, HAS, ENDS };

static bool passes(const fs_text *id, enum test test, const char *text)
{
    return test == IS ? thin_is(id, text) : test == HAS ? thin_has(id, text) : thin_ends(id, text);
}

/* The first that fits counts; `also` must be in the name too. */
static const struct {
    enum test test;
    const char *text, *also, *op;
} ops[] = {
    {IS, "model.embed_tokens.weight", NULL, "embed_tokens"},
    {IS, "model.norm.weight", NULL, "final_norm"},
    {IS, "lm_head.weight", NULL, "lm_head"},
    {HAS, "input_layernorm.", NULL, "input_layernorm"},
    {HAS, ".ln_1.", NULL, "input_layernorm"},
    {HAS, "self_attn.qkv_proj.", NULL, "attn_qkv_proj"},
    {HAS, ".attn.c_attn.", NULL, "attn_qkv_proj"},
    {HAS, "self_attn.q_proj.", NULL, "attn_q_proj"},
    {HAS, "self_attn.k_proj.", NULL, "attn_k_proj"},
    {HAS, "self_attn.v_proj.", NULL, "attn_v_proj"},
    {HAS, "self_attn.o_proj.", NULL, "attn_o_proj"},
    {HAS, ".attn.c_proj.", NULL, "attn_o_proj"},
    {ENDS, "q_norm.weight", NULL, "attn_q_norm"},
    {ENDS, "k_norm.weight", NULL, "attn_k_norm"},
    {HAS, "post_attention_layernorm.", NULL, "post_attention_layernorm"},
    {HAS, ".ln_2.", NULL, "post_attention_layernorm"},
    {ENDS, "pre_feedforward_layernorm.weight", NULL, "pre_feedforward_layernorm"},
    {ENDS, "post_feedforward_layernorm.weight", NULL, "post_feedforward_layernorm"},
    {IS, "model.embed_tokens_per_layer.weight", NULL, "per_layer_token_embeddings"},
    {IS, "model.per_layer_model_projection.weight", NULL, "per_layer_model_projection"},
    {IS, "model.per_layer_projection_norm.weight", NULL, "per_layer_projection_norm"},
    {ENDS, "per_layer_input_gate.weight", NULL, "per_layer_input_gate"},
    {ENDS, "per_layer_projection.weight", NULL, "per_layer_projection"},
    {ENDS, "post_per_layer_input_norm.weight", NULL, "post_per_layer_input_norm"},
    {ENDS, "layer_scalar", NULL, "layer_scalar"},
    {HAS, ".linear_attn.in_proj_", NULL, "linear_attn_input_projection"},
    {ENDS, ".linear_attn.conv1d.weight", NULL, "linear_attn_depthwise_conv"},
    {ENDS, ".linear_attn.A_log", NULL, "linear_attn_recurrence_parameters"},
    {ENDS, ".linear_attn.dt_bias", NULL, "linear_attn_recurrence_parameters"},
    {ENDS, ".linear_attn.norm.weight", NULL, "linear_attn_gated_norm"},
    {ENDS, ".linear_attn.out_proj.weight", NULL, "linear_attn_output_projection"},
    {ENDS, "self_attn.sinks", NULL, "attention_sinks"},
    {HAS, "mlp.router.", NULL, "moe_router"},
    {HAS, "block_sparse_moe.gate.", NULL, "moe_router"},
    {HAS, ".mlp.experts.gate_up_proj", NULL, "moe_gate_up"},
    {HAS, ".block_sparse_moe.experts.", ".w1.", "moe_gate_up"},
    {HAS, ".block_sparse_moe.experts.", ".w3.", "moe_gate_up"},
    {HAS, ".mlp.experts.down_proj", NULL, "moe_down"},
    {HAS, ".block_sparse_moe.experts.", ".w2.", "moe_down"},
    {HAS, "mlp.gate_up_proj.", NULL, "mlp_gate_up_proj"},
    {HAS, "mlp.gate_proj.", NULL, "mlp_gate_proj"},
    {HAS, "mlp.up_proj.", NULL, "mlp_up_proj"},
    {HAS, "mlp.down_proj.", NULL, "mlp_down_proj"},
};

static fs_text word(const char *s)
{
    return (fs_text){s, strlen(s)};
}

static fs_text op_of(const fs_text *id)
{
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        if (passes(id, ops[i].test, ops[i].text) && (!ops[i].also || thin_has(id, ops[i].also)))
            return word(ops[i].op);
    return word("unknown");
}

static fs_text layout_of(const fs_text *id)
{
    if (thin_ends(id, "_blocks"))
        return word("mxfp4_group32_packed");
    if (thin_ends(id, "_scales"))
        return word("mxfp8_e8m0_scales");
    if (thin_has(id, ".mlp.experts.") || thin_has(id, ".block_sparse_moe.experts."))
        return word("expert_major_contiguous");
    return word("row_major_contiguous");
}

static fs_text kind_of(const fs_text *id)
{
    return word(thin_is(id, "model.embed_tokens.weight") ? "embedding"
                : thin_is(id, "lm_head.weight")          ? "lm_head"
                                                         : "weight");
}

static fs_text lower_code(struct thin_build *b, tm_dtype d)
{
    char code[24];
    size_t n = 0;
    for (const char *p = tm_dtype_name(d); *p && n < sizeof code; p++)
        code[n++] = (char)tolower((unsigned char)*p);
    return thin_copy(b, code, n);
}

/* The name of the page that holds a block tensor's scales: every "_blocks" in it becomes "_scales". */
static fs_text scales_of(struct thin_build *b, const fs_text *id)
{
    fs_text t = thin_copy(b, id->s, id->len);
    char *p = (char *)(uintptr_t)t.s;
    while (p && (p = memmem(p, (size_t)(t.s + t.len - p), "_blocks", 7)) != NULL) {
        memcpy(p, "_scales", 7);
        p += 7;
    }
    return t;
}

/* What the configuration says about quantised tensors in general. */
struct quantisation {
    fs_text method;
    fs_opt_u64 bits, group;
};

static void read_quantisation(const struct thin_build *b, struct quantisation *q)
{
    const struct jvalue *all = thin_get(&b->config, "quantization_config");
    const struct jvalue *bits = jtree_get(all, "bits"), *group = jtree_get(all, "group_size");
    if (!bits)
        bits = jtree_get(all, "weight_bits");
    if (!bits)
        bits = jtree_get(all, "num_bits");
    q->method = thin_as_text(jtree_get(all, "quant_method"));
    q->bits = thin_as_u64(bits);
    if (q->bits.value > UINT8_MAX)
        q->bits = (fs_opt_u64){0, 0};
    q->group = thin_as_u64(group ? group : jtree_get(all, "block_size"));
}

static bool is_packed(const fs_text *id, tm_dtype d)
{
    bool scale = thin_ends(id, "_scales") || thin_ends(id, ".scales") || thin_ends(id, "_scale");
    return thin_has(id, "qweight") || ((d == TM_U8 || d == TM_I8 || d == TM_I32) && !scale);
}

static void set_quantisation(struct thin_build *b, const struct quantisation *q, const struct thin_tensor *t,
                             struct thin_page *p)
{
    if (thin_ends(&t->id, "_blocks")) {
        p->quant_scheme = word("mxfp4");
        p->bits = (fs_opt_u64){4, 1};
        p->group_size = (fs_opt_u64){32, 1};
        p->scale_page = scales_of(b, &t->id);
    } else if (is_packed(&t->id, t->tensor->dtype)) {
        p->quant_scheme = q->method;
        p->bits = q->bits;
        p->group_size = q->group;
    }
}

int thin_make_pages(struct thin_build *b)
{
    struct quantisation q;
    struct thin_manifest *m = &b->manifest;
    read_quantisation(b, &q);
    m->pages = calloc(b->n_tensors + 1, sizeof *m->pages);
    if (!m->pages)
        return thin_no_memory(b);
    for (size_t i = 0; i < b->n_tensors; i++) {
        const struct thin_tensor *t = &b->tensors[i];
        struct thin_page *p = &m->pages[i];
        *p = (struct thin_page){.id = t->id,
                                .kind = kind_of(&t->id),
                                .layer = t->layer,
                                .op = op_of(&t->id),
                                .dtype = lower_code(b, t->tensor->dtype),
                                .shape = t->tensor->shape,
                                .rank = t->tensor->rank,
                                .layout = layout_of(&t->id),
                                .size = t->tensor->nbytes,
                                .checksum = {t->hex, 64}};
        set_quantisation(b, &q, t, p);
    }
    m->n_pages = b->n_tensors;
    return b->no_memory ? thin_no_memory(b) : 0;
}

static bool is_expected(const struct thin_build *b, const struct thin_tensor *t)
{
    static const char *const globals[] = {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"};
    static const char *const in_layers[] = {"input_layernorm.weight",
                                            "self_attn.q_proj.weight",
                                            "self_attn.k_proj.weight",
                                            "self_attn.v_proj.weight",
                                            "self_attn.o_proj.weight",
                                            "self_attn.q_norm.weight",
                                            "self_attn.k_norm.weight",
                                            "post_attention_layernorm.weight",
                                            "pre_feedforward_layernorm.weight",
                                            "post_feedforward_layernorm.weight",
                                            "mlp.gate_proj.weight",
                                            "mlp.up_proj.weight",
                                            "mlp.down_proj.weight"};
    char name[128];
    for (int i = 0; i < 3; i++)
        if (thin_is(&t->id, globals[i]))
            return true;
    for (size_t i = 0; i < sizeof in_layers / sizeof in_layers[0] && t->layer.value < b->layers; i++) {
        snprintf(name, sizeof name, "model.layers.%" PRIu64 ".%s", t->layer.value, in_layers[i]);
        if (t->layer.present && thin_is(&t->id, name))
            return true;
    }
    return false;
}

/* Which tensors no stage names and no decoder is known to have; they are stored all the same. */
void thin_warn_unknown(struct thin_build *b)
{
    const struct thin_manifest *m = &b->manifest;
    bool *used = calloc(b->n_tensors + 1, sizeof *used);
    struct buf text = {0};
    size_t n = 0;
    b->no_memory |= !used;
    for (size_t i = 0; used && i < m->n_stages; i++)
        for (size_t k = 0; k < m->stages[i].refs.n; k++)
            used[thin_find(b, m->stages[i].refs.v[k].s, m->stages[i].refs.v[k].len) - b->tensors] = true;
    for (size_t i = 0; used && i < b->n_tensors; i++) {
        if (used[i] || is_expected(b, &b->tensors[i]))
            continue;
        if (n < 8) {
            buf_str(&text, n ? ", " : "");
            buf_printable(&text, b->tensors[i].id.s, b->tensors[i].id.len, 0);
        }
        n++;
    }
    if (n > 8)
        buf_str(&text, ", ...");
    if (n)
        thin_warn(b, "unknown-tensors", "%s", text.p ? text.p : "");
    b->no_memory |= text.failed;
    buf_free(&text);
    free(used);
}
