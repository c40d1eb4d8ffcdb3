/* SPDX-License-Identifier: MIT */
#include "options.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "safetensors/tensor.h"
#include "say.h"

enum type {
    ON, /* bool, no value; a second entry "noNAME" with OFF */
    OFF,
    SWITCH_ON, /* int */
    SWITCH_OFF,
    SIZE,  /* int64_t, bytes, with K, M, G */
    COUNT, /* int64_t > 0 */
    USER,  /* int64_t, by name or number */
    GROUP,
    MASK, /* int64_t, octal */
    LAYOUT,
    TEXT,      /* char *, owned */
    DTYPE,     /* char *, owned, a safetensors code */
    SETTLE_MS, /* int64_t, milliseconds or "off" */
    FUSE,      /* for libfuse, with or without value */
    DROP,      /* a word of fstab's that says nothing to us */
    REFUSE,
};

static const struct option {
    const char *name;
    enum type type;
    size_t at;        /* in struct options */
    const char *help; /* NULL: not in the list */
} table[] = {
    {"layout", LAYOUT, offsetof(struct options, layout),
     "tree|flat  dots make directories (default), or stay dots"},
    {"output", TEXT, offsetof(struct options, output), "DIR  stage files in .staging, write models into DIR"},
    {"settle", SETTLE_MS, offsetof(struct options, settle),
     "MS|off  quiet time before a staged model is written (1000)"},
    {"dtype", DTYPE, offsetof(struct options, dtype), "CODE  type of staged files that have none"},
    {"uid", USER, offsetof(struct options, uid), "USER  owner shown"},
    {"gid", GROUP, offsetof(struct options, gid), "GROUP  group shown"},
    {"umask", MASK, offsetof(struct options, umask), "MASK  octal, taken from the modes shown"},
    {"allow_other", SWITCH_ON, offsetof(struct options, allow_other),
     "let other users in (default for root)"},
    {"noallow_other", SWITCH_OFF, offsetof(struct options, allow_other), "let nobody else in"},
    {"direct_io", ON, offsetof(struct options, direct_io), "no page cache of the mount's own"},
    {"nodirect_io", OFF, offsetof(struct options, direct_io), NULL},
    {"readahead", SIZE, offsetof(struct options, readahead),
     "SIZE  how far the kernel reads ahead (root; default 2M)"},
    {"max_threads", COUNT, offsetof(struct options, max_threads),
     "N  threads that answer requests (default 10)"},
    {"nonempty", ON, offsetof(struct options, nonempty), "mount over a directory that is not empty"},
    {"foreground", ON, offsetof(struct options, foreground), "do not detach"},
    {"debug", ON, offsetof(struct options, debug), "print each request; implies foreground"},
    {"default_permissions", DROP, 0, NULL}, /* always on */
    {"allow_root", FUSE, 0, NULL},
    {"auto_unmount", FUSE, 0, NULL},
    {"max_read", SIZE, offsetof(struct options, max_read), NULL},
    {"blkdev", REFUSE, 0, NULL},
    {"fd", REFUSE, 0, NULL},
    {"ro", DROP, 0, NULL},
    {"rw", DROP, 0, NULL}, /* mount(8) says so unless told otherwise; it is read-only all the same */
    {"suid", FUSE, 0, NULL},
    {"nosuid", FUSE, 0, NULL},
    {"dev", FUSE, 0, NULL},
    {"nodev", FUSE, 0, NULL},
    {"exec", FUSE, 0, NULL},
    {"noexec", FUSE, 0, NULL},
    {"atime", FUSE, 0, NULL},
    {"noatime", FUSE, 0, NULL},
    {"diratime", DROP, 0, NULL},
    {"nodiratime", DROP, 0, NULL},
    {"relatime", DROP, 0, NULL},
    {"norelatime", DROP, 0, NULL},
    {"strictatime", DROP, 0, NULL},
    {"lazytime", DROP, 0, NULL},
    {"nolazytime", DROP, 0, NULL},
    {"sync", FUSE, 0, NULL},
    {"async", FUSE, 0, NULL},
    {"dirsync", FUSE, 0, NULL},
    {"silent", DROP, 0, NULL},
    {"loud", DROP, 0, NULL},
    {"defaults", DROP, 0, NULL},
    {"auto", DROP, 0, NULL},
    {"noauto", DROP, 0, NULL},
    {"user", DROP, 0, NULL},
    {"nouser", DROP, 0, NULL},
    {"users", DROP, 0, NULL},
    {"owner", DROP, 0, NULL},
    {"group", DROP, 0, NULL},
    {"nofail", DROP, 0, NULL},
    {"_netdev", DROP, 0, NULL},
    {"comment", DROP, 0, NULL},
    /* What the kernel shows of a FUSE mount: mount(8) gives it back along with "remount". */
    {"user_id", DROP, 0, NULL},
    {"group_id", DROP, 0, NULL},
    {"blksize", DROP, 0, NULL},
    {"remount", REFUSE, 0, NULL},
};

