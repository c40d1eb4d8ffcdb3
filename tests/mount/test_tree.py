# SPDX-License-Identifier: MIT
"""The tree as a whole: listings of any length, attributes of files, and the tools that walk and copy trees."""
import ctypes
import errno
import filecmp
import os
import stat
import tempfile

from mounting import MountTest, model, pattern, read, run

libc = ctypes.CDLL(None, use_errno=True)
libc.opendir.restype = libc.readdir.restype = ctypes.c_void_p
libc.telldir.restype = ctypes.c_long
MANY = 100000


class Dirent(ctypes.Structure):
    _fields_ = [("ino", ctypes.c_uint64), ("off", ctypes.c_int64), ("reclen", ctypes.c_uint16),
                ("type", ctypes.c_uint8), ("name", ctypes.c_char * 256)]


def entries(d, most=None):
    """(name, where to go on) of what readdir(3) still gives."""
    found = []
    while most is None or len(found) < most:
        e = libc.readdir(ctypes.c_void_p(d))
        if not e:
            break
        found.append((ctypes.cast(e, ctypes.POINTER(Dirent)).contents.name, libc.telldir(ctypes.c_void_p(d))))
    return found


class Many(MountTest):
    """100,000 tensors in one directory."""
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.source = os.path.join(cls.folder.name, "many.safetensors")
        cls.names = ["w%05d" % i for i in range(MANY)]
        model(cls.source, [("l." + n, "U8", [i % 7], b"x" * (i % 7)) for i, n in enumerate(cls.names)])

    def test_listing_is_complete(self):
        d = self.mount(self.source) + "/l"
        for _ in range(2):   # from us, then from the kernel's cache
            self.assertEqual(sorted(os.listdir(d)), self.names)

    def test_scandir_knows_sizes(self):
        with os.scandir(self.mount(self.source) + "/l") as it:
            sizes = {e.name: e.stat().st_size for e in it}
        self.assertEqual(sizes, {n: i % 7 for i, n in enumerate(self.names)})

    def test_seekdir(self):
        d = libc.opendir(os.fsencode(self.mount(self.source) + "/l"))
        every = entries(d)
        self.assertEqual(sorted(n for n, _ in every), [b".", b".."] + list(map(str.encode, self.names)))
        for at in (0, 1, 2, 500, 70000, MANY, MANY + 1):
            libc.seekdir(ctypes.c_void_p(d), ctypes.c_long(every[at][1]))
            self.assertEqual(entries(d, 300), every[at + 1:at + 301])
        libc.rewinddir(ctypes.c_void_p(d))
        self.assertEqual(entries(d, 3), every[:3])
        libc.closedir(ctypes.c_void_p(d))

    def test_find_du_ls(self):
        mnt = self.mount(self.source)
        self.assertEqual(run("sh", "-c", "find '%s' -type f | wc -l" % mnt)[1].strip(), str(MANY))
        # Each file that is not empty has one block of 512 bytes; directories have none.
        blocks = sum(1 for i in range(MANY) if i % 7)
        self.assertEqual(run("du", "-s", "-B512", mnt)[1].split()[0], str(blocks))
        status, out, err = run("sh", "-c", "ls -lR '%s' | grep -c '^-r'" % mnt)
        self.assertEqual((status, out.strip(), err), (0, str(MANY), ""))
        v = os.statvfs(mnt)
        self.assertEqual((v.f_blocks * v.f_frsize, v.f_namemax), (blocks * 512, 255))
        self.assertEqual(v.f_files, MANY + 2)   # and two directories

    def test_all_names_open(self):
        d = self.mount(self.source) + "/l"
        for i in range(0, MANY, 997):
            self.assertEqual(read("%s/w%05d" % (d, i)), b"x" * (i % 7))
            self.assert_errno(errno.ENOENT, os.stat, "%s/w%05dx" % (d, i))


