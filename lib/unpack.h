/* SPDX-License-Identifier: MIT
 * Inflating: a stream in a source, as it comes; and records of an archive, each unpacked once, when it is
 * first read, into a temporary file that has no name.
 *
 * The file is made when the archive is opened, so that reading opens nothing; it is empty until then and is
 * gone with the process. It is mapped like any source: what has been unpacked is served from the page cache.
 */
#ifndef UNPACK_H
#define UNPACK_H

#include <stdbool.h>
#include <stddef.h>

#include "source.h"

/* Takes the bytes [at, at + len) of what was unpacked. 0 or a negative errno, which ends it. */
typedef int (*unpack_sink)(void *ctx, uint64_t at, const unsigned char *p, size_t len);
int unpack_to_memory(void *ctx, uint64_t at, const unsigned char *p, size_t len);

/* Unpacks `packed` bytes at `at` of a source to exactly `size`. -EBADMSG: the stream is damaged, or gives
 * more or less; -EINTR: see below. */
int unpack(const struct source *s, uint64_t at, uint64_t packed, uint64_t size, unpack_sink sink, void *ctx);

struct unpacker;
struct unpacked;

/* One for each archive. NULL: no memory. */
struct unpacker *unpacker_new(struct source *s);
void unpacker_free(struct unpacker *u);

/* Announces a record; u owns it. NULL: no memory, or the sizes add up to more than a file can have. */
struct unpacked *unpacker_add(struct unpacker *u, uint64_t at, uint64_t packed, uint64_t size);

/* Makes the temporary file, once all records are announced. */
int unpacker_start(struct unpacker *u, struct report *r);

/* Copies [off, off + len) of a record, unpacking it first if it is not: that happens once, other threads
 * wait. -EIO if the record is damaged. */
int unpacked_read(struct unpacked *x, uint64_t off, void *buf, size_t len);

/* Where it lies once unpacked: a source that u keeps, and an offset in it. NULL: it is still packed. */
struct source *unpacked_source(struct unpacked *x, uint64_t *off);

/* Unpacks it now, if it is not. */
int unpacked_need(struct unpacked *x);

/* Unpacking may take long: it asks this now and then, in the thread that was given it, and gives up with
 * -EINTR if the answer is true. NULL: never. */
void unpack_interrupt(bool (*asked)(void *ctx), void *ctx);

#endif
