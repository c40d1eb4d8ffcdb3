/* SPDX-License-Identifier: MIT
 * Reads files for the benchmark and prints the seconds it took. In C, since Python would be measured too.
 *
 *     reader read SIZE FILE...   blocks of SIZE bytes; one thread for each file
 *     reader chain SIZE FILE...  the same, one file after the other
 *     reader mmap FILE           maps it and touches every cache line */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { CACHE_LINE = 64, MOST_FILES = 64 };

static size_t block;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int open_file(const char *path, struct stat *st)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, st) < 0)
        die(path);
    return fd;
}

static void *read_file(void *path)
{
    struct stat st;
    int fd = open_file(path, &st);
    char *buf = aligned_alloc(4096, block);
    off_t done = 0;
    ssize_t n;
    if (!buf)
        die("memory");
    while ((n = pread(fd, buf, block, done)) > 0)
        done += n;
    if (n < 0 || done != st.st_size)
        die(path);
    free(buf);
    close(fd);
    return NULL;
}

static void read_at_once(int n, char **path)
{
    pthread_t t[MOST_FILES];
    if (n > MOST_FILES)
        exit(1);
    for (int i = 0; i < n; i++)
        if (pthread_create(&t[i], NULL, read_file, path[i]) != 0)
            exit(1);
    for (int i = 0; i < n; i++)
        pthread_join(t[i], NULL);
}

static void touch_mapped(const char *path)
{
    struct stat st;
    int fd = open_file(path, &st);
    const volatile unsigned char *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    unsigned sum = 0;
    if (p == MAP_FAILED)
        die(path);
    for (off_t i = 0; i < st.st_size; i += CACHE_LINE)
        sum += p[i];
    close(fd);
    (void)sum;
}

int main(int argc, char **argv)
{
    double start = now();
    if (argc == 3 && strcmp(argv[1], "mmap") == 0) {
        touch_mapped(argv[2]);
    } else if (argc > 3 && (block = strtoul(argv[2], NULL, 10)) > 0 && block % 4096 == 0) {
        if (strcmp(argv[1], "read") == 0)
            read_at_once(argc - 3, argv + 3);
        else
            for (int i = 3; i < argc; i++)
                read_file(argv[i]);
    } else {
        fprintf(stderr, "usage: reader read|chain SIZE FILE..., reader mmap FILE\n");
        return 1;
    }
    printf("%.6f\n", now() - start);
    return 0;
}
