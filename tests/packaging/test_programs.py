"""``make programs``: tests that pass, fail and crash, with the device and without it; and completeness of its list."""

import contextlib
import json
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import children
import pytest
import torch
from programs import listed, page
from programs.beside import trained

ROOT = Path(__file__).parents[2]
LIST = """
[toy]
what = "a test of each kind"
way = "cuda"
tests = ["tests"]
without = ["*::test_left_out"]

[[toy.failures]]
tests = ["*::test_numpy[1]", "*::test_crash"]
whose = "cuda"
reason = "a listed reason"

[[toy.failures]]
tests = ["*::test_device"]
whose = "rustdev"
reason = "a reason that is gone"
"""
TESTS = """
import os
import pytest
import torch

there = pytest.mark.skipif(not torch.cuda.is_available(), reason="takes a GPU")

@there
def test_device():
    assert (torch.ones(3, device="cuda") + 1).sum().item() == 6

@there
def test_crash():
    os.abort()

def test_host():
    assert torch.ones(3).sum() == 3

@pytest.mark.parametrize("number", [1, 2])
def test_numpy(number):
    torch.ones(3, device="cuda" if torch.cuda.is_available() else "cpu").numpy()

def test_without_too():
    raise ValueError("everywhere")

def test_left_out():
    raise AssertionError

def test_skips():
    pytest.skip("always")
"""


def tool(folder: Path, *arguments: str) -> CompletedProcess[str]:
    """Run the tool over a list of one program, which needs no package index: its folders are there."""
    (folder / "out/site-packages/toy-1.0").mkdir(parents=True, exist_ok=True)
    (folder / "out/sources/toy-1.0/tests").mkdir(parents=True, exist_ok=True)
    (folder / "out/sources/toy-1.0/tests/test_toy.py").write_text(TESTS)
    (folder / "list.toml").write_text(LIST)
    (folder / "releases.txt").write_text("toy==1.0\n")
    (folder / "page.md").write_text("<!-- begin: programs -->\n<!-- end: programs -->\n")
    options = ["--list", "list.toml", "--releases", "releases.txt", "--output", "out", "--page", "page.md"]
    return children.python("-m", "programs", *options, *arguments, directory=folder, path=ROOT / "tools")


@pytest.mark.slow
def test_each_kind_of_test_is_told_apart(tmp_path: Path) -> None:
    run = tool(tmp_path)
    assert run.returncode == 1, run.stdout + run.stderr
    assert "toy: 2 passed (1 used the device), 1 skipped, 1 fail without it too, 2 listed, 1 not listed" in run.stdout
    assert "tests/test_toy.py::test_numpy[2]: TypeError: can't convert" in run.stdout
    assert "listed, and did not happen: *::test_device" in run.stdout
    text = (tmp_path / "page.md").read_text()
    assert "| toy 1.0 | a test of each kind | cuda | 2 | 1 | 1 | 1 | 2 | |" in text.replace("  ", " ")
    assert "| toy | 2 | cuda | a listed reason |" in text
    results = json.loads((tmp_path / "out/results/toy.json").read_text())
    assert results["device"]["tests/test_toy.py::test_crash"]["text"] == "signal 6"
    again = tool(tmp_path)
    assert "toy:" not in again.stdout, "a result is kept"
    assert again.returncode == 1


def line(outcome: str) -> dict[str, Any]:
    return {"outcome": outcome, "text": "", "used": True}


def verdict_of(failure: listed.Failure, host: dict[str, Any], device: dict[str, Any]) -> page.Verdict:
    """Return the verdict of a program with one listed failure."""
    program = listed.Program("toy", "", "cuda", ["tests"], failures=[failure])
    return page.judge(program, {"host": host, "device": device, "fallbacks": []})


@pytest.mark.parametrize("flaky", [False, True])
def test_verdicts(flaky: bool) -> None:
    failure = listed.Failure(["a"], "cuda", "a reason", flaky)
    passed = verdict_of(failure, {"a": line("passed")}, {"a": line("passed")})
    assert (passed.gone, passed.bad) == (([], False) if flaky else ([failure], True))
    host = {"a": line("passed"), "b": line("passed")}
    failed = verdict_of(failure, host, {"a": line("failed"), "b": line("passed")})
    assert (failed.listed, failed.bad) == ([(failure, 1)], False)
    other = verdict_of(failure, host, {"a": line("failed"), "b": line("crashed")})
    assert (list(other.unlisted), other.bad) == (["b"], True)


def test_a_test_that_passes_without_the_device_is_not_skipped_or_absent_with_it() -> None:
    failure = listed.Failure(["listed*"], "cuda", "a reason")
    passed, skipped, failed = line("passed"), line("skipped") | {"text": "has CUDA"}, line("failed")
    host = {"same": passed, "skips": passed, "vanishes": passed, "listed skips": passed, "listed vanishes": passed}
    host |= {"skips without too": skipped, "fails without": failed, "only without": skipped}
    device = {"same": passed, "skips": skipped, "listed skips": skipped, "skips without too": skipped, "fails without": skipped}
    verdict = verdict_of(failure, host, device)
    assert verdict.unlisted == {
        "skips": "skipped with the device alone: has CUDA",
        "vanishes": "absent with the device alone: it was not collected",
    }
    assert (verdict.passed, verdict.skipped, verdict.without, verdict.bad) == (1, 2, {}, True)
    assert verdict.listed == [(failure, 2)]
    assert verdict.gone == []


@pytest.mark.parametrize("factor", [1.0, 1.1])
def test_a_wrong_operator_is_seen(monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    correct = torch.nn.functional.silu
    monkeypatch.setattr(
        torch.nn.functional, "silu", lambda x, inplace: correct(x, inplace) * (factor if x.device.type == "rustdev" else 1.0)
    )
    refused = contextlib.nullcontext() if factor == 1.0 else pytest.raises(AssertionError, match="result 0 differs")
    with refused:
        trained(lambda: torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.SiLU()), torch.ones(2, 3))


def test_the_list_is_whole() -> None:
    programs, releases = listed.programs(), listed.releases()
    assert len(programs) >= 24
    taken = {name for program in programs.values() for name in (program.name, *program.takes)}
    assert taken == releases.keys()
    for program in programs.values():
        assert program.way != "example" or all((listed.EXAMPLES / test).exists() for test in program.tests)
    used = {test for program in programs.values() if program.way == "example" for test in program.tests}
    assert used == {file.name for file in listed.EXAMPLES.glob("test_*.py")}


def test_releases_are_those_of_the_other_requirements() -> None:
    releases = listed.releases()
    libraries = listed.releases(ROOT / "requirements/libraries.txt")
    assert {name: release for name, release in libraries.items() if releases.get(name, release) != release} == {}


@pytest.mark.parametrize("failure", [(["a"], "cuda", " "), (["a"], "nobody", "a reason"), ([], "cuda", "a reason")], ids=str)
def test_failures_take_tests_and_a_reason(failure: tuple[list[str], str, str]) -> None:
    with pytest.raises(ValueError, match="failures take tests, a reason"):
        listed.Failure(*failure)
