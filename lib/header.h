/* SPDX-License-Identifier: MIT
 * The safetensors container: u64 little-endian header length, that many bytes of JSON, the tensors' bytes. */
#ifndef HEADER_H
#define HEADER_H

#include "model.h"

enum { HEADER_MAX = 100000000 }; /* bytes of JSON; the limit of the reference implementation */

/* Fills m from its source. Strict: what is accepted is what the format's reference accepts, less what the
 * format forbids and the reference lets pass (names twice). See report.h for how findings are told. */
int header_read(struct model *m, struct report *r);

#endif
