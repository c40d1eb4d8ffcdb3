# SPDX-License-Identifier: MIT
"""The daemon, killed or failing at every system call that matters, the 1st, 2nd, 3rd ... time it is made, over a short
session. Killed: the target is the old file or a complete new one, what was acknowledged is there after a remount and what
was not is there wholly or not at all, and the next commit succeeds. Failing: who asked is told, the session goes on as if
the failed step had not been, and a remount changes nothing."""
import errno
import hashlib
import os
import re
import shutil
import subprocess
import unittest

import mounting
from mounting import mounts, processes, read, wait_for
from staging import MODEL, StagingTest, load, npy, put, set_type, status, sync

CALLS = ["write", "pwrite64", "fsync", "fdatasync", "/^rename", "ftruncate", "linkat", "unlinkat", "mkdirat", "copy_file_range"]
KILLS = ["signal=KILL", "error=EINTR:signal=KILL"]   # after the call has done its work, and before
FAILURES = ["error=EIO", "error=ENOSPC"]
EVERY = int(os.environ.get("STAGING_KILLS", "4"))    # of the many moments each so many-th; 1: all
MOST = 200
ACROSS = 26   # the step that moves a file into another model


def usable():
    if not mounting.ROOT:
        return "needs root: what is traced cannot become root, as fusermount3 must"
    if not shutil.which("strace"):
        return "no strace"
    p = subprocess.run(["strace", "-o", "/dev/null", "-e", "inject=getppid:error=EIO", "true"], stderr=subprocess.PIPE, text=True)
    return None if p.returncode == 0 else "strace cannot trace here: " + p.stderr.strip()


class Session:
    """Steps of one system call each, by name, so that the same one can be tried and followed."""

    def __init__(self, mnt):
        self.mnt, self.new, self.fd = mnt, mnt + "/.staging/new", None
        new = self.new
        self.steps = [
            lambda: os.mkdir(new),
            lambda: self.open("own", os.O_CREAT),
            lambda: os.pwrite(self.fd, b"0123456789", 0),
            lambda: self.close(),
            lambda: os.setxattr(new + "/own", "user.dtype", b"U8"),
            lambda: os.setxattr(new + "/own", "user.shape", b"[10]"),
            lambda: os.mkdir(new + "/d"),
            lambda: os.link(mnt + "/model/big", new + "/d/ref"),
            lambda: self.open("n.npy", os.O_CREAT),
            lambda: os.write(self.fd, npy("<i2", (2,), b"abcd")),
            lambda: self.close(),
            lambda: os.setxattr(new, "user.metadata.k", b"v"),
            lambda: sync(new),
            lambda: self.open("own"),
            lambda: os.pwrite(self.fd, b"X", 3),
            lambda: os.fsync(self.fd),
            lambda: self.close(),
            lambda: self.open("d/ref"),
            lambda: os.pwrite(self.fd, b"OVER", 1000),
            lambda: self.close(),
            lambda: os.link(new + "/own", new + "/twin"),
            lambda: os.rename(new + "/d", new + "/e"),
            lambda: os.rename(new + "/twin", new + "/n.npy"),
            lambda: os.truncate(new + "/own", 4),
            lambda: os.setxattr(new + "/own", "user.shape", b"[4]"),
            lambda: os.mkdir(self.mnt + "/.staging/other"),
            lambda: os.rename(new + "/n.npy", self.mnt + "/.staging/other/n"),
            lambda: os.mknod(new + "/gone"),
            lambda: os.unlink(new + "/gone"),
            lambda: sync(new),
        ]

    def open(self, name, flags=0):
        self.fd = os.open(self.new + "/" + name, os.O_RDWR | flags)

    def close(self):
        fd, self.fd = self.fd, None
        os.close(fd)

    def end(self):
        if self.fd is not None:
            try:
                self.close()
            except OSError:
                pass


def state(staging):
    """All that is staged, as far as anybody can tell."""
    found = {}
    for model in sorted(os.listdir(staging)):
        if model.endswith(".safetensors"):
            continue
        top = staging + "/" + model
        found[model] = {n: os.getxattr(top, n) for n in os.listxattr(top) if n.startswith("user.metadata.")}
        for d, dirs, files in os.walk(top):
            for n in dirs:
                found[os.path.join(d, n)[len(staging):]] = None
            for n in files:
                p = os.path.join(d, n)
                data = read(p)
                found[p[len(staging):]] = (data if len(data) < 300 else hashlib.sha256(data).hexdigest(), {a: os.getxattr(p, a) for a in os.listxattr(p)})
    return found


def without_types(s):
    """Of a file that is open still: whether it is bound yet depends on whether it was closed."""
    return {p: v[0] if isinstance(v, tuple) else v for p, v in s.items()}


