#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Random models, written and read by this library and by the reference implementation in a Debian 13 root.

run.py MODELS ROOT     MODELS is the program of models.c; ROOT is made by ../root.sh
SEED=N, NUMBER=N       others than the usual 1,000 models
"""
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

SIZES = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2, "I32": 4,
         "U32": 4, "F32": 4, "F64": 8, "I64": 8, "U64": 8}
HERE = os.path.dirname(os.path.abspath(__file__))
ALPHABETS = ["abcdefgh.0123456789", "ab/._-%", "\x00\x01\x08\t\n\x0b\x0c\r\x1b\x1f\x7f\"\\/ ", "äßé値語\u200b\ufeff\uffff😀𝄞\x80\x9f"]


def text(r):
    return "".join(r.choice(r.choice(ALPHABETS)) for _ in range(r.choice([0, 1, 2, 3, 8, 30])))


def model(r):
    """The reference keeps no order among metadata (a hash map): one entry at most."""
    salt = r.randrange(256)
    tensors = []
    for name in sorted({text(r) for _ in range(r.randrange(12))} - {"__metadata__"}, key=lambda _: r.random()):
        dtype = r.choice(list(SIZES))
        shape = [r.choice([0, 1, 1, 2, 3, 5, 9]) for _ in range(r.randrange(5))]
        size = SIZES[dtype]
        for d in shape:
            size *= d
        mask = 1 if dtype == "BOOL" else 255
        data = bytes((salt + 37 * len(tensors) + 11 * j) % 256 & mask for j in range(size))
        tensors.append({"name": name, "dtype": dtype, "shape": shape, "data": data.hex()})
    return {"salt": salt, "metadata": {text(r): text(r)} if r.random() < 0.5 else None, "tensors": tensors}


def hexed(s):
    return "x" + s.encode().hex()


def lines(m):
    yield from ("meta %s %s" % (hexed(k), hexed(v)) for k, v in (m["metadata"] or {}).items())
    for t in m["tensors"]:
        yield " ".join(["tensor", t["dtype"], hexed(t["name"]), str(len(t["shape"])), *map(str, t["shape"])])


def with_data(m):
    """The same lines as `models show` prints them, in no order."""
    own = list(lines(m))
    first = len(own) - len(m["tensors"])
    return sorted(own[:first] + [line + " x" + t["data"] for line, t in zip(own[first:], m["tensors"])])


def compare(models, program, ours, theirs):
    """What is wrong, as a list of sentences."""
    wrong = []
    files = ["%s/%d.safetensors" % (theirs, n) for n in range(len(models))]
    shown = subprocess.run([program, "show", *files], stdout=subprocess.PIPE, text=True)
    parts, part = {}, []
    for line in shown.stdout.splitlines():
        if line.startswith("end "):
            parts[line[4:]], part = sorted(part), []
        else:
            part.append(line)
    for n, m in enumerate(models):
        if parts.get(files[n]) != with_data(m):
            wrong.append("model %d of the reference reads differently here" % n)
        with open(files[n], "rb") as a, open("%s/%d.safetensors" % (ours, n), "rb") as b:
            if a.read() != b.read():
                wrong.append("model %d: the two files differ" % n)
    return wrong


def exchange(program, root, tmp):
    r = random.Random(int(os.environ.get("SEED", "1")))
    models = [model(r) for _ in range(int(os.environ.get("NUMBER", "1000")))]
    ours, theirs = tmp + "/ours", tmp + "/theirs"
    os.mkdir(ours)
    os.mkdir(theirs)
    with open(tmp + "/spec.json", "w") as f:
        json.dump(models, f)
    spec = "".join("model %d %s/%d.safetensors\n%s\nwrite\n" % (m["salt"], ours, n, "\n".join(lines(m))) for n, m in enumerate(models))
    subprocess.run([program, "write"], input=spec.replace("\n\n", "\n"), text=True, check=True)
    shutil.copy(HERE + "/reference.py", tmp)
    inside = tmp[len(root.rstrip("/")):]
    p = subprocess.run(["chroot", root, "python3", "-B", inside + "/reference.py", inside + "/spec.json", inside + "/ours",
                        inside + "/theirs"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    said = p.stdout.splitlines()
    if p.returncode or not said or said[-1] != "done %d" % len(models):
        return models, ["the reference did not come to an end"]
    return models, ["here -> there: " + line for line in said[:-1]] + compare(models, program, ours, theirs)


def main(program, root):
    root = os.path.realpath(root)
    tmp = tempfile.mkdtemp(dir=root + "/tmp", prefix="interop-")
    try:
        models, wrong = exchange(os.path.abspath(program), root, tmp)
    finally:
        shutil.rmtree(tmp)
    for sentence in wrong[:20]:
        print("FAIL " + sentence)
    print("interop-safetensors: %d passed, %d failed" % (len(models) - min(len(wrong), len(models)), len(wrong)))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
