#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Kill and failure sweep over fs_write: every system call that matters, the 1st, 2nd, 3rd ... time it is made, is the
moment of a kill or fails. The target must always be the complete old or the complete new file, and a failure that returns
must leave no temporary file.   sweep_write.py WRITE_ONE
"""
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

CALLS = ["write", "copy_file_range", "fsync", "/^rename", "openat", "fchmod", "fchown", "ftruncate", "fallocate"]
KILLS = ["signal=KILL", "error=EINTR:signal=KILL"]   # after the call has done its work, and before
FAILURES = ["error=EIO", "error=ENOSPC"]
# What the kernel answers where it cannot copy between two files, and when it was interrupted: no failure of ours.
HARMLESS = {"copy_file_range": ["error=EXDEV", "error=EINVAL", "error=ENOSYS", "error=EOPNOTSUPP", "error=EINTR"],
            "write": ["error=EINTR"]}
TEMPORARY = re.compile(r"\.safetensors-[0-9a-f]{16}\.tmp\Z")
MOST = 60   # times a call is looked for; far more than are made


def header(*entries):
    """A file's first bytes, made by hand: entries are (name, dtype, shape, bytes)."""
    text, at = [], 0
    for name, dtype, shape, size in entries:
        text.append('"%s":{"dtype":"%s","shape":[%d],"data_offsets":[%d,%d]}' % (name, dtype, shape, at, at + size))
        at += size
    text = ("{" + ",".join(text) + "}").encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


class Sweep:
    def __init__(self, program, where):
        self.program, self.dir = program, where
        self.passed = self.failed = 0
        self.target, self.source = os.path.join(where, "target.safetensors"), os.path.join(where, "source.safetensors")
        big, small = os.urandom(3 << 20), b"0123456789"
        with open(self.source, "wb") as f:
            f.write(header(("big", "F32", len(big) // 4, len(big)), ("small", "U8", 10, 10)) + big + small)
        memory = b"m" * (2 << 20)
        self.new = {
            (): header(("big", "F32", len(big) // 4, len(big)), ("memory", "U8", 2 << 20, 2 << 20), ("small", "U8", 10, 10))
            + big + memory + small,
            ("own",): header(("big", "F32", len(big) // 4, len(big)), ("small", "U8", 10, 10)) + big + small,
        }
        self.old = b"the old file, whole"

    def reset(self):
        with open(self.target, "wb") as f:
            f.write(self.old)
        os.chmod(self.target, 0o640)

    def leftovers(self):
        return sorted(set(os.listdir(self.dir)) - {"target.safetensors", "source.safetensors"})

    def run(self, call, what, n, extra):
        """Runs once with call number n spoiled: (was it reached, exit status, -9 if killed)."""
        log = os.path.join(os.path.dirname(self.dir), "log")
        p = subprocess.run(["strace", "-f", "-o", log, "-e", "trace=" + call, "-e", "inject=%s:%s:when=%d" % (call, what, n),
                            self.program, self.target, self.source, *extra],
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=60)
        with open(log, errors="replace") as f:
            text = f.read()
        if "unrecognized" in text or p.returncode not in (0, 1, 3, 127, -9):
            raise RuntimeError("strace: status %s: %s" % (p.returncode, p.stderr.decode()))
        return "INJECTED" in text or "killed by SIGKILL" in text, p.returncode, p.stderr.decode()

    def verdict(self, call, what, n, status, said, extra):
        """What is wrong after a run, or None."""
        with open(self.target, "rb") as f:
            have = f.read()
        new = have == self.new[extra]
        left = self.leftovers()
        for name in left:
            os.unlink(os.path.join(self.dir, name))
        if not new and have != self.old:
            return "the target is neither the old nor the new file"
        if os.stat(self.target).st_mode & 0o7777 != 0o640:
            return "the target's mode has changed"
        if "KILL" in what:
            return "strange leftovers %s" % left if len(left) > 1 or not all(map(TEMPORARY.match, left)) else None
        if left:
            return "left behind: %s" % left
        if status == 0 and not new:
            return "success was claimed, but the target is the old file"
        if what in HARMLESS.get(call, []) and status != 0:
            return "failed (%s), where it could go on" % said.strip()
        if status == 1 and not said.strip():
            return "failed without a word"
        return None

    def sweep(self, call, what, extra):
        """n = 1, 2, 3 ... until the call is not made so often: it then runs through undisturbed."""
        for n in range(1, MOST):
            self.reset()
            reached, status, said = self.run(call, what, n, extra)
            wrong = self.verdict(call, what, n, status, said, extra)
            if not reached and not wrong and status != 0:
                wrong = "failed undisturbed: " + said
            self.passed += not wrong
            self.failed += bool(wrong)
            if wrong:
                print("FAIL %s %s, time %d%s: %s" % (call, what, n, " (own)" if extra else "", wrong))
            if not reached:
                return n - 1
        raise RuntimeError("%s is made without end" % call)

    def all(self):
        for extra in self.new:
            for call in CALLS:
                times = {self.sweep(call, what, extra) for what in KILLS + FAILURES + HARMLESS.get(call, [])}
                print("  %s%s: spoiled at each of up to %d calls" % (call, " (own)" if extra else "", max(times)))
                wanted = call in ("write", "copy_file_range", "fsync", "/^rename", "openat", "fchmod") or (
                    call == "fchown" and extra)
                if wanted and max(times) == 0:
                    self.failed += 1
                    print("FAIL %s is never made: this sweep looks at nothing" % call)


def usable():
    if not shutil.which("strace"):
        return "no strace"
    p = subprocess.run(["strace", "-o", "/dev/null", "-e", "inject=getppid:error=EIO", "true"],
                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    return None if p.returncode == 0 else "strace cannot trace here: " + p.stderr.strip()


def main():
    why = usable()
    if why:
        ci = os.environ.get("CI") == "true"
        print("*" * 80 + "\nSKIP: the sweep over fs_write cannot run: %s\n" % why + "*" * 80)
        print("sweep: 0 passed, %d failed, %d skipped" % (ci, not ci))
        return ci
    with tempfile.TemporaryDirectory(prefix="st-sweep-") as d:
        where = os.path.join(d, "dir")
        os.mkdir(where)
        s = Sweep(os.path.abspath(sys.argv[1]), where)
        s.all()
    print("sweep: %d passed, %d failed" % (s.passed, s.failed))
    return s.failed > 0


if __name__ == "__main__":
    sys.exit(main())
