/* SPDX-License-Identifier: MIT
 *
 * The work is handed out in pieces of BLAKE3_PIECE bytes, in order, so that one large range keeps all threads
 * busy as well as many small ones do, and few ranges are in the making at a time. Bytes are copied by read
 * calls, never taken from a mapping. */
#include "hashing.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "source.h"

enum { MOST_THREADS = 64 };

/* A range in the making. */
struct making {
    struct hash_range *range;
    struct blake3_pair *pairs; /* of its whole pieces */
    uint64_t pieces;
    atomic_ullong left; /* pieces to be done before its end is */
    atomic_int err;
};

struct work {
    struct hash_range *v;
    size_t n;
    struct hash_control *control;
    pthread_mutex_t lock; /* guards what follows */
    size_t next;          /* range to begin next */
    struct making *now;   /* the range whose pieces are handed out */
    uint64_t piece;       /* its next piece */
    atomic_bool no_memory;
};

static bool stopped(const struct work *w)
{
    return (w->control && atomic_load_explicit(&w->control->stop, memory_order_relaxed)) ||
           atomic_load_explicit(&w->no_memory, memory_order_relaxed);
}

static struct making *begin(struct hash_range *range)
{
    struct making *m = calloc(1, sizeof *m);
    uint64_t pieces = range->len / BLAKE3_PIECE;
    /* A range lies in a file, whose size bounds this: 64 bytes for each half megabyte of it. */
    if (m && pieces && !(m->pairs = malloc(pieces * sizeof *m->pairs))) {
        free(m);
        return NULL;
    }
    if (!m)
        return NULL;
    m->range = range;
    m->pieces = pieces;
    m->left = pieces ? pieces : 1;
    return m;
}

/* The next piece to do; of a range without whole pieces its end is the only one. */
static struct making *take(struct work *w, uint64_t *piece)
{
    struct making *m = NULL;
    pthread_mutex_lock(&w->lock);
    if (!w->now && w->next < w->n && !stopped(w)) {
        w->now = begin(&w->v[w->next++]);
        w->piece = 0;
        if (!w->now)
            w->no_memory = true;
    }
    if (w->now) {
        m = w->now;
        *piece = w->piece++;
        if (w->piece >= m->pieces)
            w->now = NULL;
    }
    pthread_mutex_unlock(&w->lock);
    return m;
}

static void count(struct work *w, uint64_t bytes)
{
    if (w->control)
        atomic_fetch_add_explicit(&w->control->bytes, bytes, memory_order_relaxed);
}

/* What follows the whole pieces, and all of it put together. */
static void finish(struct work *w, struct making *m, unsigned char *room)
{
    struct hash_range *r = m->range;
    struct blake3 b;
    size_t rest = (size_t)(r->len % BLAKE3_PIECE);
    int err = m->err;
    if (err == 0)
        err = source_read(r->source, r->off + (r->len - rest), room, rest);
    if (err == 0)
        err = source_check(r->source);
    if (err == 0) {
        blake3_init(&b);
        for (uint64_t i = 0; i < m->pieces; i++)
            blake3_add_piece(&b, &m->pairs[i]);
        blake3_update(&b, room, rest);
        blake3_final(&b, r->digest);
        count(w, rest);
    }
    r->err = err;
    free(m->pairs);
    free(m);
}

static void do_piece(struct work *w, struct making *m, uint64_t piece, unsigned char *room)
{
    if (m->pieces) {
        int err = stopped(w) ? -EINTR : m->err;
        if (err == 0)
            err = source_read(m->range->source, m->range->off + piece * BLAKE3_PIECE, room, BLAKE3_PIECE);
        if (err == 0) {
            blake3_piece(room, piece, &m->pairs[piece]);
            count(w, BLAKE3_PIECE);
        } else {
            m->err = err;
        }
    }
    if (atomic_fetch_sub(&m->left, 1) == 1)
        finish(w, m, room);
}

static void *worker(void *ctx)
{
    struct work *w = ctx;
    unsigned char *room = malloc(BLAKE3_PIECE);
    struct making *m;
    uint64_t piece;
    if (!room)
        w->no_memory = true;
    while (room && (m = take(w, &piece)) != NULL)
        do_piece(w, m, piece, room);
    free(room);
    return NULL;
}

static unsigned cores(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return n < 1 ? 1 : n > MOST_THREADS ? MOST_THREADS : (unsigned)n;
}

/* Threads beyond the caller's own that are worth starting. */
static unsigned helpers(const struct hash_range *v, size_t n)
{
    uint64_t pieces = 0;
    for (size_t i = 0; i < n && pieces < MOST_THREADS; i++)
        pieces += v[i].len / BLAKE3_PIECE;
    unsigned most = cores() - 1;
    return pieces < most ? (unsigned)pieces : most;
}

int hash_ranges(struct hash_range *v, size_t n, struct hash_control *control)
{
    struct work w = {.v = v, .n = n, .control = control};
    pthread_t thread[MOST_THREADS];
    unsigned started = 0, wanted = helpers(v, n);
    for (size_t i = 0; i < n; i++)
        v[i].err = -EINTR;
    pthread_mutex_init(&w.lock, NULL);
    while (started < wanted && pthread_create(&thread[started], NULL, worker, &w) == 0)
        started++;
    worker(&w);
    for (unsigned i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    pthread_mutex_destroy(&w.lock);
    if (w.no_memory)
        return -ENOMEM;
    return stopped(&w) ? -EINTR : 0;
}
