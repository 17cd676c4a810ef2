"""Compiles the shim, the C++ library that registers the device with PyTorch, for the torch of this environment.

``python -m rustdev.build_shim`` adds a shim to an installed package that has none for this release of torch. The build of the
package runs this file as a script (``shim/build.rs``), before the package can be imported. So this file imports nothing of the
package, and it locates torch without importing it, which would take seconds.

ninja compiles what has changed. There is one directory of objects for each torch and each set of compiler flags.
"""

from __future__ import annotations

import argparse
import filecmp
import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

__all__ = ["main"]

HERE = Path(__file__).resolve().parent
#: Directory of the shim's sources, in a checkout or in an installed wheel; HERE if there are none.
SOURCES = next((path for path in (HERE.parents[1] / "shim", HERE / "_shim/source") if (path / "rustdev.h").exists()), HERE)
#: Minor releases of torch whose C++ interface ``torch_version.h`` supports.
SUPPORTED = ("2.13", "2.14", "2.15")
FLAGS = "-std=c++20 -O2 -fPIC -fno-plt -fvisibility=hidden -Wall -Wno-maybe-uninitialized -DUSE_KINETO"
#: The soname of the core's library, which is loaded before the shim.
CORE = "_rustdev.abi3.so"
#: The headers of the ABI between core and shim.
ABI_HEADERS = ("rustdev.h", "rustdev_operators.h", "rustdev_completion.h")


class BuildError(Exception):
    """Failure to build the shim. The message is one sentence for the user."""


class Torch(NamedTuple):
    """The torch to compile for."""

    #: Full version with the local part, such as ``2.15.0+cpu``.
    version: str
    #: The directory of the package.
    root: Path

    @property
    def minor(self) -> str:
        """The minor release, such as ``2.15``."""
        return ".".join(self.version.split(".")[:2])


def find_torch() -> Torch:
    """Return the torch that this Python would import.

    Raises:
        BuildError: If torch is not installed.
    """
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise BuildError(
            f"rustdev is compiled against the torch of the Python that it is for, and {sys.executable} has none: "
            f"install torch {SUPPORTED[-1]} there and build again, without build isolation"
        )
    root = Path(spec.origin).parent
    values: dict[str, str] = {}
    exec((root / "version.py").read_text(), values)
    return Torch(values["__version__"], root)


