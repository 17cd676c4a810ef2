"""Runs clang-tidy on C++ files, one process per core, with the include paths of this Python's torch."""

import importlib.util
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def flags() -> list[str]:
    """Return the compiler arguments that build_shim.py uses."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        sys.exit("tidy: this Python has no torch")
    include = Path(spec.origin).parent / "include"
    system = [include, include / "torch/csrc/api/include", include / "kineto"]
    written = Path("target/shim").glob("*/generated_metas.h")
    generated = max(written, key=lambda header: header.stat().st_mtime, default=None)
    if generated is None:
        sys.exit("tidy: the build has not written its headers yet; `make dev` does")
    own = ["-std=c++20", "-Ishim", f"-I{generated.parent}", "-DUSE_KINETO", "-include", "shim/precompiled.h"]
    return [*own, *(f"-isystem{directory}" for directory in system)]


def check(source: str) -> subprocess.CompletedProcess[str]:
    """Run clang-tidy on one file."""
    return subprocess.run(["clang-tidy", "--quiet", source, "--", *flags()], capture_output=True, text=True, check=False)


def main(sources: list[str]) -> None:
    """Print findings and progress. Exit with an error if there are findings."""
    failed = False
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for number, result in enumerate(pool.map(check, sources), 1):
            if result.returncode:
                failed = True
                print(result.stdout, result.stderr, sep="\n", flush=True)
            if number % 10 == 0 or number == len(sources):
                print(f"clang-tidy: {number} of {len(sources)} files", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main(sys.argv[1:])
