/* SPDX-License-Identifier: MIT */
#include "place.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "support.h"

static char directory[64];
static int covered;

void place_make(void)
{
    snprintf(directory, sizeof directory, "/tmp/st-unit-XXXXXX");
    ck_assert(mkdtemp(directory) != NULL);
}

static int away(const char *path, const struct stat *st, int type, struct FTW *where)
{
    (void)st, (void)type, (void)where;
    return remove(path);
}

void place_remove(void)
{
    if (covered)
        umount2(directory, MNT_DETACH);
    nftw(directory, away, 8, FTW_DEPTH | FTW_PHYS);
}

const char *place_path(const char *name)
{
    static char path[8][512];
    static int next;
    char *p = path[next++ % 8];
    snprintf(p, sizeof path[0], "%s/%s", directory, name);
    return p;
}

const char *place_list(void)
{
    static char list[4096];
    struct dirent **v;
    int n = scandir(directory, &v, NULL, alphasort);
    ck_assert_int_ge(n, 2);
    list[0] = 0;
    for (int i = 0; i < n; i++) {
        if (strcmp(v[i]->d_name, ".") != 0 && strcmp(v[i]->d_name, "..") != 0)
            snprintf(list + strlen(list), sizeof list - strlen(list), "%s ", v[i]->d_name);
        free(v[i]);
    }
    free(v);
    return list;
}

void place_put(const char *name, const void *p, size_t len)
{
    FILE *f = fopen(place_path(name), "wb");
    ck_assert(f != NULL);
    ck_assert_uint_eq(fwrite(p, 1, len, f), len);
    ck_assert_int_eq(fclose(f), 0);
}

void place_expect(const char *name, const void *p, size_t len)
{
    size_t have;
    char *b = read_whole(place_path(name), &have);
    ck_assert_msg(have == len, "%s has %zu bytes, not %zu", name, have, len);
    size_t i = 0;
    while (i < len && b[i] == ((const char *)p)[i])
        i++;
    ck_assert_msg(i == len, "%s differs at byte %zu", name, i);
    free(b);
}

int place_cover(const char *options)
{
    if (unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
        mount("none", directory, "tmpfs", 0, options) == 0)
        return covered = 1;
    const char *why = strerror(errno), *ci = getenv("CI");
    ck_assert_msg(!ci || strcmp(ci, "true") != 0, "no tmpfs can be mounted here: %s", why);
    printf("SKIP: no tmpfs can be mounted here (%s): needs root\n", why);
    return 0;
}
