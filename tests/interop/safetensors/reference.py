# SPDX-License-Identifier: MIT
"""Runs where the reference implementation is: writes every model of the specification itself, and reads ours.

reference.py SPEC.json OURS THEIRS     folders of N.safetensors; prints one line for each difference, and then "done N"
"""
import json
import sys

import numpy
import safetensors
import safetensors.numpy

# The low-level calls take these names and give the format's codes back.
NAMES = {"BOOL": "bool", "U8": "uint8", "I8": "int8", "I16": "int16", "U16": "uint16", "F16": "float16", "BF16": "bfloat16",
         "I32": "int32", "U32": "uint32", "F32": "float32", "F64": "float64", "I64": "int64", "U64": "uint64",
         "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2"}
NO_NUMPY = {"BF16", "F8_E4M3", "F8_E5M2"}


def main(spec, ours, theirs):
    with open(spec) as f:
        models = json.load(f)
    for n, m in enumerate(models):
        want = {t["name"]: (t["dtype"], t["shape"], bytes.fromhex(t["data"])) for t in m["tensors"]}
        safetensors.serialize_file({name: {"dtype": NAMES[d], "shape": shape, "data": data}
                                    for name, (d, shape, data) in want.items()},
                                   "%s/%d.safetensors" % (theirs, n), m["metadata"])
        path = "%s/%d.safetensors" % (ours, n)
        with open(path, "rb") as f:
            have = {name: (t["dtype"], t["shape"], bytes(t["data"])) for name, t in safetensors.deserialize(f.read())}
        if have != want:
            print("%s: other tensors than wanted" % path)
        with safetensors.safe_open(path, "np") as f:
            if f.metadata() != m["metadata"] or sorted(f.keys()) != sorted(want):
                print("%s: metadata %r" % (path, f.metadata()))
        if not NO_NUMPY & {t[0] for t in want.values()}:
            arrays = safetensors.numpy.load_file(path)
            for name, (_, shape, data) in want.items():
                a = arrays[name]
                if list(a.shape) != shape or numpy.ascontiguousarray(a).tobytes() != data:
                    print("%s: %r is another array" % (path, name))
    print("done %d" % len(models))


main(*sys.argv[1:])
