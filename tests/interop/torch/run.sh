#!/bin/sh
# SPDX-License-Identifier: MIT
# run.sh MOUNT_COMMAND ROOT COUNT SEED: makes checkpoints with the PyTorch of a Debian 13 root (../root.sh) and compares how they
# look when mounted.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
command=$1 root=$2 count=$3 seed=$4

work=$(mktemp -d "$root/tmp/interop.XXXXXX")
trap 'rm -rf "$work"' EXIT
cp "$here/generate.py" "$work/"
inside=${work#"$root"}
chroot "$root" python3 "$inside/generate.py" "$inside/files" "$count" "$seed"
python3 "$here/compare.py" "$command" "$work/files"
