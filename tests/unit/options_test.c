/* SPDX-License-Identifier: MIT
 * The command line of mount.safetensors. Its messages go through a say of our own. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "options.h"
#include "say.h"
#include "support.h"

static char said[1024];

void say(const char *object, const char *fmt, ...)
{
    va_list ap;
    ck_assert_ptr_null(object);
    va_start(ap, fmt);
    vsnprintf(said, sizeof said, fmt, ap);
    va_end(ap);
}

enum { MOST = 16 };

/* Parses words separated by spaces; the text stays with the process. */
static int parse(struct options *o, const char *line)
{
    char *text = strdup(line), *argv[MOST + 1] = {text};
    static char *kept[MOST];
    static int n_kept;
    int argc = 0;
    if (n_kept < MOST)
        kept[n_kept++] = text; /* in reach of the leak checker */
    ck_assert_ptr_nonnull(kept[0]);
    said[0] = 0;
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " "))
        argv[argc++] = word;
    argv[argc] = NULL;
    return options_parse(o, argc, argv);
}

static struct options good(const char *line)
{
    struct options o;
    int err = parse(&o, line);
    ck_assert_msg(err == 0, "%s: %s", line, said);
    ck_assert_str_eq(said, "");
    return o;
}

static void bad(const char *line, const char *why)
{
    struct options o;
    ck_assert_int_eq(parse(&o, line), EXIT_USAGE);
    ck_assert_msg(strstr(said, why) != NULL, "%s: %s", line, said);
    options_free(&o);
}

START_TEST(nothing)
{
    struct options o = good("m SRC DIR");
    ck_assert_str_eq(o.source, "SRC");
    ck_assert_str_eq(o.mountpoint, "DIR");
    ck_assert_int_eq(o.layout, LAYOUT_TREE);
    ck_assert_int_eq(o.uid, UNSET);
    ck_assert_int_eq(o.gid, UNSET);
    ck_assert_int_eq(o.umask, UNSET);
    ck_assert_int_eq(o.allow_other, UNSET);
    ck_assert_int_eq(o.readahead, UNSET);
    ck_assert_int_eq(o.max_threads, UNSET);
    ck_assert(!o.direct_io && !o.foreground && !o.debug && !o.nonempty && !o.fake && !o.sloppy && !o.verbose);
    ck_assert_uint_eq(o.fuse.len, 0);
    options_free(&o);
}
END_TEST

/* Every option of ours, and where its value goes. */
#define FIELD(f, v)                                                                                          \
    static bool f##_##v(const struct options *o)                                                             \
    {                                                                                                        \
        return (int64_t)o->f == (int64_t)v;                                                                  \
    }
enum { V0 = 0, V1 = 1, V5 = 5, V7 = 7, V18 = 022, VMAX = 1000, K4 = 4096, M3 = 3 << 20, G1 = 1 << 30 };
FIELD(layout, V0)
FIELD(layout, V1)
FIELD(uid, V0)
FIELD(uid, V5)
FIELD(gid, V0)
FIELD(gid, V7)
FIELD(umask, V0)
FIELD(umask, V18)
FIELD(allow_other, V0)
FIELD(allow_other, V1)
FIELD(direct_io, V0)
FIELD(direct_io, V1)
FIELD(readahead, V0)
FIELD(readahead, V7)
FIELD(readahead, K4)
FIELD(readahead, M3)
FIELD(readahead, G1)
FIELD(max_threads, V1)
FIELD(max_threads, VMAX)
FIELD(nonempty, V1)
FIELD(foreground, V1)
FIELD(debug, V1)

static const struct {
    const char *option;
    bool (*holds)(const struct options *o);
} ours[] = {
    {"layout=tree", layout_V0},
    {"layout=flat", layout_V1},
    {"uid=0", uid_V0},
    {"uid=root", uid_V0},
    {"uid=5", uid_V5},
    {"gid=root", gid_V0},
    {"gid=7", gid_V7},
    {"umask=0", umask_V0},
    {"umask=022", umask_V18},
    {"umask=22", umask_V18},
    {"allow_other", allow_other_V1},
    {"noallow_other", allow_other_V0},
    {"direct_io", direct_io_V1},
    {"nodirect_io", direct_io_V0},
    {"readahead=0", readahead_V0},
    {"readahead=7", readahead_V7},
    {"readahead=4K", readahead_K4},
    {"readahead=4k", readahead_K4},
    {"readahead=3M", readahead_M3},
    {"readahead=1G", readahead_G1},
    {"max_threads=1", max_threads_V1},
    {"max_threads=1000", max_threads_VMAX},
    {"nonempty", nonempty_V1},
    {"foreground", foreground_V1},
    {"debug", debug_V1},
    {"debug", foreground_V1},
};

