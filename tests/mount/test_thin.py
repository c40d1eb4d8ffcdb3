# SPDX-License-Identifier: MIT
"""ThinTensor archives that are odd or unsound, and the commands about them: what the format says must come of it.

Archives are taken apart and put together by hand here; their verdicts follow from the format's description."""
import errno
import json
import os
import shutil
import struct

from mounting import BIN, FSCK, TESTS, MountTest, read, run

CONVERT = os.path.join(BIN, "safetensors-convert")
FIXTURES = os.path.join(TESTS, "fixtures", "thin")


def taken_apart(path):
    """The manifest, the records as [id, offset, stored, raw, flags, digest], the blobs."""
    b = read(path)
    at, n, table, count, data = struct.unpack_from("<5Q", b, 16)
    records = []
    for _ in range(count):
        (length,) = struct.unpack_from("<H", b, table)
        records.append([b[table + 2:table + 2 + length], *struct.unpack_from("<QQQI", b, table + 2 + length),
                        b[table + 30 + length:table + 62 + length]])
        table += 62 + length
    return json.loads(b[at:at + n]), records, b[data:]


def put_together(path, manifest, records, blobs):
    text = json.dumps(manifest).encode()
    data = 88 + len(text) + sum(62 + len(r[0]) for r in records)
    shift = data - min([r[1] for r in records if r[2]], default=data)
    table = b"".join(struct.pack("<H", len(r[0])) + r[0] + struct.pack("<QQQI", r[1] + shift, *r[2:5]) + r[5] for r in records)
    with open(path, "wb") as f:
        f.write(b"THINv0\0\0" + struct.pack("<II5Q", 88, 0, 88, len(text), 88 + len(text), len(records), data) + bytes(32) +
                text + table + blobs)


class Archives(MountTest):
    def setUp(self):
        super().setUp()
        self.manifest, self.records, self.blobs = taken_apart(FIXTURES + "/archives/fused-ok.thin")   # A and B lie in F
        self.page = {p["id"]: p for p in self.manifest["pages"]}

    def put(self):
        put_together(self.path("x.thin"), self.manifest, self.records, self.blobs)
        return self.path("x.thin")

    def findings(self):
        out = run(FSCK, "--json", self.put())[1]
        return [f["kind"] for f in json.loads(out)[0]["findings"]]

    def test_as_it_was(self):
        self.assertEqual(self.findings(), [])

    def test_a_parent_that_is_itself_inside_another(self):
        """Of a parent without a record nothing is said; its pages are there, and have no bytes."""
        self.page["F"]["fused_to"], self.records, self.blobs = "F", [], b""
        self.assertEqual(self.findings(), [])
        mnt = self.mount(self.put())
        self.assertEqual(sorted(os.listdir(mnt)), ["A", "B", "F"])
        self.assertEqual(os.stat(mnt + "/A").st_size, self.page["A"]["size"])
        self.assert_errno(errno.EIO, read, mnt + "/A")
        self.assertEqual(run(CONVERT, "--extract", self.put(), self.path("new/directory")), (0, "", ""))
        self.assertEqual(os.listdir(self.path("new/directory/pages")), [])

    def test_a_page_twice(self):
        self.manifest["pages"].append(dict(self.page["F"]))
        self.assertEqual(self.findings(), ["duplicate-page"])

    def test_no_bytes_beyond_the_end(self):
        """Nothing is never read too short; and this digest is that of nothing."""
        nothing = bytes.fromhex("af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262")
        self.records.append([b"Z", 10**6, 0, 0, 0, nothing])
        self.assertEqual(self.findings(), ["record-not-in-manifest", "stored-zero", "blob-past-end"])

    def test_a_parent_that_only_the_table_knows(self):
        self.manifest["pages"].remove(self.page["F"])
        self.assertEqual(self.findings(), ["fused-parent-missing", "fused-parent-missing", "record-not-in-manifest"])
        self.blobs = bytes(len(self.blobs))
        self.assertEqual(self.findings(), ["fused-parent-missing", "fused-parent-missing", "record-not-in-manifest",
                                           "checksum-mismatch", "logical-checksum-mismatch", "logical-checksum-mismatch"])