enum { N_OPTIONS = sizeof table / sizeof table[0] };

static const struct option *find(const char *name, size_t len)
{
    static const struct option dropped = {.name = "x-*", .type = DROP};
    if (len >= 2 && memcmp(name, "x-", 2) == 0)
        return &dropped;
    for (size_t i = 0; i < N_OPTIONS; i++)
        if (strlen(table[i].name) == len && memcmp(table[i].name, name, len) == 0)
            return &table[i];
    return NULL;
}

static int bad_value(const char *name, const char *value, const char *expected)
{
    say(NULL, "option %s=%s: %s expected", name, value ? value : "", expected);
    return EXIT_USAGE;
}

static bool parse_number(const char *text, int base, int64_t *out)
{
    char *end;
    if (!text || *text < '0' || *text > '9')
        return false;
    errno = 0;
    long long v = strtoll(text, &end, base);
    *out = v;
    return errno == 0 && *end == 0;
}

static bool parse_size(const char *text, int64_t *out)
{
    char *end;
    if (!text || *text < '0' || *text > '9')
        return false;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    static const char units[] = "KkMmGg";
    const char *unit = *end ? strchr(units, *end) : NULL;
    unsigned shift = unit ? (unsigned)((unit - units) / 2 + 1) * 10 : 0;
    if (errno || (*end && (!unit || end[1])) || v > INT64_MAX >> shift)
        return false;
    *out = (int64_t)v << shift;
    return true;
}

static bool parse_user(const char *text, int64_t *out)
{
    const struct passwd *p = text ? getpwnam(text) : NULL;
    if (p)
        *out = p->pw_uid;
    return p || (parse_number(text, 10, out) && *out < UINT32_MAX);
}

static bool parse_group(const char *text, int64_t *out)
{
    const struct group *g = text ? getgrnam(text) : NULL;
    if (g)
        *out = g->gr_gid;
    return g || (parse_number(text, 10, out) && *out < UINT32_MAX);
}

