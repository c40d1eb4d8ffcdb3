# SPDX-License-Identifier: MIT
"""What all mount tests share: writing a model, mounting it, and leaving nothing behind. Standard library only.

STBIN names the folder of the commands (default: build).
"""
import contextlib
import errno
import functools
import json
import os
import re
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
import time
import unittest

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BIN = os.path.abspath(os.environ.get("STBIN", "build"))
MOUNT = os.path.join(BIN, "mount.safetensors")
FSCK = os.path.join(BIN, "fsck.safetensors")
ROOT = os.getuid() == 0
PATIENCE = 60   # seconds, for what should take none; a hang is a failure, slowness is not

ITEM = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2, "I32": 4, "U32": 4,
        "F32": 4, "C64": 8, "F64": 8, "I64": 8, "U64": 8}


def needs_root(test):
    test.needs_root = True
    return test


@functools.lru_cache(None)
def namespace():
    """What to put before a command so that nobody else sees what it mounts, and why that is not possible: one of them is None.

    In a chroot whose root is no mount point nothing can be made private; there all must be so already."""
    why = ""
    for argv in (["unshare", "-m"], ["unshare", "-m", "--propagation", "unchanged"]):
        with tempfile.TemporaryDirectory() as d:
            p = subprocess.run(argv + ["mount", "-t", "tmpfs", "none", d], stderr=subprocess.PIPE, text=True)
            if p.returncode == 0 and not os.path.ismount(d):
                return argv, None
            why = why or p.stderr.strip()
            if os.path.ismount(d):
                subprocess.run(["umount", d])
    return None, "mounting is not permitted here: " + why


def model(path, entries, metadata=None):
    """Writes a safetensors file of (name, dtype, shape, bytes), in that order. Returns {name: offset in the file}."""
    head, at, offsets = {}, 0, {}
    if metadata is not None:
        head["__metadata__"] = metadata
    for name, dtype, shape, data in entries:
        head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        offsets[name] = at
        at += len(data)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for e in entries:
            f.write(e[3])
    return {name: 8 + len(text) + off for name, off in offsets.items()}


def pattern(seed, size):
    """Bytes that differ from place to place and from seed to seed."""
    words = (size + 7) // 8
    return struct.pack("<%dQ" % words, *((seed * 0x9E3779B97F4A7C15 + i * 0xBF58476D1CE4E5B9) % 2**64
                                         for i in range(words)))[:size]


def unescape(text):
    """Undoes the \\ooo of /proc/self/mountinfo."""
    return re.sub(r"\\([0-7]{3})", lambda m: chr(int(m.group(1), 8)), text)


def mounts(mnt):
    """The lines of mountinfo for that mount point, as dictionaries."""
    found = []
    with open("/proc/self/mountinfo", errors="surrogateescape") as f:
        for line in f:
            left, right = line.rstrip("\n").split(" - ")
            left, right = left.split(" "), right.split(" ")
            if unescape(left[4]) == mnt:
                found.append({"options": left[5].split(","), "type": right[0], "source": unescape(right[1]),
                              "super": right[2].split(","), "device": left[2]})
    return found


def processes(mnt):
    """{pid: parent's pid} of the living processes that have mnt among their arguments."""
    found = {}
    for p in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open("/proc/%s/cmdline" % p, "rb") as f:
                words = f.read().split(b"\0")
            if os.fsencode(mnt) in words and words[0].endswith(b"mount.safetensors"):
                with open("/proc/%s/stat" % p) as f:
                    state, parent = f.read().rpartition(")")[2].split()[:2]
                if state not in "ZX":
                    found[int(p)] = int(parent)
    return found


def keeper_and_server(mnt):
    """The two processes of a mount."""
    found = processes(mnt)
    server = [p for p, parent in found.items() if parent in found]
    assert len(found) == 2 and len(server) == 1, found
    return found[server[0]], server[0]


def wait_for(condition, what):
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("waited in vain: " + what)
        time.sleep(0.01)


def run(*argv, **more):
    """Runs a command to its end: (status, stdout, stderr)."""
    more.setdefault("stdin", subprocess.DEVNULL)
    p = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="surrogateescape",
                       timeout=PATIENCE * 5, **more)
    return p.returncode, p.stdout, p.stderr


def read(path):
    with open(path, "rb") as f:
        return f.read()


class MountTest(unittest.TestCase):
    """Has a directory of its own, self.tmp; takes down whatever it mounted."""
    maxDiff = 2000

    def setUp(self):
        self.tmp = os.path.realpath(tempfile.mkdtemp(prefix="st-mounts-"))
        os.chmod(self.tmp, 0o755)
        self.addCleanup(self.remove)   # last: cleanups run backwards

    def remove(self):
        for folder, _, _ in os.walk(self.tmp):   # copies of mounts: an ordinary user could not empty them
            os.chmod(folder, 0o700)
        shutil.rmtree(self.tmp)

    def path(self, name):
        return os.path.join(self.tmp, name)

    def new_dir(self, name="mnt"):
        os.makedirs(self.path(name), exist_ok=True)
        return self.path(name)

    def write(self, entries, metadata=None, name="model.safetensors"):
        model(self.path(name), entries, metadata)
        return self.path(name)

    def command(self, source, mnt, *options):
        return [MOUNT] + (["-o", ",".join(options)] if options else []) + [source, mnt]

    def mount(self, source, *options, at="mnt"):
        """Mounts, and returns the mount point."""
        mnt = self.new_dir(at)
        self.addCleanup(self.unmount, mnt)
        status, out, err = run(*self.command(source, mnt, *options))
        self.assertEqual((status, out, err), (0, "", ""))
        self.assertEqual(len(mounts(mnt)), 1)
        return mnt

    def mounted(self, entries, *options, metadata=None):
        return self.mount(self.write(entries, metadata), *options)

    def unmount(self, mnt):
        for argv in (["fusermount3", "-u", mnt], ["umount", mnt], ["umount", "-l", mnt]):
            for _ in range(50):
                if not mounts(mnt):
                    break
                subprocess.run(argv, stderr=subprocess.DEVNULL)
                time.sleep(0.02)
        self.assert_gone(mnt)

    def assert_gone(self, mnt):
        wait_for(lambda: not mounts(mnt), "the mount is still there")
        wait_for(lambda: not processes(mnt), "a daemon outlives its mount")

    def refused(self, source, mnt, *options, status=32, says=""):
        """Tries to mount: must fail with that status and one line, which is returned."""
        self.addCleanup(self.unmount, mnt)
        got, out, err = run(*self.command(source, mnt, *options))
        self.assertEqual((got, out), (status, ""), err)
        self.assertRegex(err, r"\Amount\.safetensors: [^\n]+\n\Z")
        self.assertIn(says, err)
        self.assertEqual(processes(mnt), {})
        return err

    def assert_errno(self, number, call, *args, **more):
        with self.assertRaises(OSError) as caught:
            call(*args, **more)
        self.assertEqual(errno.errorcode[caught.exception.errno], errno.errorcode[number])
