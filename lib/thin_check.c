/* SPDX-License-Identifier: MIT
 * The rules a manifest must keep, in the order in which the format's own tool looks at them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "checked.h"
#include "thin.h"
#include "utf8.h"

struct check {
    const struct thin_manifest *m;
    const struct index *pages;
    struct report *r;
    int err; /* once set, nothing more is said */
};

static void found(struct check *c, const char *kind, const fs_text *name, const char *why)
{
    if (c->err == 0)
        c->err = report_kind(c->r, kind, -EBADMSG, name ? name->s : NULL, name ? name->len : 0, FS_NO_OFFSET,
                             "%s", why);
}

/* Bytes of the white space at the start of s (Unicode's White_Space), 0 if there is none. */
static size_t space(const char *s, size_t len)
{
    static const char *const wide[] = {"\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80", "\xe2\x80\x80",
                                       "\xe2\x80\x81", "\xe2\x80\x82", "\xe2\x80\x83", "\xe2\x80\x84",
                                       "\xe2\x80\x85", "\xe2\x80\x86", "\xe2\x80\x87", "\xe2\x80\x88",
                                       "\xe2\x80\x89", "\xe2\x80\x8a", "\xe2\x80\xa8", "\xe2\x80\xa9",
                                       "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80"};
    if (len && (*s == ' ' || (*s >= '\t' && *s <= '\r')))
        return 1;
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++) {
        size_t n = strlen(wide[i]);
        if (len >= n && memcmp(s, wide[i], n) == 0)
            return n;
    }
    return 0;
}

static bool has_space(const fs_text *t)
{
    for (size_t i = 0; i < t->len; i++)
        if (space(t->s + i, t->len - i))
            return true;
    return false;
}

static bool blank(const fs_text *t)
{
    size_t i = 0, n;
    while (i < t->len && (n = space(t->s + i, t->len - i)) != 0)
        i += n;
    return i == t->len;
}

static void check_name(struct check *c, const fs_text *value, const fs_text *of, const char *what)
{
    if (blank(value))
        found(c, "empty-name", of, what);
}

static void check_id(struct check *c, const fs_text *id, const char *what)
{
    check_name(c, id, NULL, what);
    if (id->len && (memchr(id->s, '/', id->len) || memchr(id->s, '\\', id->len)))
        found(c, "id-separator", id, what);
    if (has_space(id))
        found(c, "id-whitespace", id, what);
}

static bool is(const fs_text *t, const char *word)
{
    return t->len == strlen(word) && memcmp(t->s, word, t->len) == 0;
}

static bool one_of(const fs_text *t, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (is(t, words[i]))
            return true;
    return false;
}

#define ONE_OF(t, words) one_of(t, words, sizeof(words) / sizeof(words)[0])

static void check_model(struct check *c)
{
    const fs_thin_spec *s = &c->m->model;
    const struct {
        const char *name;
        uint64_t value;
    } sizes[] = {{"model.hidden_size", s->hidden_size},
                 {"model.layers", s->layers},
                 {"model.heads", s->heads},
                 {"model.kv_heads", s->kv_heads}};
    check_name(c, &s->arch, NULL, "model.arch");
    check_name(c, &s->dtype, NULL, "model.dtype");
    for (int i = 0; i < 4; i++)
        if (sizes[i].value == 0)
            found(c, "model-zero", NULL, sizes[i].name);
    if (s->kv_heads > s->heads)
        found(c, "kv-heads-exceed-heads", NULL, "model.kv_heads is larger than model.heads");
    if (s->heads && !s->head_dim.present && s->hidden_size % s->heads != 0)
        found(c, "hidden-not-divisible", NULL, "model.hidden_size is no multiple of model.heads");
    if (s->head_dim.present && s->head_dim.value == 0)
        found(c, "model-zero", NULL, "model.head_dim");
}

