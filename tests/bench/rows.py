# SPDX-License-Identifier: MIT
"""What is measured: groups of rows that share their files and take turns."""
import os, shutil, subprocess, sys, time
import data
from place import MOUNT, READER, ROOT, Skipped, need, run

REPEAT = int(os.environ.get("REPEAT") or 5)
MIB = data.MIB


class Row:
    def __init__(self, id, text, kind=None, target=None, unit=""):
        self.id, self.text, self.kind, self.target, self.unit = str(id), text, kind, target, unit
        self.value, self.note, self.why = None, "", "not measured"

    def set(self, value, note):
        self.value, self.note, self.why = value, note, None


class Group:
    def __init__(self, measure, *rows):
        self.measure, self.rows = measure, rows


def interleave(ways, repeat=None):
    """{name: function}: each is called in turn, the least of what it returns counts. One that is skipped once is not asked again."""
    best, why = {}, {}
    for _ in range(repeat or REPEAT):
        for name, f in ways.items():
            if name in why:
                continue
            try:
                best[name] = min(f(), best.get(name, float("inf")))
            except Skipped as e:
                why[name] = str(e)
    return best, why


def fill(rows, best, why, size=None):
    """Rows that compare a with b: of speeds of `size` bytes, or of times."""
    for r in rows:
        missing = [why.get(n, "not measured") for n in (r.a, r.b) if n not in best]
        if missing:
            r.why = missing[0]
        elif size:
            r.set(best[r.b] / best[r.a], "%.2f / %.2f GB/s" % (size / best[r.a] / 1e9, size / best[r.b] / 1e9))
        else:
            r.set(best[r.a] / best[r.b], "%.3f / %.3f s" % (best[r.a], best[r.b]))


def row(id, text, a, b, kind=None, target=None):
    r = Row(id, text, kind, target)
    r.a, r.b = a, b
    return r


def reader(*argv, user=()):
    return float(run(*user, READER, *map(str, argv), capture_output=True).stdout)


def timed(*argv, **more):
    start = time.monotonic()
    run(*argv, stdout=subprocess.DEVNULL, **more)
    return time.monotonic() - start


def once(place, name, make):
    """The path of a file of this run, made when first asked for."""
    path = os.path.join(place.disk, name)
    if not os.path.exists(path):
        make(path)
    return path


def big_model(place):
    return once(place, "big.safetensors", data.big_model)


def big_in_ram(place):
    path = os.path.join(place.ram, "big")
    if not os.path.exists(path):
        data.big_raw(path)
    return path


# Sequential reading.

CPU = {"user": 0.0, "system": 0.0, "bytes": 0}


def measure_reading(place, rows):
    model, ram = big_model(place), big_in_ram(place)
    source, pth = once(place, "big", data.big_raw), once(place, "big.pth", data.stored_pth)
    data.fresh(source)
    warm = []

    def cold():
        with place.safetensors(model) as m:
            user, system = m.cpu()
            t = reader("read", MIB, m.path + "/big")
            after = m.cpu()
            CPU["user"] += after[0] - user
            CPU["system"] += after[1] - system
            CPU["bytes"] += data.BIG
            warm.append(reader("read", MIB, m.path + "/big"))
        return t

    def fuse_zip():
        with place.mounted(need("fuse-zip"), "-r", pth) as m:
            return reader("read", MIB, m.path + "/archive/data/0")

    def cold_pth():
        with place.safetensors(pth) as m:
            return reader("read", MIB, m.path + "/big")

    def squashfuse():
        with place.mounted(need("squashfuse"), squashed(place, source)) as m:
            return reader("read", MIB, m.path + "/big")

    def as_user():
        who = place.user()
        with place.safetensors(place.ram + "/data/big.safetensors" if ROOT else model, user=who, owner=65534 if ROOT else None) as m:
            return reader("read", MIB, m.path + "/big", user=who)

    def copy():
        try:
            return timed("cp", source, place.ram + "/copy")
        finally:
            os.unlink(place.ram + "/copy")

    ways = {"ram": lambda: reader("read", MIB, ram), "source": lambda: reader("read", MIB, source), "cold": cold,
            "warm": lambda: min(warm), "cp": copy, "cold_pth": cold_pth, "fuse_zip": fuse_zip, "squashfuse": squashfuse, "as_user": as_user}
    asked = {n for r in rows for n in (r.a, r.b)}
    if asked & {"warm", "cold_pth"}:
        asked.add("cold")
    best, why = interleave({n: f for n, f in ways.items() if n in asked})
    stand_in = "cold_pth" in why and "cold" in best     # no .pth files yet: the same bytes from the other format
    if stand_in:
        best["cold_pth"] = best["cold"]
    fill(rows, best, why, data.BIG)
    for r in rows:
        if stand_in and r.a == "cold_pth":
            r.note += " (read from .safetensors)"


def squashed(place, source):
    def make(path):
        need("mksquashfs")
        run("mksquashfs", source, path, "-noI", "-noD", "-noF", "-noX", "-no-progress", "-quiet", stdout=subprocess.DEVNULL)
        data.fresh(path)
    return once(place, "big.squashfs", make)


