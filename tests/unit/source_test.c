/* SPDX-License-Identifier: MIT
 * Source files: what is opened and what is not, and what happens to them afterwards. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "source.h"
#include "support.h"

static char dir[64];
static char path[128], other[128];

/* "path" holds "0123456789". */
static void setup(void)
{
    snprintf(dir, sizeof dir, "/tmp/source_test.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/a file", dir);
    snprintf(other, sizeof other, "%s/other", dir);
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    ck_assert_int_eq(write(fd, "0123456789", 10), 10);
    close(fd);
}

static void teardown(void)
{
    unlink(path);
    unlink(other);
    rmdir(other);
    ck_assert_int_eq(rmdir(dir), 0);
}

static struct source *opened(enum source_how how)
{
    struct source *s = NULL;
    ck_assert_int_eq(source_open(path, how, &s, NULL), 0);
    return s;
}

static void still_served(struct source *s)
{
    char b[10];
    ck_assert_int_eq(source_check(s), 0);
    ck_assert_int_eq(source_read(s, 0, b, 10), 0);
    ck_assert_mem_eq(b, "0123456789", 10);
    source_free(s);
}

START_TEST(as_opened)
{
    struct source *s = opened(SOURCE_MAP);
    char b[4];
    ck_assert_str_eq(s->name, "a file");
    ck_assert_uint_eq(s->size, 10);
    ck_assert_uint_eq(s->st.st_mode & 0777, 0600);
    ck_assert_ptr_nonnull(s->map);
    ck_assert_mem_eq(s->map, "0123456789", 10);
    ck_assert_int_eq(source_read(s, 3, b, 4), 0);
    ck_assert_mem_eq(b, "3456", 4);
    ck_assert_int_eq(source_read(s, 10, b, 0), 0);
    ck_assert_int_eq(source_read(s, 7, b, 4), -EIO);
    ck_assert_int_eq(source_read(s, 11, b, 0), -EIO);
    ck_assert_int_eq(source_read(s, UINT64_MAX, b, 4), -EIO);
    ck_assert_int_eq(source_populate(s, 0, 10), 0);
    ck_assert_int_eq(source_populate(s, 9, 1), 0);
    source_free(s);
}
END_TEST

START_TEST(references)
{
    struct source *s = opened(SOURCE_MAP);
    ck_assert_ptr_eq(source_ref(s), s);
    source_free(s);
    still_served(s);
    source_free(NULL);
}
END_TEST

START_TEST(renamed)
{
    struct source *s = opened(SOURCE_MAP);
    ck_assert_int_eq(rename(path, other), 0);
    still_served(s);
}
END_TEST

START_TEST(unlinked)
{
    struct source *s = opened(SOURCE_MAP);
    ck_assert_int_eq(unlink(path), 0);
    still_served(s);
}
END_TEST

START_TEST(replaced)
{
    struct source *s = opened(SOURCE_MAP);
    int fd = open(other, O_CREAT | O_WRONLY, 0600);
    ck_assert_int_eq(write(fd, "new", 3), 3);
    close(fd);
    ck_assert_int_eq(rename(other, path), 0);
    still_served(s);
}
END_TEST

START_TEST(mode_changed)
{
    struct source *s = opened(SOURCE_MAP);
    ck_assert_int_eq(chmod(path, 0), 0);
    still_served(s);
}
END_TEST

START_TEST(truncated)
{
    struct source *s = opened(SOURCE_MAP);
    char b[10];
    ck_assert_int_eq(truncate(path, 5), 0);
    ck_assert_int_eq(source_read(s, 0, b, 10), -EIO);
    ck_assert_int_eq(source_check(s), -EIO);
    ck_assert(s->changed);
    ck_assert_int_eq(truncate(path, 10), 0);
    struct timespec times[2] = {s->st.st_atim, s->st.st_mtim};
    ck_assert_int_eq(utimensat(AT_FDCWD, path, times, 0), 0);
    ck_assert_int_eq(source_check(s), -EIO); /* for good, though it looks as before */
    source_free(s);
}
END_TEST

