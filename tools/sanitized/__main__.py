"""Run Python tests in a Python interpreter with a sanitizer's runtime: ``make asan-python`` and ``make tsan-python``.

    python -m sanitized {address,thread} MODULE SHIMS [arguments of pytest]

MODULE is the library that cargo has built with the sanitizer, SHIMS the directory of the shims that were built with it. ``python/``
next to the module gets an environment whose interpreter is ``python.rs``, with the packages of the environment that runs this
command, and this package with the module and the shims. So nothing is installed, and processes that a test starts by
``sys.executable`` run under the sanitizer, too.

pytest captures stderr, so the sanitizer writes its reports to files, which are printed at the end.
The exit status is that of pytest, or 1 if it is 0 and there is a report.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from other_module import ROOT, link, place_package, run_tests

#: Options of the sanitizers; the reasons are in CONTRIBUTING.md.
OPTIONS = {
    "address": {"ASAN_OPTIONS": "detect_leaks=0:handle_segv=0:allocator_may_return_null=1:log_path={reports}"},
    "thread": {
        "TSAN_OPTIONS": "die_after_fork=0:handle_segv=0:report_signal_unsafe=0:"
        f"suppressions={ROOT / 'tests/tsan_python.supp'}:log_path={{reports}}",
        "OMP_NUM_THREADS": "1",
        "RUSTDEV_NUM_THREADS": str(len(os.sched_getaffinity(0))),
    },
}
#: Additional arguments of pytest.
SELECTION = {"address": [], "thread": ["-m", "not planted_race"]}


def build_interpreter(sanitizer: str, directory: Path) -> Path:
    """Create the environment and return its interpreter."""
    version, libraries = f"python{sys.version_info.major}.{sys.version_info.minor}", sysconfig.get_config_var("LIBDIR")
    if not sysconfig.get_config_var("Py_ENABLE_SHARED"):
        sys.exit(f"sanitized: {sys.executable} has no shared library of Python (libpython): build Python with --enable-shared")
    interpreter = directory / "bin" / "python"
    interpreter.parent.mkdir(parents=True, exist_ok=True)
    (directory / "lib" / version).mkdir(parents=True, exist_ok=True)
    link(directory / "lib" / version / "site-packages", Path(sysconfig.get_path("purelib")))
    shutil.copy(Path(sys.prefix) / "pyvenv.cfg", directory / "pyvenv.cfg")
    command = ["rustc", "--edition", "2024", "-O", f"-Zsanitizer={sanitizer}", "-Cunsafe-allow-abi-mismatch=sanitizer"]
    # The sanitizer's runtime looks up C++ exception functions at startup, so libstdc++ is linked to the program.
    command += [f"-Clink-arg={it}" for it in ("-rdynamic", f"-L{libraries}", f"-Wl,-rpath,{libraries}", f"-l{version}")]
    command += [f"-Clink-arg={it}" for it in ("-Wl,--no-as-needed", "-lstdc++")]
    source = Path(__file__).with_name("python.rs")
    subprocess.run([*command, str(source), "-o", str(interpreter)], env={**os.environ, "RUSTC_BOOTSTRAP": "1"}, check=True)
    return interpreter


def main(sanitizer: str, module: str, shims: str, *arguments: str) -> int:
    """Run the tests."""
    directory = Path(module).absolute().parent / "python"
    reports = directory / "reports"
    shutil.rmtree(reports, ignore_errors=True)
    reports.mkdir(parents=True)
    interpreter = build_interpreter(sanitizer, directory)
    place_package(Path(module).absolute(), Path(shims).absolute(), directory / "package")
    options = {name: value.format(reports=reports / "report") for name, value in OPTIONS[sanitizer].items()}
    variables = {**options, "VIRTUAL_ENV": str(directory)}
    status = run_tests(interpreter, directory / "package", [*SELECTION[sanitizer], *arguments], variables)
    found = sorted(reports.iterdir())
    for path in found:
        print(path.read_text(errors="replace"))
    print(f"sanitized: {len(found)} processes with a report of the {sanitizer} sanitizer, in {reports}")
    return status or bool(found)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
