#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes seeded random checkpoints with real PyTorch, and for each a JSON of what is in it.

generate.py DIR [COUNT [SEED]]

DIR/N.pt is the checkpoint, DIR/N.json a list of tensors: name (keys on the way, joined with "."; the k-th tensor
of one name is NAME#k, a tensor that is the whole file is "tensor"), dtype code, shape, sha256 of the row-major
little-endian bytes as they are stored (a conj or neg bit is not applied). What is expected is computed by PyTorch
alone, from the objects before they are saved.
"""
import collections
import hashlib
import json
import math
import os
import random
import sys

import numpy
import torch

CODES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8",
    torch.bool: "BOOL", torch.complex64: "C64", torch.complex128: "C128",
}
# Without a storage class of their own; the legacy form cannot be read back by PyTorch, but it is written.
UNTYPED = {}
for name, code in (("uint16", "U16"), ("uint32", "U32"), ("uint64", "U64"), ("float8_e4m3fn", "F8_E4M3"),
                   ("float8_e5m2", "F8_E5M2"), ("float8_e4m3fnuz", "F8_E4M3FNUZ"), ("float8_e5m2fnuz", "F8_E5M2FNUZ"),
                   ("complex32", "C32")):
    if hasattr(torch, name):
        UNTYPED[getattr(torch, name)] = code
ALL = {**CODES, **UNTYPED}


class Generator:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.bases = []     # flat tensors whose storages are shared
        self.made = []      # values that may come again
        self.left = 60      # values yet to be made

    def base(self, legacy):
        dtype = self.r.choice(list(CODES if legacy or self.r.random() < 0.8 else ALL))
        size = dtype.itemsize
        n = self.r.choice((1, 7, 24, 60, 120, 5040, 40000))
        raw = bytearray(self.r.randbytes(n * size))
        if dtype == torch.bool:
            raw = bytearray(b & 1 for b in raw)
        return torch.frombuffer(raw, dtype=torch.uint8).clone().view(dtype)

    def shape_of(self, n):
        """A shape of at most n elements."""
        shape = []
        for _ in range(self.r.randrange(5)):
            d = self.r.choice((1, 1, 2, 3, 4, 5, 7))
            if d * max(1, math.prod(shape)) > n:
                break
            shape.append(d)
        return shape

    def tensor(self, legacy):
        r = self.r
        if not self.bases or r.random() < 0.5:
            self.bases.append(self.base(legacy))
        t = r.choice(self.bases)
        n = t.numel()
        for _ in range(r.randrange(4)):
            how = r.randrange(7)
            if how == 0 and t.dim() and t.shape[0] > 1:
                a = r.randrange(t.shape[0])
                t = t[a:]
            elif how == 1 and t.dim() and t.shape[0] > 3:
                t = t[:: r.choice((2, 3))]
            elif how == 2 and t.dim() > 1:
                order = list(range(t.dim()))
                r.shuffle(order)
                t = t.permute(order)
            elif how == 3 and t.is_contiguous() and t.numel() > 1 and t.numel() % 4 == 0:
                t = t.view(r.choice(([4, -1], [-1, 2], [2, 2, -1], [-1, 1])))
            elif how == 4:
                t = t.unsqueeze(r.randrange(t.dim() + 1))
            elif how == 5 and t.numel() <= 120:
                t = t.unsqueeze(0).expand([r.choice((1, 3))] + list(t.shape))
            elif how == 6:
                shape = self.shape_of(n)
                stride = [r.randrange(1, 4) for _ in shape]
                reach = sum((d - 1) * s for d, s in zip(shape, stride)) + 1
                if reach <= t.untyped_storage().nbytes() // t.element_size():
                    t = t.as_strided(shape, stride, 0)
        if r.random() < 0.08:
            t = t[:0] if t.dim() else t
        if r.random() < 0.05 and t.dtype in (torch.complex64, torch.complex128):
            t = t.conj()
        if r.random() < 0.15 and t.dtype in (torch.float32, torch.float64):
            t = torch.nn.Parameter(t, requires_grad=r.random() < 0.5)
        return t

    def leaf(self):
        r = self.r
        return r.choice((None, True, 3, -1, 2**70, 0.1, float("nan"), "text", "", b"bytes", torch.float16, torch.Size([2, 3]),
                         torch.device("cpu"), (1, 2), {1, 2}, numpy.float32(1.5), complex(1, 2)))

    def key(self):
        r = self.r
        return r.choice((lambda: "k%d" % r.randrange(30), lambda: r.randrange(8), lambda: r.choice(("weight", "bias", "a.b", "x/y", "", "%", "ü", "..")),
                         lambda: r.choice((True, None, 1.5, -2)), lambda: (r.randrange(3), "t")))()

    def array(self):
        r = self.r
        a = numpy.frombuffer(r.randbytes(8 * 24), dtype=r.choice(("<f4", ">f4", "<i8", ">i2", "|u1", "<f8"))).copy()
        a = a[:24].reshape(r.choice(((24,), (4, 6), (2, 3, 4))))
        return numpy.asfortranarray(a) if r.random() < 0.3 else a

    def value(self, depth, legacy):
        r = self.r
        self.left -= 1
        if self.made and r.random() < 0.12:
            return r.choice(self.made)
        x = r.random()
        if depth == 0 or self.left <= 0 or x < 0.6:
            v = self.tensor(legacy) if r.random() < 0.75 else self.array() if r.random() < 0.2 else self.leaf()
        elif x < 0.8:
            v = r.choice((dict, collections.OrderedDict))()
            for _ in range(r.randrange(6)):
                v[self.key()] = self.value(depth - 1, legacy)
        elif x < 0.9:
            v = [self.value(depth - 1, legacy) for _ in range(r.randrange(5))]
        else:
            v = tuple(self.value(depth - 1, legacy) for _ in range(r.randrange(4)))
        self.made.append(v)
        return v


def component(key):
    if isinstance(key, tuple):
        return "(" + ", ".join(component(k) for k in key) + ")"
    return key if isinstance(key, str) else repr(key)


def stored_bytes(t):
    t = t.detach()
    if t.is_conj():
        t = t.conj()    # the stored ones are those before conjugation
    if t.numel() == 0:
        return b""
    copy = torch.empty(t.shape, dtype=t.dtype)
    copy.copy_(t)
    return copy.reshape(-1).view(torch.uint8).numpy().tobytes()


def flatten(value, name, depth, out):
    """All tensors in order, as (name, dtype, shape, bytes)."""
    if isinstance(value, torch.Tensor):
        out.append((name if depth else "tensor", ALL[value.dtype], list(value.shape), stored_bytes(value)))
    elif isinstance(value, numpy.ndarray):
        little = value.astype(value.dtype.newbyteorder("<"), copy=False)
        code = {"f4": "F32", "f8": "F64", "i8": "I64", "i2": "I16", "u1": "U8"}[value.dtype.str[1:]]
        out.append((name if depth else "tensor", code, list(value.shape), numpy.ascontiguousarray(little).tobytes()))
    elif isinstance(value, dict):
        for k, v in value.items():
            flatten(v, name + "." + component(k) if depth else component(k), depth + 1, out)
    elif isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        for i, v in enumerate(value):
            flatten(v, "%s.%d" % (name, i) if depth else str(i), depth + 1, out)


def make(directory, number, seed):
    g = Generator(seed * 1000003 + number)
    legacy = g.r.random() < 0.4
    if g.r.random() < 0.05:
        root = g.tensor(legacy)
    elif g.r.random() < 0.15:
        root = [g.value(3, legacy) for _ in range(g.r.randrange(3, 9))]
    else:
        root = {g.key(): g.value(3, legacy) for _ in range(g.r.randrange(3, 12))}
    found, listed, names = [], [], collections.Counter()
    flatten(root, "", 0, found)
    taken = {f[0] for f in found}
    for name, dtype, shape, data in found:
        names[name] += 1
        shown = name if names[name] == 1 else "%s#%d" % (name, names[name])
        assert names[name] == 1 or shown not in taken
        listed.append({"name": shown, "dtype": dtype, "shape": shape, "bytes": len(data),
                       "sha256": hashlib.sha256(data).hexdigest()})
    path = os.path.join(directory, "%04d.pt" % number)
    torch.save(root, path, pickle_protocol=g.r.randrange(2, 6), _use_new_zipfile_serialization=not legacy)
    with open(path[:-3] + ".json", "w") as f:
        json.dump(listed, f)


def main():
    directory, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 500
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    torch.set_num_threads(1)
    os.makedirs(directory, exist_ok=True)
    for i in range(count):
        make(directory, i, seed)
    print("%d checkpoints by PyTorch %s" % (count, torch.__version__))


main()
