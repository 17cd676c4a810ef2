"""Dry runs: the memory of a computed run, without its computation, without its memory and without errors that depend on values."""

import contextlib
import json
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import rustdev
import torch
from children import run
from torch import nn
from torch.nn import functional

#: A model, and one training step of it.
STEP = """
import torch
from torch import nn
from torch.nn import functional

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.forward_network = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1))

    def forward(self, x):
        query, key, value = self.project(self.one(x)).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.join(functional.scaled_dot_product_attention(query, key, value, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.forward_network(self.two(x))

def model(width, layers, words):
    blocks = [Block(width) for _ in range(layers)]
    return nn.Sequential(nn.Embedding(words, width), *blocks, nn.LayerNorm(width), nn.Linear(width, words))

def step(network, optimizer, words, batch, context):
    tokens = torch.randint(words, (batch, context + 1), device="rustdev")
    scores = network(tokens[:, :-1])
    loss = functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    optimizer.step()
    return loss
"""

#: What a run prints: the memory after each operator, the peaks, the state of the generator.
TRACED = (
    STEP
    + """
import json, sys
from torch.utils._python_dispatch import TorchDispatchMode
kind, amp, checkpoint = sys.argv[1], sys.argv[2] == "amp", sys.argv[3] == "checkpoint"
trace = []

class Traced(TorchDispatchMode):
    def __torch_dispatch__(self, operator, types, arguments=(), keywords=None):
        found = operator(*arguments, **(keywords or {}))
        trace.append([str(operator), torch.rustdev.memory_allocated(), torch.rustdev.memory_reserved()])
        return found

if checkpoint:
    from torch.utils.checkpoint import checkpoint
    plain = Block.forward
    Block.forward = lambda self, x: checkpoint(plain, self, x, use_reentrant=False)
torch.manual_seed(0)
with torch.device("rustdev"):
    network = model(64, 3, 100)
optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, fused=kind == "fused", foreach=kind == "foreach")
with Traced(), torch.autocast("rustdev", torch.bfloat16, enabled=amp):
    for _ in range(2):
        step(network, optimizer, 100, 4, 32)
torch.rustdev.synchronize()
stats = torch.rustdev.memory_stats()
print(json.dumps([trace, {k: v for k, v in stats.items() if "inactive" not in k}, torch.rustdev.get_rng_state().tolist()]))
"""
)


def resident() -> int:
    """Return the bytes of memory that this process has, without those of files."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("RssAnon"))


@pytest.fixture(autouse=True)
def _no_warning() -> Iterator[None]:
    """Accept the warning of the first read, which comes once in a process."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="rustdev: nothing is computed in a dry run")
        yield


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "amp", "checkpoint"), [("foreach", "", ""), ("fused", "", "checkpoint"), ("loop", "amp", "")])
def test_each_operator_leaves_the_memory_and_the_generator_of_a_computed_run(kind: str, amp: str, checkpoint: str) -> None:
    computed, dry = (
        json.loads(run(TRACED, kind, amp, checkpoint, check=True, RUSTDEV_COMPUTE=mode, RUSTDEV_PROFILE="t4-16g").stdout)
        for mode in ("", "none")
    )
    assert len(dry[0]) > 300
    for found, expected in zip(dry, computed, strict=True):
        assert found == expected


@pytest.mark.slow
def test_a_step_of_seven_billion_parameters_takes_no_memory() -> None:
    program = (
        STEP
        + """
import json
with torch.device("rustdev"):
    network = model(4096, 34, 32000)
optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, fused=True)
loss = step(network, optimizer, 32000, 1, 512)
torch.rustdev.synchronize()
with open("/proc/self/status") as file:
    rss = next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM"))
print(json.dumps([sum(p.numel() for p in network.parameters()), torch.rustdev.max_memory_allocated(), rss, loss.item()]))
"""
    )
    parameters, peak, rss, loss = json.loads(run(program, check=True, RUSTDEV_COMPUTE="none").stdout)
    assert 7.0e9 < parameters < 7.2e9
    assert peak > 16 * parameters  # the parameter, its gradient and two moments, of four bytes each
    assert rss < 1.5e9
    assert loss == 0


