/* SPDX-License-Identifier: MIT
 * From the names of tensors to the ids of pages: the text part of a multimodal model, other naming schemes.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "thin_build.h"

static int by_id(const void *a, const void *b)
{
    const fs_text *x = &((const struct thin_tensor *)a)->id, *y = &((const struct thin_tensor *)b)->id;
    int c = memcmp(x->s, y->s, x->len < y->len ? x->len : y->len);
    return c ? c : (x->len > y->len) - (x->len < y->len);
}

static fs_text joined_n(struct thin_build *b, const char *prefix, size_t n, const char *rest, size_t len)
{
    char *s = arena_alloc(b->arena, n + len + 1, 0);
    if (!s) {
        b->no_memory = true;
        return (fs_text){NULL, 0};
    }
    memcpy(s, prefix, n);
    memcpy(s + n, rest, len);
    s[n + len] = 0;
    return (fs_text){s, n + len};
}

static fs_text joined(struct thin_build *b, const char *prefix, const char *rest, size_t len)
{
    return joined_n(b, prefix, strlen(prefix), rest, len);
}

static fs_text behind(const fs_text *t, const char *prefix)
{
    return (fs_text){t->s + strlen(prefix), t->len - strlen(prefix)};
}

/* Splits "N.rest" at the first dot. */
static bool split(const fs_text *t, fs_text *number, fs_text *rest)
{
    const char *dot = t->len ? memchr(t->s, '.', t->len) : NULL;
    if (!dot)
        return false;
    *number = (fs_text){t->s, (size_t)(dot - t->s)};
    *rest = (fs_text){dot + 1, t->len - number->len - 1};
    return true;
}

/* The id of a text tensor's name without its prefix; false: it belongs to a cross-attention layer. */
static bool text_id(struct thin_build *b, const fs_text *suffix, fs_text *out)
{
    fs_text rest, number, tail;
    uint32_t layer, before = 0;
    *out = *suffix;
    if (thin_is(suffix, "lm_head.weight"))
        return true;
    if (!thin_begins(suffix, "model."))
        *out = joined(b, "model.", suffix->s, suffix->len);
    if (!thin_begins(out, "model.layers."))
        return true;
    rest = behind(out, "model.layers.");
    if (!split(&rest, &number, &tail) || !thin_parse_u32(number.s, number.len, &layer))
        return true;
    for (size_t i = 0; i < b->config.n_cross; i++) {
        if (b->config.cross[i] == layer)
            return false;
        before += b->config.cross[i] < layer;
    }
    char head[40];
    snprintf(head, sizeof head, "model.layers.%" PRIu32 ".", layer - before);
    *out = joined(b, head, tail.s, tail.len);
    return true;
}

static bool is_text_tensor(struct thin_build *b, struct thin_tensor *t)
{
    static const char *const prefixes[] = {"model.language_model.", "language_model."};
    if (thin_is(&t->id, "lm_head.weight"))
        return true;
    for (int i = 0; i < 2; i++) {
        if (!thin_begins(&t->id, prefixes[i]))
            continue;
        fs_text suffix = behind(&t->id, prefixes[i]);
        return !thin_has(&suffix, ".cross_attn.") && !thin_has(&suffix, ".cross_attn_attn_gate") &&
               !thin_has(&suffix, ".cross_attn_mlp_gate") && text_id(b, &suffix, &t->id);
    }
    return false;
}

/* Sorts by the new ids, of which none may be there twice. */
static int sort_ids(struct thin_build *b)
{
    if (b->no_memory)
        return thin_no_memory(b);
    if (b->n_tensors)
        qsort(b->tensors, b->n_tensors, sizeof *b->tensors, by_id);
    for (size_t i = 1; i < b->n_tensors; i++)
        if (by_id(&b->tensors[i - 1], &b->tensors[i]) == 0)
            return thin_fail(b, "name-collision", &b->tensors[i].id, "two tensors come to have this name");
    return 0;
}

