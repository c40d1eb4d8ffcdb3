/* SPDX-License-Identifier: MIT
 * The ThinTensor container: header (88 bytes), manifest, page table, page blobs. */
#ifndef THIN_H
#define THIN_H

#include "index.h"
#include "model.h"
#include "thin_manifest.h"

enum { THIN_HEADER = 88, THIN_ID_MAX = 4096, THIN_RECORD = 62 /* bytes beside the id */ };

struct thin_record {
    fs_text id;
    uint64_t offset, stored, raw;
    uint32_t flags;
    uint32_t page; /* number of its page in the manifest, INDEX_NONE if there is none */
    bool again;    /* one before it has the same id */
    unsigned char checksum[32];
};

struct thin {
    struct source *source; /* borrowed */
    uint64_t manifest_off, manifest_len, table_off, page_count, data_off;
    uint64_t table_end; /* where the table was found to end */
    bool hash_is_zero;
    struct thin_manifest manifest;
    struct thin_record *records;
    size_t n_records, room_records;
    struct index pages;   /* of the manifest, by id; of several with one id the last */
    struct index by_id;   /* records; of several with one id the last that can be read */
    struct source *empty; /* owned; stands for the bytes of pages that lie in none. NULL: there are none */
    struct arena arena;
};

/* Reads all but the blobs: what an archive must have to be looked at at all. */
int thin_open(struct thin *t, struct source *s, struct report *r);
void thin_free(struct thin *t);

/* The page of that id in a manifest; its number or INDEX_NONE. The index is made by thin_index_pages. */
int thin_index_pages(const struct thin_manifest *m, struct index *x);
uint32_t thin_find_page(const struct thin_manifest *m, const struct index *x, const fs_text *id);

/* The record of that id; its number or INDEX_NONE. Do its bytes lie in the file? */
uint32_t thin_find_record(const struct thin *t, const fs_text *id);
bool thin_record_readable(const struct thin *t, const struct thin_record *x);

/* The rules a manifest must keep. 0, or a negative errno as report_add gives it. */
int thin_check_manifest(const struct thin_manifest *m, const struct index *pages, struct report *r);

/* The same, before a manifest is written: what is wrong is said as one error, manifest-invalid. */
int thin_refuse_manifest(const struct thin_manifest *m, const struct index *pages, struct report *r);

/* The rules between header, table and manifest; then those about bytes and digests. All findings of both, and
 * before them those of the manifest, in the format's order, are a verification. */
int thin_check_table(const struct thin *t, struct report *r);
int thin_check_payload(const struct thin *t, struct report *r);

/* Is what was written to fd a sound archive? A save_options' approve; says verify-failed. */
int thin_approve(int fd, struct report *r);

/* Reader for model_open: all rules but those about digests are checked. */
int thin_read_model(struct model *m, struct report *r);

/* Writes a digest as 64 characters. */
void thin_hex(const unsigned char digest[32], char out[65]);

#endif
