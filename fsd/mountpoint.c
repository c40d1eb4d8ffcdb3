/* SPDX-License-Identifier: MIT */
#include "mountpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "say.h"

bool mountpoint_is_fd(const char *path)
{
    unsigned fd;
    char more;
    return sscanf(path, "/dev/fd/%u%c", &fd, &more) == 1;
}

/* Undoes the \ooo of /proc/self/mountinfo. */
static void unescape(char *s)
{
    char *to = s;
    unsigned c;
    while (*s) {
        if (*s == '\\' && sscanf(s + 1, "%3o", &c) == 1) {
            *to++ = (char)c;
            s += 4;
        } else
            *to++ = *s++;
    }
    *to = 0;
}

dev_t mountpoint_device(const char *path)
{
    FILE *f = fopen("/proc/self/mountinfo", "re");
    char *line = NULL;
    size_t room = 0;
    dev_t found = 0;
    while (f && getline(&line, &room, f) > 0) {
        unsigned major, minor;
        int at = 0, end = 0;
        const char *type = strstr(line, " - ");
        if (!type || sscanf(line, "%*u %*u %u:%u %*s %n%*s%n", &major, &minor, &at, &end) != 2 || end == 0)
            continue;
        bool ours = strncmp(type, " - fuse.safetensors ", 20) == 0;
        line[end] = 0;
        unescape(line + at);
        if (strcmp(line + at, path) == 0)
            found = ours ? makedev(major, minor) : 0; /* the last one listed is on top */
    }
    free(line);
    if (f)
        fclose(f);
    return found;
}

static int check_device(void)
{
    int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    int err = fd < 0 ? errno : 0;
    if (fd >= 0)
        close(fd);
    if (err == ENOENT || err == ENODEV || err == ENXIO) {
        say("/dev/fuse", "missing: load the module (modprobe fuse), or give the container the device");
        return EXIT_SYSTEM;
    }
    if (err == EACCES || err == EPERM) {
        say("/dev/fuse", "no permission to open it (its mode should be 0666)");
        return EXIT_USAGE;
    }
    if (err) {
        say("/dev/fuse", "%s", strerror(err));
        return EXIT_SYSTEM;
    }
    return 0;
}

static bool is_empty(const char *path)
{
    DIR *d = opendir(path);
    const struct dirent *e;
    bool empty = true;
    while (d && empty && (e = readdir(d)))
        empty = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
    if (d)
        closedir(d);
    return empty;
}

static int check_stat(const char *path)
{
    struct stat st;
    int err = stat(path, &st) < 0 ? errno : 0;
    if (err == ENOENT)
        say(path, "mount point does not exist; make it with: mkdir");
    else if (err == ENOTCONN)
        say(path, "a dead mount is in the way (%s); remove it with: fusermount3 -u", strerror(err));
    else if (err)
        say(path, "mount point: %s", strerror(err));
    else if (!S_ISDIR(st.st_mode))
        say(path, "mount point is not a directory");
    else
        return 0;
    return err == EACCES || err == EPERM ? EXIT_USAGE : EXIT_MOUNT;
}

int mountpoint_check(const char *path, bool nonempty)
{
    int err = check_device();
    if (err == 0)
        err = check_stat(path);
    if (err)
        return err;
    char *real = realpath(path, NULL);
    if (real && mountpoint_device(real)) {
        say(path, "already mounted; unmount with: fusermount3 -u");
        err = EXIT_MOUNT;
    } else if (geteuid() != 0 && access(path, W_OK) < 0) {
        say(path, "mount point must be writable by who mounts there: %s", strerror(errno));
        err = EXIT_USAGE;
    } else if (!nonempty && !is_empty(path)) {
        say(path, "mount point is not empty; -o nonempty hides what is in it");
        err = EXIT_MOUNT;
    }
    free(real);
    return err;
}

/* For ordinary users, whom the kernel does not let unmount: the setuid helper of fuse3 does. */
static void detach_by_helper(const char *path)
{
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR);
        if (null >= 0) {
            dup2(null, 1);
            dup2(null, 2);
        }
        execlp("fusermount3", "fusermount3", "-u", "-q", "-z", "--", path, (char *)NULL);
        _exit(127);
    }
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

void mountpoint_detach(const char *path, dev_t device)
{
    if (device == 0 || mountpoint_device(path) != device)
        return;
    if (umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) < 0)
        detach_by_helper(path);
}

int mountpoint_readahead(dev_t device, uint64_t bytes)
{
    char path[64], text[32];
    snprintf(path, sizeof path, "/sys/class/bdi/%u:%u/read_ahead_kb", major(device), minor(device));
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int n = snprintf(text, sizeof text, "%" PRIu64 "\n", bytes / 1024);
    int err = write(fd, text, (size_t)n) < 0 ? -errno : 0;
    close(fd);
    return err;
}
