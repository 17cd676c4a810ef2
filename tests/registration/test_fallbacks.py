"""Stub and fallbacks: a dispatch stub, the per-operator and the global fallback, and the lists, controlled from Python."""

from collections.abc import Iterator

import children
import pytest
import torch
from comparison import assert_same


@pytest.fixture(autouse=True)
def _usual_rules() -> Iterator[None]:
    """Leave each test the usual rules and empty statistics."""
    torch.rustdev.reset_fallback_stats()
    yield
    torch.rustdev.set_fallback_mode("allow")
    torch.rustdev.set_fallback_blocklist([])
    torch.rustdev.set_fallback_allowlist([])


def fell_back(name: str) -> int:
    """Return how often an operator fell back since the test began."""
    stats = torch.rustdev.fallback_stats()
    return stats[name].calls if name in stats else 0


def test_a_dispatch_stub_chooses_the_kernel_of_attention() -> None:
    """PyTorch's function is no operator of the device; what it calls depends on the stub's answer."""
    kernel = "_scaled_dot_product_flash_attention_for_cpu"
    query, key, value = torch.randn(3, 1, 2, 8, 16, device="rustdev").unbind()
    torch.rustdev.set_fallback_mode("error")
    calls = torch.rustdev.op_calls()[kernel]
    found = torch.nn.functional.scaled_dot_product_attention(query, key, value)
    assert torch.rustdev.op_calls()[kernel] == calls + 1
    expected = torch.nn.functional.scaled_dot_product_attention(query.cpu(), key.cpu(), value.cpu())
    torch.testing.assert_close(found.cpu(), expected)
    torch.nn.functional.scaled_dot_product_attention(query, key, value, dropout_p=0.5)
    assert torch.rustdev.op_calls()[kernel] == calls + 1


def test_global_fallback() -> None:
    """An operator that nobody registered for the device reaches the fallback of the key."""
    with torch.library._scoped_library("rustdev_tests", "FRAGMENT") as library:
        library.define("halves(Tensor x) -> Tensor")
        library.impl("halves", lambda x: x / 2, "CPU")
        assert not torch._C._dispatch_has_kernel_for_dispatch_key("rustdev_tests::halves", "PrivateUse1")
        assert torch.ops.rustdev_tests.halves(torch.ones(2, device="rustdev")).tolist() == [0.5, 0.5]
        assert fell_back("rustdev_tests::halves") == 1
        torch.rustdev.set_fallback_blocklist(["rustdev_tests::halves"])
        with pytest.raises(NotImplementedError, match=r"Could not run 'rustdev_tests::halves'.*'rustdev' backend"):
            torch.ops.rustdev_tests.halves(torch.ones(2, device="rustdev"))


def test_python_operator_with_a_cpu_kernel_alone() -> None:
    @torch.library.custom_op("rustdev_tests::flip_rows", mutates_args=(), device_types="cpu")
    def flip_rows(x: torch.Tensor) -> torch.Tensor:
        assert x.device.type == "cpu"
        return torch.from_numpy(x.numpy()[::-1].copy())

    x = torch.randn(3, 2)
    assert_same(flip_rows(x.to("rustdev")), x.flip(0))


def test_nothing_to_fall_back_to() -> None:
    with torch.library._scoped_library("rustdev_tests", "FRAGMENT") as library:
        library.define("nowhere(Tensor x) -> Tensor")
        with pytest.raises(NotImplementedError, match=r"'rustdev_tests::nowhere'.*neither the device nor the CPU"):
            torch.ops.rustdev_tests.nowhere(torch.ones(2, device="rustdev"))


def test_operators_that_come_and_go_keep_their_names() -> None:
    for name in ("first", "second", "third"):
        with torch.library._scoped_library("rustdev_tests", "FRAGMENT") as library:
            library.define(f"{name}(Tensor x) -> Tensor")
            library.impl(name, lambda x: x + 1, "CPU")
            getattr(torch.ops.rustdev_tests, name)(torch.ones(2, device="rustdev"))
            assert fell_back(f"rustdev_tests::{name}") == 1


def test_a_kernel_from_python_comes_before_the_fallback() -> None:
    host = torch.tensor([1.0, 2, 2])
    with torch.library._scoped_library("aten", "IMPL") as library:
        library.impl("polygamma", lambda _, x: x * 0 - 1, "PrivateUse1")
        assert host.to("rustdev").polygamma(1).tolist() == [-1, -1, -1]
        assert fell_back("aten::polygamma") == 0
    assert torch.equal(host.to("rustdev").polygamma(1).cpu(), host.polygamma(1))
    assert fell_back("aten::polygamma") == 1


def test_lists_are_seen_from_python() -> None:
    assert (torch.rustdev.fallback_blocklist(), torch.rustdev.fallback_allowlist()) == ([], [])
    torch.rustdev.set_fallback_blocklist(["sort.stable", "aten::cumsum"])
    torch.rustdev.set_fallback_allowlist(["sort"])
    assert torch.rustdev.fallback_blocklist() == ["aten::cumsum", "aten::sort.stable"]
    assert torch.rustdev.fallback_allowlist() == ["aten::sort"]


def test_blocked_operators_with_a_kernel_run_where_the_kernel_does() -> None:
    torch.rustdev.set_fallback_blocklist(["add"])
    device = torch.ones(3, device="rustdev")
    assert (device + device).tolist() == [2, 2, 2]


def test_the_environment_sets_the_mode() -> None:
    script = "import torch; print(torch.rustdev.fallback_mode()); torch.ones(3, device='rustdev').polygamma(1)"
    run = children.run(script, RUSTDEV_FALLBACK="error")
    assert run.stdout.strip() == "error"
    assert "NotImplementedError: Could not run 'aten::polygamma'" in run.stderr
