# SPDX-License-Identifier: MIT
"""When a model is committed, how, and what is said about it."""
import errno
import os
import shutil
import signal
import struct
import subprocess
import threading
import time

import mounting
from mounting import MountTest, mounts, needs_root, pattern, processes, read, run
from staging import MODEL, StagingTest, load, npy, put, set_type, stage, status, sync

BIG = 192 << 20   # long enough to be caught while it is written


class ByItself(StagingTest):
    def test_complete(self):
        """Incomplete: nothing, and no noise. Complete: once it has been quiet for the time to settle."""
        new = (self.start("none", settle=200), self.new_model())[1]
        self.assertEqual(status(new), "incomplete: no tensor yet")
        put(new + "/w", b"abcd")
        for junk in (".DS_Store", "w~", ".w.swp"):
            put(new + "/" + junk, b"junk")
        self.assertEqual(status(new), "incomplete: 'w': no dtype (set user.dtype), ignored 3")
        time.sleep(0.6)
        self.assertFalse(os.path.exists(self.output("new")))
        self.assertEqual(self.said(), "")
        set_type(new + "/w", "U8", [4])
        self.until(lambda: os.path.exists(self.output("new")), "commit")
        size = os.stat(self.output("new")).st_size
        self.until(lambda: status(new) == "committed %d, ignored 3" % size, "status: " + status(new))
        self.assert_holds("new", {"w": ("U8", [4], b"abcd")})
        self.assertEqual(self.said(), "mount.safetensors: new.safetensors: committed %d bytes\n" % size)
        set_type(new + "/w~", "U8", [4])   # with a type it is no junk
        self.until(lambda: set(load(self.output("new"))[0]) == {"w", "w~"}, "second commit")

    def test_not_while_it_is_written(self):
        new = (self.start("none", settle=600), self.new_model())[1]
        for i in range(30):
            begin = time.monotonic()
            stage(new + "/w%d" % i, b"x", "U8", [1])
            time.sleep(0.05)
            written = os.path.exists(self.output("new"))
            if time.monotonic() - begin > 0.5:
                self.skipTest("the machine stood still for longer than it takes to settle")
            self.assertFalse(written)
        self.until(lambda: os.path.exists(self.output("new")), "commit")
        self.assertEqual(len(load(self.output("new"))[0]), 30)
        inode = os.stat(self.output("new")).st_ino
        time.sleep(1)
        self.assertEqual(os.stat(self.output("new")).st_ino, inode)   # unchanged: not again

    def test_never_empty(self):
        new = (self.start("none", settle=100), self.new_model())[1]
        stage(new + "/w", b"x", "U8", [1])
        self.until(lambda: os.path.exists(self.output("new")), "commit")
        was = read(self.output("new"))
        os.unlink(new + "/w")
        time.sleep(0.5)
        self.assertEqual(read(self.output("new")), was)
        self.assertEqual(status(new), "incomplete: no tensor yet")
        self.stop()
        self.assertEqual(read(self.output("new")), was)
        self.start("none")
        sync(new)   # asked for, it is: a file without tensors
        self.assert_holds("new", {})

    def test_never_onto_a_foreign_file(self):
        put(self.output("new"), b"precious")
        new = (self.start("none", settle=100), self.new_model())[1]
        stage(new + "/w", b"x", "U8", [1])
        time.sleep(0.6)
        self.assertEqual(status(new), "pending: %s exists, sync to replace it" % self.output("new"))
        self.assertEqual(read(self.output("new")), b"precious")
        self.stop()   # nor at the end
        self.assertEqual(read(self.output("new")), b"precious")
        self.start("none", settle=100)
        sync(new)
        self.assert_holds("new", {"w": ("U8", [1], b"x")})
        stage(new + "/v", b"y", "U8", [1])   # now it is ours
        self.until(lambda: "v" in load(self.output("new"))[0], "commit")
        time.sleep(0.3)
        put(self.output("new"), b"precious")  # and now it is not
        stage(new + "/u", b"y", "U8", [1])
        time.sleep(0.6)
        self.assertEqual(read(self.output("new")), b"precious")
        self.assertEqual(status(new), "pending: %s exists, sync to replace it" % self.output("new"))

    def test_ours_after_a_remount(self):
        new = (self.start("none", settle=100), self.new_model())[1]
        stage(new + "/w", b"x", "U8", [1])
        self.until(lambda: os.path.exists(self.output("new")), "commit")
        self.until(lambda: status(new).startswith("committed"), "status")
        for kill in (False, True):
            self.again("none", settle=100, kill=kill)
            self.assertEqual(status(new), "committed %d" % os.stat(self.output("new")).st_size)
            stage(new + "/w%d" % kill, b"y", "U8", [1])
            self.until(lambda: "w%d" % kill in load(self.output("new"))[0], "commit")
            self.until(lambda: status(new).startswith("committed"), "status")

    def test_off(self):
        new = (self.start("none"), self.new_model())[1]
        stage(new + "/w", b"x", "U8", [1])
        time.sleep(1.5)
        self.assertEqual(status(new), "pending")
        self.stop()
        self.assertFalse(os.path.exists(self.output("new")))

    def test_removing(self):
        new = (self.start("none", settle=100), self.new_model())[1]
        for n in "ab":
            stage(new + "/" + n, b"x", "U8", [1])
        sync(new)
        inode = os.stat(self.output("new")).st_ino
        shutil.rmtree(new)
        time.sleep(0.5)
        self.stop()
        self.assertEqual(os.stat(self.output("new")).st_ino, inode)

    def test_an_edit_cancels(self):
        """While it runs by itself: what is written is then the new state, the old one never."""
        new = (self.start("none", settle=100), self.new_model())[1]
        with open(new + "/big", "wb") as f:
            f.truncate(BIG)
        set_type(new + "/big", "U8", [BIG])
        self.until(lambda: status(new).startswith("committing"), "commit begins")
        stage(new + "/more", b"x", "U8", [1])
        self.until(lambda: status(new).startswith("committed"), "commit")
        with open(self.output("new"), "rb") as f:
            head = f.read(struct.unpack("<Q", f.read(8))[0])
        self.assertIn(b'"more"', head)
        self.assertEqual(self.said().count("committed"), 1)
        self.assertEqual(self.said().count("\n"), 1)   # a cancelled one is no failure

    def ends(self, how):
        new = (self.start("none", settle=60000), self.new_model())[1]
        other = self.new_model("incomplete")
        stage(new + "/w", b"x", "U8", [1])
        put(other + "/w", b"x")
        how()
        self.daemon.wait(timeout=60)
        self.assert_holds("new", {"w": ("U8", [1], b"x")})
        self.assertEqual(sorted(os.listdir(self.out)), [".staging", "new.safetensors"])

    def test_at_unmount(self):
        self.ends(lambda: self.unmount(self.mnt))

    def test_at_sigterm(self):
        self.ends(lambda: os.kill(self.daemon.pid, signal.SIGTERM))

    def test_model_renamed(self):
        new = (self.start("none", settle=100), self.new_model())[1]
        stage(new + "/w", b"x", "U8", [1])
        self.until(lambda: status(new).startswith("committed"), "commit")
        os.rename(new, self.staging + "/other")
        self.until(lambda: os.path.exists(self.output("other")), "commit")
        self.until(lambda: status(self.staging + "/other").startswith("committed"), "status")
        self.stop()
        self.start("none")
        os.rename(self.staging + "/other", self.staging + "/third")
        self.again("none", kill=True)
        self.assertEqual(status(self.staging + "/third"), "pending")   # a change, though no byte is another


