# SPDX-License-Identifier: MIT
"""Thousands of random steps on staged models, against a plain model of what should be there: bytes in a dictionary."""
import errno
import os
import random

import mounting
from mounting import pattern, read
from staging import MODEL, StagingTest, load, sync

STEPS = int(os.environ.get("STAGING_STEPS", "2500"))
SEEDS = [int(s) for s in os.environ.get("STAGING_SEEDS", "1 2 3").split()]
MOUNTED = {"model/big": 1, "model/h/0/k": 2, "model/h/0/old": 3, "model/odd%25name/w": 4}


class File:
    def __init__(self, data=b""):
        self.data = bytearray(data)
        self.dtype = self.shape = self.name = None    # what was set
        self.bound = None                             # (dtype, shape) by where it came from
        self.origin = None


class Plain:
    """What should be there: {path: File or None for a directory}."""

    def __init__(self):
        self.nodes = {}

    def files(self):
        return [p for p, n in self.nodes.items() if n]

    def dirs(self):
        return [""] + [p for p, n in self.nodes.items() if n is None]

    def below(self, path):
        return [p for p in self.nodes if p == path or p.startswith(path + "/")]

    def empty(self, path):
        return len(self.below(path)) == 1


class Random(StagingTest):
    def setUp(self):
        super().setUp()
        self.start()
        self.models = {}

    def real(self, model, path):
        return os.path.join(self.staging, model, path) if path else os.path.join(self.staging, model)

    def new_path(self, m):
        d = self.rng.choice(m.dirs())
        return (d + "/" if d else "") + self.rng.choice("abcdefgh") + self.rng.choice(["", "1", ".x", "%41", "é"])

    def pick(self):
        name = self.rng.choice(sorted(self.models))
        return name, self.models[name]

    # Each step does the same to both, and what the file system refuses must be what the plain model cannot.

    def step_create(self):
        name, m = self.pick()
        p = self.new_path(m)
        if m.nodes.get(p, 0) is None:
            self.assert_errno(errno.EISDIR, open, self.real(name, p), "wb")
            return
        with open(self.real(name, p), "wb", buffering=0) as f:
            data = self.rng.randbytes(self.rng.choice([0, 1, 100, 5000, 70000]))
            f.write(data)
        had = m.nodes.get(p)
        if had:
            had.data = bytearray(data)
        else:
            m.nodes[p] = File(data)

    def some_file(self):
        name, m = self.pick()
        files = m.files()
        return (name, m, self.rng.choice(files)) if files else (name, m, None)

    def step_write(self):
        name, m, p = self.some_file()
        if p is None:
            return
        f = m.nodes[p]
        at = self.rng.randrange(len(f.data) + self.rng.choice([1, 1, 1, 10000]))
        data = self.rng.randbytes(self.rng.choice([1, 10, 4096, 20000]))
        with open(self.real(name, p), "r+b", buffering=0) as real:
            real.seek(at)
            real.write(data)
        if at > len(f.data):
            f.data += bytes(at - len(f.data))
        f.data[at:at + len(data)] = data

    def step_truncate(self):
        name, m, p = self.some_file()
        if p is None:
            return
        f = m.nodes[p]
        size = self.rng.randrange(len(f.data) + 2 + self.rng.choice([0, 5000]))
        os.truncate(self.real(name, p), size)
        f.data = f.data[:size] + bytes(max(0, size - len(f.data)))

    def step_copy(self):
        name, m, p = self.some_file()
        if p is None:
            return
        if self.rng.random() < 0.5:
            q = self.rng.choice(sorted(MOUNTED))
            source, data = os.path.join(self.mnt, q), MODEL[MOUNTED[q]][3]
        else:
            other, o, q = self.some_file()
            if q is None:
                return
            source, data = self.real(other, q), bytes(o.nodes[q].data)
        f = m.nodes[p]
        off = self.rng.randrange(len(data) + 1)
        n = self.rng.randrange(1, len(data) + 2)
        at = self.rng.randrange(len(f.data) + 1)
        a, b = os.open(source, os.O_RDONLY), os.open(self.real(name, p), os.O_RDWR)
        try:
            got = os.copy_file_range(a, b, n, off, at)
        except OSError as e:
            self.assertEqual(e.errno, errno.EINVAL)   # ranges of one file that overlap
            self.assertEqual(source, self.real(name, p))
            return
        finally:
            os.close(a)
            os.close(b)
        self.assertEqual(got, max(0, min(n, len(data) - off)))
        if got:
            f.data[at:at + got] = data[off:off + got]

    def step_link(self):
        name, m = self.pick()
        p = self.new_path(m)
        if self.rng.random() < 0.5:
            q = self.rng.choice(sorted(MOUNTED))
            source, data = os.path.join(self.mnt, q), MODEL[MOUNTED[q]][3]
        else:
            other, o, q = self.some_file()
            if q is None:
                return
            source, data = self.real(other, q), bytes(o.nodes[q].data)
        if p in m.nodes:
            self.assert_errno(errno.EEXIST, os.link, source, self.real(name, p))
            return
        os.link(source, self.real(name, p))
        m.nodes[p] = File(data)

    def step_unlink(self):
        name, m, p = self.some_file()
        if p is not None and self.rng.random() < 0.6:
            os.unlink(self.real(name, p))
            del m.nodes[p]

    def step_mkdir(self):
        name, m = self.pick()
        p = self.new_path(m)
        if p in m.nodes:
            self.assert_errno(errno.EEXIST, os.mkdir, self.real(name, p))
        elif p.count("/") < 4:
            os.mkdir(self.real(name, p))
            m.nodes[p] = None

    def step_rmdir(self):
        name, m = self.pick()
        p = self.rng.choice(m.dirs())
        if not p:
            return
        if m.empty(p):
            os.rmdir(self.real(name, p))
            del m.nodes[p]
        else:
            self.assert_errno(errno.ENOTEMPTY, os.rmdir, self.real(name, p))

    def step_rename(self):
        name, m = self.pick()
        to_name, to = self.pick()
        if not m.nodes:
            return
        p, q = self.rng.choice(sorted(m.nodes)), self.new_path(to)
        node, old = m.nodes[p], to.nodes.get(q, 0)
        call = (os.rename, self.real(name, p), self.real(to_name, q))
        if m is to and p == q:
            os.rename(*call[1:])
        elif m is to and (q + "/").startswith(p + "/") and node is None:
            self.assert_errno(errno.EINVAL, *call)
        elif old != 0 and (node is None) != (old is None):
            self.assertRaises(OSError, *call)
        elif old is None and not to.empty(q):
            self.assertRaises(OSError, *call)
        elif m is not to and (node is None or old != 0):
            self.assert_errno(errno.EXDEV, *call)
        else:
            os.rename(*call[1:])
            to.nodes.pop(q, None)
            for path in m.below(p):
                moved = m.nodes.pop(path)
                to.nodes[q + path[len(p):]] = moved
                if moved:
                    moved.name = None

    def step_attributes(self):
        name, m, p = self.some_file()
        if p is None:
            return
        f, real = m.nodes[p], self.real(name, p)
        what = self.rng.choice(["name", "type"])
        if what == "name":
            f.name = "n%d é" % self.rng.randrange(10**6)
            os.setxattr(real, "user.safetensors.name", f.name.encode())
        else:
            f.dtype, f.shape = "U8", [len(f.data)]
            os.setxattr(real, "user.dtype", b"U8")
            os.setxattr(real, "user.shape", b"[%d]" % len(f.data))

    def step_metadata(self):
        name, m = self.pick()
        self.metadata[name] = "v%d" % self.rng.randrange(1000)
        os.setxattr(self.real(name, ""), "user.metadata.key", self.metadata[name].encode())

    def step_look(self):
        name, m, p = self.some_file()
        if p is not None:
            self.assertEqual(read(self.real(name, p)), bytes(m.nodes[p].data), p)

    def step_commit(self):
        """All get the type that fits; names that are not unique are given one."""
        name, m = self.pick()
        want = {}
        for p in sorted(m.files()):
            f, real = m.nodes[p], self.real(name, p)
            os.setxattr(real, "user.dtype", b"U8")
            os.setxattr(real, "user.shape", b"[%d]" % len(f.data))
            if f.name is None or f.name in want:
                self.given += 1
                f.name = "t%d" % self.given
                os.setxattr(real, "user.safetensors.name", f.name.encode())
            want[f.name] = ("U8", [len(f.data)], bytes(f.data))
        sync(self.real(name, ""))
        self.assert_holds(name, want)
        if name in self.metadata:
            self.assertEqual(load(self.output(name))[1]["key"], self.metadata[name])

    def step_remount(self):
        self.again(kill=self.rng.random() < 0.6)
        self.assertNotIn("makes no sense", self.said())
        self.check_all()

    def check_all(self):
        for name, m in self.models.items():
            top, seen = self.real(name, ""), {}
            for d, dirs, files in os.walk(top):
                for n in dirs + files:
                    path = os.path.relpath(os.path.join(d, n), top)
                    seen[path] = n in files
            self.assertEqual(seen, {p: n is not None for p, n in m.nodes.items()})
            for p in m.files():
                self.assertEqual(os.stat(self.real(name, p)).st_size, len(m.nodes[p].data), p)
                self.assertEqual(read(self.real(name, p)), bytes(m.nodes[p].data), p)
                if m.nodes[p].name is not None:
                    self.assertEqual(os.getxattr(self.real(name, p), "user.safetensors.name").decode(), m.nodes[p].name)

    def go(self, seed):
        self.rng = random.Random(seed)
        self.metadata, self.given = {}, 0
        for name in ("one", "two"):
            self.new_model(name)
            self.models[name] = Plain()
        weights = {"create": 10, "write": 14, "truncate": 6, "copy": 14, "link": 6, "unlink": 8, "mkdir": 4, "rmdir": 2,
                   "rename": 10, "attributes": 4, "metadata": 1, "look": 10, "commit": 1, "remount": 0.5}
        kinds = list(weights)
        steps = []
        for i in range(STEPS):
            kind = self.rng.choices(kinds, [weights[k] for k in kinds])[0]
            steps.append(kind)
            try:
                getattr(self, "step_" + kind)()
            except BaseException:
                print("seed %d, step %d: %s; the last ones: %s" % (seed, i, kind, " ".join(steps[-12:])))
                raise
        self.check_all()
        self.again(kill=True)
        self.check_all()


for seed in SEEDS:
    setattr(Random, "test_seed_%d" % seed, lambda self, seed=seed: self.go(seed))
