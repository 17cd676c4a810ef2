"""Python programs in processes of their own.

`run` and `python` return what `subprocess.run` of `python -c` and of `python` return. They save the import of torch, which takes
seconds of processor time: a server imports torch once, without the device, and forks for each program. In the child the import of
torch finds that one, and loads the device as it would. `executable` is the command that has the server fork, for tests that start
processes themselves. The command becomes a Python if the environment differs in variables that torch or the C library have read
before, and for options that are not in `OPTIONS`. `run_fresh` always starts a Python. So do all under a sanitizer, whose threads do
not survive a fork.
"""

import atexit
import contextlib
import ctypes
import functools
import gc
import importlib.abc
import importlib.machinery
import importlib.util
import logging
import marshal
import os
import runpy
import select
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["executable", "python", "run", "run_fresh"]

#: The beginnings of variables that are read after the fork.
READ_LATE = (
    "RUSTDEV_", "TEST_RUSTDEV_", "TORCH_DEVICE_BACKEND_AUTOLOAD", "TORCH_TEST_DEVICES", "PYTORCH_ALLOC_CONF", "PYTEST_CURRENT_TEST",
    "PYTHONPATH", "PWD", "RECORDED", "CONFORMANCE_", "OMP_NUM_THREADS", "TORCHINDUCTOR_CACHE_DIR", "CUBLAS_WORKSPACE_CONFIG",
    # of torchrun
    "RANK", "WORLD_SIZE", "LOCAL_", "GROUP_", "ROLE_", "MASTER_", "TORCHELASTIC_", "TORCH_NCCL_ASYNC_ERROR_HANDLING",
)  # fmt: skip
#: Variables with which libraries have threads before the fork.
SANITIZERS = ("LD_PRELOAD", "ASAN_OPTIONS", "TSAN_OPTIONS")
#: Options of Python that a fork follows, beside `-u`. Each takes a value.
OPTIONS = ("-c", "-m", "-W")
#: Modules by which torch imports all of its compiler. Programs do by their first optimizer, or the first compiled function.
COMPILER = ("torch._dynamo", "torch._inductor.compile_fx")
#: Variable by which `sys.executable` of a child is `executable` as well.
NESTED = "TEST_RUSTDEV_NESTED"
#: The size of a request: arguments and an environment.
MOST_BYTES = 1 << 20


def run(
    program: str, *arguments: str, timeout: float = 120, check: bool = False, **environment: Any
) -> subprocess.CompletedProcess[str]:
    """Run a program in a process that has imported torch.

    Args:
        program: Python code. Its indentation is removed.
        arguments: The program's `sys.argv[1:]`.
        timeout: The time limit in seconds.
        check: Whether an exit status other than 0 raises `subprocess.CalledProcessError`.
        environment: Variables beside those of this process.
    """
    return python("-c", textwrap.dedent(program), *arguments, timeout=timeout, check=check, **environment)


