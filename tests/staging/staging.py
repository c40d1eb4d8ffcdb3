# SPDX-License-Identifier: MIT
"""What the tests of staging share: a daemon in the foreground whose log can be read and which can be killed, staging by
ordinary file operations, and reading what became of it with code of our own."""
import contextlib
import glob
import json
import os
import signal
import struct
import subprocess
import time

import mounting
from mounting import MOUNT, MountTest, mounts, processes, read, wait_for

MODEL = [("enc/layer/q_proj.weight", "F32", [4, 4], bytes(range(64))),
         ("model.big", "F16", [2048, 64], mounting.pattern(1, 2048 * 128)),
         ("model.h.0.k", "BF16", [16], bytes(range(100, 132))),
         ("model.h.0.old", "BF16", [1], b"\1\2"),
         ("model.odd%name.w", "U8", [3], b"odd")]
METADATA = {"format": "pt", "who": "x"}


def load(path):
    """{name: (dtype, shape, bytes)}, metadata of a safetensors file; the holes and overlaps that may not be are errors."""
    data = read(path)
    n = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + n])
    metadata = head.pop("__metadata__", {})
    body, at, out = data[8 + n:], 0, {}
    for name, t in sorted(head.items(), key=lambda i: (i[1]["data_offsets"])):
        a, b = t["data_offsets"]
        assert a == at and b >= a, (name, a, b, at)
        out[name] = (t["dtype"], t["shape"], body[a:b])
        at = b
    assert at == len(body), (at, len(body))
    return out, metadata


def npy(descr, shape, data, version=1, fortran=False):
    head = repr({"descr": descr, "fortran_order": fortran, "shape": tuple(shape)}).encode()
    size = 2 if version == 1 else 4
    head += b" " * (-(len(head) + 9 + size) % 64) + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + len(head).to_bytes(size, "little") + head + data


def put(path, data):
    with open(path, "wb") as f:
        f.write(data)


def set_type(path, dtype, shape, name=None):
    os.setxattr(path, "user.dtype", dtype.encode())
    os.setxattr(path, "user.shape", json.dumps(shape, separators=(",", ":")).encode())
    if name is not None:
        os.setxattr(path, "user.safetensors.name", name.encode() if isinstance(name, str) else name)


def stage(path, data, dtype, shape, name=None):
    put(path, data)
    set_type(path, dtype, shape, name)


def sync(path):
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def status(path):
    return os.getxattr(path, "user.safetensors.status").decode()


def names(path):
    return os.getxattr(path, "user.safetensors.name").decode()


def on_disk(where):
    """Bytes of staged files in an output directory that take room."""
    return sum(os.stat(p).st_blocks * 512 for p in glob.glob(where + "/.staging/**", recursive=True)
               if os.path.isfile(p) and not p.endswith("record"))


class StagingTest(MountTest):
    daemon = None

    def setUp(self):
        super().setUp()
        self.out = self.new_dir("out")
        self.log = self.path("log")

    def output(self, name):
        return os.path.join(self.out, name + ".safetensors")

    def start(self, source=None, *options, before=(), environment=None, settle="off", wait=True):
        """Mounts in the foreground. source None: MODEL. `before` are the words of a command to run it under."""
        if source is None:
            source = self.path("model.safetensors")
            if not os.path.exists(source):
                self.write(MODEL, METADATA)
        self.mnt = self.new_dir()
        words = list(before) + self.command(source, self.mnt, "foreground", "output=" + self.out,
                                            *(["settle=" + str(settle)] if settle else []), *options)
        with open(self.log, "ab") as log:
            self.daemon = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
        self.addCleanup(self.stop)
        self.staging = os.path.join(self.mnt, ".staging")
        if wait:
            wait_for(lambda: self.daemon.poll() is not None or (mounts(self.mnt) and os.path.isdir(self.staging)), "mount")
            self.assertIsNone(self.daemon.poll(), self.said())
        return self.staging

    def stop(self):
        """Unmounts, and waits for the daemon's end, that is, for what it still had to commit."""
        if self.daemon is None:
            return
        self.unmount(self.mnt)
        code = self.daemon.wait(timeout=mounting.PATIENCE)
        self.daemon = None
        return code

    def kill(self):
        for pid in list(processes(self.mnt)) + [self.daemon.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.daemon.wait()
        self.daemon = None
        self.unmount(self.mnt)

    def again(self, source=None, *options, kill=False, **more):
        """Unmounts or kills, and mounts anew."""
        self.kill() if kill else self.stop()
        return self.start(source, *options, **more)

    def said(self):
        return read(self.log).decode(errors="surrogateescape")

    def new_model(self, name="new"):
        path = os.path.join(self.staging, name)
        os.mkdir(path)
        return path

    def assert_sync_fails(self, model, number, why, log=True):
        """fsync fails with that number; the reason, the same each time, stands in the status and in the log."""
        before = len(self.said())
        self.assert_errno(number, sync, model)
        self.assertIn("error: " + why, status(model))
        if log:
            self.assertIn(why, self.said()[before:])

    def assert_holds(self, name, tensors, metadata=None):
        got, meta = load(self.output(name))
        self.assertEqual({n: (d, s, len(b)) for n, (d, s, b) in got.items()},
                         {n: (d, s, len(b)) for n, (d, s, b) in tensors.items()})
        self.assertTrue(got == tensors, "bytes differ")
        if metadata is not None:
            self.assertEqual(meta, metadata)

    def until(self, condition, what="", seconds=mounting.PATIENCE):
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                self.fail("waited in vain: " + what)
            time.sleep(0.02)
