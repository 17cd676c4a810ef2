"""The conformance kit, ``python -m rustdev.conformance``: its outcomes, its comparison, its scorecard and its command."""

import json
import re
import shlex
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import children
import pytest
import torch
from rustdev_conformance import scorecard
from rustdev_conformance.__main__ import known_failures, parser_of
from rustdev_conformance.agreement import agree
from rustdev_conformance.checks import Absent, Device, claimed
from rustdev_conformance.compiling import need_inductor

HERE = Path(__file__).parent
#: How the checks of ``fake_checks`` end.
FAKES = {
    "pass": "pass", "fail": "fail", "crash": "crash", "hang": "hang", "exit": "crash", "absent": "absent", "claimed": "absent",
    "unsupported": "unsupported", "skipped": "skipped", "after": "pass",
}  # fmt: skip


def kit(
    device: str, only: Iterable[str], *arguments: str | Path, module: str = "rustdev.conformance"
) -> subprocess.CompletedProcess[str]:
    """Run the command for checks with these names."""
    chosen = [word for pattern in only for word in ("--only", pattern)]
    return children.python("-m", module, "--device", device, *chosen, *arguments, path=HERE, nested=True)


def checks_of(directory: Path) -> dict[str, dict[str, Any]]:
    """Return the checks of a scorecard by their names."""
    return {it["name"]: it for it in json.loads((directory / "scorecard.json").read_text())["checks"]}


def outcomes(directory: Path) -> dict[str, str]:
    """Return the outcomes of the checks of a scorecard by their names."""
    return {name: it["outcome"] for name, it in checks_of(directory).items()}


@pytest.fixture(scope="module")
def fakes(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path]:
    """Return a run of the checks that end in every way, and the directory of its scorecard."""
    directory = tmp_path_factory.mktemp("fakes")
    return kit("cpu", ["fakes/*"], "--import", "fake_checks", "--timeout", "3", "--output", directory), directory


Fakes = tuple[subprocess.CompletedProcess[str], Path]


@pytest.mark.slow
def test_a_run_goes_on_after_crashes_and_hangs(fakes: Fakes) -> None:
    run, directory = fakes
    assert outcomes(directory) == {f"fakes/{name}": it for name, it in FAKES.items()}
    assert run.returncode == 1
    messages = {name.removeprefix("fakes/"): it["message"] for name, it in checks_of(directory).items()}
    assert "SIGABRT" in messages["crash"]
    assert "crashes" in messages["crash"], "the stack names the check"
    assert "exit status 7" in messages["exit"]
    assert "more than 3 s" in messages["hang"]
    assert "streams" in messages["claimed"]
    assert messages["pass"] == "privateuseone", "the device of others is not registered"


@pytest.mark.slow
def test_the_scorecard_has_counts_and_commands(fakes: Fakes) -> None:
    card = json.loads((fakes[1] / "scorecard.json").read_text())
    keys = ("version", "device", "hardware", "torch", "python", "level", "seconds", "counts", "groups", "fallbacks", "checks")
    assert set(keys) == set(card)
    assert card["version"] == 1
    assert card["torch"] == torch.__version__
    assert card["counts"] == card["groups"]["fakes"]
    assert card["counts"] == {"pass": 2, "fail": 1, "crash": 2, "hang": 1, "unsupported": 1, "known": 0, "absent": 2, "skipped": 1}
    for it in card["checks"]:
        assert set(it) == {"name", "outcome", "message", "seconds", "fallbacks", "command"}
    page = (fakes[1] / "scorecard.html").read_text()
    assert "&lt;b&gt;wrong" in page
    assert "<b>wrong" not in page
    assert "python -m rustdev.conformance --device cpu --import fake_checks --only fakes/crash" in page
    assert "src=" not in page, "the page is one file"


@pytest.mark.slow
def test_the_command_of_a_failure_repeats_it_alone(fakes: Fakes, tmp_path: Path) -> None:
    words = shlex.split(checks_of(fakes[1])["fakes/fail"]["command"])
    assert words[:5] == ["python", "-m", "rustdev.conformance", "--device", "cpu"]
    assert kit("cpu", [], *words[5:], "--output", tmp_path).returncode == 1
    assert outcomes(tmp_path) == {"fakes/fail": "fail"}


