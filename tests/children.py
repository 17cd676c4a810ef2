"""Python programs in processes of their own.

`run` and `run_fresh` return what `subprocess.run` of `python -c` returns. `run_fresh` starts a Python. `run` saves the import of
torch, which takes seconds of processor time: a server imports torch once, without the device, and forks for each program. The child
sets its environment, loads the device as `import torch` would, and runs the program as `__main__`. `run` starts a Python as well if
the environment differs in variables that torch or the C library have read before, and under a sanitizer, whose threads do not
survive a fork.
"""

from __future__ import annotations

import atexit
import functools
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import warnings
from types import ModuleType

__all__ = ["run", "run_fresh"]

#: The beginnings of variables that are read by rustdev alone, after the fork.
READ_LATE = ("RUSTDEV_", "TORCH_DEVICE_BACKEND_AUTOLOAD", "PYTORCH_ALLOC_CONF", "PYTEST_CURRENT_TEST")
#: The size of a request: a program and an environment.
MOST_BYTES = 1 << 20


def run(
    program: str, *arguments: str, timeout: float = 120, check: bool = False, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a program in a process that has imported torch.

    Args:
        program: Python code. Its indentation is removed.
        arguments: The program's `sys.argv[1:]`.
        timeout: The time limit in seconds.
        check: Whether an exit status other than 0 raises `subprocess.CalledProcessError`.
        environment: Variables beside those of this process.
    """
    variables = os.environ | environment
    if "LD_PRELOAD" in variables or _early(variables) != _early(dict(os.environ)):
        return run_fresh(program, *arguments, timeout=timeout, check=check, **environment)
    command = _command(program, arguments)
    request = {"program": command[2], "arguments": arguments, "environment": variables, "directory": os.getcwd()}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        status = _ask(request, [out.fileno(), errors.fileno()], timeout)
        for file in (out, errors):
            file.seek(0)
        texts = [file.read().decode() for file in (out, errors)]
    if status is None:
        raise subprocess.TimeoutExpired(command, timeout, *texts)
    done = subprocess.CompletedProcess(command, status, *texts)
    if check:
        done.check_returncode()
    return done


def run_fresh(
    program: str, *arguments: str, timeout: float = 120, check: bool = False, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a program in a Python that has imported nothing; for arguments see `run`."""
    command, variables = _command(program, arguments), os.environ | environment
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=timeout, check=check)


def _command(program: str, arguments: tuple[str, ...]) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(program), *arguments]


def _early(environment: dict[str, str]) -> dict[str, str]:
    """Return the variables that are read before the fork."""
    return {name: value for name, value in environment.items() if not name.startswith(READ_LATE)}


@functools.cache
def _server(early: frozenset[tuple[str, str]]) -> socket.socket:
    """Return the connection to a server with these variables, which ends with this process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        environment = {**dict(early), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
        command = [sys.executable, __file__, str(theirs.fileno())]
        server = subprocess.Popen(command, env=environment, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)

    def end() -> None:
        ours.close()
        server.wait()

    atexit.register(end)
    return ours


def _ask(request: dict[str, object], files: list[int], timeout: float) -> int | None:
    """Have the server run a program; return the exit status, negative for a signal, or None after the time limit."""
    server = _server(frozenset(_early(dict(os.environ)).items()))
    socket.send_fds(server, [json.dumps(request).encode()], files)
    server.settimeout(None)
    child = int(server.recv(MOST_BYTES))
    server.settimeout(timeout)
    try:
        return int(server.recv(MOST_BYTES))
    except TimeoutError:
        os.kill(child, signal.SIGKILL)
        server.settimeout(None)
        server.recv(MOST_BYTES)
        return None


def _serve(connection: socket.socket) -> dict[str, object]:
    """Fork for each request, and tell how the child ended; return in a child, with its request."""
    while True:
        message, files, _, _ = socket.recv_fds(connection, MOST_BYTES, 2)
        if not message:
            os._exit(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # threads of libraries do not survive, which these handle
            child = os.fork()
        if child == 0:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            connection.close()
            for target, file in enumerate(files, start=1):
                os.dup2(file, target)
                os.close(file)
            request: dict[str, object] = json.loads(message)
            return request
        for file in files:
            os.close(file)
        connection.send(str(child).encode())
        connection.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())


def _execute(program: str) -> None:
    """Run a program as `__main__`; an exception is shown as Python does, without the frames of this file."""
    main = sys.modules["__main__"] = ModuleType("__main__")
    try:
        exec(compile(program, "<string>", "exec"), main.__dict__)
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        own = error.__traceback__
        trace = own.tb_next if own else None
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        raise SystemExit(1) from None


def _main() -> None:
    """Serve; in a child, set up what the request wants, and run its program."""
    import torch

    gc.collect()
    gc.freeze()  # the children's collections leave these objects alone
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    request = _serve(socket.socket(fileno=int(sys.argv[1])))
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(str(request["directory"]))
    sys.argv[:] = ["-c", *request["arguments"]]
    sys.path[0] = ""
    if "torch" in str(request["program"]) and os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") == "1":
        torch._import_device_backends()
    _execute(str(request["program"]))


if __name__ == "__main__":
    _main()
