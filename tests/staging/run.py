#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the tests of staging.  run.py [MODULE[.CLASS[.TEST]]...]     (made for `make check-staging`)"""
import glob
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "mount"))
mounts = __import__("run")   # tests/mount/run.py: this file's own name is taken, as __main__ only


def main():
    names = sys.argv[1:] or sorted(os.path.basename(p)[:-3] for p in glob.glob(HERE + "/test_*.py"))
    why = mounts.usable()
    if why:
        print("\n" + "*" * 80 + "\nSKIP: no test of staging can run here.\n%s\n" % why + "*" * 80)
        ci = os.environ.get("CI") == "true"
        print("staging: 0 passed, %d failed, %d skipped" % (ci, not ci))
        return ci
    sys.path.insert(0, HERE)
    suite = unittest.TestSuite(mounts.chosen(unittest.defaultTestLoader.loadTestsFromNames(names)))
    result = unittest.TextTestRunner(stream=sys.stderr, verbosity=1, resultclass=mounts.Result).run(suite)
    for test, reason in result.skipped:
        print("SKIP %s: %s" % (test.id(), reason))
    failed = len(result.failures) + len(result.errors)
    sys.stderr.flush()
    print("staging: %d passed, %d failed, %d skipped" % (result.passed, failed, len(result.skipped)))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
