"""Serialization: tensors and their labels, storages; locations on loading; damaged files; memory.

tests/runtime/test_storage.py tests dtypes, views and pickling.
"""

import copy
import gc
import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import children
import pytest
import torch
from torch import nn
from typing_extensions import Self

MIB = 1 << 20

get_label, set_label = torch.rustdev.get_label, torch.rustdev.set_label


def saved(value: object, **options: Any) -> io.BytesIO:
    """Save a value to memory, ready to be loaded."""
    file = io.BytesIO()
    torch.save(value, file, **options)
    file.seek(0)
    return file


def labelled(label: str = "encoder.weight", device: str = "rustdev:1") -> torch.Tensor:
    tensor = torch.arange(6.0, device=device).reshape(2, 3)
    set_label(tensor, label)
    return tensor


@pytest.fixture
def held() -> Callable[[], int]:
    """Return how many bytes of all devices are held beyond those at the start of the test."""

    def total() -> int:
        gc.collect()
        return sum(torch.rustdev.memory_allocated(index) for index in range(2))

    before = total()
    return lambda: total() - before


def test_labels_are_set_replaced_and_taken_away() -> None:
    tensor = labelled("first")
    assert get_label(tensor) == "first"
    set_label(tensor, "zweite Schicht ✓")
    assert get_label(tensor) == "zweite Schicht ✓"
    set_label(tensor, None)
    assert get_label(tensor) is None
    assert get_label(torch.ones(2, device="rustdev")) is None
    assert get_label(torch.ones(2)) is None
    with pytest.raises(RuntimeError, match="a rustdev device, got one of cpu"):
        set_label(torch.ones(2), "cpu")
    with pytest.raises(RuntimeError, match="character 0"):
        set_label(tensor, "a\0b")


def test_views_show_the_label_of_their_memory() -> None:
    tensor = labelled()
    for view in (tensor[1], tensor.t(), tensor.reshape(-1)[2:4], tensor.detach(), tensor.data, tensor.view(torch.int32)):
        assert get_label(view) == "encoder.weight"
    column = tensor[:, 0]
    set_label(column, "column")
    assert (get_label(column), get_label(tensor), get_label(tensor[0])) == ("column", "encoder.weight", "encoder.weight")
    assert get_label(tensor + 1) is None
    assert get_label(tensor.cpu()) is None


def test_shallow_copies_share_the_label_and_part_when_one_is_renamed() -> None:
    tensor = labelled()[0]
    set_label(tensor, "row")
    alias = tensor.data
    assert get_label(alias) == "row"
    set_label(alias, "other")
    assert get_label(tensor) == "row"
    target = torch.zeros(3, device="rustdev:1")
    target.data = tensor
    assert get_label(target) == "row"


@pytest.mark.parametrize("duplicate", [torch.clone, copy.copy, copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))])
@pytest.mark.parametrize("parameter", [False, True])
def test_copies_keep_the_label(duplicate: Callable[[torch.Tensor], torch.Tensor], parameter: bool) -> None:
    source = nn.Parameter(labelled()) if parameter else labelled()
    set_label(source, "kept")
    again = duplicate(source)
    assert get_label(again) == "kept"
    assert torch.equal(again, source)
    again.detach().zero_()
    if duplicate is not copy.copy:
        assert source[1, 2].item() == 5.0


def test_deepcopies_of_views_subclasses_and_modules_keep_the_label() -> None:
    class Sub(torch.Tensor):
        def new_empty(self, *args: Any, **options: Any) -> "Sub":
            return super().new_empty(*args, **options).as_subclass(Sub)

    assert get_label(copy.deepcopy(labelled()[1:])) == "encoder.weight"
    sub = copy.deepcopy(labelled().as_subclass(Sub))
    assert isinstance(sub, Sub)
    assert get_label(sub) == "encoder.weight"
    assert get_label(copy.deepcopy(torch.ones(2, device="rustdev"))) is None
    module = nn.Linear(2, 2).rustdev()
    torch.rustdev.label_module(module)
    assert get_label(copy.deepcopy(module).bias) == "bias"


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("weights_only", [True, False])
def test_files_keep_the_label(zipped: bool, weights_only: bool) -> None:
    def load(**options: Any) -> Any:
        return torch.load(saved(value, _use_new_zipfile_serialization=zipped), weights_only=weights_only, **options)

    base = labelled("ein = Wert")
    value = {"base": base, "view": base[0, 1:], "conj": torch.tensor([1 + 2j], device="rustdev:1").conj(), "plain": torch.ones(1)}
    set_label(value["conj"], "conj")
    for location in (None, "rustdev:0"):
        loaded = load(map_location=location)
        assert [get_label(loaded[name]) for name in ("base", "view", "conj", "plain")] == ["ein = Wert"] * 2 + ["conj", None]
        assert loaded["conj"].is_conj()
        assert loaded["view"].tolist() == [1.0, 2.0]
    elsewhere = load(map_location="cpu")
    assert elsewhere["base"].tolist() == base.tolist()
    assert elsewhere["conj"].tolist() == [1 - 2j]


