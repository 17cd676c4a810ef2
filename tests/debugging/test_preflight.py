"""python -m rustdev.preflight: whether a program fits, its peak, and what the peak consists of."""

import json
import re
import textwrap
from collections import Counter
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, NamedTuple

import pytest
from children import python

PROGRAM = """
import sys
import torch
from torch import nn

class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(1024, 1024, bias=False)

    def forward(self, x):
        return torch.relu(self.linear(x))

with torch.device("rustdev"):
    network = nn.Sequential(*(Layer() for _ in range(4)))
optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
rows = int(sys.argv[1])
x = torch.ones(rows, 1024, device="rustdev")
for _ in range(2):
    optimizer.zero_grad(set_to_none=False)
    network(x).sum().backward()
    optimizer.step()
print("done", torch.rustdev.max_memory_allocated(), torch.rustdev.max_memory_reserved())
"""
MIB, GIB = 1 << 20, 1 << 30
ROOT = Path(__file__).parents[2]


class Run(NamedTuple):
    """How a program has ended under preflight, the report of the first device and the whole one, and the page."""

    result: CompletedProcess[str]
    device: dict[str, Any]
    report: dict[str, Any]
    page: str


def preflight(
    folder: Path, program: str | Path, *arguments: str, options: Sequence[str] = (), name: str = "program.py", **environment: str
) -> Run:
    """Run a program under preflight."""
    if isinstance(program, str):
        (folder / name).write_text(textwrap.dedent(program))
        program = name
    given = ["--json", "report.json", "--html", "page.html", *options, program, *arguments]
    result = python("-m", "rustdev.preflight", *given, directory=folder, nested=True, **environment)
    report = json.loads((folder / "report.json").read_text())
    return Run(result, report["devices"][0], report, (folder / "page.html").read_text())


