# SPDX-License-Identifier: MIT
"""Files to measure with: the same bytes at every run."""
import json, os, random, struct, zipfile

MIB = 1 << 20
BIG = 512 * MIB        # the tensor that is read as a whole
QUARTER = 128 * MIB     # four of them for four readers


def header(entries):
    """The beginning of a safetensors file: entries are (name, bytes), all U8 and one dimension."""
    parts, at = [], 0
    for name, size in entries:
        parts.append('%s:{"dtype":"U8","shape":[%d],"data_offsets":[%d,%d]}' % (json.dumps(name), size, at, at + size))
        at += size
    text = ("{" + ",".join(parts) + "}").encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text, at


def random_blocks(size):
    rng = random.Random(size)
    block = rng.randbytes(16 * MIB)
    for _ in range(size // len(block)):
        yield block


def fresh(path):
    """Reads a file from disk again: a file just written is cached in small pages, one read in large ones."""
    with open(path, "rb", buffering=0) as f:
        os.fsync(f.fileno())
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        while f.read(MIB):
            pass


def big_model(path):
    """big, and q0 to q3."""
    head, total = header([("big", BIG)] + [("q%d" % i, QUARTER) for i in range(4)])
    with open(path, "wb") as f:
        f.write(head)
        for block in random_blocks(total):
            f.write(block)
    fresh(path)


def big_raw(path):
    with open(path, "wb") as f:
        for block in random_blocks(BIG):
            f.write(block)


def stored_pth(path):
    """What torch.save writes of {"big": a uint8 tensor}: a ZIP archive without compression."""
    def text(s):
        return b"X" + struct.pack("<I", len(s)) + s.encode()
    pickle = (b"\x80\x02}" + text("big") + b"ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") +
              b"ctorch\nByteStorage\n" + text("0") + text("cpu") + b"J" + struct.pack("<i", BIG) + b"tQK\x00J" +
              struct.pack("<i", BIG) + b"\x85K\x01\x85\x89ccollections\nOrderedDict\n)RtRs.")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as z:
        def member(name):   # as torch writes them: of no system, with no mode (without a file type, fuse-zip fails)
            info = zipfile.ZipInfo("archive/" + name)
            info.create_system = info.external_attr = 0
            return info
        z.writestr(member("data.pkl"), pickle)
        z.writestr(member("byteorder"), "little")
        with z.open(member("data/0"), "w") as f:
            for block in random_blocks(BIG):
                f.write(block)
        z.writestr(member("version"), "3\n")
    fresh(path)


def many_pth(path, n):
    """What torch.save writes of a dict of n float tensors of 1 KiB each."""
    def text(t):
        return b"X" + struct.pack("<I", len(t)) + t.encode()
    head, tail = b"\x80\x02}(", b"u."
    items = [text(name) + b"ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + b"ctorch\nFloatStorage\n" + text(str(i)) +
             text("cpu") + b"M\x00\x01tQK\x00M\x00\x01\x85K\x01\x85\x89ccollections\nOrderedDict\n)RtR"
             for i, name in enumerate(many_names(n))]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as z:
        z.writestr("archive/data.pkl", head + b"".join(items) + tail)
        z.writestr("archive/byteorder", "little")
        for i in range(n):
            z.writestr("archive/data/%d" % i, struct.pack("<I", i) * 256)
        z.writestr("archive/version", "3\n")


def many_names(n):
    """Names of a mixture of experts: as deep, as long and as scattered over directories as such models are."""
    parts = [p + s for p in ("gate_proj", "up_proj", "down_proj") for s in (".weight", ".weight_scale_inv")]
    layers = 100 if n > 100000 else 10
    experts = n // (layers * len(parts))
    names = ["model.layers.%d.mlp.experts.%d.%s" % (l, e, p) for l in range(layers) for e in range(experts) for p in parts]
    return names + ["model.embed.%d" % i for i in range(n - len(names))]


def many_model(path, n, size):
    """n tensors of `size` bytes, which are holes of the file. Returns their names."""
    names = many_names(n)
    head, total = header([(name, size) for name in names])
    with open(path, "wb") as f:
        f.write(head)
        f.truncate(len(head) + total)
    fresh(path) if total < 64 * MIB else None
    return names


def many_files(top, names, size):
    """The same tree, made of files."""
    made = set()
    for name in names:
        path = os.path.join(top, name.replace(".", "/"))
        folder = os.path.dirname(path)
        if folder not in made:
            os.makedirs(folder, exist_ok=True)
            made.add(folder)
        os.mknod(path, 0o100444)
        os.truncate(path, size)
