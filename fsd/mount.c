/* SPDX-License-Identifier: MIT
 * mount.safetensors: the command and its daemon. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "export.h"
#include "info.h"
#include "model_kind.h"
#include "mountpoint.h"
#include "ops.h"
#include "options.h"
#include "processes.h"
#include "say.h"
#include "staging.h"
#include "thin_export.h"
#include "waiting.h"

enum { READAHEAD = 2 << 20, MAX_READ = 1 << 30 };

struct mount {
    struct options o;
    char *source, *mountpoint; /* absolute, resolved */
    char *base;                /* name of exports */
    dev_t device;              /* in the keeper: of the mount */
    struct model *model;
    struct tree *tree;
    struct kind *staging; /* NULL: none */
    struct fs fs;
};

/* What libfuse and its helper say while mounting, to be said again in a message of ours. */
static char last_words[256];

__attribute__((format(printf, 2, 0))) static void fuse_says(enum fuse_log_level level, const char *fmt,
                                                            va_list ap)
{
    static _Atomic unsigned said;
    char text[256];
    vsnprintf(text, sizeof text, fmt, ap);
    text[strcspn(text, "\n")] = 0;
    if (level == FUSE_LOG_DEBUG)
        fprintf(stderr, "%s\n", text);
    else if (last_words[0] == 0 || level <= FUSE_LOG_ERR)
        snprintf(last_words, sizeof last_words, "%s", text);
    if (level <= FUSE_LOG_ERR && said++ < 100 && level != FUSE_LOG_DEBUG)
        say(NULL, "%s", text);
}

static int no_memory(void)
{
    say(NULL, "out of memory");
    return EXIT_SYSTEM;
}

static bool is_none(const struct mount *m)
{
    return strcmp(m->o.source, "none") == 0;
}

static int load(struct mount *m)
{
    struct report r = {0};
    int err = is_none(m) ? model_none(&m->model) : model_open(m->o.source, SOURCE_MAP, &m->model, &r);
    if (err < 0) {
        say(m->o.source, "%s", r.first.message);
        return err == -ENOMEM ? EXIT_SYSTEM : EXIT_MOUNT;
    }
    if (tree_build(m->model, m->o.layout, &m->tree) < 0)
        return no_memory();
    return 0;
}

static int add_kind(struct fs *fs, struct kind *k)
{
    if (!k)
        return no_memory();
    fs->kind[fs->n_kinds++] = k;
    return 0;
}

/* May this caller show files as those of that group? */
static bool in_group(gid_t gid)
{
    gid_t groups[NGROUPS_MAX];
    int n = getgroups(NGROUPS_MAX, groups);
    if (gid == getgid() || gid == getegid())
        return true;
    for (int i = 0; i < n; i++)
        if (groups[i] == gid)
            return true;
    return false;
}

/* Owner and mode of what is shown (design, section 3). Others get in only as far as the source's own mode
 * lets them; an ordinary user can narrow that, root can say otherwise. */
static int set_owner(struct mount *m)
{
    const struct options *o = &m->o;
    struct stat *st = &m->fs.base;
    bool root = geteuid() == 0;
    *st = (struct stat){.st_blksize = 4096};
    const struct stat *src = &m->model->source->st;
    st->st_mtim = src->st_mtim;
    st->st_ctim = src->st_ctim;
    st->st_atim = src->st_atim;
    st->st_mode = src->st_mode & 0444;
    st->st_uid = src->st_uid;
    st->st_gid = src->st_gid;
    if (!o->allow_other) {
        st->st_uid = getuid();
        st->st_gid = getgid();
        st->st_mode |= 0400;
    }
    if (!root && ((o->uid != UNSET && o->uid != getuid()) || (o->gid != UNSET && !in_group((gid_t)o->gid)))) {
        say(NULL, "options uid and gid: only root may show files as somebody else's");
        return EXIT_USAGE;
    }
    if (o->uid != UNSET)
        st->st_uid = (uid_t)o->uid;
    if (o->gid != UNSET)
        st->st_gid = (gid_t)o->gid;
    if (o->umask != UNSET)
        st->st_mode = (root ? 0444 : st->st_mode) & ~(mode_t)o->umask;
    return 0;
}

static int add_staging(struct mount *m)
{
    const struct staging_options o = {
        .output = m->o.output, .settle = m->o.settle, .dtype = m->o.dtype, .mounted = m->tree};
    int status = staging_new(&o, &m->staging);
    return status ? status : add_kind(&m->fs, m->staging);
}

