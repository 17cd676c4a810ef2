"""Atomic creation of compiled files in Inductor's cache, and rebuilding of incomplete files.

In PyTorch the compiler writes directly to the final path in the cache, where any existing file counts as built. If the process is
killed meanwhile, a truncated file remains, which every later process would load. Here a file is built elsewhere and then moved.
"""

import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from torch._inductor import exc
from torch._inductor.cpp_builder import CppBuilder, run_compile_cmd
from torch.utils._filelock import FileLock

#: First bytes of an ELF file: magic number, 64 bits, little endian.
_ELF = b"\x7fELF\x02\x01"


def _is_whole(path: Path) -> bool:
    """Return whether a file exists and is complete. An ELF file is complete if it includes its section headers, which are last.

    Args:
        path: Path of the file.
    """
    try:
        with path.open("rb") as file:
            header = file.read(64)
            size = os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        return False
    if path.suffix not in (".so", ".o"):
        return size > 0
    if len(header) < 64 or not header.startswith(_ELF):
        return False
    begin = int.from_bytes(header[40:48], "little")
    length, count = int.from_bytes(header[58:60], "little"), int.from_bytes(header[60:62], "little")
    return begin != 0 and begin + length * count <= size


def _compile(command: str, folder: str) -> None:
    """Run the compiler. If a precompiled header is damaged, delete it and retry; the next process rebuilds the header.

    Args:
        command: Command to run.
        folder: Working directory.
    """
    try:
        run_compile_cmd(command, folder)
    except exc.CppCompileError as error:
        header = re.search(r"-include (\S+)", command)
        if header is None or not re.search("PCH|precompiled header|\\.gch", error.output):
            raise
        Path(f"{header[1]}.gch").unlink(missing_ok=True)
        run_compile_cmd(command, folder)


def _build(builder: CppBuilder) -> None:
    """Compile or link a file in a temporary directory next to its target, and move it to the target.

    Args:
        builder: Builder of the file.
    """
    target = Path(builder.get_target_file_path())
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as folder:
        made = Path(folder, target.name)
        _compile(builder.get_command_line().replace(f"-o {target}", f"-o {made}"), folder)
        made.replace(target)


def build_missing(lock_path: str, builders: Sequence[CppBuilder]) -> None:
    """Build the files that are missing or incomplete.

    Args:
        lock_path: Lock file, which one process at a time holds.
        builders: Builders of the files, each after those that it depends on.
    """
    from torch._inductor.codecache import LOCK_TIMEOUT  # imported here to avoid a cyclic import

    with FileLock(lock_path, timeout=LOCK_TIMEOUT):
        for builder in builders:
            if not _is_whole(Path(builder.get_target_file_path())):
                _build(builder)
