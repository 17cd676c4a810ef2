"""Builds compiled files beside their destinations in Inductor's cache, and builds anew what an earlier process left incomplete.

PyTorch has the compiler write to a file's place in the cache, where any file counts as built. A process that is killed meanwhile
leaves a part of one there, which every later process would load.
"""

import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from torch._inductor import exc
from torch._inductor.cpp_builder import CppBuilder, run_compile_cmd
from torch.utils._filelock import FileLock

__all__ = ["build_missing"]

#: What an ELF file begins with: its magic number, 64 bits, little endian.
_ELF = b"\x7fELF\x02\x01"


def _is_whole(path: Path) -> bool:
    """Return whether a file is there, to its end: an ELF file ends with the headers of its sections.

    Args:
        path: The file.
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
    """Run the compiler; where a precompiled header is damaged, once more without it. The next process makes that anew.

    Args:
        command: What to run.
        folder: Where.
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
    """Compile or link a file beside its place, and move it there.

    Args:
        builder: Knows the command.
    """
    target = Path(builder.get_target_file_path())
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as folder:
        made = Path(folder, target.name)
        _compile(builder.get_command_line().replace(f"-o {target}", f"-o {made}"), folder)
        made.replace(target)


def build_missing(lock_path: str, builders: Sequence[CppBuilder]) -> None:
    """Build the files that are missing or incomplete.

    Args:
        lock_path: The file that one process at a time locks.
        builders: Of the files, each of those that it needs.
    """
    from torch._inductor.codecache import LOCK_TIMEOUT  # not above: it imports what imports this

    with FileLock(lock_path, timeout=LOCK_TIMEOUT):
        for builder in builders:
            if not _is_whole(Path(builder.get_target_file_path())):
                _build(builder)
