/* SPDX-License-Identifier: MIT
 * Saving extents of every kind and size, and being stopped on the way. Reading them is looked at as well:
 * both must give the same bytes. */
#include "save.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "buf.h"
#include "place.h"
#include "source.h"
#include "support.h"

enum { MIB = 1 << 20 };

/* What a list must hold, collected beside it. */
struct mixture {
    struct extents x;
    struct buf want;
    struct source *source;
    unsigned char *bytes; /* of the source */
    size_t size;
};

static void start(struct mixture *m, enum source_how how, size_t size)
{
    *m = (struct mixture){.bytes = malloc(size), .size = size};
    uint32_t random = 1;
    for (size_t i = 0; i < size; i++) {
        random = random * 1664525 + 1013904223;
        m->bytes[i] = (unsigned char)(random >> 24);
    }
    place_put("source", m->bytes, size);
    ck_assert_int_eq(source_open(place_path("source"), how, &m->source, NULL), 0);
}

static void end(struct mixture *m)
{
    extents_free(&m->x);
    source_free(m->source);
    buf_free(&m->want);
    free(m->bytes);
}

static void of_source(struct mixture *m, size_t off, size_t len)
{
    ck_assert_int_eq(extents_add_source(&m->x, m->source, off, len), 0);
    buf_add(&m->want, m->bytes + off, len);
}

/* Byte i is i mod 251. */
static int count_up(const void *ctx, uint64_t off, void *buf, size_t len)
{
    (void)ctx;
    for (size_t i = 0; i < len; i++)
        ((unsigned char *)buf)[i] = (unsigned char)((off + i) % 251);
    return 0;
}

static void of_computed(struct mixture *m, size_t len)
{
    ck_assert_int_eq(extents_add_computed(&m->x, count_up, NULL, len), 0);
    for (size_t i = 0; i < len; i++)
        buf_char(&m->want, (char)(i % 251));
}

static void of_memory(struct mixture *m, const void *p, size_t len, bool borrow)
{
    ck_assert_int_eq((borrow ? extents_add_borrowed : extents_add_memory)(&m->x, p, len), 0);
    buf_add(&m->want, p, len);
}

static void everything(struct mixture *m)
{
    of_memory(m, "header", 6, false);
    of_source(m, 5 * MIB - 3, 3);
    of_source(m, 1, 2 * MIB + 1);
    of_memory(m, m->bytes + 99, 3 * MIB, true);
    of_computed(m, MIB + 5);
    of_source(m, 0, 0);
    for (size_t i = 0; i < 3000; i++) /* runs of small pieces: near, far and backwards */
        of_source(m, i % 3 == 0 ? i * 7 : i % 3 == 1 ? i * 1500 : 4 * MIB - i * 11, i % 40 + 1);
    of_source(m, 17, 4 * MIB);
    of_memory(m, "end", 3, true);
}

START_TEST(all_kinds)
{
    struct mixture m;
    start(&m, _i ? SOURCE_COPY : SOURCE_MAP, 5 * MIB);
    everything(&m);
    ck_assert_uint_eq(m.x.size, m.want.len);
    ck_assert_int_eq(save_extents(place_path("out"), &m.x, &save_plain, NULL), 0);
    place_expect("out", m.want.p, m.want.len);
    ck_assert_str_eq(place_list(), "out source ");
    end(&m);
}
END_TEST

/* Reads in windows of each size, at offsets that hit every kind of border. */
START_TEST(reading_in_windows)
{
    static const size_t sizes[] = {1, 7, 4096, 65537, MIB, 3 * MIB};
    struct mixture m;
    start(&m, _i ? SOURCE_COPY : SOURCE_MAP, 5 * MIB);
    everything(&m);
    char *b = malloc(3 * MIB);
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (size_t off = 0; off < m.want.len; off += sizes[s] + sizes[s] / 2 + 4001) {
            size_t left = m.want.len - off, n = left < sizes[s] ? left : sizes[s];
            ck_assert_int_eq(extents_read(&m.x, off, b, sizes[s]), (ssize_t)n);
            ck_assert(memcmp(b, m.want.p + off, n) == 0);
        }
    ck_assert_int_eq(extents_read(&m.x, m.want.len, b, 10), 0);
    free(b);
    end(&m);
}
END_TEST

/* What the kernel is pointed to is the same; it may end early only if there are more places than vectors. */
START_TEST(pointing_in_windows)
{
    struct mixture m;
    start(&m, SOURCE_MAP, 5 * MIB);
    everything(&m);
    for (size_t off = 0; off < m.want.len; off += 70001) {
        struct iovec iov[16];
        int n = _i ? 16 : 2;
        void *scratch;
        ssize_t got = extents_iov(&m.x, off, 128 * 1024, iov, &n, &scratch);
        size_t left = m.want.len - off, at = off;
        ck_assert_int_eq(got, (ssize_t)(left < 128 * 1024 ? left : 128 * 1024));
        for (int i = 0; i < n; at += iov[i++].iov_len)
            ck_assert(memcmp(iov[i].iov_base, m.want.p + at, iov[i].iov_len) == 0);
        ck_assert_uint_eq(at - off, (size_t)got);
        free(scratch);
    }
    end(&m);
}
END_TEST

START_TEST(nothing_at_all)
{
    struct extents x = {0};
    ck_assert_int_eq(save_extents(place_path("out"), &x, &save_plain, NULL), 0);
    place_expect("out", "", 0);
}
END_TEST

struct visits {
    uint64_t last, total;
    int n, stop_at;
    const char *spoil; /* a file to be cut short on the way */
};