static int build(struct mount *m)
{
    struct fs *fs = &m->fs;
    struct kind *exports = NULL;
    int err = load(m);
    if (err == 0)
        err = set_owner(m);
    if (err == 0)
        err = add_kind(fs, model_kind_new(m->tree));
    if (err == 0 && !(m->base = export_base(m->model->dir ? m->model->source->name : m->o.source)))
        err = no_memory();
    if (err == 0)
        err = add_kind(fs, exports = export_kind_new(m->model, m->base));
    if (err == 0)
        err = add_kind(fs, info_kind_new(m->tree, exports));
    if (err)
        return err;
    if (m->o.output && !m->o.fake)
        err = add_staging(m);
    if (err)
        return err;
    (void)malloc_trim(0);          /* what reading the header needed */
    (void)mallopt(M_ARENA_MAX, 1); /* threads allocate little, and no heap of their own for it */
    fs->direct_io = m->o.direct_io;
    fs->max_read =
        m->o.max_read == UNSET ? 0 : (unsigned)(m->o.max_read < MAX_READ ? m->o.max_read : MAX_READ);
    fs->blocks = m->tree->blocks;
    fs->files = m->tree->n_dirs + m->model->n_tensors;
    return 0;
}

static void destroy(struct mount *m)
{
    for (size_t i = 0; i < m->fs.n_kinds; i++)
        m->fs.kind[i]->ops->free(m->fs.kind[i]);
    tree_free(m->tree);
    model_free(m->model);
    free(m->base);
}

static struct fuse_session *new_session(struct mount *m)
{
    struct buf opts = {0};
    buf_str(&opts, m->o.output ? "rw," : "ro,");
    buf_str(&opts, "default_permissions,subtype=safetensors,fsname=");
    options_escape(&opts, m->source);
    if (m->o.allow_other)
        buf_str(&opts, ",allow_other");
    if (m->o.debug)
        buf_str(&opts, ",debug");
    if (m->fs.max_read)
        buf_printf(&opts, ",max_read=%u", m->fs.max_read);
    if (m->o.fuse.len)
        buf_printf(&opts, ",%s", m->o.fuse.p);
    struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
    struct fuse_session *se = NULL;
    if (!opts.failed && fuse_opt_add_arg(&args, "mount.safetensors") == 0 &&
        fuse_opt_add_arg(&args, "-o") == 0 && fuse_opt_add_arg(&args, opts.p) == 0)
        se = fuse_session_new(&args, &fs_ops, sizeof fs_ops, &m->fs);
    fuse_opt_free_args(&args);
    buf_free(&opts);
    return se;
}

/* What was written to a captured stderr, without the name of who wrote it. */
static void read_words(int fd)
{
    char text[sizeof last_words], *p = text;
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    if (n <= 0)
        return;
    text[n] = 0;
    if (strncmp(p, "fusermount3: ", 13) == 0)
        p += 13;
    p[strcspn(p, "\n")] = 0;
    snprintf(last_words, sizeof last_words, "%s", p);
}

/* Mounts, to the end even when a signal comes: half a mount could not be taken back. */
static int mount_undisturbed(struct mount *m, struct fuse_session *se)
{
    sigset_t all, old;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &old);
    int err = fuse_session_mount(se, m->mountpoint), why = errno;
    sigprocmask(SIG_SETMASK, &old, NULL);
    errno = why;
    return err;
}

/* stderr is set aside, since the setuid helper writes there in its own words. */
static int mount_session(struct mount *m, struct fuse_session *se)
{
    int words = memfd_create("stderr", MFD_CLOEXEC), kept = dup(2);
    fflush(stderr);
    last_words[0] = 0;
    if (words >= 0)
        dup2(words, 2);
    int err = mount_undisturbed(m, se);
    int why = errno;
    if (kept >= 0)
        dup2(kept, 2);
    if (words >= 0)
        read_words(words);
    close(kept);
    close(words);
    if (err == 0)
        return 0;
    if (strstr(last_words, "allow_other"))
        say(m->mountpoint, "option allow_other needs the line user_allow_other in /etc/fuse.conf");
    else if (geteuid() != 0 && access("/usr/bin/fusermount3", X_OK) < 0 &&
             access("/bin/fusermount3", X_OK) < 0)
        say(m->mountpoint, "cannot be mounted: fusermount3 is missing (install the package fuse3)");
    else
        say(m->mountpoint, "cannot be mounted: %s", last_words[0] ? last_words : strerror(why));
    return why == EPERM || why == EACCES || strstr(last_words, "not permitted") ? EXIT_USAGE : EXIT_MOUNT;
}

/* The kernel's first request, INIT. Only once it is answered is the mount as we want it: that answer sets,
 * for one, the read-ahead, which the keeper then changes. */
