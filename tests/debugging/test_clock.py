"""The clock of a profile: simulated times of events, streams, copies, graphs, traces and the host, and operations as PyTorch counts
them."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import rustdev
import torch
from children import run
from torch import nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

PROFILE = "a100-80g"
#: Operations per second of float16, and bytes per second, from the data sheet.
PEAK, BANDWIDTH, PCIE = 312e12, 2039e9, 32e9


@pytest.fixture
def clock() -> Iterator[None]:
    with rustdev.dry_run(), rustdev.simulated_clock(PROFILE):
        yield


def event() -> torch.Event:
    return torch.Event("rustdev", enable_timing=True)


def milliseconds(work: Callable[[], object]) -> float:
    """Return the time of work on the current stream, between two events."""
    begin, end = event(), event()
    begin.record()
    work()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def empty(*sizes: int, dtype: torch.dtype = torch.float16, device: str = "rustdev") -> torch.Tensor:
    return torch.empty(sizes, dtype=dtype, device=device)


def seconds() -> float:
    """Return the time of the host."""
    counted = rustdev.simulated_time()
    assert counted is not None
    return counted.seconds


@pytest.mark.usefixtures("clock")
def test_a_product_takes_its_arithmetic_and_a_sum_its_bytes() -> None:
    a, b, c = (empty(8192, 8192) for _ in range(3))
    ideal = 2 * 8192**3 / PEAK * 1e3
    assert ideal / 0.8 < milliseconds(lambda: torch.mm(a, b, out=c)) < ideal / 0.6
    ideal = 3 * 2 * 8192**2 / BANDWIDTH * 1e3
    assert ideal / 0.85 < milliseconds(lambda: torch.add(a, b, out=c)) < ideal / 0.75


@pytest.mark.usefixtures("clock")
def test_dtypes_have_their_units() -> None:
    def product(dtype: torch.dtype) -> float:
        a, b, c = (empty(4096, 4096, dtype=dtype) for _ in range(3))
        return milliseconds(lambda: torch.mm(a, b, out=c))

    times = {dtype: product(dtype) for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16)}
    assert times[torch.bfloat16] == times[torch.float16] < times[torch.float32] / 10
    assert times[torch.float32] == pytest.approx(times[torch.float64], rel=0.1)


@pytest.mark.usefixtures("clock")
def test_float32_uses_tf32_where_the_program_permits_it() -> None:
    a, image, weight = (empty(*sizes, dtype=torch.float32) for sizes in ((4096, 4096), (64, 256, 56, 56), (256, 256, 3, 3)))

    def times() -> list[float]:
        return [milliseconds(lambda: a @ a), milliseconds(lambda: functional.conv2d(image, weight))]

    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    # Other tests may have imported PyTorch's, which freeze the flags.
    with torch.backends.__allow_nonbracketed_mutation():
        try:
            torch.backends.cudnn.allow_tf32 = False
            exact = times()
            torch.set_float32_matmul_precision("high")
            product = times()
            torch.backends.cudnn.allow_tf32 = True
            both = times()
        finally:
            torch.set_float32_matmul_precision(before[0])
            torch.backends.cudnn.allow_tf32 = before[1]
    assert exact[0] > 5 * product[0]
    assert product[1] == exact[1] > 5 * both[1]


@pytest.mark.usefixtures("clock")
def test_two_streams_overlap_a_copy_with_kernels() -> None:
    host, target, large = empty(1 << 27, device="cpu").pin_memory(), empty(1 << 27), empty(8192, 8192)
    side = torch.Stream("rustdev")

    def copy() -> None:
        target.copy_(host, non_blocking=True)

    def compute() -> None:
        for _ in range(2):
            torch.mm(large, large)

    def both() -> None:
        side.wait_stream(torch.rustdev.current_stream())
        with torch.rustdev.stream(side):
            copy()
        compute()
        torch.rustdev.current_stream().wait_stream(side)

    torch.mm(large, large)
    alone = [milliseconds(copy), milliseconds(compute)]
    assert alone[0] == pytest.approx((1 << 28) / PCIE / 0.8 * 1e3, rel=0.01)
    together = milliseconds(both)
    assert max(alone) <= together < max(alone) + 0.05 < sum(alone)


@pytest.mark.usefixtures("clock")
def test_kernels_of_two_streams_share_the_card_only_if_they_are_small() -> None:
    def twice(size: int) -> float:
        a, side = empty(size, size), torch.Stream("rustdev")

        def both() -> None:
            side.wait_stream(torch.rustdev.current_stream())
            for stream in (side, torch.rustdev.current_stream()):
                with torch.rustdev.stream(stream):
                    torch.mm(a, a)
            torch.rustdev.current_stream().wait_stream(side)

        return milliseconds(both) / milliseconds(lambda: torch.mm(a, a))

    assert twice(8192) > 1.95


@pytest.mark.usefixtures("clock")
@pytest.mark.filterwarnings("ignore:rustdev. nothing is computed")
def test_the_host_waits_where_the_program_does() -> None:
    a = empty(8192, 8192)
    before = seconds()
    torch.mm(a, a)
    launched = seconds() - before
    torch.rustdev.synchronize()
    waited = seconds() - before
    assert 1e-6 < launched < 2e-5 < 3e-3 < waited
    torch.mm(a, a)
    before = seconds()
    a[0, 0].item()
    assert seconds() - before > 3e-3


@pytest.mark.usefixtures("clock")
def test_small_kernels_are_bound_by_the_host() -> None:
    a = empty(16, 16)
    per_kernel = milliseconds(lambda: [a.add_(1) for _ in range(1000)])
    counted = rustdev.simulated_time()
    assert counted is not None
    assert 5 < per_kernel < 12  # microseconds of a kernel, of 1000 kernels
    assert counted.devices[0].kernels < 0.5 * per_kernel / 1e3


@pytest.mark.usefixtures("clock")
def test_polling_ends_when_the_simulated_time_has_come() -> None:
    a, end = empty(8192, 8192), event()
    torch.mm(a, a)
    end.record()
    polls = 0
    while not end.query():
        polls += 1
    assert polls > 1000
    assert torch.rustdev.current_stream().query()


def test_a_graph_saves_the_time_of_the_host() -> None:
    with rustdev.simulated_clock(PROFILE):
        a = torch.ones(16, device="rustdev")
        graph = torch.rustdev.Graph() if hasattr(torch.rustdev, "Graph") else torch.rustdev.CUDAGraph()
        with torch.rustdev.graph(graph):
            for _ in range(100):
                a.add_(1)
        before = a[0].item()
        eager = milliseconds(lambda: [a.add_(1) for _ in range(100)])
        replayed = milliseconds(graph.replay)
        assert a[0].item() == before + 200
    assert 0.1 < replayed < eager / 2


@pytest.mark.filterwarnings("ignore:rustdev. nothing is computed")
def test_results_are_computed_and_times_are_those_of_a_dry_run() -> None:
    def step() -> tuple[float, float]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)).to("rustdev")
        with rustdev.simulated_clock(PROFILE):
            loss = model(torch.ones(8, 64, device="rustdev")).sum()
            loss.backward()
            torch.rustdev.synchronize()
            time = seconds()
        return time, model[0].weight.grad.abs().sum().item()

    computed, gradient = step()
    with rustdev.dry_run():
        dry, nothing = step()
    assert computed == dry > 0
    assert gradient > 0 == nothing


def test_traces_have_simulated_times() -> None:
    with rustdev.simulated_clock(PROFILE), rustdev.dry_run():
        a, b = empty(8192, 8192), empty(8192, 8192)
        side = torch.Stream("rustdev")
        with rustdev.profiler.profile() as tasks:
            torch.mm(a, a, out=b)
            with torch.rustdev.stream(side):
                torch.mm(a, a)
            torch.add(b, b, out=b)
    products = [task for task in tasks if task.name == "mm"]
    runs = [task.run for task in products]
    assert len(products) == 2
    assert all(3e6 < end - begin < 5e6 for begin, end in runs)
    assert runs[0][1] <= runs[1][0]
    assert all(task.submission[1] <= task.run[0] and task.outcome == "done" for task in tasks)


@pytest.mark.usefixtures("clock")
def test_the_profiler_has_simulated_times() -> None:
    a = empty(8192, 8192)
    with torch.profiler.profile() as profile:
        torch.mm(a, a)
        torch.rustdev.synchronize()
    times = [row.self_device_time_total for row in profile.key_averages() if row.key == "mm"]
    assert times
    assert 3000 < max(times) < 5000


MODULES: dict[str, Callable[[], tuple[nn.Module, tuple[torch.Tensor, ...]]]] = {
    "linear": lambda: (nn.Linear(32, 48), (torch.rand(4, 8, 32),)),
    "attention": lambda: (nn.MultiheadAttention(32, 4, batch_first=True), (torch.rand(2, 16, 32),) * 3),
    "transformer": lambda: (nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), (torch.rand(2, 16, 32),)),
    "convolution": lambda: (nn.Conv2d(6, 8, 3, stride=2, padding=1), (torch.rand(2, 6, 16, 16),)),
    "grouped convolution": lambda: (nn.Conv2d(6, 8, 3, groups=2), (torch.rand(2, 6, 16, 16),)),
    "depthwise convolution": lambda: (nn.Conv2d(6, 6, 3, groups=6, padding=1), (torch.rand(2, 6, 16, 16),)),
    "transposed convolution": lambda: (nn.ConvTranspose2d(6, 8, 3, stride=2), (torch.rand(2, 6, 8, 8),)),
    "1-D convolution": lambda: (nn.Conv1d(6, 8, 3), (torch.rand(2, 6, 16),)),
    "3-D convolution": lambda: (nn.Conv3d(3, 4, 3), (torch.rand(2, 3, 8, 8, 8),)),
}


@pytest.mark.parametrize("name", MODULES)
def test_operations_are_those_of_pytorchs_counter(name: str) -> None:
    module, arguments = MODULES[name]()
    module = module.to("rustdev")
    inputs = [argument.to("rustdev").requires_grad_() for argument in arguments]
    with rustdev.simulated_clock(PROFILE), FlopCounterMode(display=False) as counter:
        result = module(*inputs)
        (result[0] if isinstance(result, tuple) else result).sum().backward()
        counted = rustdev.simulated_time()
    assert counted is not None
    assert counted.flops == counter.get_total_flops() > 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_operations_of_attention_are_those_of_pytorchs_counter(dtype: torch.dtype) -> None:
    query, key, value = (torch.rand(2, 4, 64, 32, device="rustdev", dtype=dtype, requires_grad=True) for _ in range(3))
    with rustdev.simulated_clock(PROFILE), FlopCounterMode(display=False) as counter:
        functional.scaled_dot_product_attention(query, key, value, is_causal=True).sum().backward()
        counted = rustdev.simulated_time()
    assert counted is not None
    assert counted.flops == counter.get_total_flops() == (2 + 5) * 2 * 2 * 4 * 64 * 64 * 32


def test_one_clock_runs_at_a_time() -> None:
    assert rustdev.simulated_time() is None
    with rustdev.simulated_clock(PROFILE):
        with pytest.raises(RuntimeError, match="the clock of a100-80g runs already"), rustdev.simulated_clock("t4-16g"):
            pass
        assert rustdev.simulated_time() is not None
    assert rustdev.simulated_time() is None


def test_a_profile_must_exist() -> None:
    with pytest.raises(ValueError, match="accepts one of t4-16g"), rustdev.simulated_clock("t5"):
        pass


#: Prints the times of a program with streams, copies and a backward pass.
PROGRAM = """
import json, torch
from torch import nn
model = nn.Sequential(nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 512)).to("rustdev")
optimizer = torch.optim.AdamW(model.parameters())
begin, end = (torch.Event("rustdev", enable_timing=True) for _ in range(2))
begin.record()
for _ in range(3):
    model(torch.rand(64, 512).pin_memory().to("rustdev", non_blocking=True)).sum().backward()
    optimizer.step()