def test_modules_label_their_parameters() -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).rustdev(1)
    torch.rustdev.label_module(module, "net.")
    names = {name: get_label(tensor) for name, tensor in module.state_dict().items()}
    assert names == {name: f"net.{name}" for name in names}
    again = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).rustdev(1)
    again.load_state_dict(torch.load(saved(module.state_dict())), assign=True)
    assert {name: get_label(tensor) for name, tensor in again.state_dict().items()} == names
    torch.rustdev.label_module(nn.Linear(1, 1))


def test_memory_snapshots_show_labels_until_the_memory_is_freed() -> None:
    def block(address: int) -> dict[str, Any]:
        return next(b for segment in torch.rustdev.memory_snapshot() for b in segment["blocks"] if b["address"] == address)

    tensor = labelled("in the snapshot")
    address = tensor.untyped_storage().data_ptr()
    assert block(address)["label"] == "in the snapshot"
    set_label(tensor[0], "of a part")
    assert block(address)["label"] == "in the snapshot"
    set_label(tensor, None)
    assert "label" not in block(address)
    set_label(tensor, "again")
    del tensor
    other = torch.empty(6, device="rustdev:1")
    assert other.data_ptr() == address
    assert get_label(other) is None


def test_out_of_memory_errors_name_the_largest_labelled_blocks() -> None:
    kept = [torch.empty(size * MIB, dtype=torch.uint8, device="rustdev:1") for size in (3, 5, 2, 4)]
    for tensor, label in zip(kept, ("third", "first", "fourth", "second"), strict=True):
        set_label(tensor, label)
    total = torch.rustdev.get_device_properties(1).total_memory
    with pytest.raises(torch.OutOfMemoryError) as caught:
        torch.empty(total, dtype=torch.uint8, device="rustdev:1")
    text = 'The largest labelled blocks: "first" (5.00 MiB), "second" (4.00 MiB), "third" (3.00 MiB).'
    assert text in str(caught.value)


LOCATIONS: dict[str, tuple[Any, str]] = {
    "none": (None, "rustdev:1"),
    "cpu": ("cpu", "cpu"),
    "string": ("rustdev:0", "rustdev:0"),
    "current": ("rustdev", "rustdev:0"),
    "device": (torch.device("rustdev", 0), "rustdev:0"),
    "dict": ({"rustdev:1": "rustdev:0"}, "rustdev:0"),
    "dict of others": ({"cuda:0": "cpu"}, "rustdev:1"),
    "function": (lambda storage, location: storage.rustdev(0) if location == "rustdev:1" else storage, "rustdev:0"),
    "function that declines": (lambda storage, location: None, "rustdev:1"),
    "meta": ("meta", "meta"),
}


@pytest.mark.parametrize("kind", LOCATIONS)
@pytest.mark.parametrize("zipped", [True, False])
def test_map_location(kind: str, zipped: bool) -> None:
    location, device = LOCATIONS[kind]
    file = saved({"x": torch.arange(5.0, device="rustdev:1")}, _use_new_zipfile_serialization=zipped)
    loaded = torch.load(file, map_location=location, weights_only=True)["x"]
    assert loaded.device == torch.device(device)
    assert device == "meta" or loaded.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_a_location_without_an_index_is_the_current_device() -> None:
    with torch.rustdev.device(1):
        assert torch.load(saved(torch.ones(2)), map_location="rustdev").device == torch.device("rustdev:1")