class Tree(MountTest):
    NAMES = ["model.layers.%d.%s.weight" % (n, w) for n in range(3) for w in ("q", "k", "mlp.up")] + \
        ["norm", "odd/name%.x", "empty", "a b'c\"d", "ü.ö"]

    def setUp(self):
        super().setUp()
        self.data = {n: pattern(i, 0 if n == "empty" else 1000 + 513 * i) for i, n in enumerate(self.NAMES)}
        self.source = self.write([(n, "U8", [len(d)], d) for n, d in self.data.items()], {"format": "pt"})
        os.chmod(self.source, 0o640)
        os.utime(self.source, ns=(1600000000123456789, 1500000000987654321))
        self.mnt = self.mount(self.source)

    def files(self, top):
        return sorted(os.path.relpath(os.path.join(d, f), top) for d, _, names in os.walk(top) for f in names)

    def assert_same(self, copy):
        self.assertEqual(self.files(copy), self.files(self.mnt))
        self.assertEqual(len(self.files(copy)), len(self.NAMES))
        for f in self.files(self.mnt):
            self.assertTrue(filecmp.cmp(os.path.join(self.mnt, f), os.path.join(copy, f), shallow=False), f)
            a, b = os.stat(os.path.join(self.mnt, f)), os.stat(os.path.join(copy, f))
            self.assertEqual((a.st_size, a.st_mode, a.st_mtime_ns // 10**9), (b.st_size, b.st_mode, b.st_mtime_ns // 10**9))

    def test_paths(self):
        want = {"model/layers/%d/%s/weight" % (n, w) for n in range(3) for w in ("q", "k", "mlp/up")}
        want |= {"norm", "odd/name%25/x", "empty", "a b'c\"d", "ü/ö"}
        self.assertEqual(set(self.files(self.mnt)), want)

    def test_cp(self):
        self.assertEqual(run("cp", "-a", self.mnt + "/.", self.path("copy")), (0, "", ""))
        self.assert_same(self.path("copy"))

    def test_tar(self):
        os.mkdir(self.path("copy"))
        status, _, err = run("sh", "-c", "tar -C '%s' -c . | tar -C '%s' -x" % (self.mnt, self.path("copy")))
        self.assertEqual((status, err), (0, ""))
        self.assert_same(self.path("copy"))

    def test_rsync(self):
        self.assertEqual(run("rsync", "-aX", self.mnt + "/", self.path("copy")), (0, "", ""))
        self.assert_same(self.path("copy"))
        try:
            os.setxattr(self.source, "user.test", b"1")
        except OSError:
            self.skipTest("no user attributes in the file system of the copy")
        self.assertEqual(os.getxattr(self.path("copy/norm"), "user.shape"), b"[%d]" % len(self.data["norm"]))
        self.assertEqual(os.getxattr(self.path("copy"), "user.metadata.format"), b"pt")

    def test_attributes_of_files_and_directories(self):
        f, d = os.stat(self.mnt + "/norm"), os.stat(self.mnt + "/model/layers")
        src = os.stat(self.source)
        self.assertEqual(stat.filemode(f.st_mode), "-r--r-----")
        self.assertEqual(stat.filemode(d.st_mode), "dr-xr-x---")
        self.assertEqual((f.st_uid, f.st_gid), (src.st_uid, src.st_gid))
        self.assertEqual((f.st_nlink, d.st_nlink, os.stat(self.mnt + "/model").st_nlink), (1, 5, 3))
        self.assertEqual(f.st_mtime_ns, 1500000000987654321)
        self.assertEqual(d.st_mtime_ns, 1500000000987654321)
        size = len(self.data["norm"])
        self.assertEqual((f.st_size, f.st_blocks), (size, (size + 511) // 512))
        self.assertEqual((os.stat(self.mnt + "/empty").st_size, os.stat(self.mnt + "/empty").st_blocks), (0, 0))

    def test_inode_numbers_are_the_same_at_every_mount(self):
        def numbers(mnt):
            return {p: os.stat(os.path.join(mnt, p)).st_ino
                    for p in self.files(mnt) + ["model", "model/layers/1", ".safetensors", ".safetensors/stats", "norm.npy"]}
        first = numbers(self.mnt)
        self.assertEqual(len(set(first.values())), len(first))
        self.assertEqual(numbers(self.mount(self.source, at="second")), first)

    def test_listed_inode_numbers_are_true(self):
        for folder, _, _ in os.walk(self.mnt):
            with os.scandir(folder) as it:
                for e in it:
                    self.assertEqual(e.inode(), os.stat(e.path).st_ino, e.path)
