"""Copies: all dtypes, strides, conj and neg bits, host and device, blocking and non-blocking, and scalars read back."""

import itertools
from typing import Any

import pytest
import torch
from comparison import COMPLEX, FLOATS, INTEGERS, assert_same, compare
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

REAL = [torch.bool, *INTEGERS, torch.uint16, torch.uint32, torch.uint64, *FLOATS]
DTYPES = [*REAL, torch.float8_e4m3fn, torch.float8_e5m2, torch.complex32, *COMPLEX]

pytestmark = [
    pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental"),
    pytest.mark.filterwarnings("ignore:Casting complex values to real"),
]


def values(dtype: torch.dtype) -> torch.Tensor:
    """Return a CPU tensor with values that every dtype can hold."""
    return torch.tensor([[0, 1, 2, 3], [1, 0, 1, 0], [7, 8, 12, 64]]).to(dtype)


@pytest.mark.parametrize(("dtype", "digits"), [(torch.bfloat16, 7), (torch.float16, 10)], ids=str)
def test_ties_are_rounded_to_even(dtype: torch.dtype, digits: int) -> None:
    halves = 1 + torch.arange(2000) * 2.0 ** -(digits + 1)
    compare(lambda x: x.to(dtype), halves)
    narrow = halves.to(dtype)
    compare(lambda x: x + 3, narrow)
    compare(lambda x: x * 3, narrow)


@pytest.mark.parametrize(("source", "target"), list(itertools.product(DTYPES, DTYPES)), ids=str)
def test_casts(source: torch.dtype, target: torch.dtype) -> None:
    host = values(source)
    device = host.to("rustdev")
    expected = host.to(target)
    assert device.device == torch.device("rustdev", 0)
    for view in (lambda it: it, torch.t, lambda it: it[::2, 1::2]):
        assert_same(view(device), view(host))
    assert_same(device.to(target), expected)
    assert_same(host.to("rustdev", target), expected)
    compare(torch.Tensor.copy_, torch.zeros(4, 3, dtype=target).t(), host)
    back = torch.empty(3, 4, dtype=target)
    assert_same(back.copy_(device).to("rustdev"), expected)


@pytest.mark.parametrize("target", [torch.complex64, torch.complex128, torch.float32], ids=str)
def test_conj_and_neg_bits_of_the_source(target: torch.dtype) -> None:
    host = torch.complex(torch.arange(6.0), torch.arange(6.0) + 1).reshape(2, 3)
    device = host.to("rustdev")
    for view in (lambda t: t.conj(), lambda t: t.conj().imag, lambda t: t.t().conj(), torch._neg_view):
        expected = view(host)
        assert view(device).is_conj() == expected.is_conj()
        assert view(device).is_neg() == expected.is_neg()
        assert_same(view(device).resolve_conj().resolve_neg(), expected.resolve_conj().resolve_neg())
        assert_same(
            torch.zeros_like(expected, dtype=target).to("rustdev").copy_(view(device)),
            expected.to(target).resolve_conj().resolve_neg(),
        )


def test_conj_and_neg_bits_of_the_target() -> None:
    source = torch.complex(torch.arange(3.0), torch.arange(3.0) + 1)
    for view in (lambda t: t.conj(), lambda t: t.conj().imag, torch._neg_view):
        host = torch.zeros(3, dtype=torch.complex64)
        device = host.to("rustdev")
        new = source if view(host).is_complex() else source.real
        view(host).copy_(new)
        view(device).copy_(new)
        assert_same(device, host)
        view(device).copy_(new.to("rustdev"))
        assert_same(device, host)


def test_broadcasting_and_empty() -> None:
    host = torch.zeros(3, 4)
    compare(lambda target: target.copy_(torch.arange(4.0)), host)
    compare(torch.Tensor.copy_, host, torch.arange(3.0)[:, None])
    with pytest.raises(RuntimeError, match=r"size of tensor|must match"):
        host.to("rustdev").copy_(torch.zeros(5))
    compare(lambda target: target.copy_(torch.empty(1, 4)), torch.empty(0, 4))
    assert torch.empty(0).to("rustdev").cpu().shape == (0,)


