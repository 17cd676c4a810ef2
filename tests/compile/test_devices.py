"""Compiled code and the index of a device: results, gradients and kernels stay where their inputs are."""

import pytest
import torch
from generated import check, sources


@pytest.mark.slow
def test_the_second_device() -> None:
    check(lambda x, w: (x.sin() @ w).softmax(1), torch.randn(6, 5, requires_grad=True), torch.randn(5, 4), device="rustdev:1")


def test_the_current_device_does_not_matter() -> None:
    compiled = torch.compile(lambda x: x * 2, fullgraph=True)
    with torch.rustdev.device(1):
        result = compiled(torch.ones(3, device="rustdev:0"))
        assert str(result.device) == "rustdev:0"
        assert torch.rustdev.current_device() == 1
    assert result.tolist() == [2.0] * 3


def test_a_device_without_an_index_is_the_current_one() -> None:
    compiled = torch.compile(lambda x: x + torch.ones(3, device="rustdev"), fullgraph=True)
    with torch.rustdev.device(1):
        assert str(compiled(torch.ones(3, device="rustdev:1")).device) == "rustdev:1"


@pytest.mark.slow
def test_two_devices_in_one_graph() -> None:
    def both(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, y = x.sin() + 1, y.cos() * 2
        return x + y.to(x.device), x.to(y.device) * y

    x, y = torch.randn(40), torch.randn(40)
    a, b = torch.compile(both, fullgraph=True)(x.to("rustdev:0"), y.to("rustdev:1"))
    assert (str(a.device), str(b.device)) == ("rustdev:0", "rustdev:1")
    for actual, expected in zip((a, b), both(x, y), strict=True):
        torch.testing.assert_close(actual.cpu(), expected)


def test_kernels_of_the_cpu_in_the_same_graph() -> None:
    def mixed(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.sin() * 2, y.sin() * 2 + x.cpu().cos()

    x, y = torch.randn(40), torch.randn(40)
    with sources() as made:
        a, b = torch.compile(mixed, fullgraph=True)(x.to("rustdev"), y)
    assert len(made) == 1
    assert (a.device.type, b.device.type) == ("rustdev", "cpu")
    for actual, expected in zip((a, b), mixed(x, y), strict=True):
        torch.testing.assert_close(actual.cpu(), expected)


def test_kernels_of_the_cpu_alone_are_pytorchs() -> None:
    with sources() as made:
        result = torch.compile(lambda x: x.sin() * 2, fullgraph=True)(torch.ones(3))
    assert made == []
    torch.testing.assert_close(result, torch.ones(3).sin() * 2)


def test_the_same_code_for_both_devices_is_compiled_once() -> None:
    compiled = torch.compile(lambda x: x.erf() * 3, fullgraph=True)
    with sources() as made:
        compiled(torch.ones(3, device="rustdev:0"))
        compiled(torch.ones(3, device="rustdev:1"))
    assert len(set(made)) == 1


def test_mixed_devices_are_refused() -> None:
    compiled = torch.compile(lambda x, y: x + y, fullgraph=True)
    with pytest.raises(Exception, match=r"rustdev:0.*rustdev:1|rustdev:1.*rustdev:0"):
        compiled(torch.ones(3, device="rustdev:0"), torch.ones(3, device="rustdev:1"))
