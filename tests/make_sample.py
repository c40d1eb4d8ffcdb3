#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes sample.safetensors: a language model in miniature, the same bytes every time.  make_sample.py [FILE]

Standard library only. Its weights are noise; its names, types and shapes are those of real models.
"""
import json
import os
import struct
import sys

VOCABULARY, HIDDEN, INNER, KEYS, LAYERS = 128, 32, 88, 16, 2
BYTES = {"BF16": 2, "F16": 2, "F32": 4, "I64": 8}


def noise():
    """Multiples of 1/128 from -1 to 1, exact in every type used here."""
    x = 1
    while True:
        x = (x * 1103515245 + 12345) % 2**31
        yield ((x >> 16) % 257 - 128) / 128


def encode(dtype, values):
    if dtype == "BF16":   # the upper half of an F32
        return b"".join(struct.pack("<f", v)[2:] for v in values)
    return struct.pack("<%d%s" % (len(values), {"F16": "e", "F32": "f", "I64": "q"}[dtype]), *values)


def tensors():
    """(name, dtype, shape) of all but position_ids."""
    yield "model.embed_tokens.weight", "BF16", [VOCABULARY, HIDDEN]
    for n in range(LAYERS):
        layer = "model.layers.%d." % n
        for name, shape in (("q_proj", [HIDDEN, HIDDEN]), ("k_proj", [KEYS, HIDDEN]),
                            ("v_proj", [KEYS, HIDDEN]), ("o_proj", [HIDDEN, HIDDEN])):
            yield layer + "self_attn." + name + ".weight", "BF16", shape
        for name, shape in (("gate_proj", [INNER, HIDDEN]), ("up_proj", [INNER, HIDDEN]),
                            ("down_proj", [HIDDEN, INNER])):
            yield layer + "mlp." + name + ".weight", "BF16", shape
        yield layer + "input_layernorm.weight", "F32", [HIDDEN]
        yield layer + "post_attention_layernorm.weight", "F32", [HIDDEN]
    yield "model.norm.weight", "F32", [HIDDEN]
    yield "lm_head.weight", "F16", [VOCABULARY, HIDDEN]


def sample():
    values = noise()
    entries = [("model.position_ids", "I64", [1, 64], encode("I64", list(range(64))))]
    for name, dtype, shape in tensors():
        count = 1
        for n in shape:
            count *= n
        entries.append((name, dtype, shape, encode(dtype, [next(values) for _ in range(count)])))
    entries.sort(key=lambda e: (-BYTES[e[1]], e[0]))   # the widest types first, so that all are aligned
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, dtype, shape, data in entries:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(e[3] for e in entries)


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    with open(sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "sample.safetensors"), "wb") as f:
        f.write(sample())
