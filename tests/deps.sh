#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs the Debian packages that are missing.  deps.sh [build] [test] [ci]   (default: build)
#   build  to compile, to mount, and for the commands that `make mount` shows
#   test   what `make check` needs besides
#   ci     what only .ci/run needs: other compilers and checkers
set -eu

# PACKAGE/COMMAND: wanted unless that command is there, whoever brought it. PACKAGE alone: wanted as such.
build='gcc/gcc make/make pkg-config/pkg-config libc6-dev libfuse3-dev fuse3/fusermount3 libcjson-dev
       zlib1g-dev attr/getfattr bsdextrautils/hexdump'
test='check libssl-dev g++/g++ binutils/objcopy strace/strace mount/mount tar/tar rsync/rsync
      python3/python3 python3-numpy perl/perl nodejs/node'
ci='unzip/unzip clang/clang clang-format/clang-format libclang-rt-dev? mandoc/mandoc shellcheck/shellcheck cppcheck/cppcheck'

known() { apt-cache show "$1" >/dev/null 2>&1; }
installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# The packages of the set $1 that are not there. A "?" at the end: only where this Debian has it.
missing() {
    for item in $1; do
        wish=${item%\?} package=${item%%[/?]*}
        case $wish in
        */*) command -v "${wish#*/}" >/dev/null 2>&1 && continue ;;
        *) installed "$package" && continue ;;
        esac
        [ "$wish" = "$item" ] || known "$package" || continue
        printf '%s ' "$package"
    done
}

sets=
for name in "${@:-build}"; do
    case $name in
    build) sets="$sets $build" ;;
    test) sets="$sets $test" ;;
    ci) sets="$sets $ci" ;;
    *) echo "deps.sh: $name: one of build, test, ci expected" >&2 && exit 1 ;;
    esac
done

if ! command -v dpkg-query >/dev/null 2>&1; then
    echo "deps.sh: this is no Debian; needed, under whatever names they have here: $sets" >&2
    exit 0
fi
want=$(missing "$sets")
[ -n "$want" ] || exit 0

root=
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null 2>&1 || {
        echo "deps.sh: missing packages; as root, run: apt-get install $want" >&2
        exit 1
    }
    root=sudo
fi
echo "deps.sh: installing $want"
update() { $root apt-get update -qq; }
install() { $root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" </dev/null; }

for package in $want; do
    known "$package" || {
        update
        want=$(missing "$sets")   # the list may have made more known
        break
    }
done
# shellcheck disable=SC2086 # a list of words
install $want >/dev/null || { # a list grown old names files that are gone
    update
    install $want >/dev/null
}
