#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A model directory of 64 shards: how long it takes to mount, `cp` of its archive against `cp` of its shards (the same bytes,
hashed in the one case), what the daemon needs meanwhile.   (made for `make bench-thin`; DIR=, SHARD= MiB, REPEAT=)

Promised: milliseconds; at least 0.6 times as fast; memory of the size of the metadata. The shards are in the page cache where they
fit there. The archive is checked by fsck.safetensors, which hashes it again.
"""
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "mount"))
from mounting import MOUNT, mounts, processes, wait_for   # noqa: E402

FSCK = os.path.join(os.path.dirname(MOUNT), "fsck.safetensors")
SHARDS, HEADS, VOCAB_PER_HIDDEN, MIB = 64, 16, 16, 2**20


def sizes(shard_mib):
    """Of a layer 4 H H + 3 H I parameters; I is four times H, and the vocabulary as large as makes the ends like a layer."""
    hidden = 128
    while 32 * hidden * hidden * 4 <= shard_mib * MIB:   # 16 H H parameters of two bytes
        hidden *= 2
    return hidden, 4 * hidden, VOCAB_PER_HIDDEN * hidden


def tensors(number, hidden, inner, vocab):
    if number == 0:
        return [("model.embed_tokens.weight", (vocab, hidden))]
    if number == SHARDS - 1:
        return [("lm_head.weight", (vocab, hidden)), ("model.norm.weight", (hidden,))]
    layer = "model.layers.%d." % (number - 1)
    wide = [("self_attn.%s_proj" % p, (hidden, hidden)) for p in "qkvo"]
    wide += [("mlp.gate_proj", (inner, hidden)), ("mlp.up_proj", (inner, hidden)), ("mlp.down_proj", (hidden, inner))]
    norms = [("input_layernorm", (hidden,)), ("post_attention_layernorm", (hidden,))]
    return [(layer + name + ".weight", shape) for name, shape in wide + norms]


def write_shard(path, entries, block):
    head, at = {}, 0
    for name, shape in entries:
        size = 2
        for n in shape:
            size *= n
        head[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        start = os.path.basename(path).encode()   # no two shards alike
        while at:
            n = min(at, len(block))
            f.write(start + block[len(start):n])
            at -= n


def make(d, shard_mib):
    hidden, inner, vocab = sizes(shard_mib)
    os.mkdir(d)
    block, where = os.urandom(MIB), {}
    for i in range(SHARDS):
        name = "model-%05d-of-%05d.safetensors" % (i + 1, SHARDS)
        entries = tensors(i, hidden, inner, vocab)
        where.update((n, name) for n, _ in entries)
        write_shard(d + "/" + name, entries, block)
    with open(d + "/model.safetensors.index.json", "w") as f:
        json.dump({"metadata": {}, "weight_map": where}, f)
    with open(d + "/config.json", "w") as f:
        json.dump({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden, "intermediate_size": inner,
                   "num_attention_heads": HEADS, "num_key_value_heads": HEADS, "num_hidden_layers": SHARDS - 2, "vocab_size": vocab,
                   "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False,
                   "torch_dtype": "bfloat16", "hidden_act": "silu"}, f)


def warm(d):
    for name in sorted(os.listdir(d)):
        with open(d + "/" + name, "rb", buffering=0) as f:
            os.fsync(f.fileno())
            while f.read(MIB):
                pass


def memory(pid, field):
    with open("/proc/%d/status" % pid) as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith(field + ":"))


def unmount(mnt):
    subprocess.run(["fusermount3", "-u", mnt], check=True)
    wait_for(lambda: not mounts(mnt) and not processes(mnt), "unmount")


def timed(*argv):
    start = time.monotonic()
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)
    return time.monotonic() - start


def export(model, mnt, target, sync, figures):
    figures["mount"].append(timed(MOUNT, model, mnt))
    try:
        path = mnt + "/.export/" + next(n for n in os.listdir(mnt + "/.export") if n.endswith(".thin"))
        figures["cp of the archive"].append(timed("sh", "-c", 'cp "$1" "$2"' + sync, "sh", path, target))
        figures["anonymous memory"].append(max(memory(p, "RssAnon") for p in processes(mnt)))
    finally:
        unmount(mnt)


def copy(model, target, sync, figures):
    os.mkdir(target)
    figures["cp of the shards"].append(timed("sh", "-c", 'cp "$1"/*.safetensors "$2"' + (sync and sync + "/*"), "sh", model, target))


def show(figures, size):
    for name, values in figures.items():
        if name == "anonymous memory":
            print("%-18s most %.1f MB" % (name, max(values) / 1e6))
        elif name == "mount":
            print("%-18s best %.1f ms" % (name, 1e3 * min(values)))
        else:
            print("%-18s best %.2f s  (%s)  %.2f GB/s" % (name, min(values), " ".join("%.2f" % v for v in values), size / min(values) / 1e9))
    print("ratio %.2f" % (min(figures["cp of the shards"]) / min(figures["cp of the archive"])))


def main():
    mib, repeat = int(os.environ.get("SHARD", "128")), int(os.environ.get("REPEAT", "3"))
    with tempfile.TemporaryDirectory(prefix="st-bench-thin-", dir=os.environ.get("DIR", "/var/tmp")) as d:
        if shutil.disk_usage(d).free < 3 * SHARDS * mib * MIB:
            print("SKIP: no room for three times %d MiB in %s" % (SHARDS * mib, d))
            return 0
        model, mnt, target = d + "/model", d + "/mnt", d + "/target"
        os.mkdir(mnt)
        make(model, mib)
        size = sum(os.stat(model + "/" + n).st_size for n in os.listdir(model))
        print("%d shards, %.2f GB" % (SHARDS, size / 1e9))
        for sync in ("", ' && sync "$2"'):
            figures = {"mount": [], "cp of the archive": [], "cp of the shards": [], "anonymous memory": []}
            for _ in range(repeat):
                for way in (lambda: copy(model, target, sync, figures), lambda: export(model, mnt, target, sync, figures)):
                    os.sync()
                    warm(model)
                    way()
                    if os.path.isdir(target):
                        shutil.rmtree(target)
                    else:
                        os.rename(target, d + "/last")
            print("\nsynced to disk:" if sync else "\ncp alone:")
            show(figures, size)
        subprocess.run([FSCK, d + "/last"], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
