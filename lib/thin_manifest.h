/* SPDX-License-Identifier: MIT
 * The manifest of a ThinTensor archive: its members as structs, read and written by one table each. */
#ifndef THIN_MANIFEST_H
#define THIN_MANIFEST_H

#include "arena.h"
#include "buf.h"
#include "safetensors/thin.h"

struct thin_stage {
    fs_text stage, operator;
    fs_text params; /* a JSON object as text, no s when it is empty */
    fs_texts refs;  /* ids of pages */
};

struct thin_page {
    fs_text id, kind;
    fs_opt_u64 layer;
    fs_text op, dtype;
    const char *code; /* the dtype as a tensor's, once the page is one */
    const uint64_t *shape;
    size_t rank;
    fs_text layout;
    uint64_t size;
    fs_text checksum;
    unsigned char experimental;
    fs_text fused_to;
    fs_opt_u64 fused_offset;
    fs_text quant_scheme;
    fs_opt_u64 bits, group_size;
    fs_text scale_page;
};

struct thin_kv_cache {
    fs_text policy;
    uint64_t recent_tokens;
    fs_text old_tokens_codec;
};

struct thin_plan {
    uint64_t scratch, min_vram, recommended_vram;
    struct thin_kv_cache kv;
};

struct thin_manifest {
    fs_text format;
    uint64_t version;
    fs_thin_spec model;
    struct thin_stage *stages;
    size_t n_stages;
    struct thin_page *pages;
    size_t n_pages;
    struct thin_plan plan;
    struct arena arena; /* all text, and what the structs point to; stages and pages are malloc'd */
};

/* Reads text[0 .. len). -EBADMSG with *why (static) and *at, or -ENOMEM; to be freed in any case. */
int thin_manifest_read(struct thin_manifest *m, const char *text, size_t len, const char **why, size_t *at);

/* Appends the manifest's text. Check out->failed. */
void thin_manifest_write(const struct thin_manifest *m, struct buf *out);
void thin_manifest_free(struct thin_manifest *m);

#endif