@pytest.fixture(scope="module")
def fitting(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a run that fits."""
    return preflight(tmp_path_factory.mktemp("fits"), PROGRAM, "8192", options=["--profile", "t4-16g"], name="<b>.py")


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a run that does not fit."""
    return preflight(tmp_path_factory.mktemp("short"), PROGRAM, str(1 << 20), options=["--profile", "t4-16g"], name="<b>.py")


def test_the_peak_and_its_parts(fitting: Run) -> None:
    result, device, report, _ = fitting
    assert result.returncode == 0, result.stderr
    assert "rustdev preflight: the program fits on t4-16g" in result.stderr
    _, allocated, reserved = result.stdout.split()
    assert report["fits"]
    assert (device["peak_allocated"], device["peak_reserved"]) == (int(allocated), int(reserved))
    parts = device["peak"]["parts"]
    assert sum(parts.values()) == device["peak_allocated"]
    assert parts["parameters"] == parts["gradients"] == 16 * MIB
    assert parts["optimizer_states"] == 32 * MIB
    # The results of layers are saved, the last one only until its own backward; the input is the program's.
    assert parts["activations"] >= 3 * 32 * MIB
    assert parts["temporaries"] >= 32 * MIB
    assert device["total"] == 16 * GIB
    assert device["shortages"] == []
    by_module = device["peak"]["activations_by_module"]
    assert sum(by_module.values()) == parts["activations"]
    assert by_module["Sequential.0"] == by_module["Sequential.1"] == 32 * MIB
    assert f"Sequential.*, {len(by_module)} of them" in result.stderr
    peak = device["peak"]
    assert peak["at"]["step"] in (1, 2)
    assert peak["fragmentation"] + peak["unused_segments"] + peak["allocated"] == peak["reserved"] <= device["peak_reserved"]
    assert device["reserved_peak"]["reserved"] == device["peak_reserved"]


def test_the_timeline_has_the_peak_and_all_parts(fitting: Run) -> None:
    points = fitting.device["timeline"]
    assert max(sum(point["parts"].values()) for point in points) == fitting.device["peak_allocated"]
    assert [point["event"] for point in points] == sorted({point["event"] for point in points})
    assert {point["phase"] for point in points} == {"forward", "backward", "optimizer"}
    assert {point["step"] for point in points if point["phase"] == "optimizer"} == {1, 2}


def test_steps_have_simulated_times(fitting: Run) -> None:
    first, second = fitting.report["steps"]
    # Four layers forward, and backward without the gradient of the input.
    assert first["flops"] == second["flops"] == 11 * 2 * 8192 * MIB
    peak = 8.1e12  # float32 on a T4
    assert second["flops"] / peak < second["seconds"] < 3 * second["flops"] / peak
    assert "simulated time of step 2: " in fitting.result.stderr


def test_fragmentation_is_free_memory_of_used_segments(tmp_path: Path) -> None:
    program = """
        import torch
        def megabytes(count):
            return torch.empty(count << 20, dtype=torch.uint8, device="rustdev")
        parts = [megabytes(4) for _ in range(5)]  # a segment of 20 MiB
        unused = megabytes(30)
        del parts[1], parts[2], unused
        last = megabytes(64)
    """
    peak = preflight(tmp_path, program).device["peak"]
    assert (peak["allocated"], peak["reserved"]) == (76 * MIB, 114 * MIB)
    assert (peak["fragmentation"], peak["unused_segments"]) == (8 * MIB, 30 * MIB)


def test_recomputed_activations_have_the_names_of_their_modules_and_steps_no_times_without_a_profile(tmp_path: Path) -> None:
    network = """
from torch.utils.checkpoint import checkpoint

class Checkpointed(nn.Sequential):
    def forward(self, x):
        return checkpoint(lambda x: self[3](self[2](self[1](x))), self[0](x), use_reentrant=False)

with torch.device"""
    program = PROGRAM.replace("\nwith torch.device", network, 1).replace("nn.Sequential(*", "Checkpointed(*")
    result, device, report, _ = preflight(tmp_path, program, "8192")
    assert device["peak"]["at"]["phase"] == "backward"
    by_module = device["peak"]["activations_by_module"]
    assert by_module["Checkpointed.0"] == by_module["Checkpointed.1"] == 32 * MIB
    assert all(name.startswith("Checkpointed.") for name in by_module)
    assert report["steps"] == []
    assert "simulated" not in result.stderr


def test_what_does_not_fit(short: Run) -> None:
    result, device, report, _ = short
    assert result.returncode == 1
    assert "OutOfMemoryError" in result.stderr
    assert "DOES NOT FIT" in result.stderr
    assert not report["fits"]
    (shortage,) = device["shortages"]
    assert shortage["requested"] == 4 * GIB
    assert shortage["phase"] == "forward"
    assert shortage["module"] == "Sequential.1"
    assert (shortage["line"]["file"], shortage["line"]["line"]) == ("<b>.py", 12)
    # The result of the first layer, and what the second one has before its last step, which does not keep it.
    parts = device["peak"]["parts"]
    assert (parts["activations"], parts["temporaries"], parts["parameters"]) == (4 * GIB, 8 * GIB, 16 * MIB)


def test_an_optimizer_that_does_not_fit(tmp_path: Path) -> None:
    program = """
        import torch
        with torch.device("rustdev"):
            network = torch.nn.Sequential(*(torch.nn.Linear(1 << 14, 1 << 14, bias=False) for _ in range(5)))
        optimizer = torch.optim.AdamW(network.parameters(), fused=True)
        network(torch.ones(1, 1 << 14, device="rustdev")).sum().backward()
        optimizer.step()
    """
    result, device, _, _ = preflight(tmp_path, program, options=["--profile", "t4-16g"])
    assert "OutOfMemoryError" in result.stderr
    assert device["shortages"][0]["phase"] == "optimizer"
    parts = device["peak"]["parts"]
    # The budget of 16 GiB holds five weights and gradients of 1 GiB each, and five moments with their counts of steps.
    assert (parts["parameters"], parts["gradients"]) == (5 * GIB, 5 * GIB)
    assert 5 * GIB <= parts["optimizer_states"] < 6 * GIB
    assert parts["temporaries"] < MIB


@pytest.mark.slow
def test_seven_billion_parameters(tmp_path: Path) -> None:
    def run(*arguments: str) -> Run:
        return preflight(tmp_path, ROOT / "examples/llama_training.py", *arguments, options=["--profile", "a100-80g"])

    # The figures of the README.
    device = run("--batch", "4").device
    assert device["peak"]["at"]["step"] == 2
    assert device["shortages"][0]["module"] == "Model.layers.25"
    assert round(device["peak"]["parts"]["activations"] / GIB, 1) == 40.4
    found = run("--batch", "8", "--checkpoint")
    assert found.report["fits"]
    assert round(found.device["peak_allocated"] / GIB, 1) == 54.7


def test_a_program_without_the_device(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("x = 1")
    result = python("-m", "rustdev.preflight", "program.py", directory=tmp_path, nested=True)
    assert result.returncode == 0
    assert result.stderr.endswith("rustdev preflight: the program fits\n  it has not used the device\n")


class Texts(HTMLParser):
    """The texts of a page, and what it would load."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.links: list[str] = []
        self.counts: Counter[str] = Counter()
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.counts[tag] += 1
        self.links += [value or "" for name, value in attributes if name in ("src", "href")]

    def handle_data(self, text: str) -> None:
        self.texts.append(text)


@pytest.mark.parametrize("name", ["fitting", "short"])
def test_the_page(name: str, request: pytest.FixtureRequest) -> None:
    result, device, _, text = request.getfixturevalue(name)
    assert re.search(r"rustdev: wrote .*/page\.html\n$", result.stderr)
    page = Texts(text)
    assert page.links == []
    assert page.counts["script"] == 0
    assert page.counts["svg"] == 1
    assert page.counts["polygon"] == len({name for point in device["timeline"] for name, size in point["parts"].items() if size})
    assert f"{device['peak_allocated']:,}" in page.texts
    assert "Sequential.*" in page.texts
    assert any("<b>.py:" in text for text in page.texts)
    assert any("4.0 GiB more in forward of Sequential.1" in text for text in page.texts) == (name == "short")
    assert "cuBLAS workspaces" in page.texts


@pytest.mark.parametrize(
    ("profile", "config", "size"), [("t4-16g", "", 8.125), ("h100-80g", "", 32), ("h100-80g", ":4096:2:16:8", 8.125)]
)
def test_workspaces_are_stated(tmp_path: Path, profile: str, config: str, size: float) -> None:
    environment = {"CUBLAS_WORKSPACE_CONFIG": config} if config else {}
    program = "import torch; torch.ones(4, device='rustdev')"
    result, _, report, _ = preflight(tmp_path, program, options=["--profile", profile], **environment)
    cublas, cudnn, context = report["beside"]
    assert cublas["bytes"] == 2 * size * MIB
    assert "CublasHandlePool.cpp" in cublas["source"]
    assert cudnn["bytes"] is context["bytes"] is None
    assert "cuBLAS workspaces" in result.stderr
    assert "4096:2:16:8" in result.stderr


RANK = """
import torch
from torch.distributed import HashStore, all_reduce, init_process_group

init_process_group("rdccl-dry", store=HashStore(), rank=0, world_size=16)
weight = torch.nn.Parameter(torch.ones(1 << 24, device="rustdev"))
weight.grad = torch.ones_like(weight)
optimizer = torch.optim.SGD([weight], lr=0.1)
for _ in range(2):
    all_reduce(weight.grad)
    optimizer.step()
"""


def test_collectives_take_the_time_of_the_links(tmp_path: Path) -> None:
    def seconds(cluster: str) -> float:
        found = preflight(tmp_path, RANK, options=["--profile", "a100-80g", "--cluster", cluster])
        return found.report["steps"][1]["seconds"]

    assert seconds("gpus:8,inside:nvlink3,between:ib100") > 1.5 * seconds("gpus:8,inside:nvlink3,between:ib400")