end.record()
end.synchronize()
print(json.dumps([begin.elapsed_time(end), *torch.rustdev.simulated_time()]))
"""


@pytest.mark.slow
def test_the_environment_starts_a_clock_and_times_are_equal_in_every_process(tmp_path: Path) -> None:
    def times(**environment: str) -> Any:
        return json.loads(run(PROGRAM, check=True, RUSTDEV_CLOCK="profile", **environment).stdout)

    first = times(RUSTDEV_PROFILE="h100-80g")
    assert first == times(RUSTDEV_PROFILE="h100-80g", RUSTDEV_NUM_THREADS="1")
    assert first[0] > 0.1
    assert first == times(RUSTDEV_PROFILE="h100-80g", RUSTDEV_COMPUTE="none")
    own = tmp_path / "own.toml"
    own.write_text(
        'gpu = "Slow"\ncapability = [7, 0]\nmemory_gib = 1\nmultiprocessors = 1\n'
        "[vector_tflops]\nfloat32 = 0.01\n[gigabytes_per_second]\nmemory = 10\npcie = 1\n"
    )
    slow = times(RUSTDEV_PROFILE=str(own))
    assert slow[0] > 10 * first[0]
    assert slow[3:] == first[3:]


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"RUSTDEV_CLOCK": "profile"}, "RUSTDEV_PROFILE is not set"),
        ({"RUSTDEV_CLOCK": "wall"}, "RUSTDEV_CLOCK=.*it accepts one of profile, or nothing"),
        ({"RUSTDEV_PROFILE": "nowhere.toml"}, "the file cannot be read"),
    ],
)
def test_a_wrong_environment_is_refused(environment: dict[str, str], message: str) -> None:
    result = run("import rustdev", **environment)
    assert result.returncode == 1
    assert re.search(f"ValueError: .*{message}", result.stderr), result.stderr


@pytest.mark.slow
def test_pytorchs_estimates_have_the_figures_of_the_profile() -> None:
    program = """
    import torch
    from torch._inductor.analysis.device_info import datasheet_tops, lookup_device_info
    own = lookup_device_info(torch.rustdev.get_device_name())
    print(own.dram_bw_gbs, own.dram_gb, datasheet_tops(torch.bfloat16, device_name=torch.rustdev.get_device_name()))
    print(datasheet_tops(torch.float32, is_tf32=True, device_name="NVIDIA H200"), lookup_device_info("Tesla T4").dram_bw_gbs)
    """
    result = run(program, check=True, RUSTDEV_PROFILE="h100-80g")
    assert result.stdout.split() == ["3350.0", "80.0", "989.4", "494.7", "300.0"]
