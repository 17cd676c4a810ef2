"""`make test-aarch64` with missing tools: one sentence says what to install."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: What the script itself takes.
TOOLS = ("bash", "dirname", "ls")


def run(programs: dict[str, str], directory: Path) -> subprocess.CompletedProcess[str]:
    """Run the script where there are no other programs than these and the script's own tools."""
    for name, text in programs.items():
        (directory / name).write_text("#!/bin/sh\n" + text)
        (directory / name).chmod(0o755)
    for name in TOOLS:
        (directory / name).symlink_to(shutil.which(name) or "")
    command = [str(directory / "bash"), str(ROOT / "tools/aarch64.sh"), "test", "--", "sorting"]
    return subprocess.run(command, env={"PATH": str(directory)}, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("libraries", "said"),
    [
        ("/none", "`rustup target add aarch64-unknown-linux-gnu`"),
        ("{}", "there is no qemu-aarch64: `apt install gcc-aarch64-linux-gnu qemu-user`"),
    ],
    ids=["std", "emulator"],
)
def test_what_is_missing_is_named(tmp_path: Path, libraries: str, said: str) -> None:
    (tmp_path / "libstd-0.rlib").touch()
    done = run({"rustc": f"echo {libraries.format(tmp_path)}", "aarch64-linux-gnu-gcc": ""}, tmp_path)
    assert done.returncode == 1
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_cargo_tests_for_aarch64_with_linker_and_emulator(tmp_path: Path) -> None:
    (tmp_path / "libstd-0.rlib").touch()
    says = 'echo "$@"; echo "$CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER, $CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER"'
    done = run({"rustc": f"echo {tmp_path}", "aarch64-linux-gnu-gcc": "", "qemu-aarch64": "", "cargo": says}, tmp_path)
    assert done.returncode == 0, done.stderr
    asked, programs = done.stdout.splitlines()
    assert asked.startswith("test --locked")
    assert "--target aarch64-unknown-linux-gnu" in asked
    assert asked.endswith("-- sorting")
    assert programs == "aarch64-linux-gnu-gcc, qemu-aarch64 -L /usr/aarch64-linux-gnu"