@unittest.skipIf(usable(), usable())
class Sweep(StagingTest):
    def setUp(self):
        super().setUp()
        self.write(MODEL[:2])
        self.tracing = self.path("trace")
        # What there is after each step, undisturbed.
        self.start()
        session = Session(self.mnt)
        self.states, self.outputs = [state(self.staging)], [self.target()]
        for step in session.steps:
            step()
            self.states.append(state(self.staging))
            self.outputs.append(self.target())
        self.assertEqual(len(set(self.outputs)), 3)
        self.reset()

    def target(self):
        return read(self.output("new")) if os.path.exists(self.output("new")) else None

    def reset(self):
        if self.daemon:
            self.stop()
        shutil.rmtree(self.out)
        os.mkdir(self.out)

    def traced(self, call, what, n):
        self.start(None, "max_threads=1", before=("strace", "-f", "-o", self.tracing, "-e", "trace=" + call,
                                                  "-e", "inject=%s:%s:when=%d" % (call, what, n)), wait=False)
        wait_for(lambda: self.daemon.poll() is not None or (mounts(self.mnt) and self.answers()), "mount")
        return mounts(self.mnt) != []

    def answers(self):
        try:
            return os.path.isdir(self.staging) or not processes(self.mnt)
        except OSError:
            return True

    def reached(self):
        with open(self.tracing, errors="replace") as f:
            text = f.read()
        self.assertNotIn("unrecognized", text)
        return "INJECTED" in text or "killed by SIGKILL" in text

    def killed(self, call, what, n):
        """Returns whether the n-th call was made."""
        done, session = 0, Session(self.mnt if self.mnt else "")
        if self.traced(call, what, n):
            try:
                for step in session.steps:
                    step()
                    done += 1
            except OSError as e:
                self.assertIn(e.errno, (errno.ENOTCONN, errno.ECONNABORTED, errno.EIO))
        session.end()
        if self.daemon.poll() is None and done == len(session.steps):
            self.stop()
        else:
            wait_for(lambda: len(processes(self.mnt)) < 2, "the server's end")
            self.kill()
        reached = self.reached()
        where = "%s %s, time %d, after %d steps" % (call, what, n, done)
        steps = self.outputs[done:done + 2]
        self.assertTrue(self.target() in steps, where + ": the target is neither the old nor the new file")
        self.start()
        now = state(self.staging)
        plain = [without_types(s) for s in self.states[done:done + 2]]
        if done == ACROSS:   # two models have two records: it may be found in both, never in none
            plain.append(dict(plain[0], **plain[1]))
        self.assertIn(without_types(now), plain, where)
        self.assertNotIn("makes no sense", self.said(), where)
        new = self.staging + "/new"
        if os.path.exists(new + "/own"):
            # All that is there gets a type, and the next commit succeeds.
            for d, _, files in os.walk(new):
                for f in files:
                    set_type(os.path.join(d, f), "U8", [os.stat(os.path.join(d, f)).st_size])
                    if f.endswith(".npy"):
                        os.rename(os.path.join(d, f), os.path.join(d, "was"))
                        put(os.path.join(d, "was"), b"12")
                        set_type(os.path.join(d, "was"), "U8", [2])
            sync(new)
            load(self.output("new"))
            self.assertEqual(sorted(os.listdir(self.out)), [".staging", "new.safetensors"], where)
        self.reset()
        return reached

    def fails(self, call, what, n):
        number = getattr(errno, what[6:])
        session, failed = Session(self.mnt), []
        if not self.traced(call, what, n):
            self.kill()
            self.assertTrue(self.said().strip(), "failed without a word")
            self.reset()
            return self.reached()
        where = "%s %s, time %d" % (call, what, n)
        for i, step in enumerate(session.steps):
            before = state(self.staging)
            try:
                step()
            except (OSError, TypeError) as e:   # TypeError: of a file that could not be opened
                if isinstance(e, OSError) and e.errno == number:
                    failed.append(i)
                    self.assertEqual(without_types(state(self.staging)), without_types(before), where + ", step %d" % i)
                    if i in (12, 29) and os.path.isdir(session.new):
                        self.assertIn("error: ", status(session.new), where)
                        self.assertIn("not committed", self.said(), where)
        session.end()
        now, output = state(self.staging), self.target()
        self.assertTrue(output is None or load(self.output("new")))
        left = [f for f in os.listdir(self.out) if f.endswith(".tmp")]
        self.assertTrue(not left or call == "unlinkat", where)
        self.again()
        self.assertEqual(state(self.staging), now, where)
        self.assertNotIn("makes no sense", self.said(), where)
        self.reset()
        return self.reached()

    def sweep(self, call, run, whats):
        most = 0
        for what in whats:
            n, every = 1, EVERY if call == "write" else max(1, EVERY // 2) if call in ("pwrite64", "mkdirat", "unlinkat") else 1
            while run(call, what, n):
                n += every
                self.assertLess(n, MOST)
            most = max(most, n)
        if call in ("write", "pwrite64", "fsync", "/^rename", "ftruncate", "linkat", "mkdirat"):
            self.assertGreater(most, 1, call + " is never made: this sweep looks at nothing")


for call in CALLS:
    word = call.strip("/^")
    setattr(Sweep, "test_kill_" + word, lambda self, call=call: self.sweep(call, self.killed, KILLS))
    setattr(Sweep, "test_fail_" + word, lambda self, call=call: self.sweep(call, self.fails, FAILURES))
