/* SPDX-License-Identifier: MIT
 * Where staged models lie on disk: DIR/.staging/NAME/ holds numbered files and a record of all else, so that
 * the next mount finds everything again after whatever happened to this one. safetensorsfs(5) describes the
 * record. */
#ifndef STORE_H
#define STORE_H

#include <stdatomic.h>

#include "model.h"
#include "staged.h"

struct waiter;

/* Of commits of one model (commit.c). */
struct commit_state {
    struct waiter *waiters; /* who asked for a commit now ... */
    struct waiter *served;  /* ... and for the one that is running */
    bool forced;            /* nobody waits any more, and yet it was asked for */
    bool running;
    unsigned percent;
    struct timespec last_edit; /* by the monotonic clock */
    uint64_t judged;           /* edits when it was last found not to commit by itself, plus one */
    uint64_t failed;           /* edits when a commit failed, plus one */
    char why[768];
};

struct committed { /* the last commit */
    bool done;
    uint64_t bytes, dev, ino, took; /* took: milliseconds */
    struct timespec mtime;
};

/* A model being written. */
struct model_dir {
    struct store *store;
    struct model_dir *next;
    struct staged *top; /* NULL once removed */
    atomic_uint holds;  /* blobs and nodes that know it, and one for itself */
    int dir, record;
    bool batching; /* lines wait in batch */
    struct buf batch;
    bool keep_files;      /* its record is damaged: what it seems not to need may be meant by a lost line */
    bool broken;          /* the record could not be written: said once */
    uint64_t last_number; /* of numbered files */
    uint64_t lines, compact_at; /* of the record; at how many to look whether it should be written anew */
    struct source **sources;    /* that references go to, by the number they have in the record */
    size_t n_sources;
    struct staged_pair *metadata;
    size_t n_metadata;
    bool inherited;                  /* the metadata of the mounted model were taken over */
    uint64_t edits, committed_edits; /* counts changes; where the last commit stands among them */
    struct committed committed;
    struct commit_state commit;
};

struct store {
    struct staged_tree tree;
    struct model_dir *models;
    bool closing;
    const struct model *model; /* mounted; NULL: none */
    int out, staging, lock;    /* DIR, DIR/.staging, the lock file */
    char *out_path;
};

/* Takes the lock of an output directory (waits for it for a few seconds), cleans up after crashes and reads
 * what is staged there. Says what is wrong and returns an exit status. */
int store_open(struct store *s, const char *path, const struct model *mounted);
void store_close(struct store *s);

struct model_dir *store_new_model(struct store *s, const char *name, struct node_caller who, int *err);
int store_remove_model(struct model_dir *m);
int store_rename_model(struct model_dir *m, const char *name);
void store_hold(struct model_dir *m);
void store_release(struct model_dir *m);

/* Numbered files. store_new_file gives n one of its own, and records that. */
enum { STORE_NAME = 24 };
void store_number_name(char out[STORE_NAME], uint64_t number);
int store_new_file(struct staged *n);
void store_remove_file(const struct model_dir *m, uint64_t number);

/* The same file under a number of another model; a new reference. */
struct blob *store_link_file(struct model_dir *m, struct blob *b, int *err);

/* The number under which the record knows a source, recorded when it is new; 0: no memory, or the record
 * fails. */
uint64_t store_source_number(struct model_dir *m, struct source *s);

/* Metadata. value NULL removes. */
int store_set_metadata(struct model_dir *m, const char *key, size_t key_len, const char *value,
                       size_t value_len);
struct staged_pair *store_metadata(struct model_dir *m, const char *key, size_t key_len);

/* Reads a model's record into the tree (record_load.c). Messages name what was lost. */
int record_load(struct model_dir *m);

/* A record line: begin with a verb and a path, add members, end. Lines reach the file before the call
 * returns. */
struct record_line {
    struct buf text;
    bool skip;
    bool alone; /* true whatever becomes of the batch that it comes up in */
};
void record_begin(struct record_line *l, const char *verb, const char *path, size_t len);
void record_node(struct record_line *l, const char *verb, const struct staged *n);
void record_number(struct record_line *l, const char *key, uint64_t value);
void record_text(struct record_line *l, const char *key, const char *value, size_t len);
void record_path(struct record_line *l, const char *key, const char *path, size_t len); /* any bytes */
int record_end(struct record_line *l, struct model_dir *m);

/* The lines in between reach the file together or not at all. keep false drops them. */
void record_batch(struct model_dir *m);
int record_batch_end(struct model_dir *m, bool keep);

/* Lines for what exists: used when a node is made, and to write the record anew. */
int record_new_node(const struct staged *n);
int record_ref(const struct staged *n, const struct ref *r);
int record_attribute(const struct staged *n, enum attribute a, const char *value, size_t len);
int record_bound(const struct staged *n);
int record_committed(struct model_dir *m);

/* Writes the record anew when it has grown far beyond what it says. */
void record_compact(struct model_dir *m);

#endif