static void answer_first(struct fuse_session *se)
{
    struct fuse_buf b = {0};
    int n;
    do
        n = fuse_session_receive_buf(se, &b);
    while (n == -EINTR && !fuse_session_exited(se));
    if (n > 0)
        fuse_session_process_buf(se, &b);
    free(b.mem);
}

static int loop(struct mount *m, struct fuse_session *se)
{
    struct fuse_loop_config *cfg = fuse_loop_cfg_create();
    if (!cfg)
        return no_memory();
    if (m->o.max_threads != UNSET)
        fuse_loop_cfg_set_max_threads(cfg, (unsigned)m->o.max_threads);
    int err = fuse_session_loop_mt(se, cfg);
    fuse_loop_cfg_destroy(cfg);
    if (err > 0)
        return EXIT_STOPPED; /* by a signal */
    if (err == 0 || err == -ENODEV)
        return EXIT_OK; /* unmounted */
    say(m->mountpoint, "ended: %s", strerror(-err));
    return EXIT_SYSTEM;
}

static void log_change(const struct source *s)
{
    say(s->name, "was truncated or overwritten while mounted; what lies in it can no longer be read");
}

static int serve(void *ctx, int ready_fd)
{
    struct mount *m = ctx;
    thin_export_interrupted = waiting_over;
    source_on_change = log_change;
    if (m->o.output)
        signal(SIGXFSZ, SIG_IGN); /* a file too large is the writer's error, not our end */
    int status = build(m);
    if (status)
        goto out;
    fuse_set_log_func(fuse_says);
    struct fuse_session *se = new_session(m);
    if (!se) {
        say(m->mountpoint, "cannot be mounted: %s", last_words[0] ? last_words : "FUSE refuses the options");
        status = EXIT_USAGE;
        goto out;
    }
    fuse_set_signal_handlers(se);
    status = mount_session(m, se);
    if (status == 0) {
        if (!m->o.foreground && chdir("/") < 0)
            say("/", "%s", strerror(errno));
        answer_first(se);
        if (!fuse_session_exited(se))
            process_ready(ready_fd, m->o.foreground);
        status = loop(m, se);
    }
    if (m->staging)
        staging_stop(m->staging);
    waiting_stop();
    fuse_remove_signal_handlers(se);
    fuse_session_destroy(se); /* nobody waits for what is still committed below */
out:
    destroy(m);
    return status;
}

static void mounted(void *ctx)
{
    struct mount *m = ctx;
    m->device = mountpoint_device(m->mountpoint);
    int64_t bytes = m->o.readahead == UNSET ? READAHEAD : m->o.readahead;
    int err = m->device ? mountpoint_readahead(m->device, (uint64_t)bytes) : 0;
    if (err < 0 && m->o.readahead != UNSET)
        say(m->mountpoint, "option readahead: %s; the kernel's own is used",
            geteuid() == 0 ? strerror(-err) : "only root can set it");
}

static void stopped(void *ctx)
{
    const struct mount *m = ctx;
    /* No device: it was stopped before the mount answered. */
    mountpoint_detach(m->mountpoint, m->device ? m->device : mountpoint_device(m->mountpoint));
}

/* Without mounting: everything else. */
static int fake(struct mount *m)
{
    int err = build(m);
    if (err == 0 && isatty(2))
        say(m->o.source, "%zu tensors; nothing mounted (-f)", m->model->n_tensors);
    destroy(m);
    return err;
}

static int run(struct mount *m)
{
    const struct process_hooks hooks = {.serve = serve, .mounted = mounted, .stopped = stopped, .ctx = m};
    int err = 0;
    if (m->o.allow_other == UNSET)
        m->o.allow_other = geteuid() == 0;
    m->source = is_none(m) ? strdup("none") : realpath(m->o.source, NULL);
    if (!m->source) {
        say(m->o.source, "%s", strerror(errno));
        return EXIT_MOUNT;
    }
    if (mountpoint_is_fd(m->o.mountpoint))
        m->mountpoint = strdup(m->o.mountpoint);
    else {
        err = mountpoint_check(m->o.mountpoint, m->o.nonempty);
        if (err)
            return err;
        m->mountpoint = realpath(m->o.mountpoint, NULL);
    }
    if (!m->mountpoint)
        return no_memory();
    return m->o.fake ? fake(m) : process_run(&hooks, m->o.foreground);
}

int main(int argc, char **argv)
{
    struct mount m = {0};
    say_init("mount.safetensors");
    int status = options_parse(&m.o, argc, argv);
    if (status == 0 && m.o.help)
        options_help();
    else if (status == 0 && m.o.version)
        printf("mount.safetensors %s (FUSE %s)\n", VERSION, fuse_pkgversion());
    else if (status == 0)
        status = run(&m);
    options_free(&m.o);
    free(m.source);
    free(m.mountpoint);
    return status;
}