def run_fresh(
    program: str, *arguments: str, timeout: float = 120, check: bool = False, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a program in a Python that has imported nothing; for arguments see `run`."""
    command = [sys.executable, "-c", textwrap.dedent(program), *arguments]
    return _run(command, env=os.environ | environment, timeout=timeout, check=check)


def python(
    *arguments: str | Path,
    directory: Path | None = None,
    path: Path | None = None,
    nested: bool = False,
    timeout: float = 300,
    check: bool = False,
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """Run Python with arguments: options, and a script, `-m` with a module or `-c` with a program.

    Args:
        arguments: Arguments of Python.
        directory: The directory in place of this process's.
        path: A folder of modules, for the front of the module search path.
        nested: Whether processes that it starts by `sys.executable` are forks, too.
        timeout: As for `run`, with `check` and `environment`.
    """
    variables = os.environ | environment | ({NESTED: "1"} if nested else {})
    if path is not None:
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, (str(path), variables.get("PYTHONPATH"))))
    return _run([executable(), *map(str, arguments)], cwd=directory, env=variables, timeout=timeout, check=check)


def _run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, **options)


def executable() -> str:
    """Return a command in the place of `sys.executable`, whose processes are forks."""
    if any(name in os.environ for name in SANITIZERS):
        return sys.executable
    return _server(frozenset(_early(dict(os.environ)).items()))


def _early(environment: dict[str, str]) -> dict[str, str]:
    """Return the variables that are read before the fork."""
    return {name: value for name, value in environment.items() if not name.startswith(READ_LATE)}


@functools.cache
def _server(early: frozenset[tuple[str, str]]) -> str:
    """Start a server with these variables, which ends with this process, and return the command of its clients."""
    directory = tempfile.TemporaryDirectory(prefix="children-")
    address, command = Path(directory.name, "server"), Path(directory.name, "python")
    client = [sys.executable, "-IS", str(Path(__file__).with_name("forked_python.py")), sys.executable, str(address)]
    command.write_text(f'#!/bin/sh\nexec {shlex.join(client)} "$@"\n')
    command.chmod(0o755)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(address))
        listener.listen(64)
        server = subprocess.Popen(
            [sys.executable, __file__, str(listener.fileno()), str(command)],
            env=dict(early) | {"PYTHONPATH": os.environ.get("PYTHONPATH", ""), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
            pass_fds=[listener.fileno()],
            stdin=subprocess.PIPE,
        )
    owner = os.getpid()

    def end() -> None:
        if os.getpid() == owner:
            assert server.stdin
            server.stdin.close()
            server.wait()
            directory.cleanup()

    atexit.register(end)
    return str(command)


def _serve(listener: socket.socket, early: dict[str, str]) -> Any:
    """Fork for each request, and tell its client how the child ended; in a child, return arguments, environment and directory.

    The child of a client that is gone is killed. The server ends with its standard input, and all children with it.
    """
    poll = select.poll()
    for file in (0, listener.fileno()):
        poll.register(file, select.POLLIN)
    #: Children and their clients, by the descriptor of the child, and children by the descriptor of the client.
    children: dict[int, tuple[int, socket.socket]] = {}
    waiting: dict[int, int] = {}
    while True:
        ready = poll.poll()[0][0]
        if ready == 0:
            for child, _ in children.values():
                os.kill(child, signal.SIGKILL)
            os._exit(0)
        elif ready in waiting:  # the client is gone
            poll.unregister(ready)
            os.kill(waiting.pop(ready), signal.SIGKILL)
        elif ready in children:
            child, client = children.pop(ready)
            poll.unregister(ready)
            os.close(ready)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            if waiting.pop(client.fileno(), None):
                poll.unregister(client)
            with client, contextlib.suppress(OSError):
                client.send(str(status).encode())
        else:
            client, _ = listener.accept()
            message, files, _, _ = socket.recv_fds(client, MOST_BYTES, 3)
            request = marshal.loads(message)
            if _early(request[1]) != early or not _is_followed(request[0]):
                client.close()
            elif (child := _fork()) == 0:
                for other in (listener, client, *(client for _, client in children.values())):
                    other.close()
                for target, file in enumerate(files):
                    os.dup2(file, target)
                    os.close(file)
                return request
            else:
                end = os.pidfd_open(child)
                children[end], waiting[client.fileno()] = (child, client), child
                poll.register(end, select.POLLIN)
                poll.register(client, 0)
            for file in files:
                os.close(file)


def _fork() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # threads of libraries do not survive, which these handle
        return os.fork()


def _is_followed(arguments: tuple[str, ...]) -> bool:
    """Whether a fork can do what the arguments of Python say."""
    while arguments[:1] in (("-W",), ("-u",)):
        arguments = arguments[2 if arguments[0] == "-W" else 1 :]
    return bool(arguments) and (arguments[0] in OPTIONS or not arguments[0].startswith("-"))


class _Torch(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Hides the imported torch until a program imports it; then loads the device, as the import does."""

    def __init__(self) -> None:
        self.modules = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "torch"}
        for name in self.modules:
            del sys.modules[name]
        sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: object, target: object = None) -> importlib.machinery.ModuleSpec | None:
        return importlib.util.spec_from_loader(name, self) if name == "torch" else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        sys.meta_path.remove(self)
        self.spec = self.modules["torch"].__spec__
        return self.modules["torch"]

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec
        sys.modules.update(self.modules)
        if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") == "1":
            module._import_device_backends()