class Commands(MountTest):
    def setUp(self):
        super().setUp()
        shutil.copytree(FIXTURES + "/ok/llama-gqa", self.path("model"))
        self.write([("kept", "U8", [3], b"old")], name="target")

    def add(self, name, entries):
        self.write(entries, name="model/" + name)

    def wrong(self, says, *argv):
        """Says so in one line, and leaves all as it was."""
        before = sorted(os.listdir(self.tmp)), read(self.path("target"))
        status, out, err = run(CONVERT, *argv, self.path("target"))
        self.assertEqual((status, out), (2, ""), err)
        self.assertRegex(err, r"\Asafetensors-convert: [^\n]+\n\Z")
        self.assertIn(says, err)
        self.assertEqual((sorted(os.listdir(self.tmp)), read(self.path("target"))), before)

    def test_directories_are_made(self):
        self.assertEqual(run(CONVERT, self.path("model"), self.path("a/b/x.thin"))[0], 0)
        self.assertEqual(run(CONVERT, "--repack", "hot_stream_v1", self.path("a/b/x.thin"), self.path("c/d/y.thin"))[:2], (0, ""))
        self.assertEqual(run(FSCK, self.path("a/b/x.thin"), self.path("c/d/y.thin"))[0], 0)

    def test_a_fused_page_with_a_name_that_is_taken(self):
        self.add("more.safetensors", [("layer_0_attn_qkv_fused", "U8", [1], b"x")])
        self.assertEqual(run(CONVERT, self.path("model"), self.path("x.thin"))[0], 0)
        self.wrong("manifest-invalid", "--repack", "fused_decode_v1", self.path("x.thin"))

    def test_what_would_be_no_sound_archive(self):
        os.rename(self.path("target"), self.path("target.thin"))
        before = read(self.path("target.thin"))
        status, _, err = run(CONVERT, "--arch", b"\xff", self.path("model"), self.path("target.thin"))
        self.assertEqual((status, read(self.path("target.thin"))), (2, before), err)
        with open(self.path("model/config.json")) as f:
            config = json.load(f)
        config["rope_scaling"] = None
        for _ in range(126):    # with the document itself 127 levels, and 128 in the manifest
            config["rope_scaling"] = [config["rope_scaling"]]
        with open(self.path("model/config.json"), "w") as f:
            json.dump(config, f)
        status, _, err = run(CONVERT, self.path("model"), self.path("target.thin"))
        self.assertEqual((status, read(self.path("target.thin"))), (2, before), err)
        self.assertIn("verify-failed: manifest-parse", err)
        mnt = self.mount(self.path("model"))
        self.assertEqual(os.listdir(mnt + "/.export"), ["model.safetensors"])
        self.assertIn(b"thin: verify-failed: manifest-parse", read(mnt + "/.safetensors/export-error"))

    def test_a_shard_that_is_not_there(self):
        os.symlink("nowhere", self.path("model/z.safetensors"))
        self.assertIn("io: ", run(CONVERT, self.path("model"), self.path("x.thin"))[2])
        self.assertFalse(os.path.exists(self.path("x.thin")))

    def test_dry_run_names_shards_without_pages(self):
        self.add("none.safetensors", [])
        status, out, _ = run(CONVERT, "--dry-run", self.path("model"), self.path("not/made/x.thin"))
        report = json.loads(out)
        self.assertEqual(status, 0)
        self.assertEqual(os.path.basename(report["shard_order"][2]), "none.safetensors")
        last = report["deletion_points"][2]
        self.assertEqual((last["retained_pages"], last["after_page_index"], last["after_page_id"]), (0, None, None))
        self.assertGreater(report["available_bytes_before"], 0)
        self.assertFalse(os.path.exists(self.path("not")))

    def test_pack_through_a_link(self):
        self.assertEqual(run(CONVERT, "--extract", FIXTURES + "/llama-gqa.thin", self.path("parts")), (0, "", ""))
        os.symlink("pages", self.path("parts/link"))
        for n in "12":   # no ids, and so nothing that is there twice
            os.mkdir(self.path("parts/pages/" + n))
            open(os.fsencode(self.path("parts/pages/" + n)) + b"/\xff.bin", "w").close()
        self.assertEqual(run(CONVERT, "--pack", self.path("parts/manifest.json"), self.path("parts/link"), self.path("x.thin")),
                         (0, "", ""))
        self.assertEqual(taken_apart(self.path("x.thin"))[0], taken_apart(FIXTURES + "/llama-gqa.thin")[0])