static void check_shape(struct check *c, const struct thin_page *p)
{
    uint64_t product = 1;
    bool zero = false, overflow = false;
    for (size_t i = 0; i < p->rank; i++) {
        zero |= p->shape[i] == 0;
        overflow = overflow || mul_overflows(product, p->shape[i], &product);
    }
    if (p->rank == 0)
        found(c, "shape-empty", &p->id, "no dimensions");
    if (zero)
        found(c, "shape-zero", &p->id, "a dimension of 0");
    if (overflow)
        found(c, "shape-overflow", &p->id, "the number of elements leaves 64 bits");
}

static bool is_checksum(const fs_text *t)
{
    for (size_t i = 0; i < t->len; i++)
        if (!((t->s[i] >= '0' && t->s[i] <= '9') || (t->s[i] >= 'a' && t->s[i] <= 'f')))
            return false;
    return t->len == 64;
}

static void check_page(struct check *c, const struct thin_page *p, bool again)
{
    static const char *const kinds[] = {"weight", "embedding", "lm_head", "fused_physical"};
    check_id(c, &p->id, "page.id");
    check_name(c, &p->op, &p->id, "page.op");
    check_name(c, &p->dtype, &p->id, "page.dtype");
    check_name(c, &p->layout, &p->id, "page.backend_layout");
    if (again)
        found(c, "duplicate-page", &p->id, "an id for the second time");
    if (!p->experimental && !ONE_OF(&p->kind, kinds))
        found(c, "unknown-page-kind", &p->id, "a kind the format has not");
    if (p->layer.present && p->layer.value >= c->m->model.layers)
        found(c, "page-layer-range", &p->id, "a layer the model has not");
    check_shape(c, p);
    if (p->size == 0)
        found(c, "size-zero", &p->id, "a size of 0");
    if (!is_checksum(&p->checksum))
        found(c, "checksum-syntax", &p->id, "a checksum that is not 64 of 0-9a-f");
}

static void check_fusing(struct check *c, const struct thin_page *p)
{
    uint64_t end;
    if (!p->fused_to.s) {
        if (p->fused_offset.present)
            found(c, "fused-offset-alone", &p->id, "fused_offset without fused_to");
        return;
    }
    uint32_t i = thin_find_page(c->m, c->pages, &p->fused_to);
    if (i == INDEX_NONE) {
        found(c, "fused-parent-missing", &p->id, "fused_to names no page");
        return;
    }
    const struct thin_page *parent = &c->m->pages[i];
    if (!is(&parent->kind, "fused_physical"))
        found(c, "fused-parent-kind", &p->id, "fused_to names a page of another kind");
    if (add_overflows(p->fused_offset.value, p->size, &end) || end > parent->size)
        found(c, "fused-slice-range", &p->id, "its slice goes beyond the end of its parent");
}

/* Names met so far, of structs that begin with theirs. */
struct names {
    struct index index;
    const char *first;
    size_t stride;
};

static const fs_text *name_of(const struct names *x, uint32_t number)
{
    return (const fs_text *)(const void *)(x->first + number * x->stride);
}

static bool has_name(const void *ctx, uint32_t number, const void *key, size_t len)
{
    const fs_text *t = name_of(ctx, number);
    return t->len == len && memcmp(t->s, key, len) == 0;
}

static bool seen_before(struct check *c, struct names *x, uint32_t number)
{
    const fs_text *t = name_of(x, number);
    uint64_t hash = hash_bytes(0, t->s, t->len);
    if (index_find(&x->index, hash, has_name, x, t->s, t->len) != INDEX_NONE)
        return true;
    if (index_add(&x->index, hash, number) < 0 && c->err == 0)
        c->err = report_fatal(c->r, -ENOMEM, NULL, 0, FS_NO_OFFSET, "out of memory");
    return false;
}

