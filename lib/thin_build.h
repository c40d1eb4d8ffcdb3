/* SPDX-License-Identifier: MIT
 * Making an archive from a model directory: what the steps of the conversion share. Each step fills its part
 * of the manifest; the first that fails says why to the report, with the kind of the error. */
#ifndef THIN_BUILD_H
#define THIN_BUILD_H

#include "index.h"
#include "model.h"
#include "thin_config.h"
#include "thin_manifest.h"

struct thin_tensor {
    fs_text id;
    const struct tensor *tensor;
    fs_opt_u64 layer; /* N of model.layers.N. */
    unsigned char digest[32];
    char hex[65]; /* zeros as long as the digest is not known */
};

struct thin_warning {
    const char *kind;
    fs_text detail;
};

struct thin_build {
    struct report *r;
    struct arena *arena; /* the manifest's */
    struct thin_config config;
    struct thin_tensor *tensors; /* sorted by the bytes of their ids */
    size_t n_tensors;
    struct index by_id;
    uint64_t layers;
    struct thin_manifest manifest;
    struct thin_warning *warnings;
    size_t n_warnings, room_warnings;
    bool no_memory; /* of a helper that returns nothing else; looked at after each step */
};

/* All steps: 0 or a negative errno, said. */
int thin_filter_names(struct thin_build *b);                /* text part, other naming schemes */
int thin_make_spec(struct thin_build *b, const char *arch); /* the model section */
int thin_make_pages(struct thin_build *b);
int thin_make_tape(struct thin_build *b);
void thin_warn_unknown(struct thin_build *b);

/* Errors and warnings. */
int thin_fail(struct thin_build *b, const char *kind, const fs_text *name, const char *why);
int thin_no_memory(struct thin_build *b);
void thin_warn(struct thin_build *b, const char *kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The tensor of that id, NULL if there is none. */
struct thin_tensor *thin_find(const struct thin_build *b, const char *id, size_t len);
/* The same of a name made with printf. */
struct thin_tensor *thin_findf(const struct thin_build *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Text in the manifest's arena. */
fs_text thin_copy(struct thin_build *b, const char *s, size_t len);
fs_text thin_print(struct thin_build *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A number as Rust reads a u32: digits, perhaps a plus sign before them. */
bool thin_parse_u32(const char *s, size_t len, uint32_t *out);

/* Inferences several steps need. */
fs_opt_u64 thin_infer_hidden(const struct thin_build *b);
fs_opt_u64 thin_infer_heads(const struct thin_build *b, uint64_t hidden);
fs_opt_u64 thin_infer_kv_heads(const struct thin_build *b);
fs_opt_u64 thin_infer_intermediate(const struct thin_build *b);
bool thin_uses_layer_norm(const struct thin_build *b);
fs_opt_f64 thin_norm_eps(const struct thin_build *b);
fs_opt_u64 thin_experts(const struct thin_build *b);
fs_opt_u64 thin_experts_per_token(const struct thin_build *b);

/* The memory plan; which of the tensors are the same bytes. */
enum thin_same { THIN_SAME_BY_DIGEST, THIN_SAME_ALL_OF_A_SIZE, THIN_SAME_NONE };
int thin_make_plan(const struct thin_build *b, enum thin_same same, struct thin_plan *out);

/* For text: a contains, begins with, ends with. */
bool thin_has(const fs_text *t, const char *part);
bool thin_begins(const fs_text *t, const char *part);
bool thin_ends(const fs_text *t, const char *part);

#endif
