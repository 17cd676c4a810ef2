"""Programs and data on the device: TorchScript, torch.export, torch.fx, the benchmark timer, data loaders, and transfers."""

import io
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.benchmark import Timer
from torch.utils.data import DataLoader, Dataset, TensorDataset

MILLISECOND = 1_000_000

pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:`torch.jit:FutureWarning"),
]


@pytest.fixture(autouse=True)
def _forget_traces() -> Iterator[None]:
    """Let go of device memory: PyTorch keeps the types of traced modules, and with them their example's constants."""
    yield
    torch._C._jit_clear_class_registry()
    torch.jit._recursive.concrete_type_store = torch.jit._recursive.ConcreteTypeStore()
    torch.jit._state._clear_class_state()


class Branching(nn.Module):
    """A model whose way depends on its data, which a script keeps and a trace does not."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.register_buffer("shift", torch.tensor([0.5, -0.5]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.layer(x)) + self.shift
        if bool(x.sum() > 0):
            y = y * 2
        return y


class Straight(nn.Module):
    """A model with a convolution, a normalisation and a tensor that it makes itself."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(1, 2, 3)
        self.norm = nn.BatchNorm2d(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.convolution(x))
        return y.flatten(1) + torch.ones(1, device=x.device)


def saved_and_loaded(save: Callable[..., object], load: Callable[..., Any], program: object, **options: object) -> Any:
    """Send a program through a file in memory."""
    file = io.BytesIO()
    save(program, file)
    file.seek(0)
    return load(file, **options)


def example(device: str) -> torch.Tensor:
    return torch.linspace(-1, 2, 72).reshape(2, 1, 6, 6).to(device)


def check_alike(ours: torch.Tensor, theirs: torch.Tensor, device: str) -> None:
    """Compare a result on the device with that of the CPU."""
    assert ours.device == torch.device(device)
    torch.testing.assert_close(ours.cpu(), theirs)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_scripts_run_both_branches(sign: float) -> None:
    model = Branching()
    x = torch.full((4, 3), sign)
    expected = model(x)
    script = torch.jit.script(model.rustdev(1))
    check_alike(script(x.rustdev(1)), expected, "rustdev:1")


@pytest.mark.parametrize("location", [None, "cpu", "rustdev:0"])
def test_scripts_are_saved_and_loaded(location: str | None) -> None:
    model = Branching()
    expected = model(torch.ones(4, 3))
    torch.rustdev.set_label(model.rustdev(1).layer.weight, "layer")
    loaded = saved_and_loaded(torch.jit.save, torch.jit.load, torch.jit.script(model), map_location=location)
    device = location or "rustdev:1"
    assert {tensor.device for tensor in loaded.state_dict().values()} == {torch.device(device)}
    assert torch.rustdev.get_label(loaded.layer.weight) == (None if device == "cpu" else "layer")
    check_alike(loaded(torch.ones(4, 3, device=device)), expected, device)


def test_traces_run_and_are_saved() -> None:
    model = Straight().eval()
    expected = model(example("cpu"))
    trace = torch.jit.trace(model.rustdev(), example("rustdev"))
    check_alike(trace(example("rustdev")), expected, "rustdev:0")
    check_alike(saved_and_loaded(torch.jit.save, torch.jit.load, trace)(example("rustdev")), expected, "rustdev:0")
    frozen = torch.jit.freeze(trace)
    check_alike(frozen(example("rustdev")), expected, "rustdev:0")


@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # torch 2.13's export copies a class that it deprecates
@pytest.mark.parametrize("dynamic", [False, True])
def test_exported_programs_round_trip(dynamic: bool) -> None:
    model = Straight().eval()
    expected = model(torch.cat([example("cpu")] * 2))
    shapes = ({0: torch.export.Dim("batch", min=2, max=64)},) if dynamic else None
    arguments = example("rustdev") if dynamic else torch.cat([example("rustdev")] * 2)
    program = torch.export.export(model.rustdev(), (arguments,), dynamic_shapes=shapes)
    assert {str(node.kwargs["device"]) for node in program.graph.nodes if "device" in node.kwargs} <= {"rustdev:0"}
    loaded = saved_and_loaded(torch.export.save, torch.export.load, program)
    assert loaded.state_dict["convolution.weight"].device == torch.device("rustdev:0")
    check_alike(loaded.module()(torch.cat([example("rustdev")] * 2)), expected, "rustdev:0")
    check_alike(loaded.run_decompositions().module()(torch.cat([example("rustdev")] * 2)), expected, "rustdev:0")


def test_the_benchmark_timer_waits_for_the_device() -> None:
    timer = Timer("torch.rustdev._sleep(30_000_000)", globals={"torch": torch})
    measured = timer.timeit(2)
    assert measured.mean >= 0.029
    assert torch.rustdev.current_stream().query()


class Squares(Dataset[tuple[torch.Tensor, int]]):
    """Item n is a row of n squared."""

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.full((8,), float(index * index)), index


@pytest.mark.parametrize("workers", [0, 2])
def test_data_loaders_pin_memory(workers: int) -> None:
    # The device is in use before the workers start: a forked worker must not need it.
    total = torch.zeros(8, device="rustdev")
    for rows, indices in DataLoader(Squares(), batch_size=5, num_workers=workers, pin_memory=True):
        assert rows.is_pinned()
        assert indices.is_pinned()
        total += rows.to("rustdev", non_blocking=True).sum(0)
    assert total.tolist() == [float(sum(index * index for index in range(24)))] * 8


def test_transfers_of_a_data_loader_overlap_compute() -> None:
    loader = DataLoader(TensorDataset(torch.arange(40.0).reshape(10, 4)), batch_size=2, pin_memory=True)
    compute, transfers = torch.rustdev.current_stream(), torch.rustdev.Stream()
    copied, computed, results = [], [], []
    for (batch,) in loader:
        with transfers:
            moved = batch.to("rustdev", non_blocking=True)
            copied.append(transfers.record_event(torch.rustdev.Event(enable_timing=True)))
        compute.wait_event(copied[-1])
        moved.record_stream(compute)
        torch.rustdev._sleep(100 * MILLISECOND)
        results.append(moved.sum())
        computed.append(compute.record_event(torch.rustdev.Event(enable_timing=True)))
    assert not computed[-1].query(), "nothing may wait for the host while it feeds the device"
    compute.synchronize()
    for index in range(1, len(copied)):
        assert copied[index].elapsed_time(computed[index - 1]) > 0, "a batch arrives while the batch before is computed with"
    assert sum(result.item() for result in results) == sum(range(40))