static void check_pages(struct check *c)
{
    const struct thin_manifest *m = c->m;
    struct names seen = {.first = (const char *)m->pages, .stride = sizeof m->pages[0]};
    if (m->n_pages == 0)
        found(c, "no-pages", NULL, "");
    for (uint32_t i = 0; i < m->n_pages && c->err == 0; i++)
        check_page(c, &m->pages[i], seen_before(c, &seen, i));
    for (uint32_t i = 0; i < m->n_pages && c->err == 0; i++)
        check_fusing(c, &m->pages[i]);
    index_free(&seen.index);
}

static const char *const operators[] = {
    "embedding",
    "lm_head",
    "rms_norm",
    "layer_norm",
    "qkv_projection",
    "o_projection",
    "rope",
    "mha_attention",
    "mqa_attention",
    "gqa_attention",
    "attention_sinks",
    "per_layer_attention_window",
    "gated_activation",
    "down_projection",
    "topk_router",
    "sparse_experts",
    "expert_weighted_sum",
    "gated_delta_net",
    "depthwise_causal_conv1d",
    "recurrent_state_cache",
    "gated_full_attention",
    "per_layer_embeddings",
    "variable_head_dim_attention",
    "shared_kv_attention",
    "post_attention_norm",
    "post_feedforward_norm",
};

static void check_stage(struct check *c, const struct thin_stage *s, bool again)
{
    check_id(c, &s->stage, "stage");
    if (s->operator.len == 0) {
        if (c->err == 0)
            report_note(c->r, "stage-without-operator", s->stage.s, s->stage.len,
                        "an archive of an older tool");
    } else {
        check_name(c, &s->operator, & s->stage, "stage.operator");
        if (!ONE_OF(&s->operator, operators))
            found(c, "unknown-operator", &s->stage, "an operator the format has not");
    }
    if (again)
        found(c, "duplicate-stage", &s->stage, "a stage for the second time");
    for (size_t i = 0; i < s->refs.n && c->err == 0; i++)
        if (thin_find_page(c->m, c->pages, &s->refs.v[i]) == INDEX_NONE)
            found(c, "stage-ref-missing", &s->stage, "page_refs names a page that is not there");
}

static void check_tape(struct check *c)
{
    const struct thin_manifest *m = c->m;
    struct names seen = {.first = (const char *)m->stages, .stride = sizeof m->stages[0]};
    if (m->n_stages == 0)
        found(c, "no-stages", NULL, "");
    for (uint32_t i = 0; i < m->n_stages && c->err == 0; i++)
        check_stage(c, &m->stages[i], seen_before(c, &seen, i));
    index_free(&seen.index);
}

static void check_plan(struct check *c)
{
    const struct thin_plan *p = &c->m->plan;
    if (p->min_vram < p->scratch)
        found(c, "plan-min-below-scratch", NULL, "memory_plan.min_vram_bytes");
    if (p->recommended_vram < p->min_vram)
        found(c, "plan-recommended-below-min", NULL, "memory_plan.recommended_vram_bytes");
    check_name(c, &p->kv.policy, NULL, "kv_cache.policy");
    check_name(c, &p->kv.old_tokens_codec, NULL, "kv_cache.old_tokens_codec");
}

int thin_check_manifest(const struct thin_manifest *m, const struct index *pages, struct report *r)
{
    struct check c = {.m = m, .pages = pages, .r = r};
    index_init();
    if (!is(&m->format, "thintensor"))
        found(&c, "bad-format-name", NULL, "format is not thintensor");
    if (m->version != 0)
        found(&c, "bad-manifest-version", NULL, "version is not 0");
    check_model(&c);
    check_pages(&c);
    check_tape(&c);
    check_plan(&c);
    return c.err;
}

int thin_refuse_manifest(const struct thin_manifest *m, const struct index *pages, struct report *r)
{
    struct report found = {0};
    int err = thin_check_manifest(m, pages, &found);
    if (err == 0)
        return 0;
    if (err == -ENOMEM)
        return report_fatal(r, err, NULL, 0, FS_NO_OFFSET, "out of memory");
    report_kind(r, "manifest-invalid", -EINVAL, NULL, 0, FS_NO_OFFSET, "%s", found.first.message);
    return -EINVAL;
}
