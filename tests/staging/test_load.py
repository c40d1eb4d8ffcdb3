# SPDX-License-Identifier: MIT
"""Many at once, many files, the ways of editors and copiers, and readers who must not notice any of it."""
import mmap
import os
import random
import shutil
import struct
import subprocess
import tarfile
import threading
import time
import unittest

import mounting
from mounting import pattern, read, run
from staging import MODEL, StagingTest, load, put, set_type, stage, status, sync

TENSORS = int(os.environ.get("STAGING_TENSORS", "5000"))


class Many(StagingTest):
    def test_16_writers(self):
        new = (self.start("none", settle=50), self.new_model())[1]
        errors, want = [], {}

        def write(k):
            rng = random.Random(k)
            try:
                os.makedirs(new + "/w%d" % k)
                for i in range(25):
                    data = rng.randbytes(rng.choice([1, 1000, 200000]))
                    p = new + "/w%d/t%d" % (k, i)
                    with open(p, "wb") as f:
                        for at in range(0, len(data), 50000):
                            f.write(data[at:at + 50000])
                    set_type(p, "U8", [len(data)])
                    if read(p) != data:
                        errors.append(p)
                    want["w%d.t%d" % (k, i)] = ("U8", [len(data)], data)
                    with open(new + "/log", "ab", buffering=0) as f:
                        f.write(b"%02d %02d\n" % (k, i))
            except BaseException as e:   # noqa
                errors.append(repr(e))

        threads = [threading.Thread(target=write, args=(k,)) for k in range(16)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        self.assertEqual(errors, [])
        self.assertEqual(sorted(read(new + "/log").split(b"\n")[:-1]),
                         sorted(b"%02d %02d" % (k, i) for k in range(16) for i in range(25)))
        os.unlink(new + "/log")
        sync(new)
        self.assert_holds("new", want)
        self.again("none", kill=True)
        sync(new)
        self.assert_holds("new", want)

    def test_one_file_created_by_all(self):
        """O_CREAT without O_EXCL: it is no error that another was faster."""
        new = (self.start("none"), self.new_model())[1]
        errors = []

        def create():
            for i in range(200):
                try:
                    os.close(os.open(new + "/f%d" % i, os.O_CREAT | os.O_WRONLY))
                except OSError as e:
                    errors.append(e)

        threads = [threading.Thread(target=create) for _ in range(8)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        self.assertEqual(errors, [])

    def test_thousands_of_files(self):
        new = (self.start("none", "dtype=U8"), self.new_model())[1]
        for i in range(TENSORS):
            d = new + "/layers/%d" % (i // 10)
            os.makedirs(d, exist_ok=True)
            put(d + "/t%d" % i, b"%08d" % i)
        sync(new)
        got = load(self.output("new"))[0]
        self.assertEqual(len(got), TENSORS)
        self.assertEqual(got["layers.3.t35"], ("U8", [8], b"00000035"))
        self.again("none", "dtype=U8", kill=True)
        self.assertEqual(sum(len(fs) for _, _, fs in os.walk(new)), TENSORS)
        with open(new + "/layers/3/t35", "r+b") as f:
            f.write(b"X")
        sync(new)
        self.assertEqual(load(self.output("new"))[0]["layers.3.t35"], ("U8", [8], b"X0000035"))
        self.assertEqual(run("rm", "-r", new)[0], 0)
        self.assertEqual(os.listdir(self.staging), [])

    def test_record_stays_small(self):
        """Changed again and again: the record is written anew now and then, and says the same."""
        new = (self.start("none"), self.new_model())[1]
        stage(new + "/w", b"12345678", "U8", [8])
        for i in range(4000):
            os.setxattr(new + "/w", "user.safetensors.name", b"name %d" % i)
            if i % 500 == 0:
                os.rename(new + "/w", new + "/v")
                os.rename(new + "/v", new + "/w")
        self.assertLess(read(self.out + "/.staging/new/record").count(b"\n"), 3000)
        os.setxattr(new + "/w", "user.safetensors.name", b"last")
        self.again("none", kill=True)
        sync(new)
        self.assert_holds("new", {"last": ("U8", [8], b"12345678")})


class Readers(StagingTest):
    def test_readers_do_not_stall(self):
        """Four read the mounted model while commits run. A second is no measure of speed; it is one of a hang."""
        size = 96 << 20
        path = self.write([("t%d" % i, "U8", [size // 4], pattern(i, size // 4)) for i in range(4)])
        new = (self.start(path, settle=50), self.new_model())[1]
        stop, slowest, wrong = threading.Event(), [0.0] * 4, []

        def reader(k):
            want = pattern(k, size // 4)
            fd = os.open(self.mnt + "/t%d" % k, os.O_RDONLY)
            rng = random.Random(k)
            while not stop.is_set():
                at = rng.randrange(0, size // 4 - 65536)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                begin = time.monotonic()
                data = os.pread(fd, 65536, at)
                slowest[k] = max(slowest[k], time.monotonic() - begin)
                if data != want[at:at + 65536]:
                    wrong.append((k, at))
            os.close(fd)

        threads = [threading.Thread(target=reader, args=(k,)) for k in range(4)]
        [t.start() for t in threads]
        try:
            for i in range(4):
                run("cp", self.mnt + "/t%d" % i, new + "/")
                stage(new + "/own%d" % i, bytes(8 << 20), "U8", [8 << 20])
                sync(new)
        finally:
            stop.set()
            [t.join() for t in threads]
        self.assertEqual(wrong, [])
        self.assertLess(max(slowest), 10)   # commonly some milliseconds

    def test_read_while_written(self):
        """What is read of a file that others write and cut: never an error, never bytes that nobody wrote."""
        new = (self.start("none"), self.new_model())[1]
        stop, errors = threading.Event(), []

        def writer():
            with open(new + "/w", "r+b", buffering=0) as f:
                while not stop.is_set():
                    f.seek(0)
                    f.write(b"a" * 100000)
                    f.truncate(1000)

        def reader():
            try:
                while not stop.is_set():
                    if read(new + "/w").strip(b"a\0"):
                        errors.append("strange bytes")
            except OSError as e:
                errors.append(e)

        put(new + "/w", b"")
        threads = [threading.Thread(target=t) for t in (writer, reader, reader)]
        [t.start() for t in threads]
        time.sleep(2)
        stop.set()
        [t.join() for t in threads]
        self.assertEqual(errors, [])


class Programs(StagingTest):
    """Editors and copiers do more than write."""

    def setUp(self):
        super().setUp()
        self.start()
        self.new = self.new_model()
        stage(self.new + "/w", b"hello world\n", "U8", [12])

    def check(self, data):
        self.assertEqual(read(self.new + "/w"), data)
        set_type(self.new + "/w", "U8", [len(data)])
        sync(self.new)
        self.assert_holds("new", {"w": ("U8", [len(data)], data)})

    def test_sed(self):
        self.assertEqual(run("sed", "-i", "s/hello/HELLO, /", self.new + "/w")[::2], (0, ""))
        self.check(b"HELLO,  world\n")

    def test_temporary_and_rename(self):
        put(self.new + "/.w.tmp", b"other")
        os.rename(self.new + "/.w.tmp", self.new + "/w")
        self.check(b"other")

    @unittest.skipUnless(shutil.which("vim"), "no vim")
    def test_vim(self):
        code, _, err = run("vim", "-u", "NONE", "-es", "-c", "set backup swapfile writebackup backupskip=", "-c", "%s/hello/bye/", "-c", "wq",
                           self.new + "/w", env=dict(os.environ, TERM="dumb"))
        self.assertEqual(code, 0, err)
        self.assertEqual(sorted(os.listdir(self.new)), ["w", "w~"])   # its backup, which is ignored
        set_type(self.new + "/w", "U8", [10])
        self.assertEqual(status(self.new), "pending, ignored 1")
        self.check(b"bye world\n")

    @unittest.skipUnless(shutil.which("rsync"), "no rsync")
    def test_rsync(self):
        code, _, err = run("rsync", "-aX", self.mnt + "/model", self.new + "/")
        self.assertEqual((code, err), (0, ""))
        os.unlink(self.new + "/w")
        sync(self.new)
        self.assert_holds("new", {n: (d, s, b) for n, d, s, b in MODEL if n.startswith("model.")})

    def test_tar(self):
        self.assertEqual(run("sh", "-c", "tar -C '%s' --xattrs -cf - model | tar -C '%s' --xattrs --xattrs-include='user.*' -xf -"
                             % (self.mnt, self.new))[::2], (0, ""))
        os.unlink(self.new + "/w")
        sync(self.new)
        self.assert_holds("new", {n: (d, s, b) for n, d, s, b in MODEL if n.startswith("model.")})

    def test_cp_of_a_staged_model(self):
        self.assertEqual(run("cp", "--preserve=all", "-r", self.new, self.staging + "/twin")[::2], (0, ""))
        sync(self.staging + "/twin")
        self.assert_holds("twin", {"w": ("U8", [12], b"hello world\n")})

    def test_dd_and_mapping(self):
        self.assertEqual(run("dd", "if=/dev/zero", "of=" + self.new + "/w", "bs=3", "seek=1", "count=1", "conv=notrunc,fsync")[0], 0)
        with open(self.new + "/w", "r+b") as f, mmap.mmap(f.fileno(), 0) as m:
            m[0:3] = b"MAP"
        self.check(b"MAP\0\0\0world\n")

    def test_numpy(self):
        code, _, err = run("/usr/bin/python3", "-c", """if 1:
            import numpy as n, sys
            d = sys.argv[1]
            n.save(d + "/a.npy", n.arange(6, dtype="<i4").reshape(2, 3))
            m = n.lib.format.open_memmap(d + "/m.npy", mode="w+", dtype="<f4", shape=(4,))
            m[:] = [1, 2, 3, 4]
            m.flush()
            """, self.new)
        if "No module" in err:
            self.skipTest("no numpy")
        self.assertEqual(code, 0, err)
        os.unlink(self.new + "/w")
        sync(self.new)
        self.assert_holds("new", {"a": ("I32", [2, 3], struct.pack("<6i", *range(6))), "m": ("F32", [4], struct.pack("<4f", 1, 2, 3, 4))})
