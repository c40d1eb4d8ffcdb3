/* SPDX-License-Identifier: MIT */
#include "index.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "huge.h"

uint64_t hash_base, hash_power[5];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void draw_base(void)
{
    uint64_t r;
    if (getrandom(&r, sizeof r, GRND_NONBLOCK) != (ssize_t)sizeof r) {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        r = ((uint64_t)t.tv_nsec << 32) ^ (uint64_t)(uintptr_t)&r;
    }
    hash_base = 0x10000 + r % (HASH_PRIME - 0x20000);
    hash_power[0] = 1;
    for (int i = 1; i < 5; i++)
        hash_power[i] = (uint64_t)((hash_u128)hash_power[i - 1] * hash_base % HASH_PRIME);
}

void index_init(void)
{
    pthread_once(&once, draw_base);
}

/* 32 well-spread bits of the hash: place in the table and tag at once (finaliser of MurmurHash3). */
static uint32_t spread(uint64_t h)
{
    h = (h ^ (h >> 33)) * UINT64_C(0xff51afd7ed558ccd);
    h = (h ^ (h >> 33)) * UINT64_C(0xc4ceb9fe1a85ec53);
    return (uint32_t)(h >> 32);
}

uint32_t index_find(const struct index *x, uint64_t hash, index_equal equal, const void *ctx, const void *key,
                    size_t len)
{
    uint32_t tag = spread(hash);
    if (!x->slot)
        return INDEX_NONE;
    for (size_t i = tag & x->mask;; i = (i + 1) & x->mask) {
        const struct index_slot *s = &x->slot[i];
        if (s->number == INDEX_NONE)
            return INDEX_NONE;
        if (s->tag == tag && equal(ctx, s->number, key, len))
            return s->number;
    }
}

void index_prefetch(const struct index *x, uint64_t hash)
{
    if (x->slot)
        __builtin_prefetch(&x->slot[spread(hash) & x->mask], 1);
}

static void place(struct index_slot *slot, size_t mask, struct index_slot what)
{
    size_t i = what.tag & mask;
    while (slot[i].number != INDEX_NONE)
        i = (i + 1) & mask;
    slot[i] = what;
}

static int resize(struct index *x, size_t size)
{
    if (size > UINT32_MAX)
        return -ENOMEM;
    struct index_slot *slot = in_huge_pages(malloc(size * sizeof *slot), size * sizeof *slot);
    if (!slot)
        return -ENOMEM;
    memset(slot, 0xFF, size * sizeof *slot); /* INDEX_NONE */
    for (size_t i = 0; x->slot && i <= x->mask; i++)
        if (x->slot[i].number != INDEX_NONE)
            place(slot, size - 1, x->slot[i]);
    free(x->slot);
    x->slot = slot;
    x->mask = size - 1;
    return 0;
}

static int make_room(struct index *x)
{
    if (x->slot && (x->used + 1) * 4 <= (x->mask + 1) * 3)
        return 0;
    return resize(x, x->slot ? (x->mask + 1) * 2 : 16);
}

void index_expect(struct index *x, size_t n)
{
    size_t size = 16;
    while (size < UINT32_MAX / 2 && n > size / 4 * 3)
        size *= 2;
    if (!x->slot)
        (void)resize(x, size); /* else it grows by and by */
}

int index_add(struct index *x, uint64_t hash, uint32_t number)
{
    int err = make_room(x);
    if (err < 0)
        return err;
    place(x->slot, x->mask, (struct index_slot){.number = number, .tag = spread(hash)});
    x->used++;
    return 0;
}

int index_add_new(struct index *x, uint64_t hash, uint32_t number, index_equal equal, const void *ctx,
                  const void *key, size_t len)
{
    uint32_t tag = spread(hash);
    int err = make_room(x);
    if (err < 0)
        return err;
    size_t i = tag & x->mask;
    for (; x->slot[i].number != INDEX_NONE; i = (i + 1) & x->mask)
        if (x->slot[i].tag == tag && equal(ctx, x->slot[i].number, key, len))
            return -EEXIST;
    x->slot[i] = (struct index_slot){.number = number, .tag = tag};
    x->used++;
    return 0;
}

void index_replace(struct index *x, uint64_t hash, uint32_t old, uint32_t now)
{
    for (size_t i = spread(hash) & x->mask; x->slot[i].number != INDEX_NONE; i = (i + 1) & x->mask)
        if (x->slot[i].number == old) {
            x->slot[i].number = now;
            return;
        }
}

void index_clear(struct index *x)
{
    if (x->mask >= 1024) /* clearing must not cost more than what was put in */
        index_free(x);
    else if (x->used)
        memset(x->slot, 0xFF, (x->mask + 1) * sizeof *x->slot);
    x->used = 0;
}

void index_free(struct index *x)
{
    free(x->slot);
    *x = (struct index){0};
}