@pytest.mark.slow
def test_known_failures_are_no_failures(tmp_path: Path) -> None:
    known = tmp_path / "known.toml"
    known.write_text('"fakes/f*" = "this one is known"\n')
    run = kit("cpu", ["fakes/fail", "fakes/pass"], "--import", "fake_checks", "--known", known, "--output", tmp_path)
    assert run.returncode == 0, run.stderr
    assert outcomes(tmp_path) == {"fakes/fail": "known", "fakes/pass": "pass"}
    assert checks_of(tmp_path)["fakes/fail"]["message"].startswith("this one is known")


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", "rustdev"])
def test_a_device_that_works_passes(device: str, tmp_path: Path) -> None:
    only = ["device", "tensors", "events", "autograd/backward", "ops/add/*", "grad/matmul/float32", "layouts/cat/float32"]
    only += ["errors/cat", "extremes/exp/float32", "optimizers/SGD", "ops/linalg.eigvals/float32"]
    run = kit(device, only, "--output", tmp_path, module="rustdev_conformance")
    assert run.returncode == 0, run.stdout + run.stderr
    card = json.loads((tmp_path / "scorecard.json").read_text())
    assert card["counts"]["pass"] > 30
    assert card["groups"]["ops"]["pass"] >= 12
    assert (card["groups"]["events"]["absent"] == 3) == (device == "cpu")
    assert card["fallbacks"] == (1 if device == "rustdev" else None)


@pytest.mark.slow
def test_a_backend_in_python_has_a_scorecard(tmp_path: Path) -> None:
    wanted = {"ops/add/float32": "pass", "ops/floor/float32": "fail", "ops/cumsum/float32": "unsupported"}
    wanted |= {"modules/nn_Linear/train": "pass", "device/accelerator": "pass", "events/order": "absent", "graphs/replay": "absent"}
    run = kit("toy", wanted, "--import", "toy_device", "--output", tmp_path)
    assert run.returncode == 1, run.stderr
    assert outcomes(tmp_path) == wanted


@pytest.mark.slow
def test_wrong_kernels_are_found(tmp_path: Path) -> None:
    kernels = {"ops/neg/float32": "fail", "ops/sin/float32": "fail", "ops/tan/float32": "unsupported", "ops/cos/float32": "pass"}
    assert kit("rustdev", [*kernels, "graphs", "processes"], "--import", "broken_kernels", "--output", tmp_path).returncode == 1
    found, messages = outcomes(tmp_path), checks_of(tmp_path)
    assert kernels.items() <= found.items()
    assert found["graphs/replay"] == "fail", "the device's module has graphs"
    assert found["processes/sharing"] == "fail", "the device's module has ipc_collect"
    assert "not close" in messages["ops/neg/float32"]["message"]
    assert "float64" in messages["ops/sin/float32"]["message"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("device", "only", "said"),
    [
        ("nosuch", "device", "there is no device 'nosuch'; --import MODULE names what registers it"),
        ("cpu", "device/nosuch", "no check has a name like device/nosuch; --list prints them"),
    ],
)
def test_what_is_not_there_has_one_sentence(device: str, only: str, said: str, tmp_path: Path) -> None:
    run = kit(device, [only], "--output", tmp_path)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == f"rustdev.conformance: {said}\n"


@pytest.mark.parametrize(
    "arguments",
    [[], ["--device", "my chip"], ["--device", "x", "--level", "none"], ["--device", "x", "--jobs", "0"]],
    ids=" ".join,
)
def test_bad_arguments_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refusal:
        parser_of("rustdev.conformance").parse_args(arguments)
    assert refusal.value.code == 2
    assert "usage: python -m rustdev.conformance" in capsys.readouterr().err


def test_a_table_of_known_failures_has_reasons(tmp_path: Path) -> None:
    for name, text in (("known.json", '{"ops/a": "b"}'), ("known.toml", '"ops/a" = "b"')):
        (tmp_path / name).write_text(text)
        assert known_failures(str(tmp_path / name)) == {"ops/a": "b"}
    (tmp_path / "known.json").write_text('["ops/a"]')
    for name in ("known.json", "none.toml"):
        with pytest.raises(Exception, match=name):
            known_failures(str(tmp_path / name))


