# SPDX-License-Identifier: MIT
"""The rules of staging, sentence by sentence: what may be made, names, types, references, metadata, modes."""
import errno
import os
import shutil
import stat
import struct
import subprocess

from mounting import ROOT, needs_root, read, run
from staging import MODEL, StagingTest, load, names, npy, on_disk, put, set_type, stage, status, sync


def get(path, name):
    return os.getxattr(path, "user." + name).decode()


class Places(StagingTest):
    """What may lie in .staging, and what is shown there."""

    def test_top(self):
        top = self.start()
        self.assert_errno(errno.EPERM, open, top + "/file", "wb")
        self.assert_errno(errno.EINVAL, os.mkdir, top + "/x.safetensors")
        self.assert_errno(errno.EINVAL, os.mkdir, top + "/.safetensors")
        new = self.new_model()
        self.assert_errno(errno.EINVAL, os.rename, new, top + "/x.safetensors")
        self.assert_errno(errno.ENAMETOOLONG, os.mkdir, top + "/" + "n" * 244)
        os.mkdir(top + "/" + "n" * 243)   # with .safetensors behind it 255 bytes
        put(new + "/f", b"")
        self.assert_errno(errno.EPERM, os.rename, new + "/f", top + "/f")
        os.mkdir(new + "/d")
        self.assert_errno(errno.EXDEV, os.rename, new + "/d", top + "/d")
        self.assertEqual(sorted(os.listdir(top)), sorted(["n" * 243, "new"]))

    def test_odd_files(self):
        new = (self.start(), self.new_model())[1]
        self.assert_errno(errno.EPERM, os.symlink, "x", new + "/link")
        self.assert_errno(errno.EPERM, os.mkfifo, new + "/fifo")
        self.assertEqual(os.listdir(new), [])

    @needs_root
    def test_copy_of_a_foreign_tree(self):
        """cp -r says EPERM for what cannot be staged, and goes on."""
        new = (self.start("none"), self.new_model())[1]
        tree = self.new_dir("tree/sub")
        os.mkfifo(tree + "/fifo")
        os.mknod(tree + "/device", stat.S_IFCHR | 0o600, os.makedev(1, 3))
        os.symlink("nowhere", tree + "/link")
        for n in ("a", "z"):
            put(tree + "/" + n, n.encode())
        code, _, err = run("cp", "-a", self.path("tree"), new + "/")
        self.assertEqual(code, 1)
        self.assertEqual(err.count("Operation not permitted"), 3, err)
        self.assertEqual(sorted(os.listdir(new + "/tree/sub")), ["a", "z"])

    def test_modes_and_owners(self):
        new = (self.start(), self.new_model())[1]
        os.mkdir(new + "/d", 0)
        put(new + "/f", b"x")
        for mode in (0, 0o777, 0o4755):
            os.chmod(new + "/f", mode)
            os.chmod(new + "/d", mode)
            os.chmod(new, mode)
            self.assertEqual(stat.S_IMODE(os.stat(new + "/f").st_mode) & 0o700, 0o600)
            self.assertEqual(stat.S_IMODE(os.stat(new + "/d").st_mode) & 0o700, 0o700)
            self.assertEqual(stat.S_IMODE(os.stat(new).st_mode) & 0o700, 0o700)
        for p in (new, new + "/d", new + "/f"):
            self.assertEqual((os.stat(p).st_uid, os.stat(p).st_gid), (os.getuid(), os.getgid()))
        os.utime(new + "/f", (1, 2))
        self.assertEqual(os.stat(new + "/f").st_mtime, 2)
        self.assertEqual(os.stat(new).st_nlink, 3)
        v = os.statvfs(new)
        self.assertEqual((v.f_blocks, v.f_frsize), (os.statvfs(self.out).f_blocks, os.statvfs(self.out).f_frsize))

    @needs_root
    def test_owner_of_the_output(self):
        new = (self.start(), self.new_model())[1]
        os.chown(new, 1234, 2345)
        stage(new + "/w", b"x", "U8", [1])
        sync(new)
        st = os.stat(self.output("new"))
        mask = os.umask(0)
        os.umask(mask)
        self.assertEqual((st.st_uid, st.st_gid, stat.S_IMODE(st.st_mode)), (1234, 2345, 0o666 & ~mask))
        os.chmod(self.output("new"), 0o640)
        self.again(kill=True)
        self.assertEqual((os.stat(new).st_uid, os.stat(new).st_gid), (1234, 2345))
        put(new + "/w", b"y")
        sync(new)
        st = os.stat(self.output("new"))
        self.assertEqual((st.st_uid, stat.S_IMODE(st.st_mode)), (1234, 0o640))
        self.assert_holds("new", {"w": ("U8", [1], b"y")})

    @needs_root
    def test_made_by_another_user(self):
        new = (self.start(), self.new_model())[1]
        os.chown(new, 1234, 2345)
        def as_user(*argv):
            return run("setpriv", "--reuid", "1234", "--regid", "2345", "--clear-groups", *argv)
        self.assertEqual(as_user("cp", self.mnt + "/model/h/0/k", new + "/k")[0], 0)
        self.assertEqual((os.stat(new + "/k").st_uid, os.stat(new + "/k").st_gid), (1234, 2345))
        self.assertEqual(as_user("mkdir", self.staging + "/theirs")[0], 1)   # .staging is not theirs

    @needs_root
    def test_a_link_is_no_way_around_permissions(self):
        """With fs.protected_hardlinks off the kernel would let anybody link what he cannot read."""
        path = self.write(MODEL)
        os.chmod(path, 0o600)
        new = (self.start(path), self.new_model())[1]
        os.chown(new, 1234, 2345)
        was = read("/proc/sys/fs/protected_hardlinks")
        try:
            put("/proc/sys/fs/protected_hardlinks", b"0")
        except OSError:
            self.skipTest("fs.protected_hardlinks cannot be set here")
        try:
            code, _, err = run("setpriv", "--reuid", "1234", "--regid", "2345", "--clear-groups",
                               "ln", self.mnt + "/model/h/0/k", new + "/k")
        finally:
            put("/proc/sys/fs/protected_hardlinks", was)
        self.assertEqual((code, os.listdir(new)), (1, []), err)

    def test_finished_file(self):
        top, new = self.start(), self.new_model()
        stage(new + "/w", b"x" * 100, "U8", [100])
        self.assertEqual(os.listdir(top), ["new"])
        sync(new)
        done = top + "/new.safetensors"
        self.assertEqual(sorted(os.listdir(top)), ["new", "new.safetensors"])
        self.assertEqual(read(done), read(self.output("new")))
        refused = errno.EPERM if ROOT else errno.EACCES   # its mode refuses all others
        self.assert_errno(refused, open, done, "r+b")
        self.assert_errno(refused, os.truncate, done, 0)
        self.assert_errno(errno.EPERM, os.unlink, done)
        self.assert_errno(errno.EPERM, os.rename, done, top + "/other")
        self.assert_errno(refused, os.setxattr, done, "user.dtype", b"U8")
        self.assert_errno(errno.ENODATA, os.getxattr, done, "user.dtype")
        put(self.output("new") + ".x", b"somebody else's")
        os.rename(self.output("new") + ".x", self.output("new"))
        self.assertEqual(os.listdir(top), ["new"])   # that is not what this staging wrote

    def test_remove_all(self):
        top, new = self.start(), self.new_model()
        shutil.copytree(self.mnt + "/model", new + "/model")
        sync(new)
        shutil.rmtree(new)
        self.assertEqual(os.listdir(top), [])
        self.assertEqual(os.listdir(self.out + "/.staging"), [".lock"])
        self.assertEqual(set(load(self.output("new"))[0]), {n for n, *_ in MODEL if n.startswith("model.")})


