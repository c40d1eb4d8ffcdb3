#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Headers written and damaged at random: fsck.safetensors must refuse what the reference implementation in a Debian 13 root
refuses, and accept what it accepts.

verdicts.py FSCK ROOT     ROOT is made by ../root.sh; SEED=N, NUMBER=N others than the usual 10,000 files

Here stricter than the reference, as the project's contract has it: a name or a key that is there twice; and sizes that come
right only because they wrapped around 64 bits.
"""
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile

import run

NAMES = ["a", "b", "w.x", "", "model.layers.0.weight", "é", "日本", "a/b", "x\0y", '"q"', "\\", "__metadata", "__metadata__", "a b", "\U0001f600",
         ".", "..", "A", "a.", "\u2028", "\x7f"]
METADATA = ["{}", '{"a":"b"}', '{"a":"b","a":"c"}', '{"a":1}', "null", "[]", '{"a":null}', '{"":""}', '{"é":"\\u0000"}', '"x"', '{"a":"b",}']
ODD_TYPES = ['"f32"', '"F32 "', '"X"', "1", "null", '["F32"]', '"F128"', '"C128"']
ODD_SHAPES = ["null", "{}", "1", '"[1]"', "[[1]]", "[null]"]
ODD_OFFSETS = ["[]", "[0]", "[0,0,0]", "null", '{"0":0,"1":0}']
ODD_ENDS = ['\\x"', '\\ud800"', '\\udc00\\ud800"', '\t"', '\x01"', '\\u12"', '\\/"', '\\u0000"', '\\"', '\\ud83d\\u0041"']
EXPECTED = re.compile(r"a key twice|for the second time|data_offsets \[\d+,\d{18,}\]")
REFERENCE = r'''
import os, sys
from safetensors import safe_open
for name in sorted(os.listdir(sys.argv[1])):
    try:
        with safe_open(sys.argv[1] + "/" + name, framework="np") as f:
            f.keys()
        print(name, "clean")
    except BaseException:
        print(name, "errors")
'''


def rarely(r, often, *others, one_in=30):
    return r.choice(others) if r.randrange(one_in) == 0 else often


def number(r, v):
    return rarely(r, str(v), "%d.0" % v, "%de0" % v, "-%d" % v, "0%d" % v, "+%d" % v, str(v + 2**64), "%de1" % v, '"%d"' % v, "null", "true",
                  "[%d]" % v, "-0", "1e400", str(2**63), str(2**64 - 1), "%d " % v, "\n%d" % v, "0x%x" % v, one_in=12)


def string(r, s):
    t = json.dumps(s, ensure_ascii=r.random() < 0.5)
    return rarely(r, t, t.replace("a", "\\u0061"), t[:-1] + r.choice(ODD_ENDS))


def entry(r, at):
    dtype, shape = r.choice(list(run.SIZES)), [r.choice([0, 1, 2, 3, 4, 8]) for _ in range(r.choice([0, 1, 1, 2, 2, 3]))]
    size = run.SIZES[dtype]
    for d in shape:
        size *= d
    begin, end = at + rarely(r, 0, 1, -1), at + size + rarely(r, 0, 1, -1, 8)
    fields = [("dtype", rarely(r, string(r, dtype), *ODD_TYPES)),
              ("shape", rarely(r, "[" + ",".join(number(r, d) for d in shape) + rarely(r, "", ",", ",2") + "]", *ODD_SHAPES)),
              ("data_offsets", rarely(r, "[%s,%s]" % (number(r, max(begin, 0)), number(r, max(end, 0))), *ODD_OFFSETS))]
    fields += rarely(r, [], [r.choice(fields)], [("extra", "null")], [("", '{"a":[1,{"b":2}]}')], [("note", "[1,2")])
    r.shuffle(fields)
    fields = fields[rarely(r, 0, 1):]
    space = lambda: rarely(r, "", " ", "\n", "\t", "\r", "\x0b", "\xa0")
    return "{" + ",".join(space() + string(r, k) + space() + ":" + v for k, v in fields) + rarely(r, "", ",") + "}", at + size


def file(r):
    at, parts, names = 0, [], r.sample(NAMES, r.choice([0, 1, 1, 2, 3, 4]))
    for name in names + rarely(r, [], names[:1]):
        text, at = entry(r, at)
        parts.append(string(r, name) + ":" + text)
    if r.random() < 0.3:
        parts.append('"__metadata__":' + r.choice(METADATA))
        r.shuffle(parts)
    b = (rarely(r, "", " ", "\n", "\ufeff", "x") + "{" + ",".join(parts) + rarely(r, "", ",") + "}" +
         rarely(r, "", " ", "   ", "\n", "\0", "}", "{}", "x")).encode()
    if r.random() < 0.1:
        i = r.randrange(len(b))
        b = b[:i] + bytes([r.choice([r.randrange(256), *b'",:{}[]0\\'])]) + b[i + r.choice([0, 1]):]
    if r.random() < 0.5:
        b += b" " * (-len(b) % 8)
    size = max(len(b) + rarely(r, 0, 1, -1, 8, 2**32, 2**63, 10**8), 0)
    return struct.pack("<Q", size) + b + bytes(max(at + rarely(r, 0, 1, -1, 8), 0))


def ours(fsck, folder, names):
    """{name: status and first finding}"""
    found = {}
    for i in range(0, len(names), 500):
        p = subprocess.run([fsck, "--json", *names[i:i + 500]], cwd=folder, stdout=subprocess.PIPE)
        found.update((x["file"], (x["status"], x["findings"][0]["message"] if x["findings"] else "")) for x in json.loads(p.stdout))
    return found


def main(fsck, root):
    r = random.Random(int(os.environ.get("SEED", "1")))
    root = os.path.realpath(root)
    tmp = tempfile.mkdtemp(dir=root + "/tmp", prefix="interop-")
    try:
        names = ["%06d" % n for n in range(int(os.environ.get("NUMBER", "10000")))]
        for name in names:
            with open(tmp + "/" + name, "wb") as f:
                f.write(file(r))
        here = ours(os.path.abspath(fsck), tmp, names)
        p = subprocess.run(["chroot", root, "python3", "-B", "-c", REFERENCE, tmp[len(root.rstrip("/")):]], stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, text=True, check=True)
        there = dict(line.split() for line in p.stdout.splitlines())
    finally:
        shutil.rmtree(tmp)
    wrong = [n for n in names if here[n][0] != there[n] and not (there[n] == "clean" and EXPECTED.search(here[n][1]))]
    for n in wrong[:20]:
        print("FAIL %s (SEED=%s): %s here, %s there: %s" % (n, os.environ.get("SEED", "1"), here[n][0], there[n], here[n][1]))
    accepted = sum(s == "clean" for s, _ in here.values())
    print("verdicts: %d passed, %d failed, 0 skipped (%d accepted)" % (len(names) - len(wrong), len(wrong), accepted))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
