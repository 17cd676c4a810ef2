"""set_sync_debug_mode: which calls raise because they wait, which do not, and the state afterwards."""

import warnings
from collections.abc import Callable, Iterator

import pytest
import torch
from in_threads import in_thread

TEXT = "called a synchronizing rustdev operation"


@pytest.fixture(autouse=True)
def _default_mode() -> Iterator[None]:
    yield
    torch.rustdev.set_sync_debug_mode("default")


def device_values() -> torch.Tensor:
    return torch.arange(6.0, device="rustdev")


WAITING: dict[str, Callable[[torch.Tensor], object]] = {
    "item": lambda x: x[0].item(),
    "bool": lambda x: bool(x[0] > 1),
    "tolist": lambda x: x.tolist(),
    "cpu": lambda x: x.cpu(),
    "to": lambda x: x.to("cpu"),
    "pageable memory": lambda x: torch.empty(6).copy_(x, non_blocking=True),
    "copy_ from the device": lambda x: torch.empty(6).copy_(x),
    "copy_ from the host": lambda x: x.copy_(torch.ones(6)),
    "tensor": lambda x: torch.tensor([1.0, 2.0], device="rustdev"),
    "nonzero": lambda x: x.nonzero(),
    "mask": lambda x: x[x > 1],
    "unique": lambda x: x.unique(),
    "repr": repr,
    "another device": lambda x: x.to("rustdev:1").tolist(),
}
QUIET: dict[str, Callable[[torch.Tensor], object]] = {
    "arithmetic": lambda x: (x * 2 + 1).sum(),
    "product": lambda x: x[None] @ x[:, None],
    "within the device": lambda x: x.clone(),
    "between devices": lambda x: x.to("rustdev:1"),
    "to memory that PyTorch pins": lambda x: x.to("cpu", non_blocking=True),
    "full": lambda x: torch.full((3,), 2.0, device="rustdev"),
    "synchronize": lambda x: torch.rustdev.synchronize(),
    "stream": lambda x: torch.rustdev.current_stream().synchronize(),
    "event": lambda x: torch.rustdev.current_stream().record_event().synchronize(),
    "number": lambda x: x + torch.tensor(2.0),
}


@pytest.mark.parametrize("call", WAITING.values(), ids=WAITING.keys())
def test_what_waits_raises(call: Callable[[torch.Tensor], object]) -> None:
    values = device_values()
    torch.rustdev.set_sync_debug_mode("error")
    with pytest.raises(RuntimeError, match=TEXT):
        call(values)
    torch.rustdev.set_sync_debug_mode("default")
    call(values)
    assert device_values().tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("call", QUIET.values(), ids=QUIET.keys())
def test_what_does_not_wait_is_quiet(call: Callable[[torch.Tensor], object]) -> None:
    values = device_values()
    torch.rustdev.set_sync_debug_mode("error")
    call(values)


def test_copies_of_pinned_memory_are_quiet() -> None:
    host = torch.ones(6).pin_memory()
    back = torch.empty(6).pin_memory()
    torch.rustdev.set_sync_debug_mode("error")
    values = host.to("rustdev", non_blocking=True) * 2
    back.copy_(values, non_blocking=True)
    torch.rustdev.synchronize()
    assert back.tolist() == [2.0] * 6
    with pytest.raises(RuntimeError, match=TEXT):
        host.to("rustdev")


def test_nothing_is_copied_where_it_raises() -> None:
    values, host = device_values(), torch.full((6,), -1.0)
    torch.rustdev._sleep(20_000_000)
    torch.rustdev.set_sync_debug_mode("error")
    with pytest.raises(RuntimeError, match=TEXT):
        host.copy_(values)
    torch.rustdev.synchronize()
    assert host.tolist() == [-1.0] * 6


def test_a_fallback_waits() -> None:
    matrix = torch.eye(3, device="rustdev")
    torch.rustdev.reset_fallback_stats()
    torch.geqrf(matrix)
    assert torch.rustdev.fallback_stats()
    torch.rustdev.set_sync_debug_mode("error")
    with pytest.raises(RuntimeError, match=TEXT):
        torch.geqrf(matrix)


def test_the_warning_names_the_line() -> None:
    values = device_values()
    torch.rustdev.set_sync_debug_mode("warn")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        values[0].item()
        values.tolist()
    assert [warning.filename for warning in caught] == [__file__, __file__]
    assert caught[1].lineno == caught[0].lineno + 1


def test_the_mode_is_the_processs() -> None:
    torch.rustdev.set_sync_debug_mode("error")
    assert in_thread(torch.rustdev.get_sync_debug_mode) == 2


@pytest.mark.parametrize(("mode", "number"), [("default", 0), ("warn", 1), ("error", 2), (0, 0), (1, 1), (2, 2)])
def test_names_and_numbers(mode: str | int, number: int) -> None:
    torch.rustdev.set_sync_debug_mode(mode)
    assert torch.rustdev.get_sync_debug_mode() == number


@pytest.mark.parametrize("mode", ["loud", 3, -1, None])
def test_other_modes_are_refused(mode: object) -> None:
    torch.rustdev.set_sync_debug_mode("warn")
    with pytest.raises(RuntimeError, match="invalid value of debug_mode, expected one of"):
        torch.rustdev.set_sync_debug_mode(mode)
    assert torch.rustdev.get_sync_debug_mode() == 1
