/* SPDX-License-Identifier: MIT
 * The schema of the manifest as tables, one row a member, in the order in which they are written. */
#ifndef THIN_SCHEMA_H
#define THIN_SCHEMA_H

#include <stddef.h>

enum thin_type {
    THIN_TEXT,     /* fs_text */
    THIN_U64,      /* uint64_t */
    THIN_U32,      /* uint64_t that fits 32 bits */
    THIN_BOOL,     /* unsigned char */
    THIN_OPT_U64,  /* fs_opt_u64 */
    THIN_OPT_U32,  /* the same, 32 bits */
    THIN_OPT_U8,   /* the same, 8 bits */
    THIN_OPT_F64,  /* fs_opt_f64 */
    THIN_OPT_BOOL, /* fs_opt_bool */
    THIN_JSON,     /* fs_text of any JSON */
    THIN_MAP,      /* fs_text of a JSON object, absent when empty */
    THIN_TEXTS,    /* fs_texts */
    THIN_BOOLS,    /* fs_bools */
    THIN_SHAPE,    /* const uint64_t *, size_t */
    THIN_STRUCT,   /* a struct of its own table */
    THIN_STRUCTS,  /* a malloc'd array of such, size_t */
};

enum thin_presence {
    THIN_REQUIRED,
    THIN_OPTIONAL, /* may be absent or null, left out when absent */
    THIN_LIST,     /* may be absent, left out when empty; the same for text and maps */
    THIN_ALWAYS,   /* may be absent, always written */
};

struct thin_table;
struct thin_field {
    const char *key;
    unsigned char type, presence;
    size_t at;
    const struct thin_table *table; /* of a struct */
};
struct thin_table {
    const struct thin_field *field;
    size_t n, size;
};

extern const struct thin_table thin_manifest_table, thin_spec_table;

#endif
