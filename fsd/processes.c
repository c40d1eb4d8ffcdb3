/* SPDX-License-Identifier: MIT */
#include "processes.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "say.h"

static const int signals[] = {SIGTERM, SIGINT, SIGHUP};
enum { N_SIGNALS = sizeof signals / sizeof signals[0] };

static volatile pid_t child;
static volatile sig_atomic_t passed_on;

static void pass_on(int sig)
{
    int saved = errno;
    passed_on = sig;
    kill(child, sig);
    errno = saved;
}

static void handle(int sig, void (*handler)(int))
{
    struct sigaction a = {.sa_handler = handler};
    sigemptyset(&a.sa_mask);
    sigaction(sig, &a, NULL);
}

/* By nohup, or by a shell for what it starts in the background; libfuse respects that too. */
static bool is_ignored(int sig)
{
    struct sigaction a;
    return sigaction(sig, NULL, &a) == 0 && a.sa_handler == SIG_IGN;
}

static void block_signals(sigset_t *old)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < N_SIGNALS; i++)
        sigaddset(&set, signals[i]);
    sigprocmask(SIG_BLOCK, &set, old);
}

/* Like fork; the parent from then on passes signals on to the child. None is lost in between. */
static pid_t fork_child(void)
{
    sigset_t old;
    block_signals(&old);
    pid_t pid = fork();
    if (pid > 0) {
        child = pid;
        for (size_t i = 0; i < N_SIGNALS; i++)
            if (!is_ignored(signals[i]))
                handle(signals[i], pass_on);
    }
    sigprocmask(SIG_SETMASK, &old, NULL);
    return pid;
}

static void let_go_of_terminal(void)
{
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; null >= 0 && fd <= 2; fd++)
        dup2(null, fd);
    if (null > 2)
        close(null);
}

/* Waits for the byte that says "ready"; false: the other side is gone without it. */
static bool wait_ready(int fd)
{
    char c;
    ssize_t n;
    do
        n = read(fd, &c, 1);
    while (n < 0 && errno == EINTR);
    return n == 1;
}

static int wait_exit(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return EXIT_BUG;
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    for (size_t i = 0; i < N_SIGNALS; i++)
        if (WTERMSIG(status) == signals[i])
            return EXIT_INTERRUPTED; /* before it could handle them */
    say(NULL, "the server was ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    return EXIT_BUG;
}

void process_ready(int ready_fd, bool foreground)
{
    if (!foreground) {
        let_go_of_terminal();
        say_to_log();
    }
    for (int tries = 0; tries < 10 && write(ready_fd, "", 1) < 0; tries++)
        ; /* all hangs on it, so one failure is not the end */
    close(ready_fd);
}

static int fork_failed(void)
{
    say(NULL, "cannot start a process: %s", strerror(errno));
    return EXIT_SYSTEM;
}

/* launcher_fd: where to pass "ready" on to, -1 in the foreground. */
static int keep(const struct process_hooks *h, int launcher_fd)
{
    int fd[2];
    if (pipe2(fd, O_CLOEXEC) < 0)
        return fork_failed();
    pid_t server = fork_child();
    if (server < 0)
        return fork_failed();
    if (server == 0) {
        close(fd[0]);
        if (launcher_fd >= 0)
            close(launcher_fd);
        return h->serve(h->ctx, fd[1]);
    }
    close(fd[1]);
    bool ready = wait_ready(fd[0]);
    if (ready) {
        h->mounted(h->ctx);
        if (launcher_fd >= 0)
            process_ready(launcher_fd, false);
    }
    close(fd[0]);
    int status = wait_exit(server);
    if (status != EXIT_STOPPED)
        return status;
    h->stopped(h->ctx);
    return ready ? EXIT_OK : EXIT_INTERRUPTED;
}

/* Waits for the mount to be ready; or, when told to stop before, for its end. */
static int launch(pid_t keeper, int ready_fd)
{
    bool ready = wait_ready(ready_fd);
    block_signals(NULL); /* too late for more: the answer below must stay true */
    if (ready && !passed_on)
        return EXIT_OK;
    int status = wait_exit(keeper);
    return ready && status == EXIT_OK ? EXIT_INTERRUPTED : status;
}

int process_run(const struct process_hooks *h, bool foreground)
{
    int fd[2];
    handle(SIGPIPE, SIG_IGN);
    handle(SIGXFSZ, SIG_IGN); /* a limit on the size of files is an error, not the end */
    if (foreground)
        return keep(h, -1);
    if (pipe2(fd, O_CLOEXEC) < 0)
        return fork_failed();
    pid_t keeper = fork_child();
    if (keeper < 0)
        return fork_failed();
    if (keeper == 0) {
        close(fd[0]);
        setsid();
        return keep(h, fd[1]);
    }
    close(fd[1]);
    return launch(keeper, fd[0]);
}
