"""tests/children.py: what becomes of a program in a forked process is what becomes of it in a Python."""

import json
import os
import subprocess
import time
from pathlib import Path

import children
import pytest


def test_environment_and_device() -> None:
    program = """
        import sys
        assert "torch" not in sys.modules
        from torch import nn
        import torch
        print(torch.rustdev.device_count(), torch.ones(2, device="rustdev").sum().item(), nn is torch.nn)
        """
    assert children.run(program, RUSTDEV_DEVICE_COUNT="3").stdout == "3 2.0 True\n"
    program = "import torch; print(hasattr(torch, 'rustdev'), torch.__spec__.origin == torch.__file__)"
    assert children.run(program, TORCH_DEVICE_BACKEND_AUTOLOAD="0").stdout == "False True\n"
    program = "import os; print(os.getppid())"
    assert children.run(program).stdout != f"{os.getpid()}\n", "it is not forked"
    assert children.run(program, MKL_NUM_THREADS="1").stdout == f"{os.getpid()}\n", "another Python is due"


@pytest.mark.slow
def test_the_compiler_is_there_when_it_is_imported() -> None:
    program = """
        import json, sys, torch
        before = "torch._dynamo" in sys.modules or "_dynamo" in vars(torch)
        torch.compile(lambda: 1, backend="eager")()
        of_module = {name: type(value).__name__ for name, value in sorted(vars(torch._dynamo).items())}
        print(json.dumps([before, torch._dynamo.__spec__.origin, of_module]))
        """
    forked, fresh = (json.loads(run(program, check=True).stdout) for run in (children.run, children.run_fresh))
    assert forked[:2] == fresh[:2]
    assert forked[2].items() >= fresh[2].items()


def test_scripts_modules_and_warnings(tmp_path: Path) -> None:
    text = "import sys, warnings\nimport neighbour\nprint(sys.argv[1:], __file__, __name__)\nwarnings.warn('careful')\n"
    (tmp_path / "program.py").write_text(text)
    (tmp_path / "neighbour.py").write_text("")
    told = f"['1'] {tmp_path / 'program.py'} __main__\n"
    for arguments in ((tmp_path / "program.py", "1"), ("-m", "program", "1")):
        done = children.python(*arguments, directory=tmp_path)
        assert (done.returncode, done.stdout) == (0, told), done.stderr
        assert "UserWarning: careful" in done.stderr
    done = children.python("-W", "error", "-m", "program", "1", path=tmp_path)
    assert (done.returncode, done.stdout) == (1, told)
    assert "program.py\", line 4, in <module>\n    warnings.warn('careful')\nUserWarning: careful\n" in done.stderr
    assert "children.py" not in done.stderr
    assert "No module named no_such_thing" in children.python("-m", "no_such_thing").stderr


def test_a_child_that_crashes_and_one_that_does_not_end() -> None:
    assert children.run("import os; os.abort()").returncode == -6
    with pytest.raises(subprocess.TimeoutExpired) as late:
        children.run("import os, time; print(os.getpid(), flush=True); time.sleep(99)", timeout=1)
    assert late.value.stdout
    child = Path("/proc") / late.value.stdout.decode().strip()
    ends = time.monotonic() + 60
    while child.exists() and time.monotonic() < ends:
        time.sleep(0.01)
    assert not child.exists()
