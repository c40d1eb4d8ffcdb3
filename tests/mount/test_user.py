# SPDX-License-Identifier: MIT
"""What only an ordinary user meets: fusermount3, and what he may not do."""
import os
import signal
import stat

from mounting import MountTest, keeper_and_server, mounts, read, run


class User(MountTest):
    needs_user = True

    def setUp(self):
        super().setUp()
        self.source = self.write([("w", "U8", [3], b"abc")])

    def test_mount_read_unmount(self):
        mnt = self.mount(self.source)
        self.assertEqual(read(mnt + "/w"), b"abc")
        info = mounts(mnt)[0]
        self.assertEqual((info["type"], info["source"]), ("fuse.safetensors", self.source))
        self.assertIn("user_id=%d" % os.getuid(), info["super"])
        self.assertNotIn("allow_other", info["super"])
        self.assertEqual({"ro", "nosuid", "nodev"} - set(info["options"]), set())
        self.assertEqual(run("fusermount3", "-u", mnt), (0, "", ""))
        self.assert_gone(mnt)

    def test_sigterm_removes_the_mount(self):
        for whom in (0, 1):
            mnt = self.mount(self.source)
            with open(mnt + "/w", "rb"):
                os.kill(keeper_and_server(mnt)[whom], signal.SIGTERM)
                self.assert_gone(mnt)

    def test_allow_other_must_be_allowed(self):
        err = self.refused(self.source, self.new_dir(), "allow_other", status=1)
        self.assertIn("user_allow_other", err)
        self.assertIn("/etc/fuse.conf", err)

    def test_files_are_his_own(self):
        os.chmod(self.source, 0o044)   # he mounted it before; nobody else gets in
        os.chmod(self.source, 0o444)
        st = os.stat(self.mount(self.source) + "/w")
        self.assertEqual((st.st_uid, st.st_gid, stat.filemode(st.st_mode)), (os.getuid(), os.getgid(), "-r--r--r--"))

    def test_not_as_somebody_else(self):
        self.refused(self.source, self.new_dir(), "uid=0", status=1, says="uid")
        self.refused(self.source, self.new_dir(), "gid=0", status=1, says="gid")
        mnt = self.mount(self.source, "uid=%d" % os.getuid(), "gid=%d" % os.getgid(), "umask=077")
        self.assertEqual(stat.filemode(os.stat(mnt + "/w").st_mode), "-r--------")

    def test_mount_point_must_be_his(self):
        self.assertFalse(os.access("/", os.W_OK))
        self.refused(self.source, "/usr", status=1, says="writable")

    def test_source_must_be_readable(self):
        os.chmod(self.source, 0)
        self.refused(self.source, self.new_dir(), says="Permission denied")

    def test_readahead_is_roots(self):
        mnt = self.new_dir()
        self.addCleanup(self.unmount, mnt)
        status, out, err = run(*self.command(self.source, mnt, "readahead=1M"))
        self.assertEqual((status, out), (0, ""))
        self.assertRegex(err, r"\Amount\.safetensors: [^\n]*readahead[^\n]*\n\Z")
        self.assertEqual(read(mnt + "/w"), b"abc")

    def test_without_fusermount3(self):
        mnt = self.new_dir()
        env = dict(os.environ, PATH=self.tmp)
        status, out, err = run(*self.command(self.source, mnt), env=env)
        # libfuse looks where it was built to look first; only where that fails too is there anything to say.
        if status != 0:
            self.assertRegex(err, r"\Amount\.safetensors: [^\n]+\n\Z")
        self.unmount(mnt)
