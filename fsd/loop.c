/* SPDX-License-Identifier: MIT
 *
 * One thread at a time reads requests. Those that are answered at once it answers itself; before any other it
 * lets the next thread read. In libfuse's own loop all threads wait for requests and each one wakes another
 * thread, mostly on another processor: for listings and look-ups, which come one after the other, that costs
 * more than the answer. */
#include "loop.h"

#include <errno.h>
#include <linux/fuse.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

struct loop {
    struct fuse_session *se;
    pthread_mutex_t reading;
    atomic_bool stop;
    atomic_int err; /* why it ended, if not by a signal */
    int ended;      /* eventfd */
};

/* Those that nohup, say, has us ignore do not stop: blocked, they would be seen all the same. */
static sigset_t stopping(void)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP};
    struct sigaction now;
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        if (sigaction(signals[i], NULL, &now) < 0 || now.sa_handler != SIG_IGN)
            sigaddset(&set, signals[i]);
    return set;
}

void loop_block_signals(void)
{
    sigset_t set = stopping();
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static void end(struct loop *l, int err)
{
    const uint64_t one = 1;
    atomic_store(&l->err, err);
    atomic_store(&l->stop, true);
    for (int tries = 0; tries < 10; tries++) /* all hangs on it, so one failure is not the end */
        if (write(l->ended, &one, sizeof one) == (ssize_t)sizeof one)
            return;
    kill(getpid(), SIGTERM); /* wakes who waits as well */
}

static void unlock(void *mutex)
{
    pthread_mutex_unlock(mutex);
}

struct worker {
    struct loop *l;
    struct fuse_buf buf;
};

static void free_buf(void *buf)
{
    free(((struct fuse_buf *)buf)->mem);
}

/* The next request; only here a thread can be cancelled. */
static int receive(struct worker *w)
{
    int n, was;
    do {
        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &was);
        n = fuse_session_receive_buf(w->l->se, &w->buf);
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
    } while (n == -EINTR || n == -EAGAIN);
    return n;
}

static bool quick(const struct fuse_buf *buf)
{
    return !(buf->flags & FUSE_BUF_IS_FD) && ops_quick(buf->mem);
}

/* Answers what is answered at once, and comes back with the first request that may take longer, or at the
 * end. */
static void take(struct worker *w)
{
    struct loop *l = w->l;
    pthread_mutex_lock(&l->reading);
    pthread_cleanup_push(unlock, &l->reading);
    while (!atomic_load(&l->stop)) {
        int n = receive(w);
        if (n <= 0 || fuse_session_exited(l->se))
            end(l, n < 0 && n != -ENODEV ? n : 0);
        else if (!quick(&w->buf))
            break;
        else
            fuse_session_process_buf(l->se, &w->buf);
    }
    pthread_cleanup_pop(1);
}

static void *work(void *ctx)
{
    struct worker w = {.l = ctx};
    int was;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
    pthread_cleanup_push(free_buf, &w.buf);
    for (take(&w); !atomic_load(&w.l->stop); take(&w))
        fuse_session_process_buf(w.l->se, &w.buf);
    pthread_cleanup_pop(1);
    return NULL;
}

/* Until a signal comes or a thread sees the end. */
static int wait_end(struct loop *l, int signals)
{
    struct pollfd p[2] = {{.fd = signals, .events = POLLIN}, {.fd = l->ended, .events = POLLIN}};
    struct signalfd_siginfo info;
    while (poll(p, 2, -1) < 0 && errno == EINTR)
        ;
    if (!atomic_load(&l->stop) && read(signals, &info, sizeof info) == (ssize_t)sizeof info) {
        end(l, 0);
        return (int)info.ssi_signo;
    }
    return atomic_load(&l->err);
}

int loop_run(struct fuse_session *se, unsigned threads)
{
    struct loop l = {.se = se, .reading = PTHREAD_MUTEX_INITIALIZER};
    sigset_t set = stopping();
    int signals = signalfd(-1, &set, SFD_CLOEXEC), result = -ENOMEM;
    unsigned n = 0;
    pthread_t *thread = calloc(threads, sizeof *thread);
    l.ended = eventfd(0, EFD_CLOEXEC);
    if (!thread || signals < 0 || l.ended < 0)
        goto out;
    while (n < threads && pthread_create(&thread[n], NULL, work, &l) == 0)
        n++;
    if (n)
        result = wait_end(&l, signals);
    for (unsigned i = 0; i < n; i++)
        pthread_cancel(thread[i]);
    for (unsigned i = 0; i < n; i++)
        pthread_join(thread[i], NULL);
out:
    free(thread);
    if (signals >= 0)
        close(signals);
    if (l.ended >= 0)
        close(l.ended);
    return result;
}
