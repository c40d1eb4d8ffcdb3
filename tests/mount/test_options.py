# SPDX-License-Identifier: MIT
"""The command line: every option, the single letters, what is refused."""
import os
import pwd
import re
import stat

from mounting import MOUNT, MountTest, mounts, needs_root, read, run


class Options(MountTest):
    def setUp(self):
        super().setUp()
        self.source = self.write([("a.w", "U8", [3], b"abc")])
        os.chmod(self.source, 0o644)

    def shown(self, *options):
        """Owner, group, mode of a tensor, mode of a directory."""
        mnt = self.mount(self.source, *options)
        f, d = os.stat(mnt + "/a/w"), os.stat(mnt + "/a")
        self.unmount(mnt)
        return f.st_uid, f.st_gid, stat.filemode(f.st_mode), stat.filemode(d.st_mode)

    @needs_root
    def test_owner_and_mode(self):
        os.chown(self.source, 1234, 2345)
        nobody = pwd.getpwnam("nobody").pw_uid
        self.assertEqual(self.shown(), (1234, 2345, "-r--r--r--", "dr-xr-xr-x"))
        self.assertEqual(self.shown("uid=77", "gid=88"), (77, 88, "-r--r--r--", "dr-xr-xr-x"))
        self.assertEqual(self.shown("uid=nobody", "gid=root"), (nobody, 0, "-r--r--r--", "dr-xr-xr-x"))
        self.assertEqual(self.shown("umask=027"), (1234, 2345, "-r--r-----", "dr-xr-x---"))
        self.assertEqual(self.shown("noallow_other")[:2], (0, 0))
        os.chmod(self.source, 0o600)
        self.assertEqual(self.shown()[2:], ("-r--------", "dr-x------"))
        self.assertEqual(self.shown("umask=0")[2:], ("-r--r--r--", "dr-xr-xr-x"))

    def test_mountinfo(self):
        info = mounts(self.mount(self.source))[0]
        self.assertEqual((info["type"], info["source"]), ("fuse.safetensors", self.source))
        self.assertIn("ro", info["options"])
        self.assertIn("default_permissions", info["super"])

    @needs_root
    def test_allow_other_is_the_default_of_root(self):
        self.assertIn("allow_other", mounts(self.mount(self.source, at="1"))[0]["super"])
        self.assertNotIn("allow_other", mounts(self.mount(self.source, "noallow_other", at="2"))[0]["super"])

    def test_each_option(self):
        for n, option in enumerate(("layout=tree", "layout=flat", "umask=022", "direct_io", "nodirect_io",
                                    "readahead=64K", "readahead=1M", "readahead=65536", "max_threads=1",
                                    "max_threads=64", "default_permissions", "max_read=65536", "nosuid", "nodev",
                                    "noexec", "noatime", "ro", "rw", "sync", "async")):
            with self.subTest(option):
                mnt = self.mount(self.source, option, at=str(n))
                self.assertEqual(read(mnt + "/a.w"), b"abc")
                self.unmount(mnt)

    def test_fstab_words(self):
        mnt = self.mount(self.source, "defaults", "auto", "noauto", "user", "nouser", "users", "owner", "group",
                         "nofail", "_netdev", "comment=x", "x-systemd.automount", "x-systemd.idle-timeout=10min",
                         "x-anything=a\\,b", "relatime", "nodiratime", "lazytime", "loud", "silent")
        self.assertEqual(read(mnt + "/a/w"), b"abc")

    def test_long_spelling(self):
        mnt = self.new_dir()
        self.addCleanup(self.unmount, mnt)
        self.assertEqual(run(MOUNT, "--layout=flat", "--direct_io", self.source, mnt, "--nosuid"), (0, "", ""))
        self.assertEqual(os.listdir(mnt), ["a.w"])

    def test_refused(self):
        for options in (["no_such"], ["layout=both"], ["layout"], ["umask=8"], ["umask=1000"], ["uid=no-such-user"],
                        ["gid="], ["readahead=1X"], ["readahead=-1"], ["readahead=99999999999G"], ["max_threads=0"],
                        ["max_threads=x"], ["direct_io=1"], ["remount"], ["fd=3"], ["blkdev"]):
            with self.subTest(options):
                self.refused(self.source, self.new_dir(), *options, status=1, says=re.split("=", options[0])[0]
                             if options != ["remount"] else "remounted")

    def test_usage(self):
        for argv in ([], [self.source], [self.source, self.tmp, "third"], ["-Q", self.source, self.tmp], ["-o"]):
            status, out, err = run(MOUNT, *argv)
            self.assertEqual((status, out), (1, ""))
            self.assertRegex(err, r"\Amount\.safetensors: [^\n]+\n\Z")

    def test_sloppy(self):
        mnt = self.new_dir()
        self.addCleanup(self.unmount, mnt)
        self.assertEqual(run(MOUNT, self.source, mnt, "-s", "-o", "no_such,layout=flat"), (0, "", ""))
        self.assertEqual(os.listdir(mnt), ["a.w"])

    def test_fake(self):
        mnt = self.new_dir()
        self.assertEqual(run(MOUNT, "-f", self.source, mnt), (0, "", ""))
        self.assertEqual(mounts(mnt), [])
        with open(self.path("bad"), "wb") as f:
            f.write(b"GGUF")
        self.assertEqual(run(MOUNT, "-f", self.path("bad"), mnt)[0], 32)
        self.assertEqual(run(MOUNT, "-f", self.source, self.path("none"))[0], 32)

    def test_help_and_version(self):
        for word in ("-h", "--help"):
            status, out, err = run(MOUNT, word)
            self.assertEqual((status, err), (0, ""))
            for option in ("layout", "uid", "gid", "umask", "allow_other", "direct_io", "readahead", "max_threads",
                           "foreground", "debug"):
                self.assertRegex(out, r"(?m)^  %s\b" % option)
        for word in ("-V", "--version"):
            self.assertRegex(run(MOUNT, word)[1], r"\Amount\.safetensors [0-9]+\.[0-9]+\.[0-9]+ \(FUSE [0-9.]+\)\n\Z")
