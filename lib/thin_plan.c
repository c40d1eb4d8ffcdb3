/* SPDX-License-Identifier: MIT
 * The memory plan of the manifest. All arithmetic stops at the largest number instead of wrapping. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "thin_build.h"

static uint64_t plus(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t times(uint64_t a, uint64_t b)
{
    uint64_t c;
    return __builtin_mul_overflow(a, b, &c) ? UINT64_MAX : c;
}

static uint64_t at_least_one(uint64_t a)
{
    return a ? a : 1;
}

static uint64_t or_else(fs_opt_u64 u, uint64_t other)
{
    return u.present ? u.value : other;
}

static int by_content(const void *a, const void *b)
{
    const struct thin_tensor *x = *(const struct thin_tensor *const *)a,
                             *y = *(const struct thin_tensor *const *)b;
    if (x->tensor->nbytes != y->tensor->nbytes)
        return x->tensor->nbytes < y->tensor->nbytes ? -1 : 1;
    int c = memcmp(x->digest, y->digest, sizeof x->digest);
    return c ? c : (x > y) - (x < y); /* of one place: the same tensor twice */
}

static bool same_content(enum thin_same same, const struct thin_tensor *x, const struct thin_tensor *y)
{
    if (x == y)
        return true;
    if (x->tensor->nbytes != y->tensor->nbytes || same == THIN_SAME_NONE)
        return false;
    return same == THIN_SAME_ALL_OF_A_SIZE || memcmp(x->digest, y->digest, sizeof x->digest) == 0;
}

/* The bytes of the tensors v[0 .. n), each content once; v is sorted for it. */
static uint64_t unique_bytes(const struct thin_tensor **v, size_t n, enum thin_same same)
{
    uint64_t sum = 0;
    if (n)
        qsort(v, n, sizeof(struct thin_tensor *), by_content);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || !same_content(same, v[i - 1], v[i]))
            sum = plus(sum, v[i]->tensor->nbytes);
    return sum;
}

static uint64_t attention_elements(const struct thin_config *c, uint64_t hidden)
{
    uint64_t heads = at_least_one(or_else(thin_u64(c, "num_attention_heads"), 1));
    uint64_t kv = at_least_one(or_else(thin_u64(c, "num_key_value_heads"), heads));
    uint64_t dim = or_else(thin_u64(c, "head_dim"), at_least_one(hidden / heads));
    return plus(plus(hidden, times(times(2, kv), dim)), times(3, hidden));
}

static uint64_t mlp_elements(const struct thin_build *b, uint64_t hidden, uint64_t intermediate)
{
    uint64_t experts = or_else(thin_experts(b), 0);
    uint64_t top = at_least_one(or_else(thin_experts_per_token(b), 1));
    if (experts == 0)
        return plus(times(3, intermediate), times(2, hidden));
    return plus(plus(times(top, plus(times(3, intermediate), hidden)), times(2, hidden)), experts);
}

static uint64_t linear_state(const struct thin_config *c)
{
    const struct jvalue *types = thin_get(c, "layer_types");
    uint64_t n = 0;
    for (uint32_t i = 0; types && types->type == J_ARRAY && i < types->n; i++) {
        fs_text t = thin_as_text(types->item[i]);
        n += thin_is(&t, "linear_attention");
    }
    uint64_t kh = thin_u64(c, "linear_num_key_heads").value, vh = thin_u64(c, "linear_num_value_heads").value;
    uint64_t kd = thin_u64(c, "linear_key_head_dim").value, vd = thin_u64(c, "linear_value_head_dim").value;
    uint64_t ck = thin_u64(c, "linear_conv_kernel_dim").value;
    uint64_t conv = plus(times(times(2, kh), kd), times(vh, vd));
    return plus(times(n, times(times(conv, ck), 2)), times(times(times(times(n, vh), kd), vd), 4));
}

static uint64_t scratch_bytes(const struct thin_build *b)
{
    const uint64_t least = 64 << 20, step = 2 << 20;
    uint64_t hidden = or_else(thin_u64(&b->config, "hidden_size"), or_else(thin_infer_hidden(b), 4096));
    uint64_t intermediate = or_else(thin_u64(&b->config, "intermediate_size"),
                                    or_else(thin_infer_intermediate(b), times(hidden, 4)));
    uint64_t a = attention_elements(&b->config, hidden), m = mlp_elements(b, hidden, intermediate);
    uint64_t bytes = plus(times(a > m ? a : m, 2), linear_state(&b->config));
    return times(plus(bytes > least ? bytes : least, step - 1) / step, step);
}

/* The most that one stage needs beside what always stays. */
static uint64_t largest_stage(const struct thin_build *b, enum thin_same same,
                              const struct thin_tensor **room)
{
    uint64_t most = 0;
    for (size_t i = 0; i < b->manifest.n_stages; i++) {
        const fs_texts *refs = &b->manifest.stages[i].refs;
        size_t n = 0;
        for (size_t k = 0; k < refs->n; k++) {
            const struct thin_tensor *t = thin_find(b, refs->v[k].s, refs->v[k].len);
            if (t && t->layer.present)
                room[n++] = t;
        }
        uint64_t bytes = unique_bytes(room, n, same);
        most = bytes > most ? bytes : most;
    }
    return most;
}

int thin_make_plan(const struct thin_build *b, enum thin_same same, struct thin_plan *out)
{
    size_t most = b->n_tensors, n = 0;
    for (size_t i = 0; i < b->manifest.n_stages; i++)
        if (b->manifest.stages[i].refs.n > most)
            most = b->manifest.stages[i].refs.n;
    const struct thin_tensor **room = malloc((most + 1) * sizeof(struct thin_tensor *));
    if (!room)
        return -ENOMEM;
    for (size_t i = 0; i < b->n_tensors; i++)
        if (!b->tensors[i].layer.present)
            room[n++] = &b->tensors[i];
    uint64_t scratch = scratch_bytes(b);
    uint64_t global = unique_bytes(room, n, same);
    uint64_t streaming = plus(plus(global, largest_stage(b, same, room)), scratch);
    for (size_t i = 0; i < b->n_tensors; i++)
        room[i] = &b->tensors[i];
    uint64_t all = plus(unique_bytes(room, b->n_tensors, same), scratch);
    free(room);
    *out = (struct thin_plan){.scratch = scratch,
                              .min_vram = streaming < all ? streaming : all,
                              .recommended_vram = all,
                              .kv = {{"paged", 5}, 256, {"q4", 2}}};
    return 0;
}
