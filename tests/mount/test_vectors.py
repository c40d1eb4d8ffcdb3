# SPDX-License-Identifier: MIT
"""Each file of tests/vectors/safetensors, mounted and checked: index.json says what the reference makes of it."""
import hashlib
import json
import os

from mounting import FSCK, TESTS, MountTest, read, run

FOLDER = os.path.join(TESTS, "vectors", "safetensors")
with open(os.path.join(FOLDER, "index.json")) as f:
    CASES = json.load(f)["cases"]


def header_tensors(path):
    """For files newer than the reference: their header is plain JSON."""
    b = read(path)
    n = int.from_bytes(b[:8], "little")
    for name, t in json.loads(b[8:8 + n]).items():
        begin, end = t["data_offsets"]
        yield {"name": name, "dtype": t["dtype"], "shape": t["shape"],
               "sha256": hashlib.sha256(b[8 + n + begin:8 + n + end]).hexdigest()}


def shown_tensors(mnt):
    for folder, _, files in os.walk(mnt):
        for path in (os.path.join(folder, f) for f in files):
            def value(name):
                return os.getxattr(path, name).decode()
            yield (value("user.safetensors.name"), value("user.dtype"), json.loads(value("user.shape")),
                   hashlib.sha256(read(path)).hexdigest())


class Vectors(MountTest):
    def accepted(self, case):
        path = os.path.join(FOLDER, case["file"])
        mnt = self.mount(path)
        want = case["tensors"] if "tensors" in case else header_tensors(path)
        self.assertEqual(sorted(shown_tensors(mnt)),
                         sorted((t["name"], t["dtype"], t["shape"], t["sha256"]) for t in want))
        self.assertEqual(run(FSCK, path), (0, "", ""))
        status, out, err = run(FSCK, "--list", path)
        self.assertEqual((status, err), (0, ""))
        self.assertEqual(os.fsencode(out), read(mnt + "/.safetensors/tensors.tsv"))
        self.assertEqual(out.count("\n"), 1 + len(list(shown_tensors(mnt))))

    def rejected(self, case):
        path = os.path.join(FOLDER, case["file"])
        self.refused(path, self.new_dir(), says=case["file"])
        status, out, err = run(FSCK, path)
        self.assertEqual((status, err), (4, ""))
        self.assertTrue(out.startswith(path + ": "), out)
        status, out, _ = run(FSCK, "--json", path)
        said = json.loads(out)
        self.assertEqual((status, said[0]["file"], said[0]["status"]), (4, path, "errors"))
        self.assertTrue(said[0]["findings"][0]["message"])


def add(case):
    method = Vectors.accepted if case["expect"] == "accept" else Vectors.rejected
    setattr(Vectors, "test_" + case["file"].split(".")[0], lambda self: method(self, case))


for c in CASES:
    add(c)
