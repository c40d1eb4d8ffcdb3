# SPDX-License-Identifier: MIT
"""The model as one canonical file: in .export of a mount, and by safetensors-convert."""
import errno
import glob
import json
import os
import resource
import shutil
import struct
import subprocess
import unittest

from mounting import BIN, TESTS, MountTest, model, pattern, read, run

CONVERT = os.path.join(BIN, "safetensors-convert")
VECTORS = os.path.join(TESTS, "vectors")


class Export(MountTest):
    def export(self, mnt, name="model"):
        return os.path.join(mnt, ".export", name + ".safetensors")

    def test_goldens_come_out_unchanged(self):
        found = sorted(glob.glob(VECTORS + "/writer/*.safetensors"))
        self.assertEqual(len(found), 13)
        for n, path in enumerate(found):
            base = os.path.basename(path)
            mnt = self.mount(path, at="mnt%d" % n)
            self.assertEqual(os.listdir(mnt + "/.export"), [base])
            exported = os.path.join(mnt, ".export", base)
            self.assertEqual(os.stat(exported).st_size, os.stat(path).st_size)   # before anything is read
            self.assertEqual(read(exported), read(path))
            status, _, said = run("cp", "-f", exported, self.path("copy"))   # of a file for reading only, as the copy is
            self.assertEqual((status, said), (0, ""))
            self.assertEqual(read(self.path("copy")), read(path))

    def test_cp_and_convert_agree(self):
        found = [VECTORS + "/safetensors/ok_%s.safetensors" % n for n in
                 ("many", "unaligned_data", "zero_dim_between", "header_order_differs", "metadata_unicode", "name_nul")]
        for n, path in enumerate(found):
            mnt = self.mount(path, at="mnt%d" % n)
            run("cp", "-f", os.path.join(mnt, ".export", os.path.basename(path)), self.path("cp.safetensors"))
            self.assertEqual(run(CONVERT, path, self.path("convert.safetensors")), (0, "", ""))
            self.assertEqual(read(self.path("cp.safetensors")), read(self.path("convert.safetensors")))

    def shuffled(self):
        """A model in an order that is not the canonical one, and its canonical bytes, made by hand: by dtype (F64, F32, U8),
        then by name; large tensors between many tiny ones."""
        entries = [("%s.%d" % (kind, i), kind, [size // item], pattern(i, size)) for i in range(300)
                   for kind, item, size in (("U8", 1, 1 + i % 7), ("F64", 8, 8), ("F32", 4, 300000 if i % 100 == 50 else 4 * i))]
        source = self.write(entries, {"format": "pt"})
        order = sorted(entries, key=lambda e: (["F64", "F32", "U8"].index(e[1]), e[0]))
        head, at = {"__metadata__": {"format": "pt"}}, 0
        for name, dtype, shape, data in order:
            head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
            at += len(data)
        text = json.dumps(head, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        return source, struct.pack("<Q", len(text)) + text + b"".join(e[3] for e in order)

    def test_another_order(self):
        source, want = self.shuffled()
        exported = self.export(self.mount(source))
        self.assertEqual(os.stat(exported).st_size, len(want))
        self.assertTrue(read(exported) == want)
        self.assertEqual(run(CONVERT, source, self.path("out.safetensors")), (0, "", ""))
        self.assertTrue(read(self.path("out.safetensors")) == want)

    def test_odd_offsets(self):
        source, want = self.shuffled()
        for options in ([], ["direct_io"]):
            mnt = self.mount(source, *options, at="mnt" + "".join(options))
            fd = os.open(self.export(mnt), os.O_RDONLY)
            try:
                for off in list(range(0, len(want), 40009)) + [1, 7, 4095, len(want) - 1, len(want), len(want) + 5]:
                    for size in (1, 13, 4097, 70001):
                        self.assertTrue(os.pread(fd, size, off) == want[off:off + size], (off, size))
            finally:
                os.close(fd)

    def test_twenty_thousand_tiny_tensors(self):
        entries = [("t%05d" % i, ["F32", "U8", "I64"][i % 3], [1], pattern(i, [4, 1, 8][i % 3])) for i in range(20000)]
        source = self.write(entries)
        exported = self.export(self.mount(source))
        self.assertEqual(run(CONVERT, source, self.path("out.safetensors")), (0, "", ""))
        have = read(exported)
        self.assertTrue(have == read(self.path("out.safetensors")))
        data = have[8 + struct.unpack("<Q", have[:8])[0]:]
        want = b"".join(e[3] for k in ("I64", "F32", "U8") for e in entries if e[1] == k)
        self.assertTrue(data == want)

    def test_what_is_missing_has_a_reason(self):
        mnt = self.mount(self.write([("a", "U8", [1], b"x")]))
        self.assertEqual(os.listdir(mnt + "/.export"), ["model.safetensors"])
        self.assertRegex(read(mnt + "/.safetensors/export-error"), rb"\Athin: [^\n]*config[^\n]*\n\Z")

    def test_an_export_cannot_be_changed(self):
        mnt = self.mount(self.write([("a", "U8", [1], b"x")]))
        self.assert_errno(errno.EROFS, open, self.export(mnt), "wb")
        self.assert_errno(errno.EROFS, os.unlink, self.export(mnt))
        self.assert_errno(errno.ENOENT, os.stat, mnt + "/.export/other.safetensors")


class Convert(MountTest):
    def setUp(self):
        super().setUp()
        self.source = self.write([("b", "F32", [1], b"abcd"), ("a", "F64", [1], b"01234567")])
        text = b'{"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}}'
        self.want = struct.pack("<Q", 112) + text.ljust(112) + b"01234567abcd"

    def wrong(self, status, says, *argv, **more):
        """Must fail with one line, and leave no trace."""
        before = sorted(os.listdir(self.tmp))
        got, out, err = run(CONVERT, *argv, **more)
        self.assertEqual((got, out), (status, ""), err)
        self.assertRegex(err, r"\Asafetensors-convert: [^\n]+\n\Z")
        self.assertIn(says, err)
        self.assertEqual(sorted(os.listdir(self.tmp)), before)

    def test_converts(self):
        self.assertEqual(run(CONVERT, self.source, self.path("out.safetensors")), (0, "", ""))
        self.assertEqual(read(self.path("out.safetensors")), self.want)

    def test_onto_its_own_source(self):
        os.chmod(self.source, 0o640)
        for _ in range(2):
            self.assertEqual(run(CONVERT, self.source, self.source), (0, "", ""))
            self.assertEqual(read(self.source), self.want)
        self.assertEqual(os.stat(self.source).st_mode & 0o7777, 0o640)
        self.assertEqual(os.listdir(self.tmp), ["model.safetensors"])

    def test_names_with_a_hyphen(self):
        os.rename(self.source, self.path("-in.safetensors"))
        self.assertEqual(run(CONVERT, "--", "-in.safetensors", "-out.safetensors", cwd=self.tmp), (0, "", ""))
        self.assertEqual(run(CONVERT, "./-in.safetensors", "./again.safetensors", cwd=self.tmp), (0, "", ""))
        self.assertEqual(read(self.path("-out.safetensors")), self.want)
        self.assertEqual(read(self.path("again.safetensors")), self.want)
        self.wrong(1, "'-in.safetensors'", "-in.safetensors", "x.safetensors", cwd=self.tmp)

    def test_usage(self):
        self.wrong(1, "SRC and DST")
        self.wrong(1, "SRC and DST", self.source)
        self.wrong(1, "SRC and DST", self.source, self.path("a.safetensors"), self.path("b.safetensors"))
        self.wrong(1, "--arch needs a value", self.source, self.path("a.thin"), "--arch")
        self.wrong(2, "no directory", self.source, self.path("a.thin"))
        self.wrong(1, "--frob", "--frob", self.source, self.path("a.safetensors"))
        for name in ("out.txt", "out", ".safetensors", "out.SAFETENSORS"):
            self.wrong(1, ".safetensors or .thin expected", self.source, self.path(name))
        for word in ("-h", "--help", "-V", "--version"):
            status, out, err = run(CONVERT, word)
            self.assertEqual((status, err), (0, ""))
            self.assertIn("safetensors-convert", out)

    def test_what_cannot_be_read(self):
        with open(self.path("html"), "w") as f:
            f.write("<!DOCTYPE html><html>no model</html>")
        self.wrong(2, "html: ", self.path("html"), self.path("out.safetensors"))
        self.wrong(2, "missing: ", self.path("missing"), self.path("out.safetensors"))
        self.wrong(2, "", VECTORS + "/safetensors/bad_hole.safetensors", self.path("out.safetensors"))

    def test_what_cannot_be_written(self):
        os.mkdir(self.path("dir.safetensors"))
        self.wrong(2, "dir.safetensors: ", self.source, self.path("dir.safetensors"))
        self.wrong(2, "No such file", self.source, self.path("missing/out.safetensors"))

    @unittest.skipUnless(shutil.which("strace"), "needs strace")
    def test_stopped_by_a_signal(self):
        """At its first and second write, and while it copies within the kernel: no temporary file stays."""
        model(self.source, [("t%d" % i, "U8", [2**20 + i], bytes(2**20 + i)) for i in range(40)])
        before = sorted(os.listdir(self.tmp))
        for name, number in (("INT", 2), ("TERM", 15), ("HUP", 1)):
            for call in ("write:signal=%s:when=1", "copy_file_range:signal=%s:when=1", "copy_file_range:signal=%s:when=2"):
                status, out, err = run("strace", "-o", "/dev/null", "-e", "inject=" + call % name,
                                       CONVERT, self.source, self.path("out.safetensors"))
                self.assertEqual((status, out), (-number, ""), err)
                self.assertRegex(err, r"\Asafetensors-convert: [^\n]+\n\Z")
                self.assertEqual(sorted(os.listdir(self.tmp)), before)

    def test_file_size_limit(self):
        model(self.source, [("t", "U8", [2**20], bytes(2**20))])
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
        self.wrong(2, "File too large", self.source, self.path("out.safetensors"), preexec_fn=limit)

    def test_hostile_names_stay_on_one_line(self):
        self.wrong(2, "\\x0a", self.path("a\nb\x1b[31m"), self.path("out.safetensors"))

    def test_progress_on_a_terminal_only(self):
        big = [("t%d" % i, "U8", [2**20], bytes(2**20)) for i in range(4)]
        model(self.source, big)
        self.assertEqual(run(CONVERT, self.source, self.path("out.safetensors")), (0, "", ""))
        terminal, end = os.openpty()
        p = subprocess.Popen([CONVERT, self.source, self.path("out.safetensors")], stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=end)
        os.close(end)
        said = b""
        try:
            while True:
                said += os.read(terminal, 4096)
        except OSError:   # EIO: the other end is closed
            pass
        os.close(terminal)
        self.assertEqual((p.communicate()[0], p.returncode), (b"", 0))
        self.assertIn(b"] 100% of ", said)
        self.assertTrue(said.endswith(b"\r\x1b[K"), said)   # the line is cleared at the end
