#!/bin/sh
# SPDX-License-Identifier: MIT
# Mounts a model and says what to try with it.  try.sh COMMANDS MODEL [MNT]   (made for `make mount`)
set -eu
commands=$1 model=$2 mnt=${3:-/tmp/safetensors-$(id -un)}

if mountpoint -q "$mnt" 2>/dev/null; then
    echo "$mnt is already mounted. To mount something else there, first unmount it:"
    echo "    fusermount3 -u $mnt"
    exit 0
fi
mkdir -p "$mnt"
"$commands/mount.safetensors" "$model" "$mnt"

# A tensor to show: a matrix of a type that NumPy knows, else the first of all.
list="$mnt/.safetensors/tensors.tsv"
tensor=$(awk -F '\t' 'NR == 2 { first = $1 } $3 ~ /^F(16|32)$/ && $4 ~ /,/ { good = $1; exit }
    END { print good ? good : first }' "$list")

cat <<END
$model is mounted at $mnt. Try:

    ls -R $mnt | head -20
    column -t $list | head
END
if [ -n "$tensor" ]; then
    cat <<END
    dd if='$mnt/$tensor' bs=64 count=1 status=none | hexdump -C
    getfattr -d '$mnt/$tensor'
END
    if /usr/bin/python3 -c 'import numpy' 2>/dev/null && [ -e "$mnt/$tensor.npy" ]; then
        echo "    /usr/bin/python3 -c \"import numpy; print(repr(numpy.load('$mnt/$tensor.npy', mmap_mode='r')))\""
    fi
fi
cat <<END

Unmount with:

    fusermount3 -u $mnt
END
