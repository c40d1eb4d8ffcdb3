# SPDX-License-Identifier: MIT
"""fsck.safetensors: exit status and output."""
import json
import os
import struct
import subprocess

from mounting import FSCK, TESTS, MountTest, pattern, run


class Fsck(MountTest):
    def sound(self, name="sound.safetensors"):
        return self.write([("a.w", "U8", [4], b"abcd"), ("b", "F16", [1, 2], b"efgh")], {"k": "v"}, name=name)

    def broken(self, name="broken.safetensors"):
        """Two tensors with types that are none. Returns the path and the places of those types."""
        text = (b'{"first":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},'
                b'"second":{"dtype":"f32","shape":[],"data_offsets":[4,8]},'
                b'"third":{"dtype":"Q8","shape":[1],"data_offsets":[8,9]}}')
        with open(self.path(name), "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text + b"123456789")
        return self.path(name), 8 + text.index(b'"f32"'), 8 + text.index(b'"Q8"')

    def test_clean(self):
        self.assertEqual(run(FSCK, self.sound()), (0, "", ""))

    def test_list(self):
        status, out, err = run(FSCK, "--list", self.sound())
        start = os.stat(self.sound()).st_size - 8
        self.assertEqual((status, err), (0, ""))
        self.assertEqual(out, "path\tname\tdtype\tshape\tbytes\toffset\tsource\n"
                              "a/w\ta.w\tU8\t[4]\t4\t%d\tsound.safetensors\n"
                              "b\tb\tF16\t[1,2]\t4\t%d\tsound.safetensors\n" % (start, start + 4))

    def test_errors_are_all_told(self):
        path, *at = self.broken()
        status, out, err = run(FSCK, path)
        self.assertEqual((status, err, out.count("\n")), (4, "", 2))
        self.assertRegex(out, r"(?m)^%s: .*'second'.*\(byte %d\)$" % (path, at[0]))
        self.assertRegex(out, r"(?m)^%s: .*'third'.*\(byte %d\)$" % (path, at[1]))

    def test_bytes_in_the_wrong_place(self):
        text = (b'{"a":{"dtype":"U8","shape":[2],"data_offsets":[1,3]},'
                b'"b":{"dtype":"U8","shape":[9],"data_offsets":[3,12]}}')
        path = self.path("places.safetensors")
        with open(path, "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text + b"1234")
        _, out, _ = run(FSCK, "--json", path)
        # A byte before a belongs to nobody; b ends behind the end of the file.
        self.assertEqual([(f["tensor"], f["offset"]) for f in json.loads(out)[0]["findings"]],
                         [("a", 8 + len(text)), ("b", 8 + len(text) + 4)])

    def test_json(self):
        path, *at = self.broken()
        status, out, err = run(FSCK, "--json", path, self.sound())
        self.assertEqual((status, err), (4, ""))
        bad, good = json.loads(out)
        self.assertEqual((bad["file"], bad["status"]), (path, "errors"))
        self.assertEqual([(f["tensor"], f["offset"]) for f in bad["findings"]], [("second", at[0]), ("third", at[1])])
        self.assertEqual((good["status"], good["tensors"], good["findings"]), ("clean", 2, []))

    def test_json_of_a_path_that_is_no_text(self):
        path = os.fsencode(self.path("odd-")) + b"\xff.safetensors"
        os.rename(self.sound(), path)
        p = subprocess.run([os.fsencode(FSCK), b"--json", path], stdout=subprocess.PIPE)
        self.assertEqual(p.returncode, 0)
        self.assertTrue(json.loads(p.stdout.decode("utf-8"))[0]["file"].endswith("odd-\\xff.safetensors"))

    def test_unreadable(self):
        status, out, err = run(FSCK, self.path("absent"))
        self.assertEqual((status, out), (8, ""))
        self.assertEqual(err, "fsck.safetensors: %s: No such file or directory\n" % self.path("absent"))
        status, out, _ = run(FSCK, "--json", self.path("absent"))
        self.assertEqual((status, json.loads(out)[0]["status"]), (8, "unreadable"))

    def test_statuses_add_up(self):
        self.assertEqual(run(FSCK, self.sound(), self.broken()[0], self.path("absent"))[0], 12)

    def test_usage(self):
        for argv in ([], ["--no-such"], ["--json", "--list", self.sound()]):
            status, out, err = run(FSCK, *argv)
            self.assertEqual((status, out), (16, ""))
            self.assertRegex(err, r"\Afsck\.safetensors: [^\n]+\n\Z")

    def test_other_formats_are_named(self):
        for begin, says in ((b"version https://git-lfs.github.com/spec/v1\noid ", "git lfs pull"),
                            (b"<!DOCTYPE html><html>", "HTML"), (b"GGUF\3\0\0\0" + bytes(40), "GGUF"),
                            (b"\x1f\x8b\x08" + bytes(40), "gzip"), (b"", "empty")):
            with self.subTest(says=says):
                with open(self.path("other"), "wb") as f:
                    f.write(begin)
                self.assertIn(says, self.refused(self.path("other"), self.new_dir()))
                status, out, err = run(FSCK, self.path("other"))
                self.assertEqual((status, err), (4, ""))
                self.assertIn(says, out)

    def test_full_disk_is_told(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full")
        entries = [("t%d" % i, "U8", [64], pattern(i, 64)) for i in range(200)]
        path = self.write(entries)
        with open("/dev/full", "w") as full:
            p = subprocess.run([FSCK, "--list", path], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(p.returncode, 8)
        self.assertIn("No space left", p.stderr)

    def test_sample_is_what_its_script_makes(self):
        made = self.path("sample.safetensors")
        self.assertEqual(run("/usr/bin/python3", "-B", os.path.join(TESTS, "make_sample.py"), made)[0], 0)
        with open(made, "rb") as a, open(os.path.join(TESTS, "sample.safetensors"), "rb") as b:
            self.assertEqual(a.read(), b.read())
        self.assertEqual(run(FSCK, made), (0, "", ""))
