/* SPDX-License-Identifier: MIT
 *
 * ThinTensor archives (`.thin`, version 0): what one says about its model, checking one, making one from a
 * model directory. Archives and directories are opened for reading tensors with fs_mmap like any model.
 *
 * Names of rules and errors ("checksum-mismatch", "config-key-missing") are part of this interface: they
 * stand in fs_error.kind.
 */
#ifndef SAFETENSORS_THIN_H
#define SAFETENSORS_THIN_H

#include <safetensors/safetensors.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Text: NUL-terminated, may hold NULs, s is NULL where there is none. */
typedef struct fs_text {
    const char *s;
    size_t len;
} fs_text;

/* What may be absent; value is then 0. */
typedef struct fs_opt_u64 {
    uint64_t value;
    int present;
} fs_opt_u64;
typedef struct fs_opt_f64 {
    double value;
    int present;
} fs_opt_f64;
typedef struct fs_opt_bool {
    unsigned char value, present;
} fs_opt_bool;

typedef struct fs_texts {
    const fs_text *v;
    size_t n;
} fs_texts;
typedef struct fs_bools {
    const unsigned char *v;
    size_t n;
} fs_bools;

/* The model section of a manifest, in its order and under its names. JSON values are given as text, with
 * sorted keys and two spaces a level; absent text has s NULL, absent lists are empty. */
typedef struct fs_thin_spec {
    fs_text arch, model_type, raw_arch;
    uint64_t hidden_size, layers, heads, kv_heads;
    fs_opt_u64 head_dim;
    fs_text dtype;
    fs_opt_u64 intermediate_size;
    fs_opt_f64 rms_norm_eps;
    fs_text norm_kind;
    fs_opt_f64 norm_eps, rope_theta, partial_rotary_factor;
    fs_text rope_scaling; /* JSON */
    fs_text source_dtype;
    fs_opt_u64 vocab_size;
    fs_opt_bool tie_word_embeddings;
    fs_text activation;
    fs_opt_bool qkv_bias, attention_bias;
    fs_text tensor_naming_scheme;
    fs_texts attention_variants, supported_precision_modes;
    fs_bools no_rope_layers;
    fs_opt_u64 no_rope_layer_interval, sliding_window;
    fs_opt_bool use_sliding_window;
    fs_opt_u64 max_position_embeddings, original_max_position_embeddings;
    fs_text rope_variant, architecture_family, attention_kind, mlp_kind;
    fs_texts layer_types;
    fs_opt_u64 linear_conv_kernel_dim, linear_key_head_dim, linear_value_head_dim, linear_num_key_heads,
        linear_num_value_heads;
    fs_opt_bool attention_output_gate;
    fs_opt_u64 global_head_dim, num_global_key_value_heads, num_kv_shared_layers, hidden_size_per_layer_input,
        vocab_size_per_layer_input;
    fs_opt_bool use_double_wide_mlp, attention_sinks;
    fs_opt_u64 num_local_experts, num_experts_per_token;
    fs_opt_bool norm_topk_prob;
    fs_opt_f64 swiglu_alpha, swiglu_limit, norm_weight_offset, embedding_scale, query_pre_attn_scalar,
        attention_logit_softcap, final_logit_softcap;
    fs_text rope_parameters, quantization_config; /* JSON */
    fs_texts required_operators;
    fs_text tokenizer_json_hash, tokenizer_config_json_hash;
} fs_thin_spec;

/* What a model is: read from an archive's manifest, or from the config.json and the tensors of a model
 * directory as a conversion would. NULL on failure, with errno and, if e is not NULL, why. */
typedef struct fs_thin_model fs_thin_model;
fs_thin_model *fs_thin_describe(const char *path, fs_error *e);
void fs_thin_model_free(fs_thin_model *m); /* NULL is allowed */

/* Owned by m. */
const fs_thin_spec *fs_thin_model_spec(const fs_thin_model *m);

/* Checks an archive against all rules of its format, the digests of its pages too. Calls found() for each
 * rule that is broken, in the format's own order, and note() (may be NULL) for what is no error. Returns the
 * number of findings, or a negative errno if the file could not be read or is no archive (*e, may be NULL,
 * says why). The strings are valid during the call only. */
int fs_thin_verify(const char *path, void (*found)(void *ctx, const fs_error *what),
                   void (*note)(void *ctx, const fs_error *what), void *ctx, fs_error *e);

/* How to convert; all zero: as usual. */
typedef struct fs_thin_options {
    const char *arch; /* instead of the architecture that config.json names */
    int no_tokenizer; /* no digests of the tokenizer's files */
    /* Called for each warning, after success: its kind, and what it is about. May be NULL. */
    void (*warning)(void *ctx, const char *kind, const char *detail);
    void *ctx;
} fs_thin_options;

/* Converts a model directory (config.json, *.safetensors) to an archive, byte for byte as the ThinTensor tool
 * does, and verifies what was written. The target is replaced only when all went well; directories missing on
 * the way to it are made. o may be NULL. 0 or a negative errno; e->kind names the error. Hashes and copies
 * every byte of the model: takes its time, in threads of its own. */
int fs_thin_convert(const char *dir, const char *to, const fs_thin_options *o, fs_error *e);

#ifdef __cplusplus
}
#endif
#endif