@pytest.mark.parametrize("location", ["cpu", "rustdev:1"])
def test_mapped_files(tmp_path: Path, location: str) -> None:
    tensors = {"a": torch.arange(2000.0, device="rustdev"), "b": torch.ones(3, dtype=torch.bfloat16, device="rustdev")}
    torch.save(tensors, tmp_path / "mapped.pt")
    loaded = torch.load(tmp_path / "mapped.pt", mmap=True, map_location=location)
    assert all(loaded[name].device == torch.device(location) for name in tensors)
    assert all(torch.equal(loaded[name].cpu(), tensors[name].cpu()) for name in tensors)
    torch.save(tensors, tmp_path / "legacy.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(RuntimeError, match="mmap can only be used with files saved with"):
        torch.load(tmp_path / "legacy.pt", mmap=True)


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_storages() -> None:
    storage = torch.arange(6, dtype=torch.uint8, device="rustdev:1").untyped_storage()
    loaded = torch.load(saved(storage), weights_only=False)
    assert (loaded.device, loaded.tolist()) == (torch.device("rustdev:1"), list(range(6)))
    for options in ({}, {"_use_new_zipfile_serialization": False}):
        typed = torch.load(saved(torch.arange(3.0, device="rustdev").storage(), **options), weights_only=False)
        assert (typed.dtype, typed.device, typed.tolist()) == (torch.float32, torch.device("rustdev:0"), [0.0, 1.0, 2.0])


def test_a_file_loads_where_rustdev_is_not_installed(tmp_path: Path) -> None:
    model = nn.Linear(3, 2).rustdev(1)
    torch.rustdev.label_module(model)
    torch.save(model.state_dict(), tmp_path / "model.pt")
    torch.save(model.state_dict(), tmp_path / "legacy.pt", _use_new_zipfile_serialization=False)
    code = """
import sys, torch
sys.modules["rustdev"] = None
for name in ("model.pt", "legacy.pt"):
    loaded = torch.load(sys.argv[1] + "/" + name, map_location="cpu", weights_only=True)
    print(loaded["weight"].device, loaded["weight"].tolist())
    try:
        torch.load(sys.argv[1] + "/" + name, weights_only=True)
    except RuntimeError as error:
        print("rustdev:1" in str(error))
"""
    result = children.run(code, str(tmp_path), check=True, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    line = f"cpu {model.weight.tolist()}"
    assert result.stdout.splitlines() == [line, "True"] * 2


class Peak:
    """The most memory of device 0 that a block holds beyond what was there before."""

    bytes: int

    def __enter__(self) -> Self:
        torch.rustdev.reset_peak_memory_stats()
        self._before = torch.rustdev.memory_allocated()
        return self

    def __exit__(self, *_: object) -> None:
        self.bytes = torch.rustdev.max_memory_allocated() - self._before


def test_a_checkpoint_needs_no_second_copy_of_device_memory(tmp_path: Path) -> None:
    tensors = {f"layer{index}": torch.full((4 * MIB,), float(index), device="rustdev") for index in range(4)}
    size, slack = sum(tensor.nbytes for tensor in tensors.values()), MIB
    with Peak() as save:
        torch.save(tensors, tmp_path / "large.pt")
    with Peak() as fill:
        loaded = torch.load(tmp_path / "large.pt", mmap=True, map_location="cpu")
        for name, tensor in tensors.items():
            tensor.zero_().copy_(loaded[name])
    assert max(save.bytes, fill.bytes) <= slack
    with Peak() as load:
        loaded = torch.load(tmp_path / "large.pt", map_location="rustdev")
    assert size <= load.bytes <= size + slack
    assert [loaded[name][-1].item() for name in tensors] == [0.0, 1.0, 2.0, 3.0]
    assert [tensor[-1].item() for tensor in tensors.values()] == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize("zipped", [True, False])
def test_damaged_files_are_refused_and_hold_nothing(zipped: bool, held: Callable[[], int]) -> None:
    tensors = [torch.rand(20_000, device="rustdev:1") for _ in range(3)]
    content = saved(tensors, _use_new_zipfile_serialization=zipped).getvalue()
    middle = len(content) // 2
    del tensors
    for damaged in (content[:middle], content[:-10], content[: middle - 4000] + content[middle + 4000 :]):
        with pytest.raises((RuntimeError, EOFError, pickle.UnpicklingError)):
            torch.load(io.BytesIO(damaged), weights_only=True)
        assert held() == 0
    assert torch.load(io.BytesIO(content))[0].device == torch.device("rustdev:1")


def test_a_load_that_runs_out_of_memory_holds_nothing() -> None:
    gc.collect()
    file = saved([torch.ones(4 * MIB, device="rustdev:1") for _ in range(3)])
    torch.rustdev.empty_cache()
    before, (_, total) = torch.rustdev.memory_allocated(1), torch.rustdev.mem_get_info(1)
    torch.rustdev.set_per_process_memory_fraction((torch.rustdev.memory_reserved(1) + 40 * MIB) / total, 1)
    try:
        with pytest.raises(torch.OutOfMemoryError):
            torch.load(file)
    finally:
        torch.rustdev.set_per_process_memory_fraction(1.0, 1)
    gc.collect()
    assert torch.rustdev.memory_allocated(1) == before


def test_safetensors(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")
    tensors = {"a": torch.arange(6.0, device="rustdev:1").reshape(2, 3), "b": torch.ones(4, dtype=torch.bfloat16, device="rustdev")}
    safetensors.save_file(tensors, tmp_path / "x.safetensors", metadata={"made": "here"})
    loaded = safetensors.load_file(tmp_path / "x.safetensors")
    assert all(loaded[name].device.type == "cpu" and torch.equal(loaded[name], tensors[name].cpu()) for name in tensors)
    # The names of devices that it takes are a fixed list; a number is an index of the accelerator.
    moved = safetensors.load_file(tmp_path / "x.safetensors", device=1)
    assert all(moved[name].device == torch.device("rustdev:1") and torch.equal(moved[name].cpu(), loaded[name]) for name in tensors)
    model = nn.Linear(3, 2).rustdev()
    safetensors.save_model(model, str(tmp_path / "model.safetensors"))
    other = nn.Linear(3, 2).rustdev()
    assert safetensors.load_model(other, tmp_path / "model.safetensors") == (set(), [])
    assert torch.equal(other.weight, model.weight)
