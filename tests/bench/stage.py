#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Surgery on a model of 2 GiB: copied by reference, a tensor dropped, one renamed, one added, metadata set, synced; against
`cp && sync` of a file of the bytes kept: in turns, the best of each.   (made for `make bench-stage`; DIR=, SIZE= MiB, REPEAT=)

The promise is at most 1.1 times, and no staged copy on disk. The result is compared with a file that is made here.
"""
import contextlib
import filecmp
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time

sys.path[:0] = [os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), d) for d in ("mount", "staging")]
from mounting import MOUNT, mounts, processes, wait_for   # noqa: E402
from staging import npy, on_disk, put, sync   # noqa: E402

TENSORS = 64


def header(entries, metadata):
    """As the reference implementation writes it: one dtype only, so by name."""
    head, at = {"__metadata__": metadata} if metadata else {}, 0
    for name, size in entries:
        head[name] = {"dtype": "U8", "shape": [size], "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(head, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text) + -len(text) % 8) + text + b" " * (-len(text) % 8)


def make(path, entries, metadata, block):
    """Each tensor is the block, with its first bytes its own."""
    with open(path, "wb") as f:
        f.write(header([(name, size) for name, size, _ in entries], metadata))
        for _, size, seed in entries:
            left = size
            while left:
                n = min(left, len(block))
                f.write(b"%08d" % seed + block[8:n] if n >= 8 else block[:n])
                left -= n
        f.flush()
        os.fsync(f.fileno())


def timed(call):
    start = time.monotonic()
    call()
    return time.monotonic() - start


def surgery(mnt):
    new = mnt + "/.staging/new"
    os.mkdir(new)
    subprocess.run(["cp", "-r", mnt + "/model", new + "/"], check=True)
    os.unlink(new + "/model/t63")
    os.rename(new + "/model/t62", new + "/model/t99")
    put(new + "/model/extra.npy", npy("|u1", (8,), b"12345678"))
    os.setxattr(new, "user.metadata.format", b"np")
    sync(new)


@contextlib.contextmanager
def mounted(source, out, mnt):
    subprocess.run([MOUNT, "-o", "settle=off,output=" + out, source, mnt], check=True)
    try:
        yield
    finally:
        subprocess.run(["fusermount3", "-u", mnt], check=True)
        wait_for(lambda: not mounts(mnt) and not processes(mnt), "unmount")


def main():
    mib, repeat = int(os.environ.get("SIZE", "2048")), int(os.environ.get("REPEAT", "3"))
    size = mib * 2**20 // TENSORS
    with tempfile.TemporaryDirectory(prefix="st-bench-stage-", dir=os.environ.get("DIR", "/var/tmp")) as d:
        if shutil.disk_usage(d).free < 4 * mib * 2**20:
            print("SKIP: no room for four times %d MiB in %s" % (mib, d))
            return 0
        source, want, copy, out, mnt = (d + "/" + n for n in ("source.safetensors", "want", "copy", "out", "mnt"))
        os.mkdir(out)
        os.mkdir(mnt)
        block = os.urandom(2**20)
        tensors = [("model.t%02d" % i, size, i) for i in range(TENSORS)]
        make(source, tensors, {"format": "pt"}, block)
        make(want, [("model.extra", 8, 0)] + tensors[:62] + [("model.t99", size, 62)], {"format": "np"}, b"12345678" + block[8:])
        with open(want, "r+b") as f:   # the small one is not a block's beginning
            f.seek(8 + struct.unpack("<Q", f.read(8))[0])
            f.write(b"12345678")
        times = {"cp && sync": [], "surgery": []}
        with mounted(source, out, mnt):
            for _ in range(repeat):
                for path in (copy, out + "/new.safetensors"):
                    if os.path.exists(path):
                        os.unlink(path)
                os.sync()
                times["cp && sync"].append(timed(lambda: subprocess.run(
                    ["sh", "-c", 'cp "$1" "$2" && sync "$2"', "sh", want, copy], check=True)))
                os.unlink(copy)
                os.sync()
                times["surgery"].append(timed(lambda: surgery(mnt)))
                staged = on_disk(out)
                same = filecmp.cmp(out + "/new.safetensors", want, shallow=False)
                print("staged on disk: %d bytes; result %s" % (staged, "as expected" if same else "WRONG"))
                if not same or staged > 2**20:
                    return 1
                shutil.rmtree(mnt + "/.staging/new")
        for name, seconds in times.items():
            print("%-10s best %.2f s  (%s)" % (name, min(seconds), " ".join("%.2f" % s for s in seconds)))
        print("ratio %.2f" % (min(times["surgery"]) / min(times["cp && sync"])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
