/* SPDX-License-Identifier: MIT
 * Names that only a payload has a use for in a pickle: what runs code, starts programs, fetches or writes.
 *
 * Safety does not rest on this list (no name is ever looked up, so none can do anything); it serves to say
 * what a file is, and to refuse it as a whole. */
#ifndef DANGER_H
#define DANGER_H

#include <stdbool.h>

/* full: "module.name", the module by its present-day name. */
bool danger_named(const char *full);

#endif
