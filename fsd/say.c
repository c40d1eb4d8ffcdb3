/* SPDX-License-Identifier: MIT */
#include "say.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "buf.h"

static const char *command = "safetensors";
static bool to_log;

void say_init(const char *name)
{
    int fd;
    command = name;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= 2);
    if (fd > 2)
        close(fd);
}

void say_to_log(void)
{
    tzset();
    openlog(command, LOG_PID | LOG_NDELAY, LOG_DAEMON);
    to_log = true;
}

void say(const char *object, const char *fmt, ...)
{
    struct buf line = {0};
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (object) {
        buf_printable(&line, object, strlen(object), 0);
        buf_str(&line, ": ");
    }
    buf_str(&line, text);
    if (line.failed)
        ; /* nothing that could be said */
    else if (to_log)
        syslog(LOG_ERR, "%s", line.p);
    else
        fprintf(stderr, "%s: %s\n", command, line.p);
    buf_free(&line);
}