static int keep_text(struct thin_build *b)
{
    size_t kept = 0, n = b->n_tensors;
    for (size_t i = 0; i < n; i++) {
        struct thin_tensor t = b->tensors[i];
        if (is_text_tensor(b, &t))
            b->tensors[kept++] = t;
    }
    b->n_tensors = kept;
    int err = sort_ids(b);
    if (err == 0 && kept == 0)
        err = thin_fail(b, "text-tensors-missing", NULL,
                        "text_config is there, but no tensor of model.language_model. or language_model.");
    if (err == 0 && kept < n)
        thin_warn(b, "non-text-tensors-dropped", "%zu", n - kept);
    return err;
}

struct renaming {
    const char *from, *to;
};

static fs_text common_id(struct thin_build *b, const fs_text *id)
{
    static const struct renaming whole[] = {
        {"transformer.wte.weight", "model.embed_tokens.weight"},
        {"model.decoder.embed_tokens.weight", "model.embed_tokens.weight"},
        {"transformer.ln_f.weight", "model.norm.weight"},
        {"model.decoder.final_layer_norm.weight", "model.norm.weight"},
        {"output.weight", "lm_head.weight"},
    };
    static const struct renaming part[] = {
        {"ln_1.weight", "input_layernorm.weight"},           {"ln_1.bias", "input_layernorm.bias"},
        {"ln_2.weight", "post_attention_layernorm.weight"},  {"ln_2.bias", "post_attention_layernorm.bias"},
        {"attn.c_attn.weight", "self_attn.qkv_proj.weight"}, {"attn.c_attn.bias", "self_attn.qkv_proj.bias"},
        {"attn.c_proj.weight", "self_attn.o_proj.weight"},   {"attn.c_proj.bias", "self_attn.o_proj.bias"},
    };
    static const char *const prefixes[] = {"transformer.h.", "model.decoder.layers."};
    fs_text rest = {NULL, 0}, number, tail;
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++)
        if (thin_is(id, whole[i].from))
            return thin_copy(b, whole[i].to, strlen(whole[i].to));
    for (int i = 0; i < 2 && !rest.s; i++)
        if (thin_begins(id, prefixes[i]))
            rest = behind(id, prefixes[i]);
    if (!rest.s || !split(&rest, &number, &tail))
        return *id;
    for (size_t i = 0; i < sizeof part / sizeof part[0]; i++)
        if (thin_is(&tail, part[i].from)) {
            fs_text start = joined(b, "model.layers.", number.s, number.len + 1); /* with its dot */
            return start.s ? joined_n(b, start.s, start.len, part[i].to, strlen(part[i].to)) : *id;
        }
    return joined(b, "model.layers.", rest.s, rest.len);
}

static void set_layer(struct thin_tensor *t)
{
    fs_text rest, number, tail;
    uint32_t layer;
    t->layer = (fs_opt_u64){0, 0};
    if (!thin_begins(&t->id, "model.layers."))
        return;
    rest = behind(&t->id, "model.layers.");
    if (split(&rest, &number, &tail) && thin_parse_u32(number.s, number.len, &layer))
        t->layer = (fs_opt_u64){layer, 1};
}

int thin_filter_names(struct thin_build *b)
{
    int err = jtree_get(b->config.whole, "text_config") ? keep_text(b) : 0;
    for (size_t i = 0; i < b->n_tensors && err == 0; i++)
        b->tensors[i].id = common_id(b, &b->tensors[i].id);
    if (err == 0)
        err = sort_ids(b);
    if (err < 0)
        return err;
    for (size_t i = 0; i < b->n_tensors; i++) {
        struct thin_tensor *t = &b->tensors[i];
        set_layer(t);
        if (index_add(&b->by_id, hash_bytes(0, t->id.s, t->id.len), (uint32_t)i) < 0)
            return thin_no_memory(b);
    }
    return 0;
}