static int set(struct options *o, const struct option *x, const char *name, const char *value)
{
    void *at = (char *)o + x->at;
    if (value && (x->type == ON || x->type == OFF || x->type == SWITCH_ON || x->type == SWITCH_OFF)) {
        say(NULL, "option %s takes no value", x->name);
        return EXIT_USAGE;
    }
    switch (x->type) {
    case ON: *(bool *)at = true; return 0;
    case OFF: *(bool *)at = false; return 0;
    case SWITCH_ON: *(int *)at = 1; return 0;
    case SWITCH_OFF: *(int *)at = 0; return 0;
    case SIZE:
        return parse_size(value, at) ? 0 : bad_value(x->name, value, "a size in bytes, or with K, M or G,");
    case COUNT:
        return parse_number(value, 10, at) && *(int64_t *)at > 0 && *(int64_t *)at <= 1000
                   ? 0
                   : bad_value(x->name, value, "a number from 1 to 1000");
    case USER: return parse_user(value, at) ? 0 : bad_value(x->name, value, "a user's name or number");
    case GROUP: return parse_group(value, at) ? 0 : bad_value(x->name, value, "a group's name or number");
    case MASK:
        return parse_number(value, 8, at) && *(int64_t *)at <= 0777
                   ? 0
                   : bad_value(x->name, value, "an octal mask");
    case LAYOUT:
        if (!value || (strcmp(value, "tree") != 0 && strcmp(value, "flat") != 0))
            return bad_value(x->name, value, "tree or flat");
        *(enum layout *)at = value[0] == 't' ? LAYOUT_TREE : LAYOUT_FLAT;
        return 0;
    case TEXT:
    case DTYPE: {
        tm_dtype d;
        if (!value || !*value)
            return bad_value(x->name, value, "a value");
        if (x->type == DTYPE && (tm_dtype_from_name(value, &d) < 0 || d >= TM_SAFETENSORS_CODES))
            return bad_value(x->name, value, "a code of the safetensors format, like BF16,");
        free(*(char **)at);
        *(char **)at = strdup(value);
        return *(char **)at ? 0 : EXIT_SYSTEM;
    }
    case SETTLE_MS:
        if (value && strcmp(value, "off") == 0) {
            *(int64_t *)at = SETTLE_OFF;
            return 0;
        }
        return parse_number(value, 10, at) && *(int64_t *)at < INT32_MAX
                   ? 0
                   : bad_value(x->name, value, "milliseconds or off");
    case FUSE:
        buf_printf(&o->fuse, o->fuse.len ? ",%s" : "%s", x->name);
        if (value) {
            buf_char(&o->fuse, '=');
            options_escape(&o->fuse, value);
        }
        return 0;
    case DROP: return 0;
    case REFUSE:
        say(NULL,
            strcmp(x->name, "remount") == 0 ? "cannot be remounted: unmount, then mount again"
                                            : "option %s is not for this file system",
            name);
        return EXIT_USAGE;
    }
    return EXIT_BUG;
}

/* One "name" or "name=value", which is changed. */
static int apply(struct options *o, char *word)
{
    char *value = strchr(word, '=');
    if (value)
        *value++ = 0;
    const struct option *x = find(word, strlen(word));
    if (x)
        return set(o, x, word, value);
    if (o->sloppy)
        return 0;
    say(NULL, "unknown option '%s'; --help lists them", word);
    return EXIT_USAGE;
}

/* A list as behind -o: commas separate, a backslash takes the next character as it is. */
static int apply_list(struct options *o, const char *list)
{
    char *word = malloc(strlen(list) + 1);
    int err = 0;
    if (!word)
        return EXIT_SYSTEM;
    while (*list && err == 0) {
        char *to = word;
        for (; *list && *list != ','; list++) {
            if (*list == '\\' && list[1])
                list++;
            *to++ = *list;
        }
        *to = 0;
        if (*list == ',')
            list++;
        if (*word)
            err = apply(o, word);
    }
    free(word);
    return err;
}

void options_escape(struct buf *out, const char *value)
{
    for (; *value; value++) {
        if (*value == ',' || *value == '\\')
            buf_char(out, '\\');
        buf_char(out, *value);
    }
}

static int apply_long(struct options *o, const char *word)
{
    if (strcmp(word, "help") == 0) {
        o->help = true;
        return 0;
    }
    if (strcmp(word, "version") == 0) {
        o->version = true;
        return 0;
    }
    char *copy = strdup(word);
    int err = copy ? apply(o, copy) : EXIT_SYSTEM;
    free(copy);
    return err;
}

/* The single letters, those with a value last. `next` is the following argument, *used whether it was taken.
 */