class Names(StagingTest):
    def test_by_path_of_a_mounted_tensor(self):
        new = (self.start(), self.new_model())[1]
        os.makedirs(new + "/enc/layer/q_proj")
        put(new + "/enc/layer/q_proj/weight", bytes(64))
        self.assertEqual(names(new + "/enc/layer/q_proj/weight"), "enc/layer/q_proj.weight")   # the slash is its own

    def test_inverse(self):
        new = (self.start("none"), self.new_model())[1]
        for path, name in {"a/b/c": "a.b.c", "e.f/g": "e.f.g", "x%2Fy": "x/y", "%/w": ".w", "w%": "w%", "%25": "%",
                           "%2E%2E": "..", "%7F%01": "\x7f\x01", "%2g": "%2g", "%2f": "%2f", "d/%": "d.", "é": "é"}.items():
            os.makedirs(os.path.dirname(new + "/" + path), exist_ok=True)
            put(new + "/" + path, b"")
            self.assertEqual(names(new + "/" + path), name, path)

    def test_inverse_flat(self):
        new = (self.start("none", "layout=flat"), self.new_model())[1]
        os.makedirs(new + "/a.b")
        put(new + "/a.b/c.d", b"")
        self.assertEqual(names(new + "/a.b/c.d"), "a.b/c.d")

    def test_attribute_ends_with_a_rename(self):
        new = (self.start("none"), self.new_model())[1]
        os.makedirs(new + "/d/e")
        for p in ("/f", "/d/e/g"):
            put(new + p, b"")
            os.setxattr(new + p, "user.safetensors.name", b"my name/is.this")
            self.assertEqual(names(new + p), "my name/is.this")
        os.rename(new + "/f", new + "/f2")
        self.assertEqual(names(new + "/f2"), "f2")
        os.rename(new + "/f2", new + "/f")
        self.assertEqual(names(new + "/f"), "f")   # back where it was set: ended all the same
        os.rename(new + "/d", new + "/d2")         # a parent's rename ends it too
        self.assertEqual(names(new + "/d2/e/g"), "d2.e.g")
        os.rename(new + "/d2", new + "/d")
        self.assertEqual(names(new + "/d/e/g"), "d.e.g")
        self.again("none", kill=True)
        self.assertEqual(names(new + "/d/e/g"), "d.e.g")
        os.setxattr(new + "/f", "user.safetensors.name", b"x")
        os.rename(new, self.staging + "/other")    # its path in the model is what it was
        self.assertEqual(names(self.staging + "/other/f"), "x")
        self.again("none", kill=True)
        self.assertEqual(names(self.staging + "/other/f"), "x")
        os.removexattr(self.staging + "/other/f", "user.safetensors.name")
        self.assertEqual(names(self.staging + "/other/f"), "f")

    def test_copies_keep_or_lose_the_name(self):
        new = (self.start(), self.new_model())[1]
        for how, name in (("-r", "copy.0.k"), ("-a", "model.h.0.k")):
            self.assertEqual(run("cp", how, self.mnt + "/model/h", new + "/copy")[0], 0)
            self.assertEqual(names(new + "/copy/0/k"), name)
            shutil.rmtree(new + "/copy")

    def test_bad_names(self):
        new = (self.start("none"), self.new_model())[1]
        bad = os.fsencode(new) + b"/no\xffutf"
        stage(bad, b"x", "U8", [1])
        self.assert_sync_fails(new, errno.EINVAL, "'no\\xffutf'")
        self.assertIn(b"no\xffutf", os.listdir(os.fsencode(new)))
        self.again("none", kill=True)
        self.assertEqual(read(bad), b"x")
        os.setxattr(bad, "user.safetensors.name", b"__metadata__")
        self.assert_sync_fails(new, errno.EINVAL, "'__metadata__'")
        os.setxattr(bad, "user.safetensors.name", b"good")
        sync(new)
        self.assert_holds("new", {"good": ("U8", [1], b"x")})

    def test_a_name_twice(self):
        new = (self.start("none"), self.new_model())[1]
        os.mkdir(new + "/a")
        stage(new + "/a/b", b"x", "U8", [1])
        stage(new + "/a.b", b"x", "U8", [1])
        self.assertTrue(status(new).startswith("error: 'a.b': "), status(new))
        self.assert_sync_fails(new, errno.EEXIST, "'a.b'")


