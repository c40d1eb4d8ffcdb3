/* SPDX-License-Identifier: MIT
 * What the configuration does not say and the tensors' shapes do. */
#include "thin_build.h"

static fs_opt_u64 dimension(const struct thin_tensor *t, size_t i)
{
    if (t && i < t->tensor->rank)
        return (fs_opt_u64){t->tensor->shape[i], 1};
    return (fs_opt_u64){0, 0};
}

fs_opt_u64 thin_infer_hidden(const struct thin_build *b)
{
    const struct thin_tensor *t = thin_findf(b, "model.embed_tokens.weight");
    if (t && t->tensor->rank)
        return dimension(t, t->tensor->rank - 1);
    return dimension(thin_findf(b, "model.layers.0.self_attn.q_proj.weight"), 1);
}

/* value / head_dim, if that is given, divides and gives 32 bits. */
static fs_opt_u64 by_head_dim(const struct thin_build *b, fs_opt_u64 value)
{
    fs_opt_u64 dim = thin_u64(&b->config, "head_dim");
    if (!value.present || !dim.present || dim.value == 0 || value.value % dim.value != 0 ||
        value.value / dim.value > UINT32_MAX)
        return (fs_opt_u64){0, 0};
    return (fs_opt_u64){value.value / dim.value, 1};
}

fs_opt_u64 thin_infer_heads(const struct thin_build *b, uint64_t hidden)
{
    return by_head_dim(b, (fs_opt_u64){hidden, 1});
}

fs_opt_u64 thin_infer_kv_heads(const struct thin_build *b)
{
    return by_head_dim(b, dimension(thin_findf(b, "model.layers.0.self_attn.k_proj.weight"), 0));
}

fs_opt_u64 thin_infer_intermediate(const struct thin_build *b)
{
    static const struct {
        const char *name;
        uint64_t divisor;
        size_t dimension;
    } from[] = {
        {"mlp.gate_proj.weight", 1, 0},
        {"mlp.gate_up_proj.weight", 2, 0},
        {"mlp.experts.gate_up_proj_blocks", 2, 1},
        {"mlp.experts.0.gate_proj.weight", 1, 0},
        {"block_sparse_moe.experts.0.w1.weight", 1, 0},
    };
    for (size_t i = 0; i < sizeof from / sizeof from[0]; i++) {
        fs_opt_u64 d = dimension(thin_findf(b, "model.layers.0.%s", from[i].name), from[i].dimension);
        if (d.present && d.value % from[i].divisor == 0)
            return (fs_opt_u64){d.value / from[i].divisor, 1};
    }
    return (fs_opt_u64){0, 0};
}

bool thin_uses_layer_norm(const struct thin_build *b)
{
    return !thin_f64(&b->config, "rms_norm_eps").present && thin_f64(&b->config, "layer_norm_eps").present;
}

fs_opt_f64 thin_norm_eps(const struct thin_build *b)
{
    fs_text type = thin_text(&b->config, "model_type");
    fs_opt_f64 eps = thin_f64(&b->config, "rms_norm_eps");
    if (!eps.present)
        eps = thin_f64(&b->config, "layer_norm_eps");
    if (!eps.present && thin_is(&type, "olmoe"))
        eps = (fs_opt_f64){1e-5, 1};
    return eps;
}

fs_opt_u64 thin_experts(const struct thin_build *b)
{
    static const char *const keys[] = {"num_local_experts", "num_experts", "n_routed_experts", NULL};
    return thin_first_u64(&b->config, keys);
}

fs_opt_u64 thin_experts_per_token(const struct thin_build *b)
{
    static const char *const keys[] = {"num_experts_per_token", "experts_per_token", "num_experts_per_tok",
                                       "num_selected_experts", NULL};
    return thin_first_u64(&b->config, keys);
}
