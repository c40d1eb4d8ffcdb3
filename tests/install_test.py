#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The installed library, as a C or C++ programmer gets it: installs into a folder of its own, compiles against that and
nothing else, by pkg-config, and runs the result.   (made for `make check-install`; MAKE, CC, CXX, BUILD)
"""
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
CC, CXX = shlex.split(os.environ.get("CC", "cc")), shlex.split(os.environ.get("CXX", "c++"))
WARN = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
C11, CPP17 = CC + ["-std=c11"] + WARN, CXX + ["-x", "c++", "-std=c++17"] + WARN
counts = {True: 0, False: 0}


def check(what, ok, said=""):
    counts[bool(ok)] += 1
    if not ok:
        print("FAIL %s%s" % (what, ":\n" + said if said else ""))
    return ok


def run(*argv, **more):
    p = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL,
                       timeout=300, **more)
    return p.returncode, p.stdout


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


class Install:
    def __init__(self, tmp):
        self.tmp, self.dest = tmp, os.path.join(tmp, "root")
        status, said = run(*shlex.split(os.environ.get("MAKE", "make")), "--no-print-directory", "install-lib",
                           "DESTDIR=" + self.dest, "PREFIX=/usr", cwd=ROOT)
        check("make install-lib", status == 0, said)
        self.lib = self.dest + "/usr/lib"
        self.env = dict(os.environ, PKG_CONFIG_SYSROOT_DIR=self.dest, PKG_CONFIG_LIBDIR=self.lib + "/pkgconfig",
                        PKG_CONFIG_ALLOW_SYSTEM_LIBS="1", PKG_CONFIG_ALLOW_SYSTEM_CFLAGS="1")

    def flags(self, *which):
        status, said = run("pkg-config", *which, "libsafetensors", env=self.env)
        check("pkg-config " + " ".join(which), status == 0, said)
        return said.split()

    def compile(self, compiler, source, program, static=False, defines=()):
        """Compiles one source file to a program; with the static library, no other can be found."""
        libs = self.flags("--libs", *["--static"] * static)
        if static:
            only = self.tmp + "/static"
            os.makedirs(only, exist_ok=True)
            shutil.copy(self.lib + "/libsafetensors.a", only)
            libs = ["-L" + only] + [f for f in libs if not f.startswith("-L")]
        return run(*compiler, *defines, *self.flags("--cflags"), source, "-x", "none", "-o", program, *libs)

    def execute(self, *argv, **more):
        return run(*argv, env=dict(os.environ, LD_LIBRARY_PATH=self.lib), **more)


def headers(i):
    """Each compiles alone, twice over, in both languages."""
    for name in ("safetensors", "tensor", "thin"):
        source = os.path.join(i.tmp, name + "_alone.c")
        with open(source, "w") as f:
            f.write("#include <safetensors/%s.h>\n#include <safetensors/%s.h>\nint nothing;\n" % (name, name))
        for compiler in (C11, CPP17):
            status, said = run(*compiler, *i.flags("--cflags"), "-c", source, "-o", "/dev/null")
            check("%s.h alone, %s" % (name, compiler[-5]), status == 0, said)


def declared(i):
    """The names of all functions that the installed headers declare."""
    text = ""
    for name in ("safetensors.h", "tensor.h", "thin.h"):
        text += read(i.dest + "/usr/include/safetensors/" + name)
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return set(re.findall(r"\b((?:fs|tm)_\w+)\(", text))


def symbols(i):
    """Nothing but fs_ and tm_ is defined for others, in both libraries, and all that is declared is."""
    want = declared(i)
    for path, option in ((i.lib + "/libsafetensors.so", "-D"), (i.lib + "/libsafetensors.a", "-g")):
        status, said = run("nm", option, "--defined-only", path)
        names = {w[2].partition("@")[0] for w in map(str.split, said.splitlines()) if len(w) == 3 and w[1] != "A"}
        strange = sorted(n for n in names if not re.match(r"(fs|tm)_", n))
        base = os.path.basename(path)
        check("nm " + base, status == 0, said)
        check("%s exports only fs_ and tm_" % base, not strange, "also: %s" % strange)
        check("%s has all that is declared" % base, want <= names, "lacks: %s" % sorted(want - names))


def layout(i):
    check("the manual page", os.path.exists(i.dest + "/usr/share/man/man3/libsafetensors.3"))
    so = os.path.realpath(i.lib + "/libsafetensors.so")
    check("versioned shared library", re.search(r"libsafetensors\.so\.\d+\.\d+\.\d+\Z", so), so)
    status, said = run("readelf", "-d", so)
    soname = re.search(r"SONAME.*\[(libsafetensors\.so\.\d+)\]", said)
    check("soname", soname and os.path.exists(os.path.join(i.lib, soname[1])), said)
    version = i.flags("--modversion")
    check("version", version and so.endswith(".so." + version[0]), "%s %s" % (version, so))


def whole_api(i):
    """A program made from the contract alone uses every function of it."""
    source = os.path.join(HERE, "helpers", "api.c")
    defines = ["-DHAVE_PYTORCH"] if "fs_load_pytorch" in declared(i) else []
    for compiler, language in ((C11, "C11"), (CPP17, "C++17")):
        for static in (False, True):
            what = "the program of all functions, %s, %s" % (language, "static" if static else "shared")
            where = tempfile.mkdtemp(dir=i.tmp)
            program = where + "/program"
            status, said = i.compile(compiler, source, program, static, defines)
            if check("compile " + what, status == 0, said):
                status, said = i.execute(program, where)
                check("run " + what, (status, said) == (0, "ok\n"), said)
                _, said = i.execute("ldd", program)
                check("libraries of " + what, ("libsafetensors" in said) != static, said)


def snippets(i):
    """The examples of the documents: compiled, and run one after the other in one folder; in the man page as well."""
    text = read(os.path.join(ROOT, "lib", "README.md"))
    found = re.findall(r"^```c\n(.*?)^```$", text, flags=re.S | re.M)
    check("examples in README.md", len(found) >= 4, str(len(found)))
    page = read(os.path.join(ROOT, "lib", "libsafetensors.3"))
    manual = re.findall(r"^\.Bd -literal[^\n]*\n(#include.*?)^\.Ed$", page, flags=re.S | re.M)
    check("an example in the man page", manual, page[-500:])
    manual = [m.replace("\\&", "").replace("\\e", "\\") for m in manual]
    where = tempfile.mkdtemp(dir=i.tmp)
    programs = []
    for n, code in enumerate(found + manual):
        source, program = "%s/%d.c" % (where, n), "%s/example%d" % (where, n)
        with open(source, "w") as f:
            f.write(code)
        status, said = i.compile(C11, source, program)
        check("compile example %d" % n, status == 0, said)
        programs.append(program)
    if counts[False] or len(programs) < 5:
        return
    order = [(1, ""), (0, "layer.bias\tF32\t24 bytes\nlayer.weight\tF32\t24 bytes\n"), (2, ""),
             (0, "layer.weight\tF32\t24 bytes\n"), (3, "0 findings\n")]
    for n, want in order:
        status, said = i.execute(programs[n], cwd=where)
        check("run example %d" % n, (status, said) == (0, want), "%s %s" % (status, said))
    with open(where + "/broken", "wb") as f:
        f.write(b"\x08\0\0\0\0\0\0\0{]      ")
    status, said = i.execute(programs[3], "broken", cwd=where)
    check("run example 3 on a broken file", status == 1 and said.endswith("1 findings\n"), said)
    status, said = i.execute(programs[4], "model.safetensors", "layer.weight", cwd=where)
    check("run the man page's example", (status, said) == (0, "6\n"), said)


def main():
    with tempfile.TemporaryDirectory(prefix="st-install-") as tmp:
        i = Install(tmp)
        if not counts[False]:
            for part in (layout, headers, symbols, whole_api, snippets):
                part(i)
    print("install: %d passed, %d failed" % (counts[True], counts[False]))
    return counts[False] > 0


if __name__ == "__main__":
    sys.exit(main())