class Types(StagingTest):
    """dtype and shape: a .npy header, else the attributes, else those of where it comes from or lies."""

    def types(self, path):
        return get(path, "dtype"), get(path, "shape")

    def setUp(self):
        super().setUp()
        self.start()
        self.new = self.new_model()

    def test_npy(self):
        for version in (1, 2, 3):
            p = self.new + "/v%d.npy" % version
            put(p, npy("<f8", (3,), struct.pack("<3d", 1, 2, 3), version))
            self.assertEqual(self.types(p), ("F64", "[3]"))
            self.assertEqual(names(p), "v%d" % version)
        os.setxattr(self.new + "/v1.npy", "user.dtype", b"I64")   # the header has precedence
        self.assertEqual(get(self.new + "/v1.npy", "dtype"), "F64")
        sync(self.new)
        data = struct.pack("<3d", 1, 2, 3)
        self.assert_holds("new", {"v%d" % v: ("F64", [3], data) for v in (1, 2, 3)})

    def test_npy_types(self):
        want = {}
        for i, (code, dtype, size) in enumerate([("<f4", "F32", 4), ("<f2", "F16", 2), ("<i8", "I64", 8), ("<i4", "I32", 4),
                                                 ("<i2", "I16", 2), ("|i1", "I8", 1), ("<u8", "U64", 8), ("<u4", "U32", 4),
                                                 ("<u2", "U16", 2), ("|u1", "U8", 1), ("|b1", "BOOL", 1), ("<c8", "C64", 8)]):
            data = bytes([1] * size * 6)
            put(self.new + "/t%d.npy" % i, npy(code, (2, 3), data))
            want["t%d" % i] = (dtype, [2, 3], data)
        put(self.new + "/scalar.npy", npy("<f4", (), b"1234"))
        put(self.new + "/none.npy", npy("<f4", (0, 5), b""))
        want.update({"scalar": ("F32", [], b"1234"), "none": ("F32", [0, 5], b"")})
        sync(self.new)
        self.assert_holds("new", want)

    def test_npy_that_is_none(self):
        for i, data in enumerate([b"", b"\x93NUMPY", b"no header at all", npy("<f4", (1,), b"1234")[:40], npy("<U4", (1,), b"1" * 16),
                                  npy("<f4", (1,), b"1234", version=1).replace(b"\1\0", b"\4\0", 1)]):
            p = self.new + "/n%d.npy" % i
            put(p, data)
            self.assert_errno(errno.ENODATA, os.getxattr, p, "user.dtype")
            self.assertEqual(names(p), "n%d.npy" % i)
            set_type(p, "U8", [len(data)])
        sync(self.new)
        self.assertEqual(set(load(self.output("new"))[0]), {"n%d.npy" % i for i in range(6)})

    def test_npy_cut_short(self):
        put(self.new + "/short.npy", npy("<f4", (3,), b"12345678"))
        self.assert_sync_fails(self.new, errno.EINVAL, "'short': ")

    def test_npy_renamed(self):
        put(self.new + "/x.npy", npy("<f4", (1,), b"1234"))
        os.rename(self.new + "/x.npy", self.new + "/y")   # bound when it was closed: stays what it was
        sync(self.new)
        self.assert_holds("new", {"y": ("F32", [1], b"1234")})

    def test_attributes_before_and_after(self):
        p = self.new + "/w"
        with open(p, "wb") as f:
            set_type(p, "I16", [2])
            f.write(b"abcd")
        self.assertEqual(self.types(p), ("I16", "[2]"))
        set_type(p, "U8", [2, 2])
        self.assertEqual(self.types(p), ("U8", "[2,2]"))
        sync(self.new)
        self.assert_holds("new", {"w": ("U8", [2, 2], b"abcd")})

    def test_attributes_win_over_where_it_comes_from(self):
        p = self.new + "/w"
        shutil.copyfile(self.mnt + "/model/h/0/k", p)
        run("cp", self.mnt + "/model/h/0/k", p)
        self.assertEqual(self.types(p), ("BF16", "[16]"))
        os.setxattr(p, "user.dtype", b"F16")
        self.assertEqual(self.types(p), ("F16", "[16]"))
        os.removexattr(p, "user.dtype")
        self.assertEqual(self.types(p), ("BF16", "[16]"))
        self.assert_errno(errno.ENODATA, os.removexattr, p, "user.dtype")

    def test_by_path_and_size(self):
        os.makedirs(self.new + "/model/h/0")
        put(self.new + "/model/h/0/k", bytes(32))
        put(self.new + "/model/h/0/old", bytes(3))   # not its size
        self.assertEqual(self.types(self.new + "/model/h/0/k"), ("BF16", "[16]"))
        self.assert_errno(errno.ENODATA, os.getxattr, self.new + "/model/h/0/old", "user.dtype")
        os.rename(self.new + "/model/h/0/k", self.new + "/elsewhere")   # bound when it was closed
        self.assertEqual(self.types(self.new + "/elsewhere"), ("BF16", "[16]"))

    def test_copied_twice(self):
        """A file that is written anew from another tensor is that one then."""
        p = self.new + "/w"
        run("cp", self.mnt + "/model/h/0/k", p)
        run("cp", self.mnt + "/model/odd%25name/w", p)
        self.assertEqual(self.types(p), ("U8", "[3]"))
        self.again(kill=True)
        self.assertEqual(self.types(p), ("U8", "[3]"))

    def test_a_new_content_of_the_same_file(self):
        p = self.new + "/w"
        run("cp", self.mnt + "/model/h/0/k", p)
        put(p, bytes(32))
        self.assertEqual(self.types(p), ("BF16", "[16]"))

    def test_never_guessed(self):
        put(self.new + "/w", bytes(16))
        self.assertEqual(status(self.new), "incomplete: 'w': no dtype (set user.dtype)")
        os.setxattr(self.new + "/w", "user.dtype", b"F32")
        self.assertEqual(status(self.new), "incomplete: 'w': no shape (set user.shape)")
        os.setxattr(self.new + "/w", "user.shape", b"[4]")
        self.assertEqual(status(self.new), "pending")

    def test_option(self):
        self.again(None, "dtype=F16")
        put(self.new + "/w", bytes(16))
        put(self.new + "/.junk", bytes(16))
        sync(self.new)
        self.assert_holds("new", {"w": ("F16", [8], bytes(16))})
        put(self.new + "/w", bytes(15))
        self.assert_sync_fails(self.new, errno.EINVAL, "'w': ")

    def test_bad(self):
        p = self.new + "/w"
        put(p, bytes(6))
        for dtype, shape, why in (("F33", "[1]", "unknown dtype 'F33'"), ("f32", "[1]", "unknown dtype 'f32'"),
                                  ("", "[1]", "unknown dtype ''"), ("U8", "6", "shape '6'"), ("U8", "[6", "shape '[6'"),
                                  ("U8", "[-6]", "shape '[-6]'"), ("U8", "[6.0]", "shape '[6.0]'"), ("U8", "[6]x", "shape '[6]x'"),
                                  ("U8", "[5]", "needs 5 bytes, the file has 6"), ("F32", "[3]", "needs 12 bytes, the file has 6"),
                                  ("F4", "[3]", "fill no whole byte"), ("U8", "[4294967296,4294967296]", "overflows"),
                                  ("U8", "[18446744073709551616]", "shape '[18446744073709551616]'")):
            os.setxattr(p, "user.dtype", dtype.encode())
            os.setxattr(p, "user.shape", shape.encode())
            self.assertIn(why, status(self.new))
            with self.assertRaises(OSError):
                sync(self.new)
            self.assertTrue(status(self.new).startswith("error: 'w': "), status(self.new))
            self.assertIn(why, status(self.new))
            self.assertIn(why, self.said())
            self.assertEqual(read(p), bytes(6))
        self.assertFalse(os.path.exists(self.output("new")))
        set_type(p, "F4", [12])
        sync(self.new)
        self.assert_holds("new", {"w": ("F4", [12], bytes(6))})

    def test_other_attributes(self):
        p = self.new + "/w"
        put(p, b"x")
        for name in ("source", "offset", "transform"):   # brought along by copies; they would not be true
            os.setxattr(p, "user.safetensors." + name, b"x")
            self.assert_errno(errno.ENODATA, os.getxattr, p, "user.safetensors." + name)
        self.assert_errno(errno.EOPNOTSUPP, os.setxattr, p, "user.other", b"x")
        os.setxattr(p, "user.dtype", b"U8", os.XATTR_CREATE)
        self.assert_errno(errno.EEXIST, os.setxattr, p, "user.dtype", b"U8", os.XATTR_CREATE)
        self.assert_errno(errno.ENODATA, os.setxattr, p, "user.shape", b"[1]", os.XATTR_REPLACE)
        self.assertEqual(sorted(os.listxattr(p)), ["user.dtype", "user.safetensors.name"])


