# SPDX-License-Identifier: MIT
"""Extended attributes: values, and the rules of getxattr(2) and listxattr(2)."""
import ctypes
import errno
import os

from mounting import MountTest, model, pattern, run

libc = ctypes.CDLL(None, use_errno=True)


def getxattr(path, name, size):
    """getxattr(2) with a buffer of that size: (result, errno, bytes)."""
    buf = ctypes.create_string_buffer(max(size, 1))
    ctypes.set_errno(0)
    n = libc.getxattr(os.fsencode(path), os.fsencode(name), buf, ctypes.c_size_t(size))
    return n, ctypes.get_errno(), buf.raw[:max(n, 0)]


def listxattr(path, size):
    buf = ctypes.create_string_buffer(max(size, 1))
    ctypes.set_errno(0)
    n = libc.listxattr(os.fsencode(path), buf, ctypes.c_size_t(size))
    return n, ctypes.get_errno(), buf.raw[:max(n, 0)]


TENSOR = ["user.dtype", "user.shape", "user.safetensors.name", "user.safetensors.source", "user.safetensors.offset"]


class Xattr(MountTest):
    def setUp(self):
        super().setUp()
        self.source = self.path("a model.safetensors")
        self.offsets = model(self.source, [("a.w", "BF16", [4096, 1], pattern(1, 8192)), ("s", "F64", [], bytes(8))],
                             {"format": "pt", "empty": "", "schlüssel": "wert ✓", "": "no key", "large": "x" * 65537,
                              "just": "y" * 65536, "k" * 241: "longest key", "k" * 242: "a key too long"})
        self.mnt = self.mount(self.source)
        self.w = self.mnt + "/a/w"

    def test_values(self):
        want = {"user.dtype": b"BF16", "user.shape": b"[4096,1]", "user.safetensors.name": b"a.w",
                "user.safetensors.source": b"a model.safetensors",
                "user.safetensors.offset": b"%d" % self.offsets["a.w"]}
        self.assertEqual({n: os.getxattr(self.w, n) for n in os.listxattr(self.w)}, want)
        self.assertEqual(os.getxattr(self.mnt + "/s", "user.shape"), b"[]")

    def test_size_0_asks_for_the_length(self):
        self.assertEqual(getxattr(self.w, "user.shape", 0)[0], 8)

    def test_exact_size_and_too_small(self):
        self.assertEqual(getxattr(self.w, "user.shape", 8), (8, 0, b"[4096,1]"))
        self.assertEqual(getxattr(self.w, "user.shape", 7)[:2], (-1, errno.ERANGE))
        self.assertEqual(getxattr(self.w, "user.shape", 1)[:2], (-1, errno.ERANGE))

    def test_listing_sizes(self):
        n = sum(len(x) + 1 for x in TENSOR)
        self.assertEqual(listxattr(self.w, 0)[0], n)
        self.assertEqual(listxattr(self.w, n)[0], n)
        self.assertEqual(listxattr(self.w, n - 1)[:2], (-1, errno.ERANGE))
        self.assertEqual(sorted(listxattr(self.w, n)[2].split(b"\0")[:-1]), sorted(map(str.encode, TENSOR)))

    def test_unknown_names(self):
        for name in ("user.nothing", "user.dtyp", "user.dtype2", "user.metadata.format",
                     "trusted.x" if os.getuid() == 0 else "user.trusted"):
            self.assert_errno(errno.ENODATA, os.getxattr, self.w, name)
        for name in ("security.selinux", "security.capability", "system.posix_acl_access", "system.posix_acl_default"):
            self.assert_errno(errno.EOPNOTSUPP, os.getxattr, self.w, name)   # so that ls does not ask for every file

    def test_directories_have_none(self):
        self.assertEqual(os.listxattr(self.mnt + "/a"), [])
        self.assert_errno(errno.ENODATA, os.getxattr, self.mnt + "/a", "user.dtype")

    def test_root_shows_the_metadata_that_fits(self):
        def name(key):
            return "user.metadata." + key
        self.assertEqual(sorted(os.listxattr(self.mnt)),
                         sorted(["user.safetensors.format"] +
                                [name(k) for k in ("format", "empty", "schlüssel", "just", "k" * 241)]))
        self.assertEqual(os.getxattr(self.mnt, "user.safetensors.format"), b"safetensors")
        self.assertEqual(os.getxattr(self.mnt, name("format")), b"pt")
        self.assertEqual(os.getxattr(self.mnt, name("empty")), b"")
        self.assertEqual(os.getxattr(self.mnt, name("schlüssel")).decode(), "wert ✓")
        self.assertEqual(os.getxattr(self.mnt, name("just")), b"y" * 65536)
        self.assert_errno(errno.ENODATA, os.getxattr, self.mnt, name("large"))

    def test_nothing_can_be_set(self):
        self.assert_errno(errno.EROFS, os.setxattr, self.w, "user.dtype", b"F16")
        self.assert_errno(errno.EROFS, os.removexattr, self.w, "user.dtype")

    def test_getfattr(self):
        status, out, err = run("getfattr", "--absolute-names", "-d", self.w)
        self.assertEqual((status, err), (0, ""))
        self.assertEqual(out, '# file: %s\nuser.dtype="BF16"\nuser.safetensors.name="a.w"\n'
                              'user.safetensors.offset="%d"\nuser.safetensors.source="a model.safetensors"\n'
                              'user.shape="[4096,1]"\n\n' % (self.w, self.offsets["a.w"]))

    def test_a_program_can_map_the_source_itself(self):
        at = int(os.getxattr(self.w, "user.safetensors.offset"))
        with open(self.source, "rb") as f:
            f.seek(at)
            self.assertEqual(f.read(8192), pattern(1, 8192))
