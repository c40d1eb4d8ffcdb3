/* SPDX-License-Identifier: MIT */
#include "thin_schema.h"

#include "thin_manifest.h"

#define ROW(type, presence, key, member)                                                                     \
    {                                                                                                        \
        key, THIN_##type, THIN_##presence, offsetof(AT, member), NULL                                        \
    }
#define SAME(type, presence, member) ROW(type, presence, #member, member)
#define TABLE(name, rows)                                                                                    \
    const struct thin_table name = {.field = rows, .n = sizeof rows / sizeof rows[0], .size = sizeof(AT)}

#define AT fs_thin_spec
static const struct thin_field spec_rows[] = {
    SAME(TEXT, REQUIRED, arch),
    SAME(TEXT, OPTIONAL, model_type),
    SAME(TEXT, OPTIONAL, raw_arch),
    SAME(U64, REQUIRED, hidden_size),
    SAME(U32, REQUIRED, layers),
    SAME(U32, REQUIRED, heads),
    SAME(U32, REQUIRED, kv_heads),
    SAME(OPT_U64, OPTIONAL, head_dim),
    SAME(TEXT, REQUIRED, dtype),
    SAME(OPT_U64, OPTIONAL, intermediate_size),
    SAME(OPT_F64, OPTIONAL, rms_norm_eps),
    SAME(TEXT, OPTIONAL, norm_kind),
    SAME(OPT_F64, OPTIONAL, norm_eps),
    SAME(OPT_F64, OPTIONAL, rope_theta),
    SAME(OPT_F64, OPTIONAL, partial_rotary_factor),
    SAME(JSON, OPTIONAL, rope_scaling),
    SAME(TEXT, OPTIONAL, source_dtype),
    SAME(OPT_U64, OPTIONAL, vocab_size),
    SAME(OPT_BOOL, OPTIONAL, tie_word_embeddings),
    SAME(TEXT, OPTIONAL, activation),
    SAME(OPT_BOOL, OPTIONAL, qkv_bias),
    SAME(OPT_BOOL, OPTIONAL, attention_bias),
    SAME(TEXT, OPTIONAL, tensor_naming_scheme),
    SAME(TEXTS, LIST, attention_variants),
    SAME(TEXTS, LIST, supported_precision_modes),
    SAME(BOOLS, LIST, no_rope_layers),
    SAME(OPT_U64, OPTIONAL, no_rope_layer_interval),
    SAME(OPT_U64, OPTIONAL, sliding_window),
    SAME(OPT_BOOL, OPTIONAL, use_sliding_window),
    SAME(OPT_U64, OPTIONAL, max_position_embeddings),
    SAME(OPT_U64, OPTIONAL, original_max_position_embeddings),
    SAME(TEXT, OPTIONAL, rope_variant),
    SAME(TEXT, OPTIONAL, architecture_family),
    SAME(TEXT, OPTIONAL, attention_kind),
    SAME(TEXT, OPTIONAL, mlp_kind),
    SAME(TEXTS, LIST, layer_types),
    SAME(OPT_U64, OPTIONAL, linear_conv_kernel_dim),
    SAME(OPT_U64, OPTIONAL, linear_key_head_dim),
    SAME(OPT_U64, OPTIONAL, linear_value_head_dim),
    SAME(OPT_U64, OPTIONAL, linear_num_key_heads),
    SAME(OPT_U64, OPTIONAL, linear_num_value_heads),
    SAME(OPT_BOOL, OPTIONAL, attention_output_gate),
    SAME(OPT_U64, OPTIONAL, global_head_dim),
    SAME(OPT_U64, OPTIONAL, num_global_key_value_heads),
    SAME(OPT_U64, OPTIONAL, num_kv_shared_layers),
    SAME(OPT_U64, OPTIONAL, hidden_size_per_layer_input),
    SAME(OPT_U64, OPTIONAL, vocab_size_per_layer_input),
    SAME(OPT_BOOL, OPTIONAL, use_double_wide_mlp),
    SAME(OPT_BOOL, OPTIONAL, attention_sinks),
    SAME(OPT_U64, OPTIONAL, num_local_experts),
    SAME(OPT_U64, OPTIONAL, num_experts_per_token),
    SAME(OPT_BOOL, OPTIONAL, norm_topk_prob),
    SAME(OPT_F64, OPTIONAL, swiglu_alpha),
    SAME(OPT_F64, OPTIONAL, swiglu_limit),
    SAME(OPT_F64, OPTIONAL, norm_weight_offset),
    SAME(OPT_F64, OPTIONAL, embedding_scale),
    SAME(OPT_F64, OPTIONAL, query_pre_attn_scalar),
    SAME(OPT_F64, OPTIONAL, attention_logit_softcap),
    SAME(OPT_F64, OPTIONAL, final_logit_softcap),
    SAME(JSON, OPTIONAL, rope_parameters),
    SAME(JSON, OPTIONAL, quantization_config),
    SAME(TEXTS, LIST, required_operators),
    SAME(TEXT, OPTIONAL, tokenizer_json_hash),
    SAME(TEXT, OPTIONAL, tokenizer_config_json_hash),
};
TABLE(thin_spec_table, spec_rows);
#undef AT