START_TEST(either_way)
{
    static const char *const forms[] = {"m -o %s SRC DIR", "m SRC DIR -o %s",   "m -o%s SRC DIR",
                                        "m --%s SRC DIR",  "m SRC DIR --%s",    "m -o rw,%s,nodev SRC DIR",
                                        "m SRC -o %s DIR", "m -fvo %s SRC DIR", "m --%s -- SRC DIR"};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        char line[200];
        snprintf(line, sizeof line, "%s", forms[i]);
        char *at = strstr(line, "%s");
        snprintf(line + (at - line), sizeof line - (size_t)(at - line), "%s%s", ours[_i].option,
                 strstr(forms[i], "%s") + 2);
        struct options o = good(line);
        ck_assert_msg(ours[_i].holds(&o), "%s", line);
        ck_assert_str_eq(o.source, "SRC");
        ck_assert_str_eq(o.mountpoint, "DIR");
        options_free(&o);
    }
}
END_TEST

/* What fstab and mount(8) say and we do not need, and what is libfuse's. */
START_TEST(dropped)
{
    struct options o = good("m SRC DIR -o rw,ro,defaults,auto,noauto,user,nouser,users,owner,group,nofail,"
                            "_netdev,comment=x,x-systemd.automount,x-foo=bar,relatime,norelatime,strictatime,"
                            "lazytime,nolazytime,diratime,nodiratime,silent,loud,default_permissions");
    ck_assert_uint_eq(o.fuse.len, 0);
    options_free(&o);
}
END_TEST

START_TEST(for_fuse)
{
    struct options o = good("m SRC DIR -o rw,nosuid,nodev,layout=flat,max_read=65536,noatime");
    ck_assert_str_eq(o.fuse.p, "nosuid,nodev,noatime");
    ck_assert_int_eq(o.max_read, 65536); /* told to libfuse in two places */
    ck_assert_int_eq(o.layout, LAYOUT_FLAT);
    options_free(&o);
}
END_TEST

/* As mount(8) calls its helpers: words first, -o behind, the type last. */
START_TEST(as_mount8)
{
    struct options o =
        good("/sbin/mount.safetensors SRC DIR -sfnv -N /proc/1/ns/mnt -o rw,uid=5 -t fuse.safetensors");
    ck_assert_str_eq(o.source, "SRC");
    ck_assert_str_eq(o.mountpoint, "DIR");
    ck_assert(o.sloppy && o.fake && o.verbose);
    ck_assert_int_eq(o.uid, 5);
    options_free(&o);
}
END_TEST

START_TEST(escapes)
{
    struct options o = good("m SRC DIR -o atime=a\\,b\\\\c,uid=5,x-y=\\");
    ck_assert_str_eq(o.fuse.p, "atime=a\\,b\\\\c"); /* taken apart, and escaped again for libfuse */
    ck_assert_int_eq(o.uid, 5);
    options_free(&o);
    bad("m SRC DIR -o la\\,yout=tree", "unknown option 'la,yout'");
    struct buf b = {0};
    options_escape(&b, "a,b\\c");
    ck_assert_str_eq(b.p, "a\\,b\\\\c");
    buf_free(&b);
}
END_TEST

START_TEST(odd_lists)
{
    struct options o = good("m SRC DIR -o ,,uid=5,,gid=7,");
    ck_assert(o.uid == 5 && o.gid == 7);
    options_free(&o);
    o = good("m SRC DIR -o uid=1,uid=5 --uid=2 -o uid=7"); /* the last one counts */
    ck_assert_int_eq(o.uid, 7);
    options_free(&o);
    o = good("m - DIR");
    ck_assert_str_eq(o.source, "-");
    options_free(&o);
    o = good("m -- -src -dir");
    ck_assert_str_eq(o.source, "-src");
    ck_assert_str_eq(o.mountpoint, "-dir");
    options_free(&o);
}
END_TEST

START_TEST(unknown)
{
    bad("m SRC DIR -o nonsense", "unknown option 'nonsense'");
    bad("m SRC DIR --nonsense=5", "unknown option 'nonsense'");
    bad("m SRC DIR -o layoutx=tree", "unknown option 'layoutx'");
    bad("m SRC DIR -o Layout=tree", "unknown option 'Layout'");
    bad("m SRC DIR -x", "unknown option '-x'");
    bad("m SRC DIR -fxv", "unknown option '-x'");
}
END_TEST

