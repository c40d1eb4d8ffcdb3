# SPDX-License-Identifier: MIT
"""Mount points and sources that will not do: each with its status and one line."""
import os
import signal
import subprocess

from mounting import MOUNT, MountTest, keeper_and_server, mounts, namespace, needs_root, processes, read, run, wait_for


class MountPoint(MountTest):
    def setUp(self):
        super().setUp()
        self.source = self.write([("w", "U8", [3], b"abc")])

    def test_missing(self):
        err = self.refused(self.source, self.path("none"), says=self.path("none"))
        self.assertIn("does not exist", err)

    def test_not_a_directory(self):
        self.refused(self.source, self.source, says="not a directory")

    def test_not_empty(self):
        mnt = self.new_dir()
        os.mkdir(mnt + "/here")
        self.refused(self.source, mnt, says="not empty")
        self.assertEqual(os.listdir(self.mount(self.source, "nonempty")), ["w"])

    def test_already_mounted(self):
        mnt = self.mount(self.source)
        status, out, err = run(MOUNT, self.source, mnt)
        self.assertEqual((status, out), (32, ""))
        self.assertRegex(err, r"\Amount\.safetensors: %s: already mounted[^\n]+\n\Z" % mnt)
        self.assertEqual(len(mounts(mnt)), 1)
        self.assertEqual(read(mnt + "/w"), b"abc")

    def test_stale(self):
        mnt = self.mount(self.source)
        os.kill(keeper_and_server(mnt)[1], signal.SIGKILL)
        wait_for(lambda: not processes(mnt), "the keeper outlives its server")
        # A dead mount stays, so that nobody takes it for an empty directory.
        self.assertEqual(len(mounts(mnt)), 1)
        status, out, err = run(MOUNT, self.source, mnt)
        self.assertEqual((status, out), (32, ""))
        self.assertRegex(err, r"\Amount\.safetensors: %s: a dead mount is in the way [^\n]*fusermount3 -u[^\n]*\n\Z" % mnt)
        self.assertEqual(run("fusermount3", "-u", mnt)[0], 0)
        self.mount(self.source)

    def test_symlink_to_it(self):
        mnt = self.new_dir()
        os.symlink(mnt, self.path("link"))
        self.addCleanup(self.unmount, mnt)
        self.assertEqual(run(MOUNT, self.source, self.path("link")), (0, "", ""))
        self.assertEqual(read(mnt + "/w"), b"abc")
        self.assertEqual(mounts(mnt)[0]["source"], self.source)

    def test_over_itself(self):
        """A mount inside a mount does not exist: nothing can be made there."""
        mnt = self.mount(self.source)
        self.refused(self.source, mnt + "/new", says="does not exist")

    @needs_root
    def test_without_the_device(self):
        script = "mount -t tmpfs none /dev && exec '%s' '%s' '%s'" % (MOUNT, self.source, self.new_dir())
        status, out, err = run(*namespace()[0], "sh", "-c", script)
        self.assertEqual((status, out), (2, ""))
        self.assertRegex(err, r"\Amount\.safetensors: /dev/fuse: missing: [^\n]+\n\Z")



class Source(MountTest):
    def test_missing(self):
        self.assertEqual(self.refused(self.path("none"), self.new_dir()),
                         "mount.safetensors: %s: No such file or directory\n" % self.path("none"))

    def test_no_regular_file(self):
        os.mkfifo(self.path("pipe"))
        self.refused(self.path("pipe"), self.new_dir(), says="not a regular file")

    def test_device(self):
        self.refused("/dev/null", self.new_dir(), says="not a regular file")

    def test_names_that_upset_terminals(self):
        with open(self.path("x\n\x1b[31m"), "wb") as f:
            f.write(b"GGUF")
        err = self.refused(self.path("x\n\x1b[31m"), self.new_dir())
        self.assertNotIn("\x1b", err)

    def test_relative_to_the_working_directory(self):
        source, mnt = self.write([("w", "U8", [3], b"abc")], name="rel.safetensors"), self.new_dir()
        self.addCleanup(self.unmount, mnt)
        self.assertEqual(run(MOUNT, "rel.safetensors", "./mnt", cwd=self.tmp), (0, "", ""))
        self.assertEqual(read(mnt + "/w"), b"abc")
        self.assertEqual(mounts(mnt)[0]["source"], source)

    def test_through_links_without_extension(self):
        self.write([("w", "U8", [3], b"abc")], name="0123456789abcdef")
        os.symlink("0123456789abcdef", self.path("model.safetensors"))
        mnt = self.mount(self.path("model.safetensors"))
        self.assertEqual(mounts(mnt)[0]["source"], self.path("0123456789abcdef"))
        self.assertEqual(read(mnt + "/w"), b"abc")

    def test_odd_names_are_shown_in_full(self):
        for name in ("a,b c\\d.safetensors", "tab\tline\nend", "#hash", "ü"):
            with self.subTest(name):
                source = self.write([("w", "U8", [3], b"abc")], name=name)
                mnt = self.mount(source, at="mnt " + name)
                self.assertEqual(mounts(mnt)[0]["source"], source)
                self.assertEqual(os.getxattr(mnt + "/w", "user.safetensors.source").decode(), name)
                self.assertEqual(read(mnt + "/w"), b"abc")

    @needs_root
    def test_no_permission(self):
        source = self.write([("w", "U8", [3], b"abc")])
        os.chmod(source, 0)
        mnt = self.new_dir()
        script = "setpriv --reuid nobody --regid nogroup --clear-groups --inh-caps=-all '%s' '%s' '%s'"
        p = subprocess.run(["sh", "-c", script % (MOUNT, source, mnt)], capture_output=True, text=True)
        # Whatever stops an ordinary user first, it is said in one line and nothing is mounted.
        self.assertIn(p.returncode, (1, 2, 32))
        self.assertRegex(p.stderr, r"\Amount\.safetensors: [^\n]+\n\Z")
        self.assertEqual(mounts(mnt), [])