def measure_mapping(place, rows):
    model, ram, source = big_model(place), big_in_ram(place), once(place, "big", data.big_raw)
    warm = []

    def cold():
        with place.safetensors(model) as m:
            t = reader("mmap", m.path + "/big")
            warm.append(reader("mmap", m.path + "/big"))
        return t
    best, why = interleave({"ram": lambda: reader("mmap", ram), "source": lambda: reader("mmap", source), "cold": cold, "warm": lambda: min(warm)})
    fill(rows, best, why, data.BIG)


def measure_direct(place, rows):
    model, ram = big_model(place), big_in_ram(place)
    with place.safetensors(model, "direct_io") as m:
        best, why = interleave({"ram": lambda: reader("read", MIB, ram), "direct": lambda: reader("read", MIB, m.path + "/big")})
    fill(rows, best, why, data.BIG)


def measure_readers(place, rows):
    model = big_model(place)

    def way(how):
        def cold():
            with place.safetensors(model) as m:
                return reader(how, MIB, *[m.path + "/q%d" % i for i in range(4)])
        return cold
    best, why = interleave({"four": way("read"), "one": way("chain")})
    fill(rows, best, why, 4 * data.QUARTER)


def measure_cpu(place, rows):
    """Through direct_io, so that every byte passes the daemon and the clock's ticks are long enough to count."""
    model = big_model(place)
    served = 0
    with place.safetensors(model, "direct_io") as m:
        before = m.cpu()
        for _ in range(2 * REPEAT):
            reader("read", MIB, m.path + "/big")
            served += data.BIG
        after = m.cpu()
        time.sleep(1)
        rest = sum(m.cpu()) - sum(after)
    user, system = after[0] - before[0] + CPU["user"], after[1] - before[1] + CPU["system"]
    served += CPU["bytes"]
    for r in rows:
        if r.unit == "ms":
            r.set(user * 1e9 / served * 1e3, "%.0f GB, %.2f s user, %.2f s kernel" % (served / 1e9, user, system))
        else:
            r.set(rest * 1e3, "in a second without requests")


# Many tensors.

MANY, SOME = 700000, 20000
REFERENCE = r'''
import sys, time
from safetensors import safe_open
start = time.monotonic()
with safe_open(sys.argv[1], framework="np") as f:
    seconds = time.monotonic() - start
    memory = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(seconds, memory)
'''


def many_model(place):
    return once(place, "many.safetensors", lambda path: data.many_model(path, MANY, 2))


def in_root(place, path, module, program):
    """How to run a program that needs a module on a file: here, or in the system root that has it; None: nowhere."""
    root = os.environ.get("REFERENCE_ROOT")
    if subprocess.run(["python3", "-c", "import " + module], stderr=subprocess.DEVNULL).returncode == 0:
        return ["python3", "-c", program, path]
    if not (ROOT and root):
        return None
    if not os.path.ismount(root + "/mnt"):
        run("mount", "--bind", place.disk, root + "/mnt")
        place.undo.append(lambda: run("umount", root + "/mnt"))
        run("mount", "-t", "proc", "proc", root + "/proc")
        place.undo.append(lambda: run("umount", root + "/proc"))
    inside = ["chroot", root, "python3", "-c"]
    if subprocess.run(inside + ["import " + module], stderr=subprocess.DEVNULL).returncode:
        return None
    return inside + [program, "/mnt/" + os.path.basename(path)]


def measure_open(place, rows):
    path, memory = many_model(place), {"ours": float("inf"), "theirs": float("inf")}
    command = in_root(place, path, "safetensors", REFERENCE)

    def ours():
        start = time.monotonic()
        with place.safetensors(path) as m:
            seconds = time.monotonic() - start
            memory["ours"] = min(memory["ours"], m.memory("VmHWM"))
        return seconds

    def theirs():
        if not command:     # as it was where the targets were set
            memory["theirs"] = 650e6
            return 2.4
        seconds, kib = run(*command, capture_output=True).stdout.split()
        memory["theirs"] = min(memory["theirs"], int(kib) * 1024)
        return float(seconds)
    best, why = interleave({"ours": ours, "theirs": theirs})
    note = "" if command else " (no reference here: figures of another machine)"
    for r in rows:
        if "memory" in r.text:
            r.set(memory["ours"] / memory["theirs"], "%.0f / %.0f MB%s" % (memory["ours"] / 1e6, memory["theirs"] / 1e6, note))
        else:
            r.set(best["ours"] / best["theirs"], "%.2f / %.2f s%s" % (best["ours"], best["theirs"], note))


def tree_in_ram(place, name, n, size):
    top = os.path.join(place.ram, name)
    if not os.path.exists(top):
        os.mkdir(top)
        data.many_files(top, data.many_names(n), size)
    return top


def measure_find(place, rows):
    path, ram = many_model(place), tree_in_ram(place, "many", MANY, 2)

    def ours():
        with place.safetensors(path) as m:
            return timed("find", m.path, "-type", "f")
    fill(rows, *interleave({"ours": ours, "ram": lambda: timed("find", ram, "-type", "f")}, min(REPEAT, 2)))
    shutil.rmtree(ram)