static int visit(void *ctx, uint64_t done, uint64_t total)
{
    struct visits *v = ctx;
    ck_assert_uint_gt(done, v->last);
    ck_assert_uint_le(done, total);
    v->last = done;
    v->total = total;
    if (v->spoil)
        ck_assert_int_eq(truncate(v->spoil, 5 * MIB - 1), 0);
    return ++v->n == v->stop_at ? -ECANCELED : 0;
}

START_TEST(progress_is_told)
{
    struct mixture m;
    struct visits v = {0};
    struct save_options o = save_plain;
    o.progress = visit;
    o.ctx = &v;
    start(&m, SOURCE_MAP, 5 * MIB);
    everything(&m);
    ck_assert_int_eq(save_extents(place_path("out"), &m.x, &o, NULL), 0);
    ck_assert_int_gt(v.n, 3);
    ck_assert_uint_eq(v.last, m.want.len);
    ck_assert_uint_eq(v.total, m.want.len);
    end(&m);
}
END_TEST

/* Stopped at the first, second, third ... word of progress: always with nothing left behind. */
START_TEST(stopped)
{
    struct mixture m;
    int err = -ECANCELED;
    start(&m, SOURCE_MAP, 5 * MIB);
    everything(&m);
    place_put("out", "old", 3);
    for (int i = 1; err < 0; i++) {
        struct visits v = {.stop_at = i};
        struct save_options o = save_plain;
        o.progress = visit;
        o.ctx = &v;
        err = save_extents(place_path("out"), &m.x, &o, NULL);
        ck_assert_str_eq(place_list(), "out source ");
        if (err < 0) {
            ck_assert_int_eq(err, -ECANCELED);
            place_expect("out", "old", 3);
        }
    }
    place_expect("out", m.want.p, m.want.len);
    end(&m);
}
END_TEST

/* The tail is not even used; but what was copied may be of two states. */
START_TEST(source_that_changes_meanwhile)
{
    struct mixture m;
    struct report r = {0};
    struct visits v = {0};
    struct save_options o = save_plain;
    o.progress = visit;
    o.ctx = &v;
    start(&m, SOURCE_MAP, 5 * MIB);
    of_source(&m, 0, _i ? 100 : 4 * MIB);
    char path[512];
    strcpy(path, place_path("source"));
    v.spoil = path;
    place_put("out", "old", 3);
    ck_assert_int_eq(save_extents(place_path("out"), &m.x, &o, &r), -EIO);
    ck_assert_int_eq(r.first.code, -EIO);
    ck_assert_msg(strstr(r.first.message, "source") != NULL, "%s", r.first.message);
    place_expect("out", "old", 3);
    ck_assert_str_eq(place_list(), "out source ");
    end(&m);
}
END_TEST

static int broken(const void *ctx, uint64_t off, void *buf, size_t len)
{
    (void)ctx, (void)off, (void)buf, (void)len;
    return -EILSEQ;
}

START_TEST(content_that_cannot_be_computed)
{
    struct extents x = {0};
    ck_assert_int_eq(extents_add_memory(&x, "abc", 3), 0);
    ck_assert_int_eq(extents_add_computed(&x, broken, NULL, 10), 0);
    ck_assert_int_eq(save_extents(place_path("out"), &x, &save_plain, NULL), -EILSEQ);
    ck_assert_str_eq(place_list(), "");
    extents_free(&x);
}
END_TEST

/* Relative to a directory given by its descriptor, as the daemon has its output directory. */
START_TEST(below_a_descriptor)
{
    struct extents x = {0};
    struct save_options o = save_plain;
    struct stat st;
    ck_assert_int_eq(mkdir(place_path("d"), 0755), 0);
    o.dir = open(place_path("d"), O_PATH | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_eq(extents_add_memory(&x, "abc", 3), 0);
    ck_assert_int_eq(mkdir(place_path("d/e"), 0755), 0);
    if (getuid() == 0) {
        o.uid = 12;
        o.gid = 34;
    }
    ck_assert_int_eq(save_extents("m", &x, &o, NULL), 0);
    ck_assert_int_eq(save_extents("e/m", &x, &o, NULL), 0);
    place_expect("d/m", "abc", 3);
    place_expect("d/e/m", "abc", 3);
    ck_assert_int_eq(stat(place_path("d/m"), &st), 0);
    if (getuid() == 0)
        ck_assert(st.st_uid == 12 && st.st_gid == 34);
    ck_assert_str_eq(place_list(), "d ");
    close(o.dir);
    extents_free(&x);
}
END_TEST

START_TEST(names_of_temporary_files)
{
    ck_assert(save_is_temporary(".safetensors-0123456789abcdef.tmp"));
    ck_assert(!save_is_temporary(".safetensors-0123456789abcdef"));
    ck_assert(!save_is_temporary("safetensors-0123456789abcdef.tmp"));
    ck_assert(!save_is_temporary(".safetensors-.tmp"));
    ck_assert(!save_is_temporary("model.safetensors"));
    ck_assert(!save_is_temporary(""));
}
END_TEST

static void add(TCase *tc)
{
    tcase_add_checked_fixture(tc, place_make, place_remove);
    tcase_add_loop_test(tc, all_kinds, 0, 2);
    tcase_add_loop_test(tc, reading_in_windows, 0, 2);
    tcase_add_loop_test(tc, pointing_in_windows, 0, 2);
    tcase_add_test(tc, nothing_at_all);
    tcase_add_test(tc, progress_is_told);
    tcase_add_test(tc, stopped);
    tcase_add_loop_test(tc, source_that_changes_meanwhile, 0, 2);
    tcase_add_test(tc, content_that_cannot_be_computed);
    tcase_add_test(tc, below_a_descriptor);
    tcase_add_test(tc, names_of_temporary_files);
}

int main(void)
{
    return unit_run("save", add);
}