START_TEST(written_over)
{
    struct source *s = opened(SOURCE_MAP);
    struct timespec times[2] = {s->st.st_atim, {s->st.st_mtim.tv_sec, s->st.st_mtim.tv_nsec ^ 1}};
    int fd = open(path, O_WRONLY);
    ck_assert_int_eq(pwrite(fd, "x", 1, 3), 1);
    ck_assert_int_eq(futimens(fd, times), 0); /* whatever the clock's grain */
    close(fd);
    ck_assert_int_eq(source_check(s), -EIO);
    source_free(s);
}
END_TEST

/* A copy does not care. */
START_TEST(copied)
{
    struct source *s = opened(SOURCE_COPY);
    ck_assert_int_eq(s->fd, -1);
    ck_assert_int_eq(truncate(path, 0), 0);
    still_served(s);
}
END_TEST

START_TEST(empty)
{
    ck_assert_int_eq(truncate(path, 0), 0);
    for (int how = SOURCE_MAP; how <= SOURCE_COPY; how++) {
        struct source *s = opened((enum source_how)how);
        ck_assert_uint_eq(s->size, 0);
        ck_assert_int_eq(source_read(s, 0, path, 0), 0);
        ck_assert_int_eq(source_check(s), 0);
        ck_assert_int_eq(source_populate(s, 0, 0), 0);
        source_free(s);
    }
}
END_TEST

static void refused(const char *what, int code, const char *message)
{
    struct report r = {0};
    struct source *s = NULL;
    ck_assert_int_eq(source_open(what, SOURCE_MAP, &s, &r), code);
    ck_assert_ptr_null(s);
    ck_assert_int_eq(r.first.code, code);
    ck_assert_str_eq(r.first.message, message);
    ck_assert_uint_eq(r.first.offset, FS_NO_OFFSET);
    ck_assert_int_eq(source_open(what, SOURCE_COPY, &s, NULL), code);
}

START_TEST(absent)
{
    refused(other, -ENOENT, "No such file or directory");
    refused("", -ENOENT, "No such file or directory");
}
END_TEST

START_TEST(directory)
{
    ck_assert_int_eq(mkdir(other, 0700), 0);
    refused(other, -EISDIR, "is a directory");
}
END_TEST

/* Nobody writes to it: this must not wait. */
START_TEST(fifo)
{
    ck_assert_int_eq(mkfifo(other, 0600), 0);
    refused(other, -ENOTSUP, "is not a regular file");
}
END_TEST

START_TEST(device)
{
    refused("/dev/null", -ENOTSUP, "is not a regular file");
}
END_TEST

START_TEST(symlinks)
{
    ck_assert_int_eq(symlink("a file", other), 0);
    struct source *s;
    ck_assert_int_eq(source_open(other, SOURCE_MAP, &s, NULL), 0);
    ck_assert_str_eq(s->name, "other");
    still_served(s);
    ck_assert_int_eq(unlink(path), 0);
    refused(other, -ENOENT, "No such file or directory");
}
END_TEST

/* Run as another user: root may read everything. */
START_TEST(unreadable)
{
    ck_assert_int_eq(chmod(path, 0), 0);
    if (geteuid() == 0) {
        ck_assert_int_eq(chmod(dir, 0711), 0);
        ck_assert_int_eq(seteuid(65534), 0);
    }
    refused(path, -EACCES, "Permission denied");
    if (getuid() == 0)
        ck_assert_int_eq(seteuid(0), 0);
}
END_TEST

static void tests(TCase *tc)
{
    static const TTest *const *const all[] = {
        &as_opened, &references, &renamed, &unlinked,  &replaced, &mode_changed, &truncated, &written_over,
        &copied,    &empty,      &absent,  &directory, &fifo,     &device,       &symlinks,  &unreadable};
    tcase_add_checked_fixture(tc, setup, teardown);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        tcase_add_test(tc, *all[i]);
}

int main(void)
{
    return unit_run("source", tests);
}
