#!/bin/sh
# SPDX-License-Identifier: MIT
# run.sh MOUNT_COMMAND [COUNT [SEED]]: makes checkpoints with the PyTorch of Debian 13, in a chroot that is set up here
# (INTEROP_ROOT, kept for the next time), and compares how they look when mounted. Needs root and debootstrap.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
command=$1
count=${2:-500}
seed=${3:-1}
root=${INTEROP_ROOT:-/var/tmp/safetensors-interop}

skip() {
	echo "interop: SKIPPED: $*" >&2
	exit 0
}

[ "$(id -u)" = 0 ] || skip "a chroot needs root"
if [ ! -e "$root/.ready" ]; then
	if [ ! -x "$root/usr/bin/apt-get" ]; then
		command -v debootstrap >/dev/null || skip "debootstrap is not installed"
		debootstrap --variant=minbase trixie "$root" >"$root.log" 2>&1 || skip "debootstrap failed, see $root.log"
	fi
	{
		chroot "$root" apt-get update &&
			chroot "$root" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
				python3-torch python3-numpy
	} >"$root.log" 2>&1 || skip "PyTorch could not be installed, see $root.log"
	touch "$root/.ready"
fi

work=$(mktemp -d "$root/tmp/interop.XXXXXX")
trap 'rm -rf "$work"' EXIT
cp "$here/generate.py" "$work/"
inside=${work#"$root"}
chroot "$root" python3 "$inside/generate.py" "$inside/files" "$count" "$seed"
python3 "$here/compare.py" "$command" "$work/files"
