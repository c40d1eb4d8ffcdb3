/* SPDX-License-Identifier: MIT */
#include "thin_config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static int set_cross(struct thin_config *c, struct arena *a)
{
    const struct jvalue *v = jtree_get(jtree_get(c->whole, "text_config"), "cross_attention_layers");
    uint32_t n = v && v->type == J_ARRAY ? v->n : 0;
    size_t kept = 0;
    if (n == 0)
        return 0;
    c->cross = arena_alloc(a, n * sizeof *c->cross, 1);
    if (!c->cross)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        fs_opt_u64 u = thin_as_u64(v->item[i]);
        if (u.present && u.value <= UINT32_MAX)
            c->cross[c->n_cross++] = (uint32_t)u.value;
    }
    qsort(c->cross, c->n_cross, sizeof *c->cross, by_number);
    for (size_t i = 0; i < c->n_cross; i++)
        if (kept == 0 || c->cross[kept - 1] != c->cross[i])
            c->cross[kept++] = c->cross[i];
    c->n_cross = kept;
    return 0;
}

int thin_config_set(struct thin_config *c, const struct jvalue *document, struct arena *a)
{
    const struct jvalue *text = jtree_get(document, "text_config");
    *c = (struct thin_config){.whole = document, .text = text && text->type == J_OBJECT ? text : document};
    return set_cross(c, a);
}

const struct jvalue *thin_get(const struct thin_config *c, const char *key)
{
    static const char *const inherited[] = {"architectures", "tie_word_embeddings", "model_type"};
    for (int i = 0; i < 3; i++)
        if (strcmp(inherited[i], key) == 0) {
            const struct jvalue *v = jtree_get(c->whole, key);
            if (v)
                return v;
        }
    return jtree_get(c->text, key);
}

const struct jvalue *thin_get2(const struct thin_config *c, const char *key, const char *other)
{
    const struct jvalue *v = thin_get(c, key);
    return v ? v : thin_get(c, other);
}

fs_opt_u64 thin_as_u64(const struct jvalue *v)
{
    if (v && v->type == J_NUMBER && v->number.kind == JNUMBER_U64)
        return (fs_opt_u64){v->number.u, 1};
    return (fs_opt_u64){0, 0};
}

fs_opt_f64 thin_as_f64(const struct jvalue *v)
{
    if (v && v->type == J_NUMBER)
        return (fs_opt_f64){jnumber_double(&v->number), 1};
    return (fs_opt_f64){0, 0};
}

fs_opt_bool thin_as_bool(const struct jvalue *v)
{
    if (v && (v->type == J_TRUE || v->type == J_FALSE))
        return (fs_opt_bool){v->type == J_TRUE, 1};
    return (fs_opt_bool){0, 0};
}

fs_text thin_as_text(const struct jvalue *v)
{
    return v && v->type == J_TEXT ? (fs_text){v->text.s, v->text.len} : (fs_text){NULL, 0};
}

/* Other names of a key, in the order in which they are tried. */
static const char *const *names_of(const char *key)
{
    static const char *const names[][8] = {
        {"hidden_size", "n_embd", "d_model"},
        {"intermediate_size", "ffn_dim", "ffn_hidden_size", "n_inner", "d_ff", "moe_intermediate_size",
         "expert_intermediate_size"},
        {"num_hidden_layers", "n_layer", "num_layers"},
        {"num_attention_heads", "n_head", "num_heads"},
        {"num_key_value_heads", "num_kv_heads", "n_head_kv"},
        {"vocab_size", "n_vocab", "padded_vocab_size"},
        {"max_position_embeddings", "n_positions", "max_seq_len", "seq_length"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i][0], key) == 0)
            return names[i];
    return NULL;
}

fs_opt_u64 thin_first_u64(const struct thin_config *c, const char *const *keys)
{
    fs_opt_u64 u = {0, 0};
    for (; *keys && !u.present; keys++)
        u = thin_as_u64(thin_get(c, *keys));
    return u;
}

fs_opt_u64 thin_u64(const struct thin_config *c, const char *key)
{
    const char *const *names = names_of(key);
    fs_opt_u64 u = names ? thin_first_u64(c, names) : thin_as_u64(thin_get(c, key));
    if (u.present && strcmp(key, "num_hidden_layers") == 0) /* those for images are left out */
        u.value -= u.value < c->n_cross ? u.value : c->n_cross;
    return u;
}

fs_opt_u64 thin_u32(const struct thin_config *c, const char *key)
{
    fs_opt_u64 u = thin_u64(c, key);
    return u.value <= UINT32_MAX ? u : (fs_opt_u64){0, 0};
}

fs_opt_f64 thin_f64(const struct thin_config *c, const char *key)
{
    if (strcmp(key, "layer_norm_eps") == 0)
        return thin_as_f64(thin_get2(c, key, "layer_norm_epsilon"));
    return thin_as_f64(thin_get(c, key));
}

fs_opt_bool thin_bool(const struct thin_config *c, const char *key)
{
    return thin_as_bool(thin_get(c, key));
}

fs_text thin_text(const struct thin_config *c, const char *key)
{
    return thin_as_text(thin_get(c, key));
}

bool thin_is(const fs_text *t, const char *word)
{
    return t->s && t->len == strlen(word) && memcmp(t->s, word, t->len) == 0;
}

fs_text thin_layer_type(const struct thin_config *c, uint64_t i)
{
    const struct jvalue *v = thin_get(c, "layer_types");
    return v && v->type == J_ARRAY && i < v->n ? thin_as_text(v->item[i]) : (fs_text){NULL, 0};
}
