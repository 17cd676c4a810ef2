"""python -m rustdev.as_cuda: programs written for "cuda", in separate processes."""

from pathlib import Path
from subprocess import CompletedProcess

import children
import pytest

PROGRAMS = Path(__file__).parent / "programs"


def run(*arguments: str | Path, cwd: Path | None = None, code: int = 0) -> CompletedProcess[str]:
    """Run Python with these arguments and return what came of it."""
    done = children.python(*arguments, directory=cwd, RUSTDEV_DEVICE_COUNT="2")
    assert done.returncode == code, done.stdout + done.stderr
    return done


@pytest.mark.slow
def test_a_training_program_for_one_gpu(tmp_path: Path) -> None:
    done = run("-m", "rustdev.as_cuda", "--profile", "a100-80g", PROGRAMS / "train_amp.py", tmp_path)
    assert done.stdout.startswith("trained on cuda NVIDIA A100-SXM4-80GB (rustdev")


@pytest.mark.slow
def test_data_parallel_processes(tmp_path: Path) -> None:
    done = run("-m", "rustdev.as_cuda", PROGRAMS / "data_parallel.py", tmp_path)
    assert sorted(done.stdout.split("\n")) == ["", "rank 0 of 2", "rank 1 of 2"]


FAILING = """\
import sys, threading, time
import torch

def check():
    time.sleep(0.2)  # outlives the main thread
    print("thread", torch.ones(1, device="cuda").is_cuda, flush=True)

def fail():
    raise LookupError("text")

if __name__ == "__main__":
    print(sys.argv, sys.path[0] == sys.argv[-1], __file__, __name__, flush=True)
    threading.Thread(target=check).start()
    import neighbour
    sys.exit(3) if "exit" in sys.argv else fail()
"""


@pytest.mark.parametrize(("arguments", "code"), [(("exit", "-m"), 3), (("--profile",), 1)])
def test_arguments_exit_codes_and_tracebacks_are_pythons(tmp_path: Path, arguments: tuple[str, ...], code: int) -> None:
    (tmp_path / "program.py").write_text(FAILING)
    (tmp_path / "neighbour.py").write_text("")
    # The program's own output, with and without the scope: the thread fails without it.
    plain = run(tmp_path / "program.py", *arguments, tmp_path, code=code)
    mapped = run("-m", "rustdev.as_cuda", tmp_path / "program.py", *arguments, tmp_path, code=code)
    assert mapped.stdout == plain.stdout + "thread True\n"
    assert " True " in plain.stdout
    if code == 1:
        assert mapped.stderr.startswith(
            f'Traceback (most recent call last):\n  File "{tmp_path / "program.py"}", line 15, in <module>\n'
        )
        assert mapped.stderr.endswith("LookupError: text\n")
    else:
        assert mapped.stderr == ""


def test_modules_are_run_as_well(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "part.py").write_text("VALUE = 5")
    (package / "__main__.py").write_text(
        "import sys, torch\nfrom .part import VALUE\nprint(VALUE, torch.cuda.is_available(), sys.argv)"
    )
    done = run("-m", "rustdev.as_cuda", "-m", "package", "-x", "1", cwd=tmp_path)
    assert done.stdout == f"5 True ['{package / '__main__.py'}', '-x', '1']\n"
    assert "No module named no_such_thing" in run("-m", "rustdev.as_cuda", "-m", "no_such_thing", code=1).stderr


def test_importing_the_module_gives_the_context_manager() -> None:
    run("-c", "import rustdev.as_cuda; import rustdev\nwith rustdev.as_cuda(): pass")
