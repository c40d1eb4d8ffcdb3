# SPDX-License-Identifier: MIT
"""As a helper of mount(8): found in /sbin, called from fstab. In a mount namespace of its own, where /sbin is ours."""
import os
import shutil
import subprocess

from mounting import BIN, MOUNT, MountTest, mounts, namespace, needs_root, read, run

SCRIPT = r'''
set -e
mount --bind "$1/sbin" "$(readlink -f /sbin)"
cd "$1"
eval "$2"
'''


@needs_root
class Mount8(MountTest):
    def setUp(self):
        super().setUp()
        self.source = self.write([("w", "U8", [3], b"abc")], name="a, b.safetensors")
        self.mnt = self.new_dir()
        sbin = self.new_dir("sbin")
        shutil.copy(MOUNT, sbin)
        os.symlink("mount.safetensors", sbin + "/mount.fuse.safetensors")
        os.symlink("a, b.safetensors", self.path("link"))

    def inside(self, script):
        p = subprocess.run(namespace()[0] + ["sh", "-c", SCRIPT, "sh", self.tmp, script], stdin=subprocess.DEVNULL,
                           capture_output=True, text=True, timeout=60)
        return p.returncode, p.stdout, p.stderr

    def test_both_types(self):
        for kind in ("safetensors", "fuse.safetensors"):
            with self.subTest(kind):
                self.assertEqual(self.inside("mount -t %s link mnt; cat mnt/w; findmnt -no FSTYPE,SOURCE mnt; umount mnt"
                                             % kind),
                                 (0, "abcfuse.safetensors %s\n" % self.source, ""))

    def test_status_is_passed_on(self):
        status, out, err = self.inside("mount -t safetensors /etc/passwd mnt")
        self.assertEqual((status, out), (32, ""))
        self.assertTrue(err.startswith("mount.safetensors: /etc/passwd: "), err)
        self.assertEqual(self.inside("mount -t safetensors -o no_such link mnt")[0], 1)

    def fstab(self, options):
        with open(self.path("fstab"), "w") as f:
            f.write("%s %s safetensors %s 0 0\n" % (self.source.replace(" ", "\\040"), self.mnt, options))

    def test_fstab(self):
        self.fstab("ro,nofail,user,_netdev,allow_other,layout=flat,x-systemd.automount,x-systemd.idle-timeout=10min")
        self.assertEqual(self.inside("mount -T fstab %s; cat mnt/w; umount mnt" % self.mnt), (0, "abc", ""))

    def test_mount_all_twice_mounts_once(self):
        self.fstab("defaults,nofail")
        status, out, err = self.inside("mount -a -T fstab; mount -a -T fstab; grep -c ' %s ' /proc/self/mountinfo; umount mnt"
                                       % self.mnt)
        self.assertEqual((status, out, err), (0, "1\n", ""))

    def test_remount_is_refused(self):
        status, out, err = self.inside("mount -t safetensors link mnt; mount -o remount,ro mnt || echo status $?; umount mnt")
        self.assertEqual(out, "status 1\n")
        self.assertIn("cannot be remounted", err)

    def test_arguments_in_the_order_of_mount8(self):
        self.addCleanup(self.unmount, self.mnt)
        self.assertEqual(run(MOUNT, self.source, self.mnt, "-s", "-n", "-v", "-t", "fuse.safetensors", "-o",
                             "rw,noexec,nosuid,nodev"), (0, "", ""))
        info = mounts(self.mnt)[0]
        self.assertEqual({"ro", "noexec", "nosuid", "nodev"} - set(info["options"]), set())
        self.assertEqual(read(self.mnt + "/w"), b"abc")

    def test_mount_fuse3_finds_it_in_path(self):
        """mount.fuse3 makes a command line for sh of it: no odd names here."""
        source = self.write([("w", "U8", [3], b"abc")])
        self.addCleanup(self.unmount, self.mnt)
        env = dict(os.environ, PATH=BIN + ":" + os.environ["PATH"])
        for options in ("rw", "drop_privileges"):
            with self.subTest(options):
                helper = shutil.which("mount.fuse3") or "/sbin/mount.fuse3"
                status, out, err = run(helper, "mount.safetensors#" + source, self.mnt, "-o", options, env=env)
                self.assertEqual((status, out, err), (0, "", ""))
                self.assertEqual(read(self.mnt + "/w"), b"abc")
                self.unmount(self.mnt)
