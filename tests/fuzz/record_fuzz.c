/* SPDX-License-Identifier: MIT
 * Bytes as the record of a staged model: whatever it says, what is loaded is a tree, its files have bytes or
 * an error for each offset, and the record that is written anew says the same. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"
#include "say.h"
#include "source.h"
#include "staged_content.h"
#include "staged_tensor.h"
#include "store.h"

/* In place of the real one: it must be given sense, and says nothing. */
void say(const char *object, const char *fmt, ...)
{
    must(object && fmt[0]);
}

static char where[64];
static int dir;

static void put(const char *name, const void *p, size_t n)
{
    unlinkat(dir, name, 0);
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    must(fd >= 0 && write(fd, p, n) == (ssize_t)n);
    close(fd);
}

static void remove_all(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", where);
    if (system(command) != 0)
        perror(where);
}

static void make_place(void)
{
    snprintf(where, sizeof where, "/tmp/record-fuzz-XXXXXX");
    must(mkdtemp(where) != NULL);
    atexit(remove_all);
    int top = open(where, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    must(mkdirat(top, ".staging", 0700) == 0 && mkdirat(top, ".staging/m", 0700) == 0);
    dir = openat(top, ".staging/m", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    must(dir >= 0);
    close(top);
}

static void check_content(const struct staged *n)
{
    struct extents x = {0};
    char bytes[64];
    uint64_t end = 0;
    for (size_t i = 0; i < n->n_refs; i++) {
        must(n->refs[i].len && n->refs[i].start >= end);
        end = n->refs[i].start + n->refs[i].len;
        must(end <= INT64_MAX && n->refs[i].off <= INT64_MAX);
    }
    must(n->size >= end);
    must(content_extents(n, &x) == 0 && x.size == n->size);
    for (size_t i = 0; i < x.n && i < 4; i++) {
        ssize_t got = extents_read(&x, x.v[i].start, bytes, sizeof bytes);
        must(got > 0 || got == -EIO);
    }
    extents_free(&x);
}

/* All that is staged, as text. */
static void describe(const struct model_dir *m, struct buf *out)
{
    const struct staged_rules rules = {.layout = LAYOUT_TREE};
    for (struct staged *n = staged_next(m->top, m->top); n; n = staged_next(m->top, n)) {
        must(n->model == m && staged_is_below(n, m->top) && n->name[0] && strlen(n->name) <= 255);
        must(strcmp(n->name, ".") != 0 && strcmp(n->name, "..") != 0 && staged_path_length(n) < 4096);
        struct buf path = {0};
        staged_path(n, &path);
        must(staged_walk(&m->store->tree, m->top, path.p) == n);
        buf_printf(out, "%s %d %llu %u ", path.p, n->is_dir, (unsigned long long)n->size, n->uid);
        buf_free(&path);
        if (!n->is_dir) {
            check_content(n);
            staged_name(&rules, n, out);
            buf_str(out, staged_value(n, ATTR_DTYPE) ? staged_value(n, ATTR_DTYPE) : "-");
            buf_str(out, staged_value(n, ATTR_SHAPE) ? staged_value(n, ATTR_SHAPE) : "-");
        }
        buf_char(out, '\n');
    }
    for (size_t i = 0; i < m->n_metadata; i++)
        buf_add(out, m->metadata[i].value, m->metadata[i].value_len);
    buf_printf(out, "%d %d %d\n", m->inherited, m->committed.done,
               m->committed.done && m->edits == m->committed_edits);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct store s;
    struct buf before = {0}, after = {0};
    if (!where[0])
        make_place();
    put("1", "one", 3);
    put("2", "twotwotwotwo", 12);
    put("record", p, n);
    int err = store_open(&s, where, NULL);
    must(err == 0 || err == EXIT_MOUNT);
    if (err == 0) {
        describe(s.models, &before);
        s.models->lines = 1000000;
        record_compact(s.models);
        must(s.models->lines < 1000000);
    }
    store_close(&s);
    if (err == 0) {
        must(store_open(&s, where, NULL) == 0);
        describe(s.models, &after);
        store_close(&s);
        must(before.len == after.len && memcmp(before.p, after.p, before.len) == 0);
    }
    buf_free(&before);
    buf_free(&after);
    return 0;
}