class Asked(StagingTest):
    def test_at_once_whatever_is_open(self):
        new = (self.start("none", settle=60000), self.new_model())[1]
        os.mkdir(new + "/d")
        with open(new + "/d/w", "wb") as f:
            f.write(b"abcd")
            f.flush()
            set_type(new + "/d/w", "U8", [4])
            sync(new + "/d")   # of a directory inside
            self.assert_holds("new", {"d.w": ("U8", [4], b"abcd")})
            f.write(b"efgh")
            f.flush()
        self.assertEqual(status(new).split(":")[0], "incomplete")
        set_type(new + "/d/w", "U8", [8])
        self.assertEqual(run("sync", new)[0], 0)
        self.assert_holds("new", {"d.w": ("U8", [8], b"abcdefgh")})
        sync(self.staging)   # of no model: nothing to do

    def test_file_fsync(self):
        new = (self.start("none"), self.new_model())[1]
        with open(new + "/w", "wb") as f:
            f.write(b"x")
            os.fsync(f.fileno())
        self.assertFalse(os.path.exists(self.output("new")))
        self.assertEqual(status(new), "incomplete: 'w': no dtype (set user.dtype)")

    def test_interrupted(self):
        new = (self.start("none"), self.new_model())[1]
        other = self.new_model("other")
        stage(other + "/w", b"x", "U8", [1])
        for i in range(8):
            with open(new + "/big%d" % i, "wb") as f:
                f.truncate(BIG)
            set_type(new + "/big%d" % i, "U8", [BIG])
        put(self.output("new"), b"old")
        first = subprocess.Popen(["sync", new], stderr=subprocess.PIPE)
        self.until(lambda: status(new).startswith("committing"), "commit begins")
        queued = subprocess.Popen(["sync", other], stderr=subprocess.PIPE)
        time.sleep(0.1)
        queued.send_signal(signal.SIGINT)   # behind the other: need not wait for it
        self.assertEqual(queued.wait(timeout=60), -signal.SIGINT)
        self.assertTrue(status(new).startswith("committing"), status(new))
        self.assertRegex(status(new), r"\Acommitting \d+%\Z")
        first.send_signal(signal.SIGINT)
        self.assertEqual(first.wait(timeout=60), -signal.SIGINT)
        for p in (first, queued):
            p.stderr.close()
        self.assertEqual(read(self.output("new")), b"old")
        self.until(lambda: status(new).startswith("error: stopped"), status(new))
        self.assertEqual(sorted(os.listdir(self.out)), [".staging", "new.safetensors"])

    def test_killed_while_it_waits(self):
        """Nobody waits any more for what a sync asked for: unmounting then does not hang."""
        new = (self.start("none"), self.new_model())[1]
        for i in range(4):
            with open(new + "/big%d" % i, "wb") as f:
                f.truncate(BIG)
            set_type(new + "/big%d" % i, "U8", [BIG])
        p = subprocess.Popen(["sync", new], stderr=subprocess.DEVNULL)
        self.until(lambda: status(new).startswith("committing"), "commit begins")
        os.kill(self.daemon.pid, signal.SIGTERM)
        self.assertNotEqual(p.wait(timeout=60), 0)
        self.daemon.wait(timeout=60)
        self.assertEqual(set(load(self.output("new"))[0]), {"big%d" % i for i in range(4)})   # it was asked for

    def test_mapped(self):
        """Bytes written through a mapping count once the mapping is gone."""
        import mmap
        new = (self.start("none"), self.new_model())[1]
        stage(new + "/w", bytes(10000), "U8", [10000])
        with open(new + "/w", "r+b") as f:
            m = mmap.mmap(f.fileno(), 10000)
        m[5000:5005] = b"HELLO"
        m.flush()
        m[6000:6005] = b"AGAIN"
        m.close()
        sync(new)
        want = bytearray(10000)
        want[5000:5005], want[6000:6005] = b"HELLO", b"AGAIN"
        self.assert_holds("new", {"w": ("U8", [10000], bytes(want))})

    def test_onto_the_mounted_file(self):
        path = self.output("own")
        mounting.model(path, MODEL)
        own = (self.start(path), self.new_model("own"))[1]
        run("cp", self.mnt + "/model/h/0/k", own + "/renamed")
        sync(own)
        self.assert_holds("own", {"renamed": MODEL[2][1:]})
        for name, _, _, data in MODEL[1:4]:
            self.assertEqual(read(self.mnt + "/" + name.replace(".", "/")), data)


