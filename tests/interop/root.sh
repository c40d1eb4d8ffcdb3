#!/bin/sh
# SPDX-License-Identifier: MIT
# root.sh DIR: a Debian 13 root with PyTorch, safetensors and NumPy, made in DIR unless it is there. Says why, and fails, where it
# cannot be.
set -eu
root=$1

cannot() {
	echo "interop: SKIPPED: $*" >&2
	exit 1
}

[ "$(id -u)" = 0 ] || cannot "a chroot needs root"
[ ! -e "$root/.ready" ] || exit 0
if [ ! -x "$root/usr/bin/apt-get" ]; then
	mkdir -p "$root"
	command -v debootstrap >/dev/null || cannot "debootstrap is not installed"
	echo "interop: making a Debian 13 root in $root"
	debootstrap --variant=minbase trixie "$root" >"$root.log" 2>&1 || cannot "debootstrap failed, see $root.log"
fi
{
	chroot "$root" apt-get update &&
		chroot "$root" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
			python3-torch python3-safetensors python3-numpy
} >"$root.log" 2>&1 || cannot "PyTorch could not be installed, see $root.log"
touch "$root/.ready"
