#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the mount tests.  run.py [MODULE...]     (made for `make check-mounts`)

As root, all of them, and then those in test_user and others that mean something to an ordinary user once more as
nobody, in a mount namespace of its own whose /dev/fuse everybody may open. As an ordinary user, without those that
need root.
"""
import glob
import os
import signal
import subprocess
import sys
import tempfile
import unittest

import mounting

AS_USER = ["test_user", "test_read", "test_xattr", "test_lifecycle", "test_mountpoint", "test_source", "test_options",
           "test_tree.Tree"]
NO_MTAB = "/etc/mtab is missing, without which fusermount3 unmounts nothing: ln -s /proc/self/mounts /etc/mtab"
AGAIN = "ST_AGAIN_AS_USER"   # in the environment: this is the second run


def usable():
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC))
    except OSError as e:
        return "/dev/fuse: %s" % e.strerror
    if mounting.ROOT:   # containers may have the device and yet not let us mount
        return mounting.namespace()[1]
    return None if os.path.exists("/etc/mtab") else NO_MTAB


class Result(unittest.TextTestResult):
    passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1


def chosen(suite):
    for t in suite:
        if isinstance(t, unittest.TestSuite):
            yield from chosen(t)
            continue
        method = getattr(t, getattr(t, "_testMethodName", ""), None)
        if getattr(method, "needs_root", False) or getattr(type(t), "needs_root", False):
            if not mounting.ROOT:
                if AGAIN not in os.environ:
                    setattr(t, t._testMethodName, unittest.skip("needs root")(method))
                    yield t
                continue
        elif getattr(type(t), "needs_user", False) and mounting.ROOT:
            continue   # its turn comes in the second run
        yield t


NAMESPACE = r'''
set -e
d=$1 tests=$2 bin=$3; shift 3
mount -t tmpfs -o mode=755 tests "$d"   # device nodes work in it, and it goes with the namespace
mknod "$d/fuse" c 10 229; chmod 666 "$d/fuse"; mount --bind "$d/fuse" /dev/fuse
: >"$d/fuse.conf"; [ ! -e /etc/fuse.conf ] || mount --bind "$d/fuse.conf" /etc/fuse.conf
mkdir "$d/bin" "$d/tmp"; chmod 1777 "$d/tmp"
find "$bin" -maxdepth 1 -type f -exec cp {} "$d/bin/" \;; cp -r "$tests" "$d/tests"; chmod -R a+rX "$d"
export STBIN="$d/bin" HOME="$d/tmp" TMPDIR="$d/tmp"
cd "$d"
exec setpriv --reuid nobody --regid nogroup --clear-groups --inh-caps=-all /usr/bin/python3 -B "$d/tests/mount/run.py" "$@"
'''


def as_user(modules):
    with tempfile.TemporaryDirectory() as d:
        p = subprocess.Popen(mounting.namespace()[0] + ["sh", "-c", NAMESPACE, "sh", d, mounting.TESTS, mounting.BIN] + modules,
                             env=dict(os.environ, **{AGAIN: "1"}), stdout=subprocess.PIPE, text=True)
        last = ""
        for line in p.stdout:
            last = line
            print("as an ordinary user: " + line, end="", flush=True)
        try:
            words = last.split()
            assert p.wait() == (words[3] != "0")
            return int(words[1]), int(words[3]), int(words[5])
        except (IndexError, ValueError, AssertionError):
            print("the run as an ordinary user broke off with status %s" % p.returncode)
            return 0, 1, 0


def main():
    for number in (signal.SIGINT, signal.SIGHUP):   # ignored in what a shell or nohup starts in the background
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    here = os.path.dirname(os.path.abspath(__file__))
    names = sys.argv[1:] or sorted(os.path.basename(p)[:-3] for p in glob.glob(here + "/test_*.py"))
    why = usable()
    if why:
        print("\n" + "*" * 80 + "\nSKIP: no mount test can run here.\n%s\n" % why + "*" * 80)
        ci = os.environ.get("CI") == "true"
        print("mounts: 0 passed, %d failed, %d skipped" % (ci, not ci))
        return ci
    suite = unittest.TestSuite(chosen(unittest.defaultTestLoader.loadTestsFromNames(names)))
    result = unittest.TextTestRunner(stream=sys.stderr, verbosity=1, resultclass=Result).run(suite)
    passed, failed = result.passed, len(result.failures) + len(result.errors)
    skipped = len(result.skipped)
    for test, reason in result.skipped:
        print("SKIP %s: %s" % (test.id(), reason))
    # Of what was asked for, and of what means something to an ordinary user, the narrower.
    modules = [max(n, u, key=len) for n in names for u in AS_USER if (n + ".").startswith(u + ".") or
               (u + ".").startswith(n + ".")]
    if mounting.ROOT and modules and not os.path.exists("/etc/mtab"):
        print("SKIP, as an ordinary user: " + NO_MTAB)
        ci = os.environ.get("CI") == "true"
        failed, skipped = failed + ci, skipped + (not ci)
    elif mounting.ROOT and modules:
        more = as_user(modules)
        passed, failed, skipped = passed + more[0], failed + more[1], skipped + more[2]
    sys.stderr.flush()
    print("mounts: %d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