static int apply_letters(struct options *o, const char *letters, const char *next, bool *used)
{
    for (const char *c = letters; *c; c++) {
        switch (*c) {
        case 'f': o->fake = true; break;
        case 's': o->sloppy = true; break;
        case 'v': o->verbose = true; break;
        case 'n':
        case 'r':
        case 'w': break;
        case 'h': o->help = true; break;
        case 'V': o->version = true; break;
        case 'o':
        case 't':
        case 'N':
            *used = c[1] == 0;
            if (c[1] == 0 && !next) {
                say(NULL, "-%c needs a value", *c);
                return EXIT_USAGE;
            }
            return *c == 'o' ? apply_list(o, *used ? next : c + 1) : 0;
        default: say(NULL, "unknown option '-%c'; --help lists them", *c); return EXIT_USAGE;
        }
    }
    return 0;
}

/* -s counts wherever it stands. */
static void look_for_sloppy(struct options *o, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (argv[i][0] == '-' && argv[i][1] != '-' && strspn(argv[i] + 1, "fsvnrwhV") == strlen(argv[i] + 1))
            o->sloppy |= strchr(argv[i], 's') != NULL;
}

int options_parse(struct options *o, int argc, char **argv)
{
    const char *words[2] = {NULL, NULL};
    int n = 0, err = 0;
    bool only_words = false;
    *o = (struct options){.uid = UNSET,
                          .gid = UNSET,
                          .umask = UNSET,
                          .allow_other = UNSET,
                          .readahead = UNSET,
                          .max_read = UNSET,
                          .max_threads = UNSET,
                          .settle = SETTLE};
    look_for_sloppy(o, argc, argv);
    for (int i = 1; i < argc && err == 0; i++) {
        bool used = false;
        if (only_words || argv[i][0] != '-' || argv[i][1] == 0) {
            if (n == 2) {
                say(NULL, "one source and one mount point expected, '%s' is too much", argv[i]);
                return EXIT_USAGE;
            }
            words[n++] = argv[i];
        } else if (strcmp(argv[i], "--") == 0)
            only_words = true;
        else if (argv[i][1] == '-')
            err = apply_long(o, argv[i] + 2);
        else
            err = apply_letters(o, argv[i] + 1, argv[i + 1], &used);
        i += used;
    }
    if (err || o->help || o->version)
        return err;
    if (n < 2) {
        say(NULL, "usage: mount.safetensors [-o option[,option...]] SOURCE MOUNTPOINT");
        return EXIT_USAGE;
    }
    o->source = words[0];
    o->mountpoint = words[1];
    if (strcmp(o->source, "none") == 0 && !o->output) {
        say(NULL, "the source none makes sense with -o output=DIR only");
        return EXIT_USAGE;
    }
    o->foreground |= o->debug;
    return 0;
}

void options_free(struct options *o)
{
    buf_free(&o->fuse);
    free(o->output);
    free(o->dtype);
}

void options_help(void)
{
    printf(
        "usage: mount.safetensors [-o option[,option...]] SOURCE MOUNTPOINT\n"
        "Shows a model file as a directory tree: a file for each tensor, dtype and shape as its attributes.\n"
        "Unmount with: fusermount3 -u MOUNTPOINT\n\n"
        "Options, also as --name[=value]:\n");
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const char *help = table[i].help, *gap = help ? strstr(help, "  ") : NULL;
        if (!help)
            continue;
        char left[64];
        snprintf(left, sizeof left, gap ? "%s=%.*s" : "%s", table[i].name, gap ? (int)(gap - help) : 0, help);
        printf("  %-24s %s\n", left, gap ? gap + 2 : help);
    }
    printf("\n  -f  check everything, mount nothing     -h, --help     this text\n"
           "  -s  ignore unknown options              -V, --version  the version\n"
           "  -v, -n, -r, -w, -t TYPE, -N NS: accepted, as mount(8) gives them\n\n"
           "mount.safetensors(8) tells all.\n");
}