def test_a_profiles_budget_holds_and_its_memory_may_be_larger_than_the_machine() -> None:
    program = """
import torch
GIB = 1 << 30
kept = [torch.empty(GIB, dtype=torch.uint8, device="rustdev") for _ in range(79)]
try:
    kept.append(torch.zeros(2 * GIB, dtype=torch.uint8, device="rustdev"))
except torch.OutOfMemoryError as error:
    print(str(error))
kept.append(torch.zeros(GIB, dtype=torch.uint8, device="rustdev"))
assert torch.rustdev.memory_reserved() == 80 * GIB == torch.rustdev.get_device_properties().total_memory
del kept
torch.rustdev.empty_cache()
torch.rustdev.set_per_process_memory_fraction(0.5)
try:
    torch.empty(41 * GIB, dtype=torch.uint8, device="rustdev")
except torch.OutOfMemoryError:
    print("half")
"""
    found = run(program, check=True, RUSTDEV_COMPUTE="none", RUSTDEV_PROFILE="a100-80g").stdout
    assert "Tried to allocate 2.00 GiB" in found
    assert "79.00 GiB" in found
    assert "half" in found


def test_values_are_zeros_and_one_warning_has_the_line_of_the_first_read() -> None:
    program = """
import warnings, torch
warnings.simplefilter("always")
x = torch.ones(3, device="rustdev")
y = x + 1
with warnings.catch_warnings(record=True) as caught:
    for _ in range(2):
        assert y[0].item() == 0
        assert y.cpu().tolist() == [0, 0, 0]
    assert y.double().sum().item() == 0 and y.to(torch.complex64)[0].item() == 0j and (y > 0)[0].item() is False
    host = torch.full((4, 3), 7.0).t()[:, 1]
    host.copy_(y)
    assert host.tolist() == [0, 0, 0]
    pinned = torch.full((3,), 7).pin_memory()
    pinned.copy_(y, non_blocking=True)
    torch.rustdev.synchronize()
    assert pinned.tolist() == [0, 0, 0]
    x.copy_(torch.full((3,), 5.0))
    assert not torch.equal(x, y) and len(x.nonzero()) == 3
print(len(caught), caught[0].category.__name__, caught[0].lineno, caught[0].message)
"""
    found = run(program, check=True, RUSTDEV_COMPUTE="none").stdout
    assert found.startswith("1 UserWarning 8 rustdev: nothing is computed in a dry run")


def test_a_copy_to_the_device_and_an_output_on_the_host_do_not_warn() -> None:
    program = """
import warnings, torch
warnings.simplefilter("error")
x = torch.ones(3).to("rustdev") * 2
x.sum()
torch.nn.Linear(3, 3).to("rustdev")(x)
torch.rustdev.synchronize()
"""
    run(program, check=True, RUSTDEV_COMPUTE="none")


def test_n_elements_give_n_results() -> None:
    x = torch.zeros(5, 7, device="rustdev")
    line = torch.arange(6, device="rustdev")
    with rustdev.dry_run():
        assert x.nonzero().shape == (35, 2)
        assert x[x > 0].shape == (35,)
        assert x[(x > 0).any(1)].shape == (5, 7)
        assert torch.masked_select(x, x > 0).shape == (35,)
        assert torch.argwhere(line).shape == (6, 1)
        assert torch.unique(x).shape == (35,)
        values, inverse, counts = torch.unique(line, return_inverse=True, return_counts=True)
        assert (values.shape, inverse.shape, counts.shape) == ((6,), (6,), (6,))
        assert torch.unique_consecutive(line).shape == (6,)
        assert torch.unique(x, dim=1).shape == (5, 7)
        assert torch.repeat_interleave(line).shape == (6,)
        assert torch.repeat_interleave(x, torch.arange(5, device="rustdev"), dim=0).shape == (5, 7)
        assert torch.repeat_interleave(line, 3).shape == (18,)
        assert torch.bincount(line).shape == (6,)
        assert torch.bincount(line, minlength=9).shape == (9,)
        assert torch.histc(x, 4).shape == (4,)
        torch.rustdev.synchronize()
    torch.rustdev.synchronize()


def test_errors_that_depend_on_values_do_not_fire() -> None:
    bad = torch.full((4,), 100, device="rustdev")
    weights = torch.zeros(4, 8, device="rustdev", requires_grad=True)
    with rustdev.dry_run():
        functional.embedding(bad, weights)
        weights[bad]
        weights.gather(1, bad[:, None])
        functional.cross_entropy(weights, bad).backward()
        torch.multinomial(torch.full((4,), -1.0, device="rustdev"), 2)
        torch.bernoulli(torch.full((4,), 7.0, device="rustdev"))
        torch.normal(0.0, torch.full((4,), -1.0, device="rustdev"))
        torch._assert_async(torch.zeros((), device="rustdev"))
        torch.searchsorted(weights[0].detach(), weights[1].detach(), sorter=torch.full((8,), 100, device="rustdev"))
        torch.linalg.inv(torch.zeros(3, 3, device="rustdev"))
        torch.linalg.cholesky(torch.zeros(3, 3, device="rustdev"))
        bad // torch.zeros_like(bad)
        nn.utils.clip_grad_norm_([weights], 1.0, error_if_nonfinite=True)
        torch.rustdev.synchronize()
    torch.rustdev.synchronize()


