"""Compiled files in the cache are complete: a killed compilation leaves no file, and a damaged file is rebuilt."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rustdev._inductor import builds
from torch._inductor import codecache, cpp_builder, exc

SOURCE = 'extern "C" int answer() { return 42; }\n'


def builders(folder: Path, *, source: str = SOURCE, header: str | None = None) -> list[cpp_builder.CppBuilder]:
    """Return what builds an object and a library of it in a folder."""
    (folder / "one.cpp").write_text(source)
    compiled = cpp_builder.CppOptions(compile_only=True, warning_all=False)
    compiled.precompiled_header = header
    built = cpp_builder.CppBuilder(name="one", sources=str(folder / "one.cpp"), BuildOption=compiled, output_dir=str(folder))
    linked = cpp_builder.CppOptions(warning_all=False)
    objects = [built.get_target_file_path()]
    return [built, cpp_builder.CppBuilder(name="all", sources=objects, BuildOption=linked, output_dir=str(folder))]


def build(folder: Path, **given: Any) -> list[Path]:
    """Build what is missing in a folder; return the files."""
    made = builders(folder, **given)
    builds.build_missing(str(folder / "lock"), made)
    return [Path(builder.get_target_file_path()) for builder in made]


def answer(library: Path) -> int:
    """Return what a library's function returns, in a process of its own."""
    code = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).answer())"
    return int(subprocess.run([sys.executable, "-c", code, library], capture_output=True, text=True, check=True).stdout)


def test_inductor_builds_so_in_every_process() -> None:
    assert codecache._worker_compile_cpp is builds.build_missing
    assert b"rustdev._inductor.builds" in pickle.dumps(codecache._worker_compile_cpp)


def test_files_are_built_once(tmp_path: Path) -> None:
    made = build(tmp_path)
    assert answer(made[1]) == 42
    before = [path.stat().st_mtime_ns for path in made]
    assert [path.stat().st_mtime_ns for path in build(tmp_path)] == before
    assert {path.name for path in tmp_path.iterdir()} == {"one.cpp", "one.o", "all.so", "lock"}


def test_a_killed_compile_leaves_nothing_in_the_files_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class KilledError(BaseException):
        pass

    def compile_half(command: str, folder: str) -> None:
        cpp_builder._run_compile_cmd(command, folder)
        (made,) = [path for path in Path(folder).iterdir() if path.is_file()]
        made.write_bytes(made.read_bytes()[:100])
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(builds, "run_compile_cmd", compile_half)
        with pytest.raises(KilledError):
            build(tmp_path)
    assert not (tmp_path / "one.o").exists()
    assert answer(build(tmp_path)[1]) == 42


@pytest.mark.parametrize("kept", [0.0, 0.01, 0.5, 0.999])
def test_a_cut_file_is_made_again(tmp_path: Path, kept: float) -> None:
    for path in build(tmp_path):
        whole = path.read_bytes()
        path.write_bytes(whole[: int(len(whole) * kept)])
        assert build(tmp_path)
        assert path.stat().st_size == len(whole)
        assert answer(tmp_path / "all.so") == 42


def test_a_damaged_precompiled_header_is_left_out(tmp_path: Path) -> None:
    header, source = tmp_path / "one.h", f'#include "{tmp_path}/one.h"\n{SOURCE}'
    header.write_text("#pragma once\n#include <vector>\n")
    Path(f"{header}.gch").write_bytes(b"gpch+014" + bytes(200))
    options = cpp_builder.CppOptions(precompiling=True, warning_all=False)
    precompiled = cpp_builder.CppBuilder(name=str(header), sources=str(header), BuildOption=options)
    target = Path(precompiled.get_target_file_path())
    target.unlink(missing_ok=True)
    builds.build_missing(str(tmp_path / "lock"), [precompiled])
    target.write_bytes(target.read_bytes()[:5000])
    assert answer(build(tmp_path, source=source, header=str(header))[1]) == 42
    assert not target.exists()


def test_source_that_does_not_compile_is_refused_as_before(tmp_path: Path) -> None:
    with pytest.raises(exc.CppCompileError, match=r"C\+\+ compile error"):
        build(tmp_path, source="this is no C++")
    assert {path.name for path in tmp_path.iterdir()} == {"one.cpp", "lock"}