def find_compiler() -> str:
    """Return the command of the C++ compiler.

    Raises:
        BuildError: If it does not work.
    """
    command = os.environ.get("CXX", "c++")
    try:
        subprocess.run([*shlex.split(command), "--version"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise BuildError(
            f"rustdev needs a C++20 compiler, and {command!r} does not work ({error}): install g++ 11 or newer, or name one in CXX"
        ) from error
    return command


def abi() -> str:
    """Return a hash of the headers of the interface between core and shim: 64-bit FNV-1a."""
    value = 0xCBF29CE484222325
    for header in ABI_HEADERS:
        for byte in (SOURCES / header).read_bytes():
            value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def lists() -> dict[str, list[str]]:
    """Return the names of operators for which C++ is compiled, by their heading in ``compiled_names.txt``."""
    found: dict[str, list[str]] = {}
    names: list[str] = []
    for line in (SOURCES / "compiled_names.txt").read_text().splitlines():
        if line.startswith("["):
            names = found.setdefault(line.strip("[]"), [])
        elif not line.startswith("#"):
            names += line.split()
    return found


def generated_headers() -> dict[str, str]:
    """Return the generated headers, by file name: X macro lists of the names in ``lists``."""
    found = lists()

    def identifier(name: str) -> str:
        return name.replace(".", "_")

    def header(kind: str, pairs: list[tuple[str, str]], includes: str = "") -> str:
        operators = sorted({name.split(".")[0].rstrip("_") for name, _ in pairs}) if includes else []
        text = "// Written by build_shim.py.\n" + "".join(f"#include <ATen/ops/{name}_{includes}.h>\n" for name in operators)
        entries = [f' \\\n  {kind}("{name}", {cpp})' for name, cpp in pairs]
        return text + f"#define RUSTDEV_{kind}_LIST({kind})" + "".join(entries) + "\n"

    foreach = [name.partition(".") for name in found["foreach"]]
    typed = found["typed"] + [f"_foreach_{name}{place}{dot}{overload}" for name, dot, overload in foreach for place in ("", "_")]
    sparse = [name.split("=") for name in found["sparse"]]
    return {
        "generated_metas.h": header("META", [(name, identifier(name)) for name in found["metas"]], "meta"),
        "generated_typed_kernels.h": header("TYPED", [(name, identifier(name)) for name in typed]),
        "generated_sparse.h": header("SPARSE", [(name, function) for name, function in sparse], "native"),
    }


def write(path: Path, text: str) -> None:
    """Write a file unless it has this content: ninja recompiles what depends on a changed file."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def ninja_file(torch: Torch, compiler: str, flags: str, directory: Path, library: Path) -> str:
    """Return the content of ``build.ninja``."""

    def escaped(path: Path | str) -> str:
        return str(path).replace("$", "$$").replace(" ", "$ ").replace(":", "$:")

    def quoted(path: Path) -> str:
        return shlex.quote(str(path)).replace("$", "$$")

    system = " ".join(
        f"-isystem {quoted(torch.root / it)}" for it in ("include", "include/torch/csrc/api/include", "include/kineto")
    )
    sources = sorted(SOURCES.rglob("*.cpp"))
    objects = [directory / source.relative_to(SOURCES).with_suffix(".o") for source in sources]
    precompiled = directory / "precompiled.h.gch"
    lines = [
        "ninja_required_version = 1.8",
        f"cxx = {compiler} {flags} -I{quoted(SOURCES)} -I{quoted(directory)} {system}",
        "rule precompile",
        "  command = $cxx -x c++-header -c $in -o $out",
        "  description = the shim: torch's headers",
        "rule compile",
        f"  command = $cxx -Winvalid-pch -include {quoted(directory / 'precompiled.h')} -MMD -MF $out.d -c $in -o $out",
        "  depfile = $out.d",
        "  deps = gcc",
        "  description = the shim: $name",
        # The shim depends on the core by its soname: an empty library with this soname is linked here.
        "rule core",
        f"  command = echo | {compiler} -shared -x c - -o $out -Wl,-soname,{CORE}",
        "  description = the shim: the name of the core",
        "rule link",
        f"  command = $cxx -shared $in -o $out.new -Wl,--no-as-needed {quoted(directory / CORE)} -L{quoted(torch.root / 'lib')} "
        "-ltorch_cpu -lc10 -Wl,-z,now && mv $out.new $out",
        "  description = the shim: linking",
        # All headers of torch are represented by version.py, which every installation rewrites.
        f"build {escaped(precompiled)}: precompile {escaped(SOURCES / 'precompiled.h')} | {escaped(torch.root / 'version.py')}",
        f"build {escaped(directory / CORE)}: core",
    ]
    for source, target in zip(sources, objects, strict=True):
        lines += [
            f"build {escaped(target)}: compile {escaped(source)} | {escaped(precompiled)}",
            f"  name = {source.relative_to(SOURCES)}",
        ]
    lines.append(f"build {escaped(library)}: link {' '.join(map(escaped, objects))} | {escaped(directory / CORE)}")
    return "\n".join(lines) + "\n"


def build(output: Path, objects: Path) -> Path:
    """Build the shim, or bring it up to date.

    Args:
        output: Directory of the library.
        objects: Directory of the object files.

    Returns:
        The library, whose name holds the minor release of torch and the interface to the core.

    Raises:
        BuildError: If there is no torch, no compiler or no ninja, or a file does not compile.
    """
    torch, compiler = find_torch(), find_compiler()
    if SOURCES == HERE:
        raise BuildError("this package has no sources of the shim: install a wheel of `make wheel`, or a checkout of the project")
    if torch.minor not in SUPPORTED:
        print(
            f"rustdev is tested with torch {', '.join(SUPPORTED)}; compiling for torch {torch.version} all the same",
            file=sys.stderr,
        )
    ninja = shutil.which("ninja", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if ninja is None:
        raise BuildError("compiling the shim takes ninja: pip install ninja")
    flags = f"{FLAGS} {os.environ.get('CXXFLAGS', '')}".strip()
    key = hashlib.sha256(f"{compiler} {flags} {torch.root} {torch.version}".encode()).hexdigest()[:8]
    directory = objects.resolve() / f"{torch.minor}-{key}"
    output = output.resolve()
    library = output / f"{torch.minor}-{abi()}.so"
    output.mkdir(parents=True, exist_ok=True)
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in generated_headers().items():
        write(directory / name, text)
    # The library is linked in the directory of its objects: ninja would consider a newer library elsewhere up to date.
    linked = directory / "shim.so"
    write(directory / "build.ninja", ninja_file(torch, compiler, flags, directory, linked))
    jobs = [f"-j{os.environ['NUM_JOBS']}"] if "NUM_JOBS" in os.environ else []
    environment = {"NINJA_STATUS": "[%f/%t, %es] ", **os.environ}
    if subprocess.run([ninja, "-C", str(directory), *jobs], env=environment, check=False).returncode != 0:
        raise BuildError("the shim does not compile")
    if not library.exists() or not filecmp.cmp(linked, library, shallow=False):
        shutil.copy(linked, library.with_suffix(".new"))
        library.with_suffix(".new").replace(library)
    for old in output.glob(f"{torch.minor}-*.so"):
        if old != library:
            old.unlink()
    return library


def main() -> int:
    """Build the shim according to the command line and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m rustdev.build_shim", description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=Path, default=HERE / "_shim", help="where the library goes")
    parser.add_argument("--objects", type=Path, help="where objects are kept (default: beside the library)")
    arguments = parser.parse_args()
    try:
        library = build(arguments.output, arguments.objects or arguments.output / "objects")
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    print(library)
    return 0


if __name__ == "__main__":
    sys.exit(main())