def test_a_scaler_steps() -> None:
    parameter = nn.Parameter(torch.full((4,), torch.inf, device="rustdev"))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    scaler = torch.amp.GradScaler("rustdev")
    stepped = []
    optimizer.register_step_post_hook(lambda *_: stepped.append(True))
    with rustdev.dry_run():
        scaler.scale((parameter * torch.inf).sum()).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
    assert stepped == [True]


def test_what_is_computed_is_what_was_submitted_outside() -> None:
    torch.rustdev.empty_cache()
    x = torch.ones(1000, 1000, device="rustdev")
    y = x @ x
    with rustdev.dry_run():
        assert rustdev.is_dry_run()
        y += 1
        with rustdev.dry_run():
            y += 1
        assert rustdev.is_dry_run()
        y += 1
        empty = torch.full((1 << 24,), 7.0, device="rustdev")
    assert not rustdev.is_dry_run()
    y += 2
    assert y[0, 0].item() == 1002
    assert empty.unique().tolist() == [0]
    empty += 1
    assert empty.sum().item() == 1 << 24


def test_memory_of_a_block_is_not_touched_and_goes_back() -> None:
    torch.rustdev.empty_cache()
    reserved, before = torch.rustdev.memory_reserved(), resident()
    with rustdev.dry_run():
        large = [torch.full((1 << 28,), 1.0, device="rustdev") for _ in range(8)]
        (large[0] + large[1]).sort()
        torch.rustdev.synchronize()
        assert torch.rustdev.memory_reserved() >= reserved + (8 << 30)
        assert resident() < before + (64 << 20)
        del large
    assert torch.rustdev.memory_reserved() == reserved


def test_host_functions_events_and_frees_happen() -> None:
    called = threading.Event()
    begin, end = (torch.rustdev.Event(enable_timing=True) for _ in range(2))
    allocated = torch.rustdev.memory_allocated()
    side = torch.rustdev.Stream()
    with rustdev.dry_run():
        begin.record()
        x = torch.ones(1 << 20, device="rustdev")
        torch.rustdev.launch_host_func(called.set, torch.rustdev.current_stream())
        with torch.rustdev.stream(side):
            side.wait_stream(torch.rustdev.default_stream())
            x.add_(1)
        x.record_stream(side)
        torch.rustdev.current_stream().wait_stream(side)
        end.record()
        del x
        end.synchronize()
        assert called.is_set()
        assert end.query()
        assert begin.elapsed_time(end) >= 0
        torch.rustdev.synchronize()
        assert torch.rustdev.memory_allocated() == allocated


def test_graphs_are_captured_whole_and_replayed_empty() -> None:
    x, host = torch.zeros(4, device="rustdev"), torch.full((4,), 7.0).pin_memory()
    noise = torch.empty(4, device="rustdev")
    graph = torch.rustdev.RustdevGraph()
    before = torch.rustdev.get_rng_state()
    with rustdev.dry_run():
        with torch.rustdev.graph(graph):
            x += 1
            noise.normal_()
            host.copy_(x, non_blocking=True)
        graph.replay()
        torch.rustdev.synchronize()
        assert host.tolist() == [0] * 4
    first = torch.rustdev.get_rng_state()
    assert not torch.equal(before, first), "the replay has drawn"
    graph.replay()
    torch.rustdev.synchronize()
    assert x.tolist() == host.tolist() == [1] * 4


def test_the_profiler_sees_all_kernels() -> None:
    def names() -> list[str]:
        with torch.profiler.profile(activities=list(torch.profiler.supported_activities())) as profile:
            x = torch.ones(64, 64, device="rustdev")
            (x @ x).relu_().sum()
            torch.rustdev.synchronize()
        kind = torch.autograd.DeviceType.PrivateUse1
        return [event.name for event in profile.events() if event.device_type == kind]

    computed = names()
    with rustdev.dry_run():
        dry = names()
    assert computed == dry
    assert computed


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.geqrf(x),
        lambda x: torch.linalg.eigh(x),
        lambda x: torch.linalg.lstsq(x, x).solution,
        lambda x: functional.conv2d(x[None, None], x[None, None, :3, :3], padding=1),
        lambda x: torch.fft.rfft2(x),
        lambda x: torch.linalg.solve(x, x),
        lambda x: torch.cdist(x, x),
        lambda x: x.new_zeros(3).index_add_(0, torch.zeros(64, dtype=torch.long, device="rustdev"), x[0]),
        lambda x: torch.histogramdd(x[:, :2], [3, 3]).hist,
        lambda x: x.to_sparse().coalesce().values(),
    ],
)
def test_operators_of_each_tier_have_results_of_the_computed_shapes(call: Any) -> None:
    x = torch.eye(64, device="rustdev") + torch.ones(64, 64, device="rustdev")
    with rustdev.dry_run():
        dry = call(x)
    computed = call(x)
    flat = zip(*([found] if isinstance(found, torch.Tensor) else found for found in (dry, computed)), strict=True)
    for one, other in flat:
        assert (one.device, one.dtype, one.stride()) == (other.device, other.dtype, other.stride())
        assert one.shape == other.shape or call(x).dim() == 1