class _Compiler(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports the compiler, and hides its modules until a program imports one of them.

    They are then imported in the order of before, so that hooks of imports are called for each. Triton is left out, as it complains
    about its objects at the end of a process; a program that compiles Triton's kernels takes `run_fresh`.
    """

    def __init__(self) -> None:
        before = set(sys.modules)
        sys.modules["triton"] = None  # type: ignore[assignment]
        logging.disable()
        for name in COMPILER:
            importlib.import_module(name)
        logging.disable(logging.NOTSET)
        del sys.modules["triton"]
        sys.modules["torch.utils._triton"].has_triton_package.cache_clear()
        found = [name for name in sys.modules if name not in before and name.split(".")[0] == "torch"]
        # pytest would execute a module with the name of a test again
        self.modules = {name: sys.modules[name] for name in found if ".test_" not in name}
        self.is_hidden = True

    def hide(self) -> None:
        """Have imports find the modules here."""
        parts = [(sys.modules[parent], child) for parent, _, child in (name.rpartition(".") for name in self.modules)]
        # Not always the module: a package can have something else by the name.
        self.attributes = [(parent, child, vars(parent)[child]) for parent, child in parts if child in vars(parent)]
        for parent, child, _ in self.attributes:
            delattr(parent, child)
        for name in self.modules:
            del sys.modules[name]
        sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: object, target: object = None) -> importlib.machinery.ModuleSpec | None:
        return importlib.util.spec_from_loader(name, self) if name in self.modules else None

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = self.modules[module.__name__]
        if self.is_hidden:
            self.is_hidden = False
            for name in self.modules:
                importlib.import_module(name)
            for parent, child, value in self.attributes:
                setattr(parent, child, value)


def _execute(arguments: tuple[str, ...], path: list[str]) -> None:
    """Do what Python does with arguments; an exception is shown without the frames of this file.

    Args:
        arguments: Arguments of Python.
        path: The module search path behind its first entry.
    """
    while arguments[0] in ("-W", "-u"):
        if arguments[0] == "-W":
            warnings.simplefilter(arguments[1])  # type: ignore[arg-type]
            arguments = arguments[2:]
        else:
            sys.stdout.reconfigure(write_through=True)  # type: ignore[union-attr]
            arguments = arguments[1:]
    option = arguments[0]
    sys.argv[:] = [option, *arguments[2:]] if option in OPTIONS else arguments
    main = sys.modules["__main__"] = ModuleType("__main__")
    main.__dict__["__builtins__"] = __builtins__
    first = {"-c": "", "-m": os.getcwd()}.get(option, os.path.dirname(os.path.realpath(option)))
    sys.path[:] = [first, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)), *path]
    try:
        if option == "-m":
            runpy._run_module_as_main(arguments[1])  # type: ignore[attr-defined]
        elif option == "-c":
            exec(compile(arguments[1], "<string>", "exec"), main.__dict__)
        else:
            main.__file__ = os.path.abspath(option)
            exec(compile(Path(option).read_bytes(), main.__file__, "exec"), main.__dict__)
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        own = error.__traceback__
        trace = own.tb_next if own else None
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error, trace
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        raise SystemExit(1) from None


def _main() -> None:
    """Serve; in a child, set up what the request wants, and run its program."""
    early = _early(dict(os.environ))
    import torch

    compiler = _Compiler()
    gc.collect()
    gc.freeze()  # the children's collections leave these objects alone
    library = ctypes.CDLL(None)
    library.on_exit(library._exit, None)  # children leave out torch's destructors, which take longer than all else at their end
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    inherited = set(filter(None, os.environ["PYTHONPATH"].split(os.pathsep)))
    path = [entry for entry in sys.path[1:] if entry not in inherited]
    arguments, environment, directory = _serve(socket.socket(fileno=int(sys.argv[1])), early)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    if threads := environment.get("OMP_NUM_THREADS"):
        torch.set_num_threads(int(threads))
    if environment.get(NESTED):
        sys.executable = sys.argv[2]
    compiler.hide()
    _Torch()
    _execute(arguments, path)


if __name__ == "__main__":
    _main()
