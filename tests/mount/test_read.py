# SPDX-License-Identifier: MIT
"""Reading tensors: pread, mmap, many threads at once, and how little is touched."""
import contextlib
import ctypes
import errno
import json
import mmap
import os
import random
import signal
import struct
import subprocess
import threading
import unittest

from mounting import ITEM, MountTest, keeper_and_server, needs_root, pattern, read

PAGE = mmap.PAGESIZE
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]


def cached(path, begin, size):
    """How many pages of that range of a file lie in memory: mincore(2)."""
    with open(path, "rb") as f:
        start = begin // PAGE * PAGE
        length = begin + size - start
        at = libc.mmap(None, length, mmap.PROT_READ, mmap.MAP_SHARED, f.fileno(), start)
        pages = (ctypes.c_ubyte * ((length + PAGE - 1) // PAGE))()
        assert libc.mincore(ctypes.c_void_p(at), ctypes.c_size_t(length), pages) == 0
        libc.munmap(ctypes.c_void_p(at), ctypes.c_size_t(length))
        return sum(p & 1 for p in pages)


def private_memory(pid):
    with open("/proc/%d/status" % pid) as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith("RssAnon"))


class Read(MountTest):
    def test_every_place_and_size(self):
        data = pattern(3, 300000)
        path = self.mounted([("odd", "U8", [5], b"12345"), ("w", "U8", [len(data)], data)]) + "/w"
        fd = os.open(path, os.O_RDONLY)
        self.addCleanup(os.close, fd)
        rng = random.Random(1)
        for at, size in [(0, 1), (0, 300000), (0, 400000), (299999, 1), (299999, 9), (300000, 1), (10**9, 5)] + \
                [(rng.randrange(300000), rng.randrange(1, 70000)) for _ in range(200)]:
            self.assertEqual(os.pread(fd, size, at), data[at:at + size], (at, size))

    def test_mmap_begins_at_the_first_element(self):
        data = pattern(4, 3 * PAGE + 7)
        path = self.mounted([("odd", "U8", [3], b"abc"), ("w", "U8", [len(data)], data)]) + "/w"
        with open(path, "rb") as f:
            for flags in (mmap.MAP_SHARED, mmap.MAP_PRIVATE):
                m = mmap.mmap(f.fileno(), len(data), flags, mmap.PROT_READ)
                self.assertEqual(m[:], data)
                m.close()

    def test_empty_tensors_and_models(self):
        mnt = self.mounted([("none", "F32", [0, 7], b""), ("scalar", "I64", [], b"\1" + bytes(7))])
        self.assertEqual(read(mnt + "/none"), b"")
        self.assertEqual(os.stat(mnt + "/none").st_size, 0)
        self.assertEqual(read(mnt + "/scalar"), b"\1" + bytes(7))
        empty = self.mount(self.write([], name="empty.safetensors"), at="empty")
        self.assertEqual(os.listdir(empty), [])

    def test_writing_is_refused(self):
        path = self.mounted([("w", "U8", [3], b"abc")]) + "/w"
        # An ordinary user is told EACCES where the mode says so, before the kernel looks at the mount.
        may = (errno.EROFS, errno.EACCES)
        for call in (lambda: os.open(path, os.O_WRONLY), lambda: os.open(path, os.O_RDWR), lambda: os.unlink(path),
                     lambda: os.mkdir(path + "2"), lambda: os.chmod(path, 0o600), lambda: os.truncate(path, 0),
                     lambda: os.rename(path, path + "2"), lambda: os.symlink("x", path + "2"),
                     lambda: os.open(path + "2", os.O_WRONLY | os.O_CREAT)):
            with self.assertRaises(OSError) as e:
                call()
            self.assertIn(e.exception.errno, may)
        self.assertEqual(read(path), b"abc")

    def threads(self, *options):
        n, size = 64, 200 * 1024 + 13
        data = [pattern(i, size) for i in range(n)]
        mnt = self.mounted([("t%d" % i, "U8", [size], data[i]) for i in range(n)], *options)
        start, wrong = threading.Barrier(2 * n), []

        def by_pread(i):
            fd = os.open("%s/t%d" % (mnt, i), os.O_RDONLY)
            start.wait()
            got = b"".join(os.pread(fd, 7001, at) for at in range(0, size, 7001))
            os.close(fd)
            if got != data[i]:
                wrong.append("pread %d" % i)

        def by_mmap(i):
            with open("%s/t%d" % (mnt, i), "rb") as f, mmap.mmap(f.fileno(), size, prot=mmap.PROT_READ) as m:
                start.wait()
                for at in random.Random(i).sample(range(0, size, PAGE), size // PAGE):   # faults all over
                    if m[at] != data[i][at]:
                        wrong.append("fault %d" % i)
                if m[:] != data[i]:
                    wrong.append("mmap %d" % i)

        everyone = [threading.Thread(target=f, args=(i,)) for i in range(n) for f in (by_pread, by_mmap)]
        for t in everyone:
            t.start()
        for t in everyone:
            t.join()
        self.assertEqual(wrong, [])

    def test_64_threads_read_while_64_map(self):
        self.threads()

    def test_the_same_with_two_threads_answering(self):
        self.threads("max_threads=2")

    def large(self):
        """4 GiB, nearly all of it a hole. Returns the source, where its 64 tensors begin, and their size."""
        size = 64 << 20
        source = self.path("large.safetensors")
        text = json.dumps({"t%02d" % i: {"dtype": "U8", "shape": [size], "data_offsets": [i * size, (i + 1) * size]}
                           for i in range(64)}).encode()
        text += b" " * (-(8 + len(text)) % PAGE)
        start = 8 + len(text)
        with open(source, "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text)
            f.truncate(start + 64 * size)
            f.seek(start + 40 * size)
            f.write(pattern(40, 1 << 20))
            os.fsync(f.fileno())
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return source, start, size

    def test_only_what_is_read_is_touched(self):
        source, start, size = self.large()
        mnt = self.mount(source)
        with open(mnt + "/t40", "rb") as f:
            got = f.read()
        self.assertEqual(got[:1 << 20], pattern(40, 1 << 20))
        self.assertEqual(got.count(b"\0", 1 << 20), size - (1 << 20))
        self.assertEqual(cached(source, start + 40 * size, size), size // PAGE)
        # Beyond the edges, and behind the header, reaches what the source's own file system reads ahead.
        self.assertEqual([i for i in range(64) if cached(source, start + i * size, size) and i not in (0, 39, 40, 41)],
                         [])

    def test_the_server_keeps_nothing_of_what_it_serves(self):
        source, _, size = self.large()
        mnt = self.mount(source)
        server = keeper_and_server(mnt)[1]
        read(mnt + "/t01")   # warm: threads and buffers are there
        before = private_memory(server)
        for i in range(2, 10):
            read("%s/t%02d" % (mnt, i))
        self.assertLess(private_memory(server) - before, 8 << 20)   # of 512 MiB read

    @unittest.skipIf("ASAN_OPTIONS" in os.environ, "the sanitizer holds on to what is freed")
    def test_opening_leaves_nothing_behind(self):
        mnt = self.mounted([("w", "U8", [3], b"abc")])
        server = keeper_and_server(mnt)[1]

        def often():
            for _ in range(20000):
                os.close(os.open(mnt + "/w", os.O_RDONLY))
        often()
        before = private_memory(server)
        often()
        self.assertLess(private_memory(server) - before, 2 << 20)   # 105 bytes each

    def test_direct_io(self):
        data = pattern(9, 1000003)
        mnt = self.mounted([("w", "U8", [len(data)], data)], "direct_io")
        self.assertEqual(read(mnt + "/w"), data)
        self.assertEqual(read(mnt + "/w.npy")[-len(data):], data)
        fd = os.open(mnt + "/w", os.O_RDONLY)
        self.addCleanup(os.close, fd)
        self.assertEqual(os.pread(fd, 100, 999990), data[999990:])

    @needs_root
    @unittest.skipUnless(os.access("/sys/class/bdi", os.W_OK), "no /sys that is writable")
    def test_readahead(self):
        for option, want in ((None, 2048), ("readahead=64K", 64), ("readahead=4M", 4096),
                             ("readahead=65536", 64), ("readahead=1G", 1 << 20)):
            with self.subTest(option):
                mnt = self.mounted([("w", "U8", [1], b"x")], *filter(None, [option]))
                device = os.stat(mnt).st_dev
                bdi = "/sys/class/bdi/%d:%d/read_ahead_kb" % (os.major(device), os.minor(device))
                self.assertEqual(int(read(bdi)), want)
                self.unmount(mnt)

    def test_types_have_their_sizes(self):
        entries = [("t_" + d, d, [3, 5], pattern(n, 15 * size)) for n, (d, size) in enumerate(ITEM.items())]
        entries.sort(key=lambda e: -len(e[3]))
        mnt = self.mounted(entries)
        for name, dtype, _, data in entries:
            self.assertEqual(os.stat(mnt + "/" + name).st_size, 15 * ITEM[dtype])
            self.assertEqual(read(mnt + "/" + name), data)

    def test_interrupted_readers_harm_nobody(self):
        data = pattern(5, 8 << 20)
        mnt = self.mounted([("w", "U8", [len(data)], data)], "direct_io")
        readers = [subprocess.Popen(["dd", "if=" + mnt + "/w", "of=/dev/null", "bs=64k"], stderr=subprocess.DEVNULL)
                   for _ in range(8)]
        for p in readers:
            with contextlib.suppress(ProcessLookupError):
                p.send_signal(signal.SIGKILL)
        for p in readers:
            p.wait()
        self.assertEqual(read(mnt + "/w"), data)