class Bad(StagingTest):
    """Each a clear error on sync, in the status and in the log; nothing lost, the last good output untouched."""

    def good(self, *options):
        new = (self.start("none", *options), self.new_model())[1]
        stage(new + "/w", b"good", "U8", [4])
        return new

    def test_target_is_a_directory(self):
        new = self.good()
        os.mkdir(self.output("new"))
        self.assertIn("exists, sync to replace it", status(new))
        self.assert_sync_fails(new, errno.EISDIR, "cannot be replaced: Is a directory")
        os.rmdir(self.output("new"))
        sync(new)
        self.assert_holds("new", {"w": ("U8", [4], b"good")})

    def test_target_is_a_symlink(self):
        new = self.good()
        put(self.path("elsewhere"), b"untouched")
        os.symlink(self.path("elsewhere"), self.output("new"))
        sync(new)
        self.assertEqual(read(self.path("elsewhere")), b"untouched")
        self.assertFalse(os.path.islink(self.output("new")))
        self.assert_holds("new", {"w": ("U8", [4], b"good")})

    def small(self, size):
        self.assertEqual(run("mount", "-t", "tmpfs", "-o", "size=" + size, "st-staging", self.out)[0], 0)
        self.addCleanup(run, "umount", "-l", self.out)

    @needs_root
    def test_full(self):
        self.small("8m")
        path = self.write([("t", "U8", [6 << 20], pattern(1, 6 << 20))])
        new = (self.start(path), self.new_model())[1]
        run("cp", self.mnt + "/t", new + "/a")
        sync(new)
        was = read(self.output("new"))
        stage(new + "/w", b"x" * (1 << 20), "U8", [1 << 20])
        need = 8 + 8 * ((len('{"a":{"dtype":"U8","shape":[6291456],"data_offsets":[0,6291456]},'
                             '"w":{"dtype":"U8","shape":[1048576],"data_offsets":[6291456,7340032]}}') + 7) // 8) + (7 << 20)
        self.assert_sync_fails(new, errno.ENOSPC, "%d bytes needed, " % need)
        self.assertEqual(read(self.output("new")), was)
        with open(new + "/more", "wb", buffering=0) as f, self.assertRaises(OSError) as caught:
            for _ in range(16):
                f.write(b"y" * (1 << 20))
        self.assertEqual(caught.exception.errno, errno.ENOSPC)
        os.unlink(new + "/more")
        self.again(path, kill=True)
        self.assertEqual(read(new + "/w"), b"x" * (1 << 20))
        os.unlink(self.output("new"))
        os.unlink(new + "/a")
        sync(new)
        self.assert_holds("new", {"w": ("U8", [1 << 20], b"x" * (1 << 20))})

    @needs_root
    def test_not_one_byte_free(self):
        self.small("256k")
        new = self.good()
        sync(new)
        with open(self.out + "/filler", "wb", buffering=0) as f:
            try:
                while True:
                    f.write(bytes(4096))
            except OSError:
                pass
        filled = 0
        for i in range(3000):
            try:
                put(new + "/n%04d" % i, b"")
                filled = i
            except OSError as e:
                self.assertEqual(e.errno, errno.ENOSPC)
                break
        else:
            self.fail("the record never fills the disk")
        with self.assertRaises(OSError):
            os.setxattr(new + "/w", "user.shape", b"[1]")
        self.assertEqual(os.getxattr(new + "/w", "user.shape"), b"[4]")
        os.unlink(self.out + "/filler")
        self.again("none", kill=True)
        self.assertNotIn("makes no sense", self.said())
        self.assertEqual(len(os.listdir(new)), filled + 2)
        self.assertEqual(read(new + "/w"), b"good")

    @needs_root
    def test_read_only(self):
        self.small("1m")
        new = self.good()
        sync(new)
        was = read(self.output("new"))
        self.assertEqual(run("mount", "-o", "remount,ro", self.out)[0], 32)   # in use: not while we are there
        self.stop()
        self.assertEqual(run("mount", "-o", "remount,ro", self.out)[0], 0)
        os.makedirs(self.path("m2"))
        self.refused("none", self.path("m2"), "output=" + self.out, says="Read-only file system")
        self.assertEqual(run("mount", "-o", "remount,rw", self.out)[0], 0)
        self.assertEqual(read(self.output("new")), was)
        self.start("none")
        sync(new)

    def test_large_header(self):
        """Over the 100 MB that the format allows: some 2,000 entries of metadata of nearly 64 KiB each."""
        new = self.good()
        sync(new)
        was = read(self.output("new"))
        value = b"v" * 65000
        for i in range(1600):
            os.setxattr(new, "user.metadata.k%d" % i, value)
        self.assert_sync_fails(new, errno.EFBIG, "")
        self.assertEqual(read(self.output("new")), was)

    def test_lock(self):
        self.good()
        os.makedirs(self.path("m2"))
        start = time.monotonic()
        self.refused("none", self.path("m2"), "output=" + self.out, says="another mount has it")
        self.assertGreater(time.monotonic() - start, 2)
        self.stop()

    def test_lock_is_waited_for(self):
        """A remount while the old daemon still commits."""
        self.good()
        m2 = self.new_dir("m2")
        p = subprocess.Popen(self.command("none", m2, "settle=off", "output=" + self.out), stderr=subprocess.PIPE)
        self.addCleanup(self.unmount, m2)
        time.sleep(0.5)
        self.assertIsNone(p.poll())
        self.stop()
        self.assertEqual(p.communicate(timeout=60)[1], b"")
        self.assertEqual(os.listdir(m2 + "/.staging"), ["new"])

    @needs_root
    def test_staging_of_somebody_else(self):
        """Who could write a record could have any file of root's shown to him."""
        os.mkdir(self.out + "/.staging")
        os.chown(self.out + "/.staging", 1234, 2345)
        os.makedirs(self.path("m2"))
        self.refused("none", self.path("m2"), "output=" + self.out, says="belongs to somebody else", status=1)

    def test_leftovers(self):
        put(self.out + "/.safetensors-0123456789abcdef.tmp", b"of a crash")
        put(self.out + "/.safetensors-0123456789abcdee.tmp", b"of one at work")
        put(self.out + "/.safetensors-mine.tmp", b"no such thing")
        import fcntl
        with open(self.out + "/.safetensors-0123456789abcdee.tmp") as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            self.start("none")
        self.assertEqual(sorted(os.listdir(self.out)), [".safetensors-0123456789abcdee.tmp", ".safetensors-mine.tmp", ".staging"])

    def test_damaged_record(self):
        new = self.good()
        for i in range(5):
            put(new + "/f%d" % i, b"%d" % i)
        self.stop()
        record = self.out + "/.staging/new/record"
        lines = read(record).split(b"\n")
        own = next(i for i, l in enumerate(lines) if b'"own":"f3"' in l)
        lines[own] = b'{"own":"f3",'
        put(record, b"\n".join(lines) + b'{"file":"cut of')
        before = sorted(os.listdir(self.out + "/.staging/new"))
        self.start("none")
        self.assertIn("new: line %d of its record makes no sense and is passed over" % (own + 1), self.said())
        self.assertEqual(read(new + "/f2"), b"2")
        self.assertEqual(read(new + "/w"), b"good")
        self.assertEqual(sorted(os.listdir(self.out + "/.staging/new")), before)   # above all the bytes of f3

    def test_newer_record(self):
        self.good()
        self.stop()
        record = self.out + "/.staging/new/record"
        put(record, read(record).replace(b'"version":1', b'"version":2', 1))
        was = read(record)
        os.makedirs(self.path("m2"))
        p = subprocess.run(self.command("none", self.path("m2"), "output=" + self.out), stderr=subprocess.PIPE, text=True)
        self.assertEqual(p.returncode, 32)
        self.assertIn("its record is of a newer version", p.stderr)
        self.assertEqual(read(record), was)


class Files(StagingTest):
    """What programs expect of files."""

    def test_open_and_unlinked(self):
        new = (self.start(), self.new_model())[1]
        run("cp", self.mnt + "/model/big", new + "/ref")
        put(new + "/own", b"abcdef")
        put(new + "/over", b"over")
        a, b, c = (open(new + "/" + n, "r+b", buffering=0) for n in ("ref", "own", "over"))
        self.addCleanup(lambda: [f.close() for f in (a, b, c)])
        os.unlink(new + "/ref")
        os.unlink(new + "/own")
        os.rename(self.renamed(new), new + "/over")
        for f, data in ((a, MODEL[1][3]), (b, b"abcdef"), (c, b"over")):
            self.assertEqual(f.read(), data)
            f.seek(2)
            f.write(b"XY")
            f.seek(0)
            self.assertEqual(f.read(), data[:2] + b"XY" + data[4:])
        shutil.rmtree(new)
        self.assertEqual(os.listdir(self.out + "/.staging"), [".lock"])
        for f, data in ((a, MODEL[1][3]), (b, b"abcdef"), (c, b"over")):
            f.seek(1)
            f.write(b"Z")
            f.seek(0)
            self.assertEqual(f.read(), data[:1] + b"ZXY" [0:1] + b"XY" + data[4:])
        os.ftruncate(a.fileno(), 3)
        a.seek(0)
        self.assertEqual(len(a.read()), 3)

    def renamed(self, new):
        put(new + "/other", b"other")
        return new + "/other"

    def test_written_after_the_model_is_gone(self):
        """The first byte of its own that such a file gets."""
        new = (self.start(), self.new_model())[1]
        run("cp", self.mnt + "/model/big", new + "/ref")
        with open(new + "/ref", "r+b", buffering=0) as f:
            shutil.rmtree(new)
            f.write(b"first")
            f.seek(0)
            self.assertEqual(f.read(), b"first" + MODEL[1][3][5:])

    def test_append(self):
        new = (self.start("none"), self.new_model())[1]
        a, b = (os.open(new + "/w", os.O_WRONLY | os.O_CREAT | os.O_APPEND) for _ in range(2))
        for i in range(100):
            os.write((a, b)[i % 2], b"%02d" % i)
        os.close(a)
        os.close(b)
        self.assertEqual(read(new + "/w"), b"".join(b"%02d" % i for i in range(100)))

    def test_truncate(self):
        new = (self.start(), self.new_model())[1]
        big = MODEL[1][3]
        run("cp", self.mnt + "/model/big", new + "/w")
        for size, want in ((100000, big[:100000]), (150000, big[:100000] + bytes(50000)), (50, big[:50]), (60, big[:50] + bytes(10)),
                           (0, b""), (5, bytes(5))):
            os.truncate(new + "/w", size)
            self.assertEqual(read(new + "/w"), want)
            self.again(kill=True)
            self.assertEqual(read(new + "/w"), want)

    def test_sparse_and_too_far(self):
        new = (self.start("none"), self.new_model())[1]
        fd = os.open(new + "/w", os.O_RDWR | os.O_CREAT)
        os.pwrite(fd, b"end", 1 << 40)
        self.assertEqual(os.fstat(fd).st_size, (1 << 40) + 3)
        self.assertEqual(os.pread(fd, 5, (1 << 40) - 2), b"\0\0end")
        self.assertEqual(os.pread(fd, 3, 1 << 35), bytes(3))
        self.assertLess(os.stat(self.out + "/.staging/new/1").st_blocks, 64)
        with self.assertRaises(OSError) as caught:
            os.pwrite(fd, b"x", 2**63 - 1)
        self.assertIn(caught.exception.errno, (errno.EFBIG, errno.EINVAL))
        self.assert_errno(errno.EFBIG, os.ftruncate, fd, 2**63 - 1)   # more than the file system below can hold
        self.assertEqual(os.fstat(fd).st_size, (1 << 40) + 3)
        os.close(fd)

    def test_long_paths(self):
        new = (self.start("none"), self.new_model())[1]
        here = os.getcwd()
        self.addCleanup(os.chdir, here)
        os.chdir(new)
        depth = 0
        with self.assertRaises(OSError) as caught:
            while depth < 5000:
                os.mkdir("d")
                os.chdir("d")
                depth += 1
        self.assertEqual(caught.exception.errno, errno.ENAMETOOLONG)
        self.assertGreater(depth, 1900)
        os.chdir("..")
        depth -= 1
        put("f", b"deep")
        os.chdir(here)
        self.again("none", kill=True)
        self.assertNotIn("makes no sense", self.said())
        os.chdir(new)
        for _ in range(depth):
            os.chdir("d")
        self.assertEqual(read("f"), b"deep")
        os.chdir(here)

    def test_directory_into_itself(self):
        new = (self.start("none"), self.new_model())[1]
        os.makedirs(new + "/a/b")
        self.assert_errno(errno.EINVAL, os.rename, new + "/a", new + "/a/b/c")

    def test_rename_over(self):
        new = (self.start("none"), self.new_model())[1]
        for n in "ab":
            os.makedirs(new + "/" + n)
        put(new + "/f", b"f")
        put(new + "/b/g", b"g")
        self.assert_errno(errno.ENOTEMPTY, os.rename, new + "/a", new + "/b")
        self.assert_errno(errno.ENOTDIR, os.rename, new + "/a", new + "/f")
        self.assert_errno(errno.EISDIR, os.rename, new + "/f", new + "/a")
        self.assert_errno(errno.ENOTEMPTY, os.rmdir, new + "/b")
        self.assert_errno(errno.ENOTDIR, os.rmdir, new + "/f")
        self.assert_errno(errno.EISDIR, os.unlink, new + "/a")
        os.rename(new + "/b", new + "/a")
        os.rename(new + "/f", new + "/a/g")
        self.again("none", kill=True)
        self.assertEqual((os.listdir(new), os.listdir(new + "/a"), read(new + "/a/g")), (["a"], ["g"], b"f"))

    def test_fuzzed_listing(self):
        """A listing goes on where it was, whatever was removed meanwhile."""
        new = (self.start("none"), self.new_model())[1]
        for i in range(3000):
            os.mknod(new + "/f%04d" % i)
        seen = []
        with os.scandir(new) as entries:
            for e in entries:
                seen.append(e.name)
                os.unlink(e.path)
        self.assertEqual(sorted(seen), ["f%04d" % i for i in range(3000)])
        self.assertEqual(os.listdir(new), [])

    @needs_root
    def test_few_descriptors(self):
        """Staged files hold none while nobody uses them."""
        new = (self.start("none", before=("prlimit", "--nofile=128:128")), self.new_model())[1]
        for i in range(600):
            stage(new + "/f%d" % i, b"%03d" % i, "U8", [3])
        sync(new)
        self.again("none", kill=True, before=("prlimit", "--nofile=128:128"))
        self.assertEqual(self.said().count("makes no sense"), 0)
        self.assertEqual([read(new + "/f%d" % i) for i in range(600)], [b"%03d" % i for i in range(600)])
        sync(new)
        self.assertEqual(len(load(self.output("new"))[0]), 600)