def test_a_fallback_advances_the_generator_and_keeps_its_rules() -> None:
    def state(dry: bool) -> list[int]:
        torch.manual_seed(5)
        with rustdev.dry_run() if dry else contextlib.nullcontext():
            torch._standard_gamma(torch.ones(4, device="rustdev"))
            torch.geqrf(torch.ones(4, 4, device="rustdev"))
        return torch.rustdev.get_rng_state().tolist()  # type: ignore[no-any-return]

    assert state(dry=True) == state(dry=False)
    program = """
import torch
try:
    torch.geqrf(torch.ones(4, 4, device="rustdev"))
except NotImplementedError as error:
    print(error)
"""
    assert "geqrf" in run(program, check=True, RUSTDEV_COMPUTE="none", RUSTDEV_FALLBACK="error").stdout


def test_arguments_are_checked() -> None:
    with rustdev.dry_run():
        x = torch.ones(3, 4, device="rustdev")
        with pytest.raises(RuntimeError, match="must match the size"):
            x + torch.ones(5, device="rustdev")
        with pytest.raises(RuntimeError, match="mat1 and mat2"):
            x @ x
        with pytest.raises(IndexError, match="Dimension out of range"):
            x.sum(7)
        with pytest.raises(RuntimeError):
            torch.geqrf(torch.ones(3, device="rustdev"))


def test_no_other_value_is_accepted() -> None:
    result = run("import torch, rustdev", RUSTDEV_COMPUTE="some")
    assert 'RUSTDEV_COMPUTE="some" is not valid: it accepts' in result.stderr


@pytest.mark.parametrize(
    "environment",
    [
        {"RUSTDEV_SANITIZE": "memory", "RUSTDEV_TIMEOUT": "30s", "RUSTDEV_AUTOGRAD_THREADS": "1"},
        {"RUSTDEV_SANITIZE": "race:error", "RUSTDEV_FILL": "nan", "RUSTDEV_LAUNCH_BLOCKING": "1"},
        {"RUSTDEV_SCHEDULE": "lazy", "RUSTDEV_FAULTS": "bitflip:p=1"},
    ],
)
def test_other_modes_hold_too(environment: dict[str, str]) -> None:
    program = (
        STEP
        + """
with torch.device("rustdev"):
    network = model(256, 2, 1000)
optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, fused=True)
for _ in range(2):
    loss = step(network, optimizer, 1000, 4, 64)
print(loss.item(), sum(p.numel() for p in network.parameters() if p.cpu().any()))
"""
    )
    assert run(program, check=True, RUSTDEV_COMPUTE="none", **environment).stdout == "0.0 0\n"


def test_collectives_end_without_data() -> None:
    program = """
import torch, torch.distributed as dist
from rustdev.distributed import work
dist.init_process_group("rdccl", store=dist.HashStore(), rank=0, world_size=1)
x = torch.ones(4, device="rustdev")
given = work.RdcclWork._give_to_gloo
work.RdcclWork._give_to_gloo = lambda self: (self._is_barrier or print("given"), given(self))
with torch.rustdev.dry_run():
    dist.all_reduce(x)
    dist.all_reduce(x, async_op=True).wait()
    dist.barrier()
print("over")
dist.all_reduce(x, async_op=True)
dist.destroy_process_group()
"""
    assert run(program, timeout=60).stdout.startswith("over\ngiven")


@pytest.mark.slow
def test_compiled_kernels_do_not_run() -> None:
    @torch.compile
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.add_(1).sin().sum(1)

    x = torch.ones(64, 64, device="rustdev")
    with rustdev.dry_run():
        assert function(x).shape == (64,)
    assert x.sum().item() == 64 * 64
    torch.testing.assert_close(function(x).cpu(), torch.full((64, 64), 2.0).sin().sum(1))
    assert x.sum().item() == 2 * 64 * 64
