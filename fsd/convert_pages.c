/* SPDX-License-Identifier: MIT */
#include "convert.h"
#include "say.h"

int thin_extract(const char *from, const char *dir)
{
    (void)dir;
    say(from, "not yet");
    return EXIT_SYSTEM;
}

int thin_pack(const char *manifest, const char *pages, const char *to)
{
    (void)pages;
    (void)to;
    say(manifest, "not yet");
    return EXIT_SYSTEM;
}

int thin_repack(const char *from, const char *to, const char *layout)
{
    (void)to;
    (void)layout;
    say(from, "not yet");
    return EXIT_SYSTEM;
}