def test_copy_onto_itself() -> None:
    device = torch.arange(6.0, device="cpu").to("rustdev")
    assert_same(device.copy_(device), torch.arange(6.0))
    assert_same(device.copy_(device.view(6)), torch.arange(6.0))
    with pytest.raises(RuntimeError, match=r"single memory location|refer to a"):
        device[1:].copy_(device[:-1])
    with pytest.raises(RuntimeError, match=r"single memory location|refer to a"):
        device[:1].expand(3).copy_(torch.zeros(3))
    with pytest.raises(RuntimeError, match=r"single memory location|refer to a"):
        device[2:].view(2, 2).copy_(device[:-2].view(2, 2).t())
    number = torch.tensor([1 + 2j]).to("rustdev")
    assert_same(number.copy_(number.conj()), torch.tensor([1 - 2j]))
    assert_same(device.copy_(torch._neg_view(device)), -torch.arange(6.0))


def test_between_devices() -> None:
    first = torch.arange(1000.0).to("rustdev:0")
    second = first.to("rustdev:1")
    assert second.device.index == 1
    assert_same(second, torch.arange(1000.0))
    second[::2].copy_(first[:500])
    assert torch.equal(second[::2].cpu(), torch.arange(500.0))
    assert_same(first.to("rustdev:1", torch.int32), torch.arange(1000, dtype=torch.int32))


def test_copy_between_devices_waits_for_the_source_and_the_target() -> None:
    for _ in range(20):
        source = torch.zeros(200_000, device="rustdev:0")
        target = torch.full((200_000,), -1.0, device="rustdev:1")
        for _ in range(5):
            source.add_(1)
        target.copy_(source)
        source.add_(1)
        with torch.rustdev.device(1):
            target.add_(target)
        assert target.cpu().eq(10).all()


def test_pageable_host_memory_may_change_after_the_call() -> None:
    host = torch.ones(100_000)
    for non_blocking in (False, True):
        device = host.to("rustdev", non_blocking=non_blocking)
        host.zero_()
        assert device.cpu().eq(1).all()
        host.fill_(1)


def test_blocking_copy_to_the_host_waits() -> None:
    device = torch.ones(10, device="rustdev")
    torch.rustdev._sleep(50_000_000)
    device.add_(1)
    assert device.cpu().tolist() == [2.0] * 10


def test_pinned_memory_is_copied_without_waiting() -> None:
    host = torch.ones(1000).pin_memory()
    stream, device = torch.rustdev.current_stream(), host.to("rustdev", non_blocking=True)
    torch.rustdev._sleep(200_000_000)
    back = device.to("cpu", non_blocking=True)
    assert back.is_pinned()
    assert not stream.query()
    stream.synchronize()
    assert back.eq(1).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool, torch.complex64, torch.bfloat16], ids=str)
def test_item(dtype: torch.dtype) -> None:
    host = torch.ones(3).to(dtype)
    device = host.to("rustdev")
    assert device[1].item() == host[1].item()
    torch.rustdev._sleep(20_000_000)
    device.zero_()
    assert device[1].item() == 0
    with pytest.raises(RuntimeError, match="3 elements"):
        device.item()
    assert torch.tensor(1 + 2j).to("rustdev").conj().item() == 1 - 2j


def test_item_is_seen_by_modes_and_autograd() -> None:
    seen: list[Any] = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    tensor = torch.ones(1, device="rustdev")
    with Mode():
        assert tensor.item() == 1
    assert seen == [torch.ops.aten._local_scalar_dense.default]
    with FakeTensorMode() as fake, pytest.raises(DataDependentOutputException):
        fake.from_tensor(tensor).item()


def test_copy_from_and_resize() -> None:
    source = torch.arange(6.0).reshape(2, 3).to("rustdev")
    target = torch.empty(0)
    torch._copy_from_and_resize(source, target)
    assert torch.equal(target, torch.arange(6.0).reshape(2, 3))


def test_other_kinds_of_devices_are_refused() -> None:
    with pytest.raises(NotImplementedError):
        torch.empty(3, device="rustdev").copy_(torch.empty(3, device="meta"))


def test_asynchronous_assertions() -> None:
    torch._assert_async(torch.ones(1, device="rustdev"))
    torch._assert_async(torch.tensor(True, device="rustdev"), "not so")
    with pytest.raises(RuntimeError, match="the value is zero"):
        torch._assert_async(torch.zeros(1, device="rustdev"))
    with pytest.raises(RuntimeError, match="not so"):
        torch._assert_async(torch.tensor(False, device="rustdev"), "not so")
