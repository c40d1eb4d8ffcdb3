/* SPDX-License-Identifier: MIT
 * Look-ups in config.json as the ThinTensor converter makes them: a value of the wrong type counts as absent,
 * some keys have other names as well, and of a multimodal model the text part is what counts. */
#ifndef THIN_CONFIG_H
#define THIN_CONFIG_H

#include "jtree.h"
#include "safetensors/thin.h"

struct thin_config {
    const struct jvalue *whole; /* the document */
    const struct jvalue *text;  /* text_config if that is an object, else the document */
    uint32_t *cross;            /* numbers of the cross-attention layers, sorted, each once */
    size_t n_cross;
};

/* a keeps what c points to. -ENOMEM. */
int thin_config_set(struct thin_config *c, const struct jvalue *document, struct arena *a);

/* The value itself, NULL if there is none (JSON's null is one). */
const struct jvalue *thin_get(const struct thin_config *c, const char *key);
/* Of two keys the first that exists. */
const struct jvalue *thin_get2(const struct thin_config *c, const char *key, const char *other);

fs_opt_u64 thin_u64(const struct thin_config *c, const char *key);
fs_opt_u64 thin_u32(const struct thin_config *c, const char *key); /* absent when it does not fit */
/* The first of several keys that holds one; the list ends with NULL. */
fs_opt_u64 thin_first_u64(const struct thin_config *c, const char *const *keys);
fs_opt_f64 thin_f64(const struct thin_config *c, const char *key);
fs_opt_bool thin_bool(const struct thin_config *c, const char *key);
fs_text thin_text(const struct thin_config *c, const char *key);

/* The same of a value. */
fs_opt_u64 thin_as_u64(const struct jvalue *v);
fs_opt_f64 thin_as_f64(const struct jvalue *v);
fs_opt_bool thin_as_bool(const struct jvalue *v);
fs_text thin_as_text(const struct jvalue *v);

bool thin_is(const fs_text *t, const char *word);

/* layer_types[i], absent text if that is none. */
fs_text thin_layer_type(const struct thin_config *c, uint64_t i);

#endif
