# SPDX-License-Identifier: MIT
"""What is found though not listed: .safetensors/*, .npy forms, raw dotted names."""
import errno
import json
import os
import struct

from mounting import MountTest, pattern, read


class Info(MountTest):
    def setUp(self):
        super().setUp()
        self.metadata = {"format": "pt", "q\"\\\n": "\u00fc\0\u2713", "": ""}
        self.source = self.write([("a.w", "F32", [2], pattern(1, 8)), ("t\tn\n\\", "U8", [1], b"x")], self.metadata)
        self.mnt = self.mount(self.source)

    def info(self, name):
        return read(self.mnt + "/.safetensors/" + name)

    def stats(self):
        return dict(line.split(" ", 1) for line in self.info("stats").decode().splitlines())

    def test_listed_where_it_is_but_not_in_the_root(self):
        self.assertNotIn(".safetensors", os.listdir(self.mnt))
        names = os.listdir(self.mnt + "/.safetensors")
        self.assertEqual({"header.json", "metadata.json", "tensors.tsv", "stats"} - set(names), set())
        for n in names:
            self.assertEqual(len(self.info(n)), os.stat(self.mnt + "/.safetensors/" + n).st_size if n != "stats"
                             else len(self.info(n)))
        self.assert_errno(errno.ENOENT, os.stat, self.mnt + "/.safetensors/nothing")
        self.assert_errno(errno.ENOENT, os.stat, self.mnt + "/a/.safetensors")

    def test_header_as_stored(self):
        stored = read(self.source)
        self.assertEqual(self.info("header.json"), stored[8:8 + struct.unpack("<Q", stored[:8])[0]])

    def test_metadata(self):
        self.assertEqual(json.loads(self.info("metadata.json")), self.metadata)
        none = self.mount(self.write([], name="none.safetensors"), at="none")
        self.assertEqual(json.loads(read(none + "/.safetensors/metadata.json")), {})

    def test_tensors(self):
        start = os.stat(self.source).st_size - 9
        self.assertEqual(self.info("tensors.tsv").decode(),
                         "path\tname\tdtype\tshape\tbytes\toffset\tsource\n"
                         "a/w\ta.w\tF32\t[2]\t8\t%d\tmodel.safetensors\n"
                         "t%%09n%%0A\\\\\tt\\tn\\n\\\\\tU8\t[1]\t1\t%d\tmodel.safetensors\n" % (start, start + 8))

    def test_long_listing_at_any_offset(self):
        names = ["layer.%d.weight" % i for i in range(3000)]
        mnt = self.mount(self.write([(n, "U8", [1], b"x") for n in names], name="long.safetensors"), at="long")
        path = mnt + "/.safetensors/tensors.tsv"
        whole = read(path)
        self.assertEqual([line.split(b"\t")[1].decode() for line in whole.splitlines()[1:]], names)
        fd = os.open(path, os.O_RDONLY)
        self.addCleanup(os.close, fd)
        for at in range(0, len(whole), 9973):
            self.assertEqual(os.pread(fd, 5000, at), whole[at:at + 5000])

    def test_stats_count(self):
        before = self.stats()
        self.assertEqual(read(self.mnt + "/a/w"), pattern(1, 8))
        after = self.stats()
        self.assertEqual((after["tensors"], after["source"]), ("2", "unchanged"))
        self.assertGreaterEqual(int(after["bytes_read"]), int(before["bytes_read"]) + 8)
        self.assertGreater(int(after["opens"]), int(before["opens"]))


