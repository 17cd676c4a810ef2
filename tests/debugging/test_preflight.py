"""python -m rustdev.preflight: whether a program fits, its peak, and what the peak consists of."""

import json
import textwrap
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

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
MIB = 1 << 20
ROOT = Path(__file__).parents[2]


def preflight(tmp_path: Path, *arguments: str, profile: str = "t4-16g") -> tuple[CompletedProcess[str], dict[str, Any]]:
    """Run the program under preflight; return how it ended, and the report."""
    (tmp_path / "program.py").write_text(PROGRAM)
    options = ["--profile", profile, "--json", "report.json"]
    result = python("-m", "rustdev.preflight", *options, "program.py", *arguments, directory=tmp_path)
    return result, json.loads((tmp_path / "report.json").read_text())


def test_the_peak_and_its_parts(tmp_path: Path) -> None:
    result, report = preflight(tmp_path, "8192")
    assert result.returncode == 0, result.stderr
    assert "rustdev preflight: the program fits on t4-16g" in result.stderr
    (device,) = report["devices"]
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
    assert device["total"] == 16 << 30
    assert device["shortages"] == []
    by_module = device["peak"]["activations_by_module"]
    assert sum(by_module.values()) == parts["activations"]
    assert by_module["Sequential.0"] == by_module["Sequential.1"] == 32 * MIB
    assert f"Sequential.*, {len(by_module)} of them" in result.stderr
    peak = device["peak"]
    assert peak["at"]["step"] in (1, 2)
    assert peak["fragmentation"] + peak["unused_segments"] + peak["allocated"] == peak["reserved"] <= device["peak_reserved"]
    assert device["reserved_peak"]["reserved"] == device["peak_reserved"]


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
    (tmp_path / "program.py").write_text(textwrap.dedent(program))
    python("-m", "rustdev.preflight", "--json", "report.json", "program.py", directory=tmp_path, check=True)
    (device,) = json.loads((tmp_path / "report.json").read_text())["devices"]
    peak = device["peak"]
    assert (peak["allocated"], peak["reserved"]) == (76 * MIB, 114 * MIB)
    assert (peak["fragmentation"], peak["unused_segments"]) == (8 * MIB, 30 * MIB)


def test_recomputed_activations_have_the_names_of_their_modules(tmp_path: Path) -> None:
    network = """
        from torch.utils.checkpoint import checkpoint

        class Checkpointed(nn.Sequential):
            def forward(self, x):
                return checkpoint(lambda x: self[3](self[2](self[1](x))), self[0](x), use_reentrant=False)

        with torch.device"""
    program = PROGRAM.replace("with torch.device", textwrap.dedent(network), 1).replace("nn.Sequential(*", "Checkpointed(*")
    (tmp_path / "program.py").write_text(program)
    python("-m", "rustdev.preflight", "--json", "report.json", "program.py", "8192", directory=tmp_path, check=True)
    (device,) = json.loads((tmp_path / "report.json").read_text())["devices"]
    assert device["peak"]["at"]["phase"] == "backward"
    by_module = device["peak"]["activations_by_module"]
    assert by_module["Checkpointed.0"] == by_module["Checkpointed.1"] == 32 * MIB
    assert all(name.startswith("Checkpointed.") for name in by_module)


def test_what_does_not_fit(tmp_path: Path) -> None:
    result, report = preflight(tmp_path, str(1 << 20))
    assert result.returncode == 1
    assert "OutOfMemoryError" in result.stderr
    assert "DOES NOT FIT" in result.stderr
    assert not report["fits"]
    (shortage,) = report["devices"][0]["shortages"]
    assert shortage["requested"] == 4 << 30
    assert shortage["phase"] == "forward"
    assert shortage["module"] == "Sequential.1"
    assert (shortage["line"]["file"], shortage["line"]["line"]) == ("program.py", 12)
    # The result of the first layer, and what the second one has before its last step, which does not keep it.
    parts = report["devices"][0]["peak"]["parts"]
    assert (parts["activations"], parts["temporaries"], parts["parameters"]) == (4 << 30, 8 << 30, 16 * MIB)


def test_an_optimizer_that_does_not_fit(tmp_path: Path) -> None:
    program = """
        import torch
        with torch.device("rustdev"):
            network = torch.nn.Sequential(*(torch.nn.Linear(1 << 14, 1 << 14, bias=False) for _ in range(5)))
        optimizer = torch.optim.AdamW(network.parameters(), fused=True)
        network(torch.ones(1, 1 << 14, device="rustdev")).sum().backward()
        optimizer.step()
    """
    (tmp_path / "program.py").write_text(textwrap.dedent(program))
    options = ["--profile", "t4-16g", "--json", "report.json"]
    result = python("-m", "rustdev.preflight", *options, "program.py", directory=tmp_path)
    assert "OutOfMemoryError" in result.stderr
    (device,) = json.loads((tmp_path / "report.json").read_text())["devices"]
    assert device["shortages"][0]["phase"] == "optimizer"
    parts = device["peak"]["parts"]
    # The budget of 16 GiB holds five weights and gradients of 1 GiB each, and five moments with their counts of steps.
    assert (parts["parameters"], parts["gradients"]) == (5 << 30, 5 << 30)
    assert 5 << 30 <= parts["optimizer_states"] < 6 << 30
    assert parts["temporaries"] < MIB


