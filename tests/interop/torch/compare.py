#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Mounts each checkpoint that generate.py made and compares what is in it with what PyTorch said.

compare.py MOUNT_COMMAND DIR
"""
import hashlib
import json
import os
import subprocess
import sys
import tempfile


def attribute(path, name):
    return os.getxattr(path, name).decode("utf-8", "surrogateescape")


def listed(mountpoint):
    found = {}
    for folder, _, files in os.walk(mountpoint):
        for f in files:
            path = os.path.join(folder, f)
            with open(path, "rb") as file:
                data = file.read()
            name = attribute(path, "user.safetensors.name")
            found[name] = {"name": name, "dtype": attribute(path, "user.dtype"),
                           "shape": json.loads(attribute(path, "user.shape")), "bytes": len(data),
                           "sha256": hashlib.sha256(data).hexdigest()}
    return found


def differences(command, path, mountpoint):
    with open(path[:-3] + ".json") as f:
        want = {t["name"]: t for t in json.load(f)}
    done = subprocess.run([command, path, mountpoint], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    if done.returncode:
        return ["exit %d: %s" % (done.returncode, done.stderr.strip())]
    try:
        have = listed(mountpoint)
    finally:
        subprocess.run(["fusermount3", "-u", mountpoint], check=True)
    return ["%s: want %s, have %s" % (n, want.get(n), have.get(n)) for n in sorted(set(want) | set(have)) if want.get(n) != have.get(n)]


def main():
    command, directory = os.path.abspath(sys.argv[1]), sys.argv[2]
    files = sorted(f for f in os.listdir(directory) if f.endswith(".pt"))
    bad = tensors = 0
    with tempfile.TemporaryDirectory() as tmp:
        for f in files:
            path = os.path.join(directory, f)
            with open(path[:-3] + ".json") as j:
                tensors += len(json.load(j))
            found = differences(command, path, os.path.realpath(tmp))
            if found:
                bad += 1
                print("FAIL %s: %s" % (f, "\n     ".join(found[:3])))
    print("interop: %d checkpoints with %d tensors, %d differ" % (len(files), tensors, bad))
    if not files or not tensors:
        sys.exit("interop: nothing was compared")
    sys.exit(bad != 0)


main()
