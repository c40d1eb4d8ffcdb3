# SPDX-License-Identifier: MIT
"""Where it is measured: a mount namespace of our own, a RAM file system, mounts that come and go."""
import contextlib, os, shutil, signal, subprocess, sys, tempfile, time

BUILD = os.path.abspath(os.environ.get("BUILD") or "build")
READER = os.path.join(BUILD, "tests/bench/reader")
MOUNT = os.path.join(BUILD, "mount.safetensors")
ROOT = os.geteuid() == 0


class Skipped(Exception):
    """A row that cannot be measured here, and why."""


def run(*argv, **more):
    return subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, **more)


def need(command):
    found = shutil.which(command)
    if not found:
        raise Skipped("%s is not installed" % command)
    return found


def private_namespace():
    """Starts again in a mount namespace of our own: nobody sees our mounts, and what we bind hides nothing from others."""
    if ROOT and not os.environ.get("BENCH_PRIVATE"):
        os.environ["BENCH_PRIVATE"] = "1"
        os.execvp("unshare", ["unshare", "-m", sys.executable, "-B"] + sys.argv)


def stat_fields(pid):
    with open("/proc/%d/stat" % pid) as f:
        return f.read().rpartition(")")[2].split()


def processes(mnt):
    """Living processes that have mnt among their arguments: {pid: parent}."""
    found = {}
    for p in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError):
            with open("/proc/%d/cmdline" % int(p), "rb") as f:
                if os.fsencode(mnt) in f.read().split(b"\0"):
                    found[int(p)] = int(stat_fields(int(p))[1])
    return found


class Mounted:
    """A mount that is up."""

    def __init__(self, path):
        self.path = path
        pids = processes(path)
        inner = [p for p, parent in pids.items() if parent in pids] or list(pids)
        self.pid = inner[0]     # who serves, not who keeps

    def cpu(self):
        """Seconds in user mode, and in the kernel, so far."""
        f = stat_fields(self.pid)
        tick = os.sysconf("SC_CLK_TCK")
        return int(f[11]) / tick, int(f[12]) / tick

    def memory(self, field):
        """Bytes: VmHWM, RssAnon, ..."""
        with open("/proc/%d/status" % self.pid) as f:
            return next(int(line.split()[1]) * 1024 for line in f if line.startswith(field + ":"))


class Place:
    """Folders and mounts of one run; all goes with it."""

    def __enter__(self):
        for s in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(s, lambda *_: sys.exit(143))
        os.makedirs(BUILD, exist_ok=True)
        self.disk = tempfile.mkdtemp(prefix="bench.", dir=BUILD)
        self.ram = tempfile.mkdtemp(prefix="safetensors-bench.", dir="/tmp" if ROOT else "/dev/shm")
        self.undo = []
        os.chmod(self.disk, 0o755)
        if ROOT:
            run("mount", "-t", "tmpfs", "-o", "mode=755,size=90%,nr_inodes=0", "bench", self.ram)
            self.undo.append(lambda: run("umount", "-l", self.ram))
        return self

    def __exit__(self, *_):
        for f in reversed(self.undo):
            with contextlib.suppress(Exception):
                f()
        shutil.rmtree(self.ram, ignore_errors=True)
        shutil.rmtree(self.disk, ignore_errors=True)

    @contextlib.contextmanager
    def folder(self):
        d = tempfile.mkdtemp(prefix="m", dir=self.ram)
        os.chmod(d, 0o755)
        try:
            yield d
        finally:
            os.rmdir(d)

    @contextlib.contextmanager
    def mounted(self, *argv, user=(), owner=None):
        """Mounts with `argv MOUNTPOINT`. user: what to put before commands so that they run as that user."""
        with self.folder() as mnt:
            if owner is not None:
                os.chown(mnt, owner, owner)
            down = lambda: self.unmount(mnt, user)
            self.undo.append(down)
            try:
                run(*user, *argv, mnt, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                yield Mounted(mnt)
            except subprocess.CalledProcessError as e:
                raise Skipped("%s: exit %d" % (os.path.basename(argv[0]), e.returncode))
            finally:
                self.undo.remove(down)
                down()

    def unmount(self, mnt, user):
        pids = processes(mnt)
        for _ in range(100):
            if not os.path.ismount(mnt) and not (user and mnt in open("/proc/self/mountinfo").read()):
                break
            if subprocess.run(["umount", mnt] if ROOT else ["fusermount3", "-u", mnt], stderr=subprocess.DEVNULL).returncode:
                time.sleep(0.02)
        while any(os.path.exists("/proc/%d" % p) and stat_fields(p)[0] != "Z" for p in pids):
            time.sleep(0.002)

    def safetensors(self, source, *options, **more):
        return self.mounted(MOUNT, *(("-o", ",".join(options)) if options else ()), source, **more)

    def user(self):
        """What to put before commands that an ordinary user is to run; /dev/fuse is then everybody's."""
        if not ROOT:
            return ()
        if not hasattr(self, "as_user"):
            need("fusermount3")
            node = os.path.join(self.ram, "fuse")
            os.mknod(node, 0o020666, os.makedev(10, 229))
            os.chmod(node, 0o666)
            run("mount", "--bind", node, "/dev/fuse")
            self.undo.append(lambda: run("umount", "/dev/fuse"))
            for name, what in (("bin", BUILD), ("data", self.disk)):    # BUILD may lie where others cannot look
                d = os.path.join(self.ram, name)
                os.mkdir(d)
                run("mount", "--bind", what, d)
                self.undo.append(lambda d=d: run("umount", d))
            self.as_user = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all")
        return self.as_user