class Npy(MountTest):
    def test_bytes(self):
        data = pattern(2, 24)
        mnt = self.mounted([("x.w", "F32", [2, 3], data), ("s", "I64", [], pattern(3, 8)), ("v", "U8", [5], b"12345")])
        got = read(mnt + "/x/w.npy")
        # numpy.lib.format: magic, version 1.0, the length of the text, the text up to a multiple of 64 bytes
        self.assertEqual(got[:8], b"\x93NUMPY\1\0")
        length = struct.unpack("<H", got[8:10])[0]
        self.assertEqual((10 + length) % 64, 0)
        text = got[10:10 + length]
        self.assertTrue(text.endswith(b"\n"))
        self.assertEqual(eval(text), {"descr": "<f4", "fortran_order": False, "shape": (2, 3)})
        self.assertEqual(got[10 + length:], data)
        self.assertEqual(os.stat(mnt + "/x/w.npy").st_size, len(got))
        self.assertIn(b"'shape': ()", read(mnt + "/s.npy"))
        self.assertIn(b"'shape': (5,)", read(mnt + "/v.npy"))
        self.assertEqual(read(mnt + "/x.w.npy"), got)
        self.assertEqual(os.listdir(mnt + "/x"), ["w"])

    def test_none_for_directories_and_parts_of_bytes(self):
        mnt = self.mounted([("d.w", "U8", [1], b"x"), ("four", "F4", [2], b"x")])
        for name in ("d.npy", "four.npy", "nothing.npy", ".npy", "d/w.npy.npy"):
            self.assert_errno(errno.ENOENT, os.stat, mnt + "/" + name)

    def test_a_tensor_of_that_name_wins(self):
        mnt = self.mounted([("w", "U8", [1], b"1"), ("w\u00fc", "U8", [1], b"2")])
        self.assertEqual(read(mnt + "/w\u00fc.npy")[-1:], b"2")
        flat = self.mount(self.write([("w", "U8", [1], b"1"), ("w.npy", "U8", [3], b"333")], name="2.safetensors"),
                          "layout=flat", at="flat")
        self.assertEqual(read(flat + "/w.npy"), b"333")


class Names(MountTest):
    def test_raw_dotted_names(self):
        mnt = self.mounted([("a.b.c", "U8", [1], b"1"), ("a.b.d", "U8", [1], b"2")])
        for p in ("a/b.c", "a.b.c", "a/b/c"):
            self.assertEqual(os.stat(mnt + "/" + p).st_ino, os.stat(mnt + "/a/b/c").st_ino)
            self.assertEqual(read(mnt + "/" + p), b"1")
        for p in ("a.b", "b.c", "a.b/c", "a.b.c.", ".a.b.c", "a..b.c", "a.b.e"):
            self.assert_errno(errno.ENOENT, os.stat, mnt + "/" + p)

    def test_longest_names(self):
        long, longer = "x" * 255, "y" * 256
        mnt = self.mounted([(long, "U8", [1], b"1"), (longer, "U8", [1], b"2")])
        self.assertEqual(read(mnt + "/" + long), b"1")
        self.assert_errno(errno.ENAMETOOLONG, os.stat, mnt + "/" + longer)
        cut = [n for n in os.listdir(mnt) if n != long]
        self.assertRegex(cut[0], r"\Ay{230}%~[0-9a-f]{16}\Z")
        self.assertEqual(os.getxattr(mnt + "/" + cut[0], "user.safetensors.name").decode(), longer)
        self.assertEqual(read(mnt + "/" + cut[0]), b"2")

    def test_what_is_not_there_is_not_there_twice(self):
        mnt = self.mounted([("w", "U8", [1], b"1")])
        for _ in range(3):
            self.assert_errno(errno.ENOENT, os.stat, mnt + "/nothing")
            self.assert_errno(errno.ENOTDIR, os.stat, mnt + "/w/x")

    def test_flat_layout(self):
        mnt = self.mounted([("a.b.c", "U8", [1], b"1"), ("x/y.z", "U8", [1], b"2")], "layout=flat")
        self.assertEqual(sorted(os.listdir(mnt)), ["a.b.c", "x"])
        self.assertEqual(os.listdir(mnt + "/x"), ["y.z"])

    def test_reserved_names_belong_to_us(self):
        mnt = self.mounted([(".safetensors", "U8", [1], b"1"), (".staging", "U8", [1], b"2")])
        self.assertEqual(sorted(os.listdir(mnt)), ["%2Esafetensors", "%2Estaging"])
        self.assertTrue(os.path.isdir(mnt + "/.safetensors"))