class References(StagingTest):
    def setUp(self):
        super().setUp()
        self.start()
        self.new = self.new_model()

    def test_cp(self):
        self.assertEqual(run("cp", "-r", self.mnt + "/model", self.new + "/")[0], 0)
        self.assertEqual(on_disk(self.out), 0)
        sync(self.new)
        self.assertEqual(on_disk(self.out), 0)
        self.assert_holds("new", {n: (d, s, b) for n, d, s, b in MODEL if n.startswith("model.")}, {"format": "pt", "who": "x"})

    @needs_root
    def test_cp_al(self):
        self.assertEqual(run("cp", "-al", self.mnt + "/model", self.new + "/")[0], 0)
        self.assertEqual(on_disk(self.out), 0)
        self.assertNotEqual(os.stat(self.new + "/model/h/0/k").st_ino, os.stat(self.mnt + "/model/h/0/k").st_ino)
        with open(self.new + "/model/h/0/k", "r+b") as f:
            f.write(b"!")
        self.assertEqual(read(self.mnt + "/model/h/0/k")[0], 100)   # a copy, not the tensor itself
        sync(self.new)
        self.assertEqual(load(self.output("new"))[0]["model.h.0.k"], ("BF16", [16], b"!" + bytes(range(101, 132))))

    def test_writing_over(self):
        big = MODEL[1][3]
        run("cp", self.mnt + "/model/big", self.new + "/b")
        with open(self.new + "/b", "r+b") as f:
            f.seek(100000)
            f.write(b"HELLO")
        self.assertEqual(read(self.new + "/b"), big[:100000] + b"HELLO" + big[100005:])
        self.assertEqual(read(self.mnt + "/model/big"), big)
        self.assertLess(on_disk(self.out), len(big) // 4)

    def test_npy_forms(self):
        self.assertEqual(run("cp", self.mnt + "/model/big.npy", self.new + "/x.npy")[0], 0)
        self.assertLess(on_disk(self.out), 8192)   # its header only
        self.assertEqual(run("cp", self.mnt + "/model/big.npy", self.new + "/noending")[0], 0)
        self.assert_errno(errno.ENODATA, os.getxattr, self.new + "/noending", "user.dtype")
        os.unlink(self.new + "/noending")
        sync(self.new)
        self.assert_holds("new", {"x": MODEL[1][1:]})

    def test_other_staged_files(self):
        a, b = self.new, self.new_model("b")
        stage(a + "/own", b"12345678" * 1024, "I64", [1024])
        run("cp", self.mnt + "/model/h/0/k", a + "/k")
        put(a + "/n.npy", npy("<i2", (2,), b"abcd"))
        stage(a + "/named", b"1", "U8", [1], "exact/name")
        used = on_disk(self.out)
        self.assertEqual(run("cp", "-r", a, b + "/sub")[0], 0)
        self.assertLess(on_disk(self.out), used * 2 + 1)   # links: the same blocks, counted by name
        numbers = {os.stat(os.path.join(d, f)).st_ino for d, _, fs in os.walk(self.out + "/.staging") for f in fs if f.isdigit()}
        self.assertEqual(len(numbers), 3)   # own, n.npy, named: none was copied
        with open(a + "/own", "r+b") as f:
            f.write(b"CHANGED!")
        with open(b + "/sub/own", "r+b") as f:
            f.seek(8)
            f.write(b"TOO")
        sync(a)
        sync(b)
        want = {"own": ("I64", [1024], b"CHANGED!" + b"12345678" * 1023), "k": MODEL[2][1:], "n": ("I16", [2], b"abcd")}
        self.assert_holds("new", dict(want, **{"exact/name": ("U8", [1], b"1")}))
        want["own"] = ("I64", [1024], b"12345678TOO45678" + b"12345678" * 1022)
        self.assert_holds("b", {"sub." + n: v for n, v in dict(want, named=("U8", [1], b"1")).items()})

    def test_survives_the_end_of_what_it_came_from(self):
        a, b = self.new, self.new_model("b")
        stage(a + "/own", b"1234" * 100, "U8", [400])
        run("cp", a + "/own", b + "/copy")
        os.rename(a + "/own", a + "/moved")
        os.link(a + "/moved", b + "/linked")
        shutil.rmtree(a)
        self.again(kill=True)
        self.assertEqual(os.listdir(self.staging), ["b"])
        self.assertEqual(read(b + "/copy"), b"1234" * 100)
        sync(b)
        self.assert_holds("b", {"copy": ("U8", [400], b"1234" * 100), "linked": ("U8", [400], b"1234" * 100)})

    def test_ranges(self):
        """copy_file_range of pieces, to places behind the end, onto itself."""
        src = os.open(self.mnt + "/model/big", os.O_RDONLY)
        dst = os.open(self.new + "/w", os.O_RDWR | os.O_CREAT)
        big, want = MODEL[1][3], bytearray(70000)
        for at, off, n in ((50000, 1000, 20000), (0, 7, 13), (5, 100, 3), (60000, 0, 10000)):
            self.assertEqual(os.copy_file_range(src, dst, n, off, at), n)
            want[at:at + n] = big[off:off + n]
        self.assertEqual(os.copy_file_range(dst, dst, 100, 50000, 20000), 100)
        want[20000:20100] = want[50000:50100]
        self.assertEqual(os.copy_file_range(src, dst, 100, len(big) + 5, 0), 0)
        os.close(dst)
        os.close(src)
        self.assertEqual(read(self.new + "/w"), bytes(want))
        self.again(kill=True)
        self.assertEqual(read(self.new + "/w"), bytes(want))

    def test_metadata(self):
        sub = lambda m: {n[14:]: os.getxattr(m, n).decode() for n in os.listxattr(m) if n.startswith("user.metadata.")}
        self.assertEqual(sub(self.new), {})
        os.setxattr(self.new, "user.metadata.who", b"mine")
        run("cp", self.mnt + "/model/h/0/k", self.new + "/k")
        self.assertEqual(sub(self.new), {"format": "pt", "who": "mine"})   # what was set stays
        os.removexattr(self.new, "user.metadata.format")
        self.assert_errno(errno.ENODATA, os.removexattr, self.new, "user.metadata.format")
        run("cp", self.mnt + "/model/h/0/old", self.new + "/old")
        self.assertEqual(sub(self.new), {"who": "mine"})                   # and what was removed stays away
        self.assert_errno(errno.EINVAL, os.setxattr, self.new, "user.metadata.x", b"\xff")
        self.again(kill=True)
        self.assertEqual(sub(self.new), {"who": "mine"})
        sync(self.new)
        self.assertEqual(load(self.output("new"))[1], {"who": "mine"})
        other = self.new_model("other")
        stage(other + "/w", b"x", "U8", [1])
        self.assertEqual(sub(other), {})   # nothing taken from the mounted model

    def test_across_models(self):
        other = self.new_model("other")
        stage(self.new + "/w", b"abcd", "U8", [4], "named")
        run("cp", self.mnt + "/model/h/0/k", self.new + "/k")
        with open(self.new + "/w", "r+b") as f:
            os.rename(self.new + "/w", other + "/w")
            f.write(b"X")   # still the same file
        os.rename(self.new + "/k", other + "/k")
        put(self.new + "/twice", b"1")
        put(other + "/twice", b"2")
        self.assert_errno(errno.EXDEV, os.rename, self.new + "/twice", other + "/twice")
        self.assertEqual(run("mv", self.new + "/twice", other + "/twice")[0], 0)
        self.again(kill=True)
        self.assertEqual(os.listdir(self.new), [])
        self.assertEqual(read(other + "/twice"), b"1")
        os.unlink(other + "/twice")
        sync(other)
        self.assert_holds("other", {"w": ("U8", [4], b"Xbcd"), "k": MODEL[2][1:]})

    def test_source_gone(self):
        run("cp", "-r", self.mnt + "/model/h", self.new + "/")
        stage(self.new + "/w", b"x", "U8", [1])
        self.stop()
        source = self.path("model.safetensors")
        os.rename(source, source + ".away")
        self.start("none")
        self.assertIn("staged from %s, which is gone" % source, self.said())
        self.assert_errno(errno.EIO, read, self.new + "/h/0/k")
        self.assertEqual(read(self.new + "/w"), b"x")
        self.assert_errno(errno.EIO, sync, self.new)
        self.assertTrue(status(self.new).startswith("error: "))
        self.stop()
        os.rename(source + ".away", source)
        self.start("none")   # found by its path, though it is not mounted
        self.assertEqual(read(self.new + "/h/0/k"), MODEL[2][3])
        self.stop()
        put(source, read(source))
        self.start()
        self.assertIn("which is no longer the same file", self.said())
        self.assert_errno(errno.EIO, read, self.new + "/h/0/k")