START_TEST(sloppy)
{
    struct options o = good("m SRC DIR -o nonsense,uid=5 -s");
    ck_assert_int_eq(o.uid, 5);
    options_free(&o);
    o = good("m -s --nonsense SRC DIR");
    options_free(&o);
    bad("m -s SRC DIR -o uid=nobody-has-this-name", "uid");
}
END_TEST

START_TEST(bad_values)
{
    static const char *const values[] = {
        "layout",
        "layout=",
        "layout=deep",
        "layout=tre",
        "uid",
        "uid=",
        "uid=-1",
        "uid=4294967295",
        "uid=5x",
        "gid=99999999999999999999",
        "umask=8",
        "umask=1000",
        "umask=-1",
        "umask",
        "readahead=",
        "readahead=x",
        "readahead=-1",
        "readahead=4T",
        "readahead=4KB",
        "readahead=4 ",
        "readahead=9223372036854775808",
        "readahead=9007199254740992K",
        "max_threads=0",
        "max_threads=1001",
        "max_threads=",
        "max_threads=1K",
        "max_threads",
    };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        struct options o;
        char list[60], *argv[] = {(char *)(uintptr_t) "m",
                                  (char *)(uintptr_t) "SRC",
                                  (char *)(uintptr_t) "DIR",
                                  (char *)(uintptr_t) "-o",
                                  list,
                                  NULL};
        snprintf(list, sizeof list, "%s", values[i]);
        said[0] = 0;
        ck_assert_msg(options_parse(&o, 5, argv) == EXIT_USAGE, "%s was taken", values[i]);
        ck_assert_msg(strstr(said, "expected") != NULL, "%s", said);
        options_free(&o);
    }
    bad("m SRC DIR -o debug=1", "takes no value");
    bad("m SRC DIR --allow_other=yes", "takes no value");
}
END_TEST

/* The largest size that fits. */
START_TEST(large_sizes)
{
    struct options o = good("m SRC DIR -o readahead=9223372036854775807");
    ck_assert_int_eq(o.readahead, INT64_MAX);
    options_free(&o);
    o = good("m SRC DIR -o readahead=8589934591G"); /* (2^33 - 1) * 2^30 */
    ck_assert_int_eq(o.readahead, INT64_C(9223372035781033984));
    options_free(&o);
    bad("m SRC DIR -o readahead=8589934592G", "a size");
}
END_TEST

START_TEST(refused)
{
    bad("m SRC DIR -o remount,ro", "cannot be remounted");
    bad("m SRC DIR -o blkdev", "blkdev");
    bad("m SRC DIR -o fd=3", "fd");
}
END_TEST

START_TEST(words)
{
    bad("m", "usage:");
    bad("m SRC", "usage:");
    bad("m SRC DIR more", "'more' is too much");
    bad("m SRC DIR -o", "-o needs a value");
    bad("m SRC DIR -t", "-t needs a value");
    bad("m SRC DIR -fN", "-N needs a value");
}
END_TEST

START_TEST(help)
{
    static const char *const lines[] = {"m -h", "m --help", "m -vh"};
    for (int i = 0; i < 3; i++) {
        struct options o = good(lines[i]);
        ck_assert(o.help && !o.version);
        options_free(&o);
    }
    struct options o = good("m --version");
    ck_assert(o.version);
    options_free(&o);
    o = good("m -V");
    ck_assert(o.version);
    options_free(&o);
}
END_TEST

static void tests(TCase *tc)
{
    tcase_add_test(tc, nothing);
    tcase_add_loop_test(tc, either_way, 0, sizeof ours / sizeof ours[0]);
    tcase_add_test(tc, dropped);
    tcase_add_test(tc, for_fuse);
    tcase_add_test(tc, as_mount8);
    tcase_add_test(tc, escapes);
    tcase_add_test(tc, odd_lists);
    tcase_add_test(tc, unknown);
    tcase_add_test(tc, sloppy);
    tcase_add_test(tc, bad_values);
    tcase_add_test(tc, large_sizes);
    tcase_add_test(tc, refused);
    tcase_add_test(tc, words);
    tcase_add_test(tc, help);
}

int main(void)
{
    return unit_run("options", tests);
}
