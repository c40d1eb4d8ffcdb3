#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How long fs_write takes for 2 GiB that lie in a mapped file, against `cp && sync` of the same bytes: in turns, in one
directory, the best of each.

write.py WRITE_ONE   (made for `make bench-write`; DIR=, SIZE= MiB, REPEAT=)

The promise is at most 1.1 times.
"""
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time

TENSORS = 64


def make(path, mib):
    """A model whose tensors lie in the order of their names, so that the copy is the same bytes."""
    size = mib * 2**20 // TENSORS
    head = "{%s}" % ",".join('"t%02d":{"dtype":"U8","shape":[%d],"data_offsets":[%d,%d]}' % (i, size, i * size, (i + 1) * size)
                             for i in range(TENSORS))
    head = head.encode() + b" " * (-len(head) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head)
        for i in range(TENSORS):
            f.write(os.urandom(2**20) * (size // 2**20))
        f.flush()
        os.fsync(f.fileno())


def timed(*argv):
    start = time.monotonic()
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)
    return time.monotonic() - start


def main(program):
    mib, repeat = int(os.environ.get("SIZE", "2048")), int(os.environ.get("REPEAT", "3"))
    with tempfile.TemporaryDirectory(prefix="st-bench-write-", dir=os.environ.get("DIR", "/var/tmp")) as d:
        if shutil.disk_usage(d).free < 3 * mib * 2**20:
            print("SKIP: no room for three times %d MiB in %s" % (mib, d))
            return 0
        source, copy, ours = d + "/source", d + "/copy", d + "/ours"
        make(source, mib)
        times = {"cp && sync": [], "fs_write": []}
        for _ in range(repeat):
            for name in times:
                for path in (copy, ours):
                    if os.path.exists(path):
                        os.unlink(path)
                os.sync()
                if name == "fs_write":
                    times[name].append(timed(program, ours, source, "plain"))
                else:
                    times[name].append(timed("sh", "-c", 'cp "$1" "$2" && sync "$2"', "sh", source, copy))
        for name, seconds in times.items():
            print("%-10s best %.2f s  (%s)  %.0f MiB/s" % (name, min(seconds), " ".join("%.2f" % s for s in seconds),
                                                           mib / min(seconds)))
        print("ratio %.2f (promised: at most 1.1)" % (min(times["fs_write"]) / min(times["cp && sync"])))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
