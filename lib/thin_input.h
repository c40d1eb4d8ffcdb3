/* SPDX-License-Identifier: MIT
 * What a conversion to a ThinTensor archive starts from: config.json and all *.safetensors of a directory. */
#ifndef THIN_INPUT_H
#define THIN_INPUT_H

#include "directory.h"
#include "thin_build.h"

struct thin_input {
    const struct directory *dir;
    const struct model *model; /* the directory as a model: its parts need not be opened again; may be NULL */
    struct model **part;       /* opened here */
    size_t n_parts;
    const struct jvalue *config;
    struct arena arena;
};

/* Reads the configuration, then the shards. Both say to r what is wrong, with its kind. */
int thin_input_config(struct thin_input *in, struct report *r);
int thin_input_tensors(struct thin_input *in, struct thin_build *b);
void thin_input_free(struct thin_input *in);

#endif
