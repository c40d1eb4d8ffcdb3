# SPDX-License-Identifier: MIT
"""From the start of the command to the end of the last process."""
import errno
import os
import signal
import subprocess

from mounting import MOUNT, MountTest, keeper_and_server, model, mounts, processes, read, run, wait_for

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class LifeCycle(MountTest):
    def setUp(self):
        super().setUp()
        self.source = self.write([("w", "U8", [3], b"abc")])

    def test_returns_when_the_mount_answers(self):
        mnt = self.mount(self.source)
        self.assertEqual(os.listdir(mnt), ["w"])
        keeper, server = keeper_and_server(mnt)
        self.assertNotIn(os.getpid(), (keeper, server))

    def test_lets_go_of_terminal_and_directory(self):
        mnt = self.mount(self.source)
        for pid in keeper_and_server(mnt):
            for fd in range(3):
                self.assertEqual(os.readlink("/proc/%d/fd/%d" % (pid, fd)), "/dev/null")
            self.assertNotEqual(os.getsid(pid), os.getsid(0))
        self.assertEqual(os.readlink("/proc/%d/cwd" % keeper_and_server(mnt)[1]), "/")

    def test_holds_nothing_it_was_given(self):
        r, w = os.pipe()
        os.set_inheritable(w, True)
        mnt = self.new_dir()
        self.addCleanup(self.unmount, mnt)
        self.assertEqual(run(MOUNT, self.source, mnt, stdin=subprocess.PIPE, cwd=self.tmp), (0, "", ""))
        for pid in keeper_and_server(mnt):
            held = [os.readlink("/proc/%d/fd/%s" % (pid, f)) for f in os.listdir("/proc/%d/fd" % pid)]
            pipes = [h for h in held if h.startswith("pipe:")]
            self.assertNotIn("pipe:[%d]" % os.fstat(w).st_ino, pipes)
        os.close(r)
        os.close(w)

    def test_closed_standard_descriptors(self):
        mnt = self.new_dir()
        self.addCleanup(self.unmount, mnt)
        for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
            with self.subTest(closed):
                self.assertEqual(run("sh", "-c", "exec '%s' '%s' '%s' %s" % (MOUNT, self.source, mnt, closed))[0], 0)
                self.assertEqual(read(mnt + "/w"), b"abc")
                for pid in keeper_and_server(mnt):
                    for fd in range(3):
                        self.assertEqual(os.readlink("/proc/%d/fd/%d" % (pid, fd)), "/dev/null")
                self.unmount(mnt)

    def test_fusermount3(self):
        mnt = self.mount(self.source)
        self.assertEqual(run("fusermount3", "-u", mnt), (0, "", ""))
        self.assert_gone(mnt)

    def test_busy_mount_stays(self):
        mnt = self.mount(self.source)
        with open(mnt + "/w", "rb") as f:
            self.assertNotEqual(run("fusermount3", "-u", mnt)[0], 0)
            self.assertEqual(f.read(), b"abc")
        self.assertEqual(run("fusermount3", "-u", mnt)[0], 0)
        self.assert_gone(mnt)

    def test_lazy_unmount_serves_what_is_open(self):
        mnt = self.mount(self.source)
        server = keeper_and_server(mnt)[1]
        with open(mnt + "/w", "rb") as f:
            self.assertEqual(run("fusermount3", "-u", "-z", mnt)[0], 0)
            self.assertEqual(mounts(mnt), [])
            self.assertEqual(f.read(), b"abc")
            os.kill(server, 0)
        self.assert_gone(mnt)

    def test_signals(self):
        for number in SIGNALS:
            for whom in (0, 1):
                for busy in (False, True):
                    with self.subTest(signal=number.name, to=("keeper", "server")[whom], busy=busy):
                        mnt = self.mount(self.source)
                        f = open(mnt + "/w", "rb", buffering=0) if busy else None
                        os.kill(keeper_and_server(mnt)[whom], number)
                        self.assert_gone(mnt)
                        if f:
                            self.assert_errno(errno.ENOTCONN, os.pread, f.fileno(), 1, 0)
                            f.close()

    def test_mounted_again_and_again(self):
        for _ in range(20):
            mnt = self.mount(self.source)
            self.assertEqual(read(mnt + "/w"), b"abc")
            self.assertEqual(run("fusermount3", "-u", mnt)[0], 0)
        self.assert_gone(mnt)

    def foreground(self, *more):
        mnt = self.new_dir()
        self.addCleanup(self.unmount, mnt)
        p = subprocess.Popen([MOUNT, "-o", ",".join(("foreground",) + more), self.source, mnt], stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wait_for(lambda: mounts(mnt) or p.poll() is not None, "no mount")
        self.assertEqual(read(mnt + "/w"), b"abc")
        return p, mnt

    def test_foreground_and_signals(self):
        for number in SIGNALS:
            with self.subTest(number.name):
                p, mnt = self.foreground()
                p.send_signal(number)
                self.assertEqual(p.communicate(timeout=60), ("", ""))
                self.assertEqual(p.returncode, 0)
                self.assert_gone(mnt)

    def test_foreground_and_unmount(self):
        p, mnt = self.foreground()
        self.assertEqual(run("fusermount3", "-u", mnt)[0], 0)
        self.assertEqual(p.communicate(timeout=60), ("", ""))
        self.assertEqual(p.returncode, 0)

    def test_what_nohup_ignores_stays_ignored(self):
        mnt = self.new_dir()
        self.addCleanup(self.unmount, mnt)
        p = subprocess.Popen(["nohup"] + self.command(self.source, mnt, "foreground"), stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(lambda: mounts(mnt), "no mount")
        self.assertEqual(os.listdir(mnt), ["w"])
        for pid in keeper_and_server(mnt):
            os.kill(pid, signal.SIGHUP)
        self.assertEqual(read(mnt + "/w"), b"abc")
        p.terminate()
        self.assertEqual(p.wait(timeout=60), 0)
        self.assert_gone(mnt)

    def test_debug_prints_requests(self):
        p, mnt = self.foreground("debug")
        self.assertEqual(run("fusermount3", "-u", mnt)[0], 0)
        self.assertIn("LOOKUP", p.communicate(timeout=60)[1])
        self.assertEqual(p.returncode, 0)

    def test_killed_server_is_an_error(self):
        p, mnt = self.foreground()
        os.kill([pid for pid, parent in processes(mnt).items() if parent == p.pid][0], signal.SIGKILL)
        self.assertEqual(p.communicate(timeout=60)[0], "")
        self.assertEqual(p.returncode, 4)
        self.assert_errno(errno.ENOTCONN, os.listdir, mnt)

    def test_interrupted_while_it_reads_the_header(self):
        model(self.source, [("layer.%d.w" % i, "U8", [0], b"") for i in range(300000)])
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number.name):
                mnt = self.new_dir()
                self.addCleanup(self.unmount, mnt)
                p = subprocess.Popen([MOUNT, self.source, mnt], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
                wait_for(lambda: len(processes(mnt)) == 3 or p.poll() is not None, "no server")
                p.send_signal(number)
                p.communicate(timeout=60)
                if p.returncode == 0:   # it was faster: then the mount is there, whole
                    self.assertEqual(os.listdir(mnt), ["layer"])
                    continue
                self.assertIn(p.returncode, (8, -number))
                self.assert_gone(mnt)