@pytest.mark.parametrize(
    "refusal",
    [
        "Backend doesn't support create a new Stream.",
        "Backend doesn`t support getDefaultGenerator()",
        "You should register `PrivateUse1HooksInterface`by `RegisterPrivateUse1HooksInterface` and implement `getNewGenerator`",
        'INTERNAL ASSERT FAILED at "CachingDeviceAllocator.h":280. Allocator for mychip is not a DeviceAllocator.',
        "Graph is not supported on device type: mychip",
        "Tried to use AMP with the `mychip` backend, but the backend has not registered a module",
    ],
)
def test_what_is_not_registered_is_absent_unless_the_module_offers_it(refusal: str) -> None:
    for device, names in (("cpu", ("Stream",)), ("rustdev", ()), ("rustdev", ("no_such_name",))):
        with pytest.raises(Absent, match="graphs"), claimed("graphs", Device(device), *names):
            raise RuntimeError(refusal)
    device = Device("rustdev")
    with pytest.raises(AssertionError, match="has graph, and PyTorch refuses"), claimed("graphs", device, "no_such_name", "graph"):
        raise RuntimeError(refusal)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("a capture does not support a wait: register the tensor before"),
        RuntimeError("streams of mychip are not implemented for this driver"),
        RuntimeError("the queue of device 0 is not available"),
        AttributeError("'NoneType' object has no attribute 'record'"),
        NotImplementedError("Could not run 'aten::record_stream' with arguments from the 'mychip' backend."),
    ],
    ids=str,
)
def test_errors_of_the_device_are_not_absent(error: Exception) -> None:
    with pytest.raises(type(error)) as raised, claimed("streams", Device("rustdev")):
        raise error
    assert raised.value is error
    with pytest.raises(Absent), claimed("streams", Device("rustdev"), refusal=re.escape(str(error))):
        raise error


@pytest.mark.slow
def test_code_generation_that_is_not_registered_is_absent_unless_the_module_registers_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch._inductor.codegen.common.get_scheduling_for_device", lambda name: None)
    monkeypatch.setattr("torch._inductor.codegen.common.init_backend_registration", lambda: None)
    with pytest.raises(Absent, match="cpu"):
        need_inductor(Device("cpu"))
    with pytest.raises(AssertionError, match="_inductor_backend_init"):
        need_inductor(Device("rustdev"))


def test_results_are_compared() -> None:
    one = torch.tensor([1.0, 2.0])
    assert agree([one, 3], [one.clone(), 3], "cpu")
    assert not agree(torch.ones(2, 3), torch.ones(3, 2).T, "cpu"), "other strides are noted"
    assert agree(one * float("nan"), one * float("nan"), "cpu")
    assert agree(one * 2, one, "cpu", has_values=False)
    assert agree((one, one.long() * 2), (one, one.long()), "cpu", is_unstable=True)
    assert agree(one * 1.1, one, "cpu", tolerance=(0.2, 0.0))
    for found, device in (
        (one * 1.1, "cpu"), (one.double(), "cpu"), (one[:1], "cpu"), (one, "rustdev"), (one.tolist(), "cpu"), ([one, one], "cpu"),
        (one.clone().requires_grad_(), "cpu"), (one * float("nan"), "cpu"),
    ):  # fmt: skip
        with pytest.raises(AssertionError):
            agree(found, one, device)


def test_results_that_are_no_further_from_exact_ones_than_the_cpus_are_right() -> None:
    exact = torch.tensor([1.0], dtype=torch.float64)
    found, expected = torch.tensor([1.0]), torch.tensor([1.01])
    assert agree(found, expected, "cpu", lambda eps, seed: [exact])
    with pytest.raises(AssertionError):
        agree(expected * 2, expected, "cpu", lambda eps, seed: [exact])


def test_the_table_of_text_has_a_line_for_each_group() -> None:
    results = [
        {"name": name, "outcome": outcome, "message": "", "seconds": 0.0, "fallbacks": None, "command": ""}
        for name, outcome in (("ops/add/float32", "pass"), ("grad/add/float32", "fail"), ("ops/sub/float32", "pass"))
    ]
    about = {"device": "x", "hardware": "chip", "torch": "2", "python": "3", "level": "core", "seconds": 1.5}
    lines = scorecard.text(scorecard.card(about, results)).splitlines()
    assert lines[0] == "x (chip), PyTorch 2, level core, 1.5 s"
    assert [line.split() for line in lines[1:]] == [["pass", "fail"], ["ops", "2", "0"], ["grad", "0", "1"], ["all", "2", "1"]]
