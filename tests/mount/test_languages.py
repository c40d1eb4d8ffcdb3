# SPDX-License-Identifier: MIT
"""Other programs read tensors in their own ways: NumPy, Perl, Node, awk, dd, hexdump."""
import math
import os
import struct
import unittest

from mounting import MountTest, run

try:
    import numpy
except ImportError:
    numpy = None

VALUES = [1.5, -2.25, 0.0, 1024.0, -0.125, 3.0]


class Languages(MountTest):
    def setUp(self):
        super().setUp()
        self.mnt = self.mounted([
            ("i.counts", "I64", [4], struct.pack("<4q", 1, -2, 3, 2**40)),
            ("m.weight", "F32", [2, 3], struct.pack("<6f", *VALUES)),
            ("m.half", "F16", [3, 2], struct.pack("<6e", *VALUES)),
            ("m.brain", "BF16", [6], b"".join(struct.pack("<f", v)[2:] for v in VALUES)),
            ("m.eight", "F8_E4M3", [2], b"\x38\xc0"),
            ("m.flags", "BOOL", [3], b"\1\0\1"),
            ("m.bytes", "U8", [5], b"Hello"),
        ])

    @unittest.skipUnless(numpy, "no NumPy")
    def test_numpy_load(self):
        for name, dtype, shape, values in (
                ("i/counts", "<i8", (4,), [1, -2, 3, 2**40]), ("m/weight", "<f4", (2, 3), VALUES),
                ("m/half", "<f2", (3, 2), VALUES), ("m/flags", "|b1", (3,), [True, False, True]),
                ("m/bytes", "|u1", (5,), list(b"Hello")), ("m/eight", "|u1", (2,), [0x38, 0xC0]),
                # the upper halves of 1.5 -2.25 0 1024 -0.125 3 as F32
                ("m/brain", "<u2", (6,), [0x3FC0, 0xC010, 0, 0x4480, 0xBE00, 0x4040])):
            for mode in ("r", None):
                a = numpy.load("%s/%s.npy" % (self.mnt, name), mmap_mode=mode)
                self.assertEqual((a.dtype.str, a.shape, a.ravel().tolist()), (dtype, shape, values))
                self.assertEqual(isinstance(a, numpy.memmap), mode == "r")

    @unittest.skipUnless(numpy, "no NumPy")
    def test_numpy_fromfile(self):
        self.assertEqual(numpy.fromfile(self.mnt + "/m/weight", "<f4").tolist(), VALUES)
        self.assertEqual(numpy.fromfile(self.mnt + "/i/counts", "<i8").tolist(), [1, -2, 3, 2**40])
        self.assertEqual(numpy.memmap(self.mnt + "/m/half", "<f2", "r", shape=(3, 2))[1].tolist(), [0.0, 1024.0])
        wide = numpy.fromfile(self.mnt + "/m/brain", "<u2").astype("<u4") << 16
        self.assertEqual(wide.view("<f4").tolist(), VALUES)

    def output(self, *argv):
        status, out, err = run(*argv)
        self.assertEqual(status, 0, err)   # some say more than one asked for
        return out

    def test_perl(self):
        program = 'open F, "<:raw", shift or die; read F, $b, 1e6; $s += $_ for unpack "f<*", $b; printf "%g\\n", $s'
        self.assertEqual(self.output("perl", "-e", program, self.mnt + "/m/weight"), "%g\n" % math.fsum(VALUES))

    def test_perl_by_the_raw_name(self):
        program = 'open F, "<:raw", shift or die; read F, $b, 1e6; print join(",", unpack "q<*", $b)'
        self.assertEqual(self.output("perl", "-e", program, self.mnt + "/i.counts"), "1,-2,3,1099511627776")

    def test_node(self):
        program = ('const b = require("fs").readFileSync(process.argv[1]);'
                   'console.log([...new Float32Array(b.buffer.slice(b.byteOffset, b.byteOffset + b.length))].join(" "))')
        self.assertEqual(self.output("node", "-e", program, self.mnt + "/m/weight"),
                         "1.5 -2.25 0 1024 -0.125 3\n")

    def test_od_and_awk(self):
        program = "od -An -v -t f4 '%s' | awk '{ for (i = 1; i <= NF; i++) s += $i * $i } END { print s }'"
        out = self.output("sh", "-c", program % (self.mnt + "/m/weight"))
        self.assertEqual(float(out), float("%.6g" % sum(v * v for v in VALUES)))

    def test_dd_and_hexdump(self):
        out = self.output("sh", "-c", "dd if='%s/m/weight' bs=4 skip=1 count=2 status=none | hexdump -C" % self.mnt)
        self.assertEqual(out, "00000000  00 00 10 c0 00 00 00 00                           |........|\n00000008\n")

    def test_dd_direct(self):
        copy = self.path("copy")
        self.output("dd", "if=" + self.mnt + "/m/bytes", "of=" + copy, "bs=4096", "iflag=direct", "status=none")
        with open(copy, "rb") as f:
            self.assertEqual(f.read(), b"Hello")

    def test_cat_wc_cmp(self):
        self.assertEqual(self.output("sh", "-c", "cat '%s/m/bytes' | wc -c" % self.mnt).strip(), "5")
        with open(self.path("want"), "wb") as f:
            f.write(struct.pack("<6e", *VALUES))
        self.output("cmp", self.path("want"), self.mnt + "/m/half")
        self.assertEqual(os.path.getsize(self.mnt + "/m/half"), 12)