def test_seven_billion_parameters(tmp_path: Path) -> None:
    def report_of(*arguments: str) -> dict[str, Any]:
        options = ["--profile", "a100-80g", "--json", "report.json"]
        python("-m", "rustdev.preflight", *options, ROOT / "examples/llama_training.py", *arguments, directory=tmp_path)
        found: dict[str, Any] = json.loads((tmp_path / "report.json").read_text())
        return found

    # The figures of the README.
    report = report_of("--batch", "4")
    assert report["devices"][0]["peak"]["at"]["step"] == 2
    assert report["devices"][0]["shortages"][0]["module"] == "Model.layers.25"
    assert round(report["devices"][0]["peak"]["parts"]["activations"] / 2**30, 1) == 40.4
    report = report_of("--batch", "8", "--checkpoint")
    assert report["fits"]
    assert round(report["devices"][0]["peak_allocated"] / 2**30, 1) == 54.7


def test_a_larger_profile_fits(tmp_path: Path) -> None:
    result, report = preflight(tmp_path, str(1 << 20), profile="a100-80g")
    assert result.returncode == 0, result.stderr
    assert report["fits"]
    assert report["devices"][0]["peak_allocated"] > 16 << 30


@pytest.mark.parametrize("program", ["x = 1", "import torch"])
def test_a_program_without_the_device(tmp_path: Path, program: str) -> None:
    (tmp_path / "program.py").write_text(program)
    result = python("-m", "rustdev.preflight", "program.py", directory=tmp_path)
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


@pytest.mark.parametrize("rows", [8192, 1 << 20])
def test_the_page(tmp_path: Path, rows: int) -> None:
    (tmp_path / "<b>.py").write_text(PROGRAM)
    options = ["--profile", "t4-16g", "--json", "report.json", "--html", "page.html"]
    result = python("-m", "rustdev.preflight", *options, "<b>.py", str(rows), directory=tmp_path)
    assert result.stderr.endswith(f"rustdev: wrote {tmp_path / 'page.html'}\n")
    (device,) = json.loads((tmp_path / "report.json").read_text())["devices"]
    page = Texts((tmp_path / "page.html").read_text())
    assert page.links == []
    assert page.counts["script"] == 0
    assert page.counts["svg"] == 1
    assert page.counts["polygon"] == len({name for point in device["timeline"] for name, size in point["parts"].items() if size})
    assert f"{device['peak_allocated']:,}" in page.texts
    assert "Sequential.*" in page.texts
    assert any("<b>.py:" in text for text in page.texts)
    assert any("4.0 GiB more in forward of Sequential.1" in text for text in page.texts) == (rows == 1 << 20)
    assert "cuBLAS workspaces" in page.texts


def test_the_timeline_has_the_peak_and_all_parts(tmp_path: Path) -> None:
    _, report = preflight(tmp_path, "8192")
    (device,) = report["devices"]
    points = device["timeline"]
    assert max(sum(point["parts"].values()) for point in points) == device["peak_allocated"]
    assert [point["event"] for point in points] == sorted({point["event"] for point in points})
    assert {point["phase"] for point in points} == {"forward", "backward", "optimizer"}
    assert {point["step"] for point in points if point["phase"] == "optimizer"} == {1, 2}


@pytest.mark.parametrize(
    ("profile", "config", "size"), [("t4-16g", "", 8.125), ("h100-80g", "", 32), ("h100-80g", ":4096:2:16:8", 8.125)]
)
def test_workspaces_are_stated(tmp_path: Path, profile: str, config: str, size: float) -> None:
    (tmp_path / "program.py").write_text("import torch; torch.ones(4, device='rustdev')")
    options = ["--profile", profile, "--json", "report.json", "program.py"]
    environment = {"CUBLAS_WORKSPACE_CONFIG": config} if config else {}
    result = python("-m", "rustdev.preflight", *options, directory=tmp_path, check=True, **environment)
    cublas, cudnn, context = json.loads((tmp_path / "report.json").read_text())["beside"]
    assert cublas["bytes"] == 2 * size * MIB
    assert "CublasHandlePool.cpp" in cublas["source"]
    assert cudnn["bytes"] is context["bytes"] is None
    assert "cuBLAS workspaces" in result.stderr
    assert "4096:2:16:8" in result.stderr


def test_steps_have_simulated_times(tmp_path: Path) -> None:
    result, report = preflight(tmp_path, "8192")
    first, second = report["steps"]
    # Four layers forward, and backward without the gradient of the input.
    assert first["flops"] == second["flops"] == 11 * 2 * 8192 * MIB
    peak = 8.1e12  # float32 on a T4
    assert second["flops"] / peak < second["seconds"] < 3 * second["flops"] / peak
    assert "simulated time of step 2: " in result.stderr
    assert preflight(tmp_path, "8192")[1]["steps"] == report["steps"], "the times do not depend on this machine"


def test_steps_have_no_times_without_a_profile(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    result = python("-m", "rustdev.preflight", "--json", "report.json", "program.py", "8", directory=tmp_path)
    assert json.loads((tmp_path / "report.json").read_text())["steps"] == []
    assert "simulated" not in result.stderr


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
    (tmp_path / "program.py").write_text(RANK)

    def seconds(cluster: str) -> float:
        options = ["--profile", "a100-80g", "--cluster", cluster, "--json", "report.json", "program.py"]
        python("-m", "rustdev.preflight", *options, directory=tmp_path, check=True)
        return json.loads((tmp_path / "report.json").read_text())["steps"][1]["seconds"]

    assert seconds("gpus:8,inside:nvlink3,between:ib100") > 1.5 * seconds("gpus:8,inside:nvlink3,between:ib400")
