# SPDX-License-Identifier: MIT
"""What happens to the source while it is mounted."""
import errno
import os
import shutil
import signal
import subprocess

from mounting import MountTest, pattern, read

SIZE = 3 << 20


class Source(MountTest):
    def setUp(self):
        super().setUp()
        self.data = {"a": pattern(1, SIZE), "b": pattern(2, SIZE)}
        self.source = self.write([(n, "U8", [SIZE], d) for n, d in self.data.items()], {"format": "pt"})

    def other(self):
        return self.write([(n, "U8", [SIZE], pattern(9, SIZE)) for n in self.data], name="other.safetensors")

    def goes_on(self, change):
        mnt = self.mount(self.source)
        self.assertEqual(os.listdir(mnt), ["a", "b"])
        change()
        for name, data in self.data.items():
            self.assertEqual(read(mnt + "/" + name), data)
        self.assertIn(b"source unchanged", read(mnt + "/.safetensors/stats"))

    def test_renamed(self):
        self.goes_on(lambda: os.rename(self.source, self.path("elsewhere")))

    def test_unlinked(self):
        self.goes_on(lambda: os.unlink(self.source))

    def test_replaced_by_rename(self):
        self.goes_on(lambda: os.rename(self.other(), self.source))

    def test_mode_changed(self):
        self.goes_on(lambda: os.chmod(self.source, 0))

    def ends(self, change):
        mnt = self.mount(self.source)
        self.assertEqual(read(mnt + "/a"), self.data["a"])
        with open(mnt + "/b", "rb") as already_open:
            change()
            self.assert_errno(errno.EIO, already_open.read)
        self.assert_errno(errno.EIO, read, mnt + "/b")
        self.assertIn(b"source changed", read(mnt + "/.safetensors/stats"))
        self.assertEqual(read(mnt + "/.safetensors/metadata.json"), b'{\n "format": "pt"\n}\n')
        self.assertTrue(read(mnt + "/.safetensors/tensors.tsv").startswith(b"path\t"))
        self.assertEqual(os.listdir(mnt), ["a", "b"])
        self.assertEqual(os.getxattr(mnt + "/b", "user.dtype"), b"U8")
        # For good, even when it looks again as it did.
        os.truncate(self.source, os.stat(self.source).st_size)
        self.assert_errno(errno.EIO, read, mnt + "/b")

    def test_truncated(self):
        self.ends(lambda: os.truncate(self.source, 5000))

    def test_truncated_to_nothing(self):
        self.ends(lambda: os.truncate(self.source, 0))

    def test_overwritten_in_place(self):
        other = self.other()

        def change():
            with open(other, "rb") as src, open(self.source, "r+b") as dst:
                shutil.copyfileobj(src, dst)
        self.ends(change)

    def test_grown(self):
        self.ends(lambda: os.truncate(self.source, os.stat(self.source).st_size + 1))

    def test_touched(self):
        self.ends(lambda: os.utime(self.source, ns=(1, 1)))

    def test_a_mapping_of_a_truncated_source_dies_alone(self):
        """A reader that maps gets SIGBUS, the daemon does not."""
        mnt = self.mount(self.source)
        program = ("import mmap, sys; f = open(sys.argv[1], 'rb'); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)\n"
                   "print('mapped', flush=True); sys.stdin.readline(); print(m[2000000])")
        p = subprocess.Popen(["/usr/bin/python3", "-c", program, mnt + "/b"], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True)
        self.assertEqual(p.stdout.readline(), "mapped\n")
        os.truncate(self.source, 4096)
        self.assertEqual((p.communicate("\n")[0], p.returncode), ("", -signal.SIGBUS))
        self.assertEqual(os.listdir(mnt), ["a", "b"])

    def test_source_is_let_go_at_unmount(self):
        mnt = self.mount(self.source)
        self.unmount(mnt)
        held = []
        for p in filter(str.isdigit, os.listdir("/proc")):
            try:
                held += [p for f in os.listdir("/proc/%s/fd" % p) if os.readlink("/proc/%s/fd/%s" % (p, f)) == self.source]
            except OSError:
                pass
        self.assertEqual(held, [])