#define AT struct thin_stage
static const struct thin_field stage_rows[] = {
    SAME(TEXT, REQUIRED, stage),
    SAME(TEXT, LIST, operator),
    ROW(MAP, LIST, "operator_params", params),
    ROW(TEXTS, ALWAYS, "page_refs", refs),
};
static TABLE(stage_table, stage_rows);
#undef AT

#define AT struct thin_page
static const struct thin_field page_rows[] = {
    SAME(TEXT, REQUIRED, id),
    SAME(TEXT, REQUIRED, kind),
    SAME(OPT_U32, OPTIONAL, layer),
    SAME(TEXT, REQUIRED, op),
    SAME(TEXT, REQUIRED, dtype),
    SAME(SHAPE, REQUIRED, shape),
    ROW(TEXT, REQUIRED, "backend_layout", layout),
    SAME(U64, REQUIRED, size),
    SAME(TEXT, REQUIRED, checksum),
    SAME(BOOL, ALWAYS, experimental),
    SAME(TEXT, OPTIONAL, fused_to),
    SAME(OPT_U64, OPTIONAL, fused_offset),
    SAME(TEXT, OPTIONAL, quant_scheme),
    ROW(OPT_U8, OPTIONAL, "bits_per_weight", bits),
    ROW(OPT_U64, OPTIONAL, "quant_group_size", group_size),
    SAME(TEXT, OPTIONAL, scale_page),
};
static TABLE(page_table, page_rows);
#undef AT

#define AT struct thin_kv_cache
static const struct thin_field kv_rows[] = {
    SAME(TEXT, REQUIRED, policy),
    ROW(U64, REQUIRED, "recent_tokens_high_precision", recent_tokens),
    SAME(TEXT, REQUIRED, old_tokens_codec),
};
static TABLE(kv_table, kv_rows);
#undef AT

#define AT struct thin_plan
static const struct thin_field plan_rows[] = {
    ROW(U64, REQUIRED, "scratch_bytes", scratch),
    ROW(U64, REQUIRED, "min_vram_bytes", min_vram),
    ROW(U64, REQUIRED, "recommended_vram_bytes", recommended_vram),
    {"kv_cache", THIN_STRUCT, THIN_REQUIRED, offsetof(AT, kv), &kv_table},
};
static TABLE(plan_table, plan_rows);
#undef AT

#define AT struct thin_manifest
static const struct thin_field manifest_rows[] = {
    SAME(TEXT, REQUIRED, format),
    SAME(U32, REQUIRED, version),
    {"model", THIN_STRUCT, THIN_REQUIRED, offsetof(AT, model), &thin_spec_table},
    {"execution_tape", THIN_STRUCTS, THIN_REQUIRED, offsetof(AT, stages), &stage_table},
    {"pages", THIN_STRUCTS, THIN_REQUIRED, offsetof(AT, pages), &page_table},
    {"memory_plan", THIN_STRUCT, THIN_REQUIRED, offsetof(AT, plan), &plan_table},
};
TABLE(thin_manifest_table, manifest_rows);
