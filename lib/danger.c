/* SPDX-License-Identifier: MIT */
#include "danger.h"

#include <stddef.h>
#include <string.h>

/* Modules of Python's library whose every name is suspect, with all below them. Packages of users are often
 * called code, test, trace, profile or types: those are listed by function further down. */
static const char *const modules[] = {
    "os",
    "posix",
    "nt",
    "ntpath",
    "posixpath",
    "sys",
    "subprocess",
    "_posixsubprocess",
    "pty",
    "commands",
    "popen2",
    "shutil",
    "socket",
    "_socket",
    "ssl",
    "runpy",
    "importlib",
    "_frozen_importlib",
    "imp",
    "zipimport",
    "ctypes",
    "_ctypes",
    "codeop",
    "pip",
    "ensurepip",
    "venv",
    "distutils",
    "setuptools",
    "webbrowser",
    "antigravity",
    "marshal",
    "pickle",
    "_pickle",
    "dill",
    "cloudpickle",
    "joblib",
    "shelve",
    "bdb",
    "pdb",
    "timeit",
    "cProfile",
    "doctest",
    "pydoc",
    "pkgutil",
    "asyncio",
    "multiprocessing",
    "_multiprocessing",
    "concurrent",
    "threading",
    "_thread",
    "tempfile",
    "urllib",
    "urllib2",
    "requests",
    "httplib",
    "http",
    "aiohttp",
    "ftplib",
    "smtplib",
    "imaplib",
    "telnetlib",
    "xmlrpc",
    "socketserver",
    "signal",
    "faulthandler",
    "gc",
    "_osx_support",
    "_aix_support",
    "cgitb",
    "idlelib",
    "lib2to3",
    "zipapp",
    "mailcap",
    "_io",
    "fileinput",
    "sqlite3",
    "nturl2path",
    "pexpect",
    "fabric",
    "paramiko",
    "psutil",
    "IPython",
};

/* Exact names, or with a dot at the end all that begins so. */
static const char *const names[] = {
    "builtins.eval",
    "builtins.exec",
    "builtins.execfile",
    "builtins.compile",
    "builtins.__import__",
    "builtins.open",
    "builtins.file",
    "builtins.input",
    "builtins.raw_input",
    "builtins.setattr",
    "builtins.delattr",
    "builtins.globals",
    "builtins.locals",
    "builtins.vars",
    "builtins.breakpoint",
    "builtins.help",
    "builtins.apply",
    "builtins.reload",
    "builtins.map",
    "builtins.filter",
    "builtins.exit",
    "builtins.quit",
    "builtins.__build_class__",
    "builtins.memoryview",
    "operator.attrgetter",
    "operator.methodcaller",
    "operator.call",
    "_operator.attrgetter",
    "_operator.methodcaller",
    "_operator.call",
    "functools.reduce",
    "functools.partialmethod",
    "_functools.reduce",
    "types.FunctionType",
    "types.CodeType",
    "types.MethodType",
    "types.LambdaType",
    "types.BuiltinFunctionType",
    "types.DynamicClassAttribute",
    "code.interact",
    "code.InteractiveInterpreter",
    "code.InteractiveInterpreter.",
    "code.InteractiveConsole",
    "code.InteractiveConsole.",
    "code.compile_command",
    "trace.Trace",
    "trace.Trace.",
    "profile.run",
    "profile.runctx",
    "profile.Profile",
    "profile.Profile.",
    "test.support.",
    "io.open",
    "io.FileIO",
    "io.open_code",
    "codecs.open",
    "pathlib.Path.",
    "uuid._get_command_stdout",
    "uuid._popen",
    "logging.config.",
    "linecache.",
    "copyreg.add_extension",
    "torch.load",
    "torch.save",
    "torch.hub.",
    "torch.jit.",
    "torch.package.",
    "torch.utils.bottleneck.",
    "torch.utils.collect_env.",
    "torch.utils.cpp_extension.",
    "torch.utils._config_module.",
    "torch.utils.model_zoo.",
    "torch.utils.data.datapipes.utils.decoder.",
    "torch._inductor.codecache.",
    "torch._dynamo.guards.",
    "torch.compile",
    "torch.fx.experimental.symbolic_shapes.",
    "torch.serialization.load",
    "torch.serialization._load",
    "torch.serialization._legacy_load",
    "torch.storage._load_from_bytes",
    "torch.distributed.run.",
    "torch.distributed.launch.",
    "torch.ops.load_library",
    "torch.classes.load_library",
    "torch.multiprocessing.",
    "torch._C._jit",
    "numpy.load",
    "numpy.loadtxt",
    "numpy.genfromtxt",
    "numpy.fromfile",
    "numpy.memmap",
    "numpy.testing._private.utils.",
    "numpy.testing.",
    "numpy.f2py.",
    "numpy.distutils.",
    "numpy.lib.npyio.",
    "numpy.lib._npyio_impl.",
    "numpy.ctypeslib.",
    "pandas.read_pickle",
    "pandas.eval",
    "pandas.core.computation.",
    "yaml.load",
    "yaml.unsafe_load",
    "yaml.full_load",
};

/* Parts of a dotted name that lead out of any module that has imported them. */
static const char *const parts[] = {
    "os",   "sys",  "subprocess", "posix",        "system",      "popen",
    "eval", "exec", "__import__", "__builtins__", "__globals__", "__subclasses__",
};

static bool listed(const char *const *list, size_t n, const char *s, size_t len)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(list[i]) == len && memcmp(list[i], s, len) == 0)
            return true;
    return false;
}

#define LISTED(list, s, len) listed(list, sizeof(list) / sizeof(list)[0], s, len)

static bool begins(const char *full)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t len = strlen(names[i]);
        if (strncmp(full, names[i], len) == 0 && (full[len] == 0 || names[i][len - 1] == '.'))
            return true;
    }
    return false;
}

bool danger_named(const char *full)
{
    /* Classes of a TorchScript file are no names of Python; its helpers lie in a module of their own. */
    if (strncmp(full, "__torch__.", 10) == 0 || strncmp(full, "torch.jit._pickle.", 18) == 0)
        return false;
    if (LISTED(modules, full, strcspn(full, ".")) || begins(full))
        return true;
    for (const char *s = full;; s++) {
        size_t len = strcspn(s, ".");
        if (LISTED(parts, s, len))
            return true;
        s += len;
        if (*s == 0)
            return false;
    }
}