def measure_ls(place, rows):
    path = once(place, "some.safetensors", lambda p: data.many_model(p, SOME, 214748))
    ram = tree_in_ram(place, "some", SOME, 214748)
    with place.safetensors(path) as m:
        first = timed("ls", "-lR", m.path)
        best, why = interleave({"ours": lambda: timed("ls", "-lR", m.path), "ram": lambda: timed("ls", "-lR", ram)})
    best["first"] = first
    fill(rows, best, why)


def measure_memory(place, rows):
    """A model of 4 GiB, read through; less what a model of one tensor needs."""
    def after_reading(model):
        with place.safetensors(model, "direct_io") as m:
            for folder, _, files in os.walk(m.path):
                if files:
                    reader("chain", MIB, *[os.path.join(folder, f) for f in files])
            return m.memory("RssAnon")
    path = once(place, "some.safetensors", lambda p: data.many_model(p, SOME, 214748))
    base = after_reading(once(place, "one.safetensors", lambda p: data.many_model(p, 1, 64 * MIB)))
    whole = after_reading(path)
    names = sum(map(len, data.many_names(SOME)))
    for r in rows:
        r.set((whole - base - names) / SOME, "%.1f MB, %.1f MB with one tensor, %d tensors" % (whole / 1e6, base / 1e6, SOME))


TORCH = r"""
import sys, time, torch
start = time.monotonic()
torch.load(sys.argv[1], mmap=True, weights_only=True)
print(time.monotonic() - start)
"""


def measure_pth(place, rows):
    path = once(place, "many.pth", lambda p: data.many_pth(p, 5000))
    command = in_root(place, path, "torch", TORCH)
    if not command:
        raise Skipped("no PyTorch here (REFERENCE_ROOT)")

    def ours():
        start = time.monotonic()
        with place.safetensors(path):
            return time.monotonic() - start
    fill(rows, *interleave({"ours": ours, "torch": lambda: float(run(*command, capture_output=True).stdout)}))


def measure_commit(place, rows):
    """A program of its own (make bench-stage), here with a smaller model."""
    out = run("python3", "-B", os.path.join(os.path.dirname(os.path.abspath(__file__)), "stage.py"), capture_output=True,
              env=dict(os.environ, SIZE="512", REPEAT="3", DIR=place.disk)).stdout.decode()
    if "ratio" not in out:
        raise Skipped(out.strip().split("\n")[-1])
    for r in rows:
        r.set(float(out.split("ratio")[1]), "512 MiB")


GROUPS = [
    Group(measure_reading,
          row(1, "cold read / RAM file system", "cold", "ram", "least", 0.35),
          row(2, "cold read / cp of the source into a RAM file system", "cold", "cp", "least", 1.6),
          row(3, "cold read of a stored .pth / fuse-zip", "cold_pth", "fuse_zip", "least", 1.8),
          row(4, "cold read as an ordinary user / fuse-zip as root", "as_user", "fuse_zip", "least", 0.9),
          row(5, "warm read / RAM file system", "warm", "ram", "least", 0.75),
          row(6, "cold read / squashfuse, uncompressed", "cold", "squashfuse"),
          row(7, "cold read / the source itself", "cold", "source"),
          row(8, "warm read / the source itself", "warm", "source")),
    Group(measure_mapping,
          row(9, "cold mmap, every cache line / RAM file system", "cold", "ram", "least", 0.2),
          row(10, "warm mmap / RAM file system", "warm", "ram", "least", 0.95),
          row(11, "cold mmap / the source itself", "cold", "source"),
          row(12, "warm mmap / the source itself", "warm", "source")),
    Group(measure_direct, row(13, "direct_io, 1 MiB / RAM file system", "direct", "ram", "least", 0.5)),
    Group(measure_readers, row(14, "4 readers of 4 tensors, cold / one reader", "four", "one", "least", 1.2)),
    Group(measure_cpu,
          Row(15, "daemon's user CPU time per GB served", "most", 5, "ms"),
          Row(16, "daemon's CPU time at rest", "most", 0, "ms/s")),
    Group(measure_open,
          Row(17, "time to mount 700,000 tensors / reference opening them", "most", 0.25),
          Row(18, "memory of that / reference", "most", 0.35)),
    Group(measure_find, row(19, "find -type f over 700,000 / the tree on a RAM file system", "ours", "ram", "most", 4)),
    Group(measure_ls,
          row(20, "ls -lR of 20,000, second time / RAM file system", "ours", "ram", "most", 1.5),
          row(21, "ls -lR of 20,000, first time / RAM file system", "first", "ram")),
    Group(measure_memory, Row(22, "memory per tensor beyond its name, after reading 4 GiB", "most", 200, "B")),
    Group(measure_pth, row(23, "mount a 5,000-tensor .pth / torch.load(mmap=True)", "ours", "torch", "most", 0.05)),
    Group(measure_commit, Row(24, "commit of a model staged by reference / cp && sync", "most", 1.1)),
]
