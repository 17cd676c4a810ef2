"""The CPU fallback: modes and lists, statistics, ownership, devices, random numbers, out=; operators of other libraries, a stub."""

import gc
import warnings

import children
import pytest
import torch
from comparison import assert_same, compare

pytestmark = pytest.mark.usefixtures("fallback")
#: An operator without a kernel of ours, with two results and an overload of another name.
OPERATOR = "aten::frexp.Tensor_out"


def fell_back(name: str) -> int:
    """Return how often an operator fell back since the test began."""
    stats = torch.rustdev.fallback_stats()
    return stats[name].calls if name in stats else 0


def test_values_and_statistics() -> None:
    host = torch.randn(50)
    mantissa, exponent = host.to("rustdev").frexp()
    expected = host.frexp()
    assert torch.equal(mantissa.cpu(), expected.mantissa)
    assert torch.equal(exponent.cpu(), expected.exponent)
    assert mantissa.device == exponent.device == torch.device("rustdev:0")
    assert fell_back(OPERATOR) == 1
    assert torch.rustdev.fallback_stats()[OPERATOR].seconds > 0
    torch.rustdev.reset_fallback_stats()
    assert torch.rustdev.fallback_stats() == {}


def test_mode_error_refuses_and_names_the_operator() -> None:
    torch.rustdev.set_fallback_mode("error")
    assert torch.rustdev.fallback_mode() == "error"
    device = torch.zeros(3, device="rustdev")
    with pytest.raises(NotImplementedError, match=f"Could not run '{OPERATOR}' with arguments from the 'rustdev' backend"):
        device.frexp()
    torch.rustdev.set_fallback_allowlist(["frexp"])
    device.frexp()
    torch.rustdev.set_fallback_allowlist(["aten::frexp.Tensor_out"])
    device.frexp()
    torch.rustdev.set_fallback_allowlist(["aten::frexp.Tensor"])
    with pytest.raises(NotImplementedError):
        device.frexp()


def test_mode_warn() -> None:
    torch.rustdev.set_fallback_mode("warn")
    device = torch.zeros(3, device="rustdev")
    with pytest.warns(UserWarning, match=r"'aten::frexp.Tensor_out' has no kernel for this device"):
        device.frexp()
    torch.rustdev.set_fallback_allowlist(["frexp"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        device.frexp()


def test_block_list() -> None:
    device = torch.zeros(3, device="rustdev")
    torch.rustdev.set_fallback_blocklist(["frexp"])
    torch.rustdev.set_fallback_allowlist(["frexp"])
    with pytest.raises(NotImplementedError, match=r"'aten::frexp.Tensor_out'.*block list"):
        device.frexp()
    torch.rustdev.set_fallback_blocklist([])
    device.frexp()


def test_wrong_names_are_refused() -> None:
    with pytest.raises(ValueError, match="fallback mode"):
        torch.rustdev.set_fallback_mode("maybe")
    with pytest.raises(ValueError, match="aten::no_such_operator"):
        torch.rustdev.set_fallback_blocklist(["frexp", "no_such_operator"])


def test_coverage() -> None:
    coverage = torch.rustdev.coverage()
    assert coverage["aten::add.Tensor"] == "rust"
    assert coverage["aten::copy_"] == "rust"
    assert coverage["aten::view"] == "aten"
    assert coverage["aten::convolution_overrideable"] == "aten"
    assert coverage[OPERATOR] == "fallback"
    assert coverage["aten::matmul"] == "composite"
    assert coverage["aten::_thnn_fused_gru_cell"] == "composite"
    assert coverage["aten::_cudnn_rnn"] is None
    assert list(coverage) == sorted(coverage)


@pytest.mark.parametrize("index", [0, 1])
def test_waits_for_the_current_stream(index: int) -> None:
    device = torch.zeros(3, device=f"rustdev:{index}")
    with torch.rustdev.device(index):
        torch.rustdev._sleep(50_000_000)
    device.add_(1)
    assert device.frexp().mantissa.cpu().tolist() == [0.5, 0.5, 0.5]


def test_reads_and_writes_the_same_memory() -> None:
    compare(torch.Tensor.igamma_, torch.arange(1.0, 7.0), torch.ones(6))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_views_that_kernels_return_are_views_of_the_device() -> None:
    device = torch.arange(6.0).to("rustdev")
    result = torch.ops.aten._nested_view_from_buffer(
        device, torch.tensor([[2], [4]]), torch.tensor([[1], [1]]), torch.tensor([0, 2])
    )
    first, second = result.unbind()
    assert first.tolist() == [0, 1]
    assert second.tolist() == [2, 3, 4, 5]


def test_outputs_own_their_memory() -> None:
    gc.collect()
    before = torch.accelerator.memory_allocated()
    results = torch.randn(30, 20).to("rustdev").geqrf()
    copies = [tensor.cpu() for tensor in results]
    for _ in range(10):
        torch.randn(30, 20, device="rustdev").geqrf()
    assert all(torch.equal(tensor.cpu(), copy) for tensor, copy in zip(results, copies, strict=True))
    assert torch.accelerator.memory_allocated() > before
    del results
    gc.collect()
    assert torch.accelerator.memory_allocated() == before


def test_out_arguments() -> None:
    host = torch.randn(5)
    compare(lambda x, *out: torch.frexp(x, out=out), host, torch.empty(5), torch.empty(5, dtype=torch.int32))
    for out in (torch.empty(0), torch.zeros(10)[::2]):
        compare(lambda x, out: torch.polygamma(1, x, out=out), host, out)
    with pytest.warns(UserWarning, match="was resized"):
        torch.polygamma(1, host.to("rustdev"), out=torch.empty(3, device="rustdev"))


@pytest.mark.parametrize("adjoint", [False, True])
def test_conj_bits_of_out_arguments_come_back(adjoint: bool) -> None:
    factors, pivots = torch.linalg.lu_factor(torch.randn(4, 4, dtype=torch.complex64))
    right, out = torch.randn(4, 2, dtype=torch.complex64), torch.empty(0, dtype=torch.complex64)
    compare(lambda *it: torch.linalg.lu_solve(*it[:3], adjoint=adjoint, out=it[3]), factors, pivots, right, out, rtol=1e-5)


def test_mixed_devices_are_refused() -> None:
    device = torch.zeros(3, device="rustdev")
    text = "Expected all tensors to be on the same device, but found at least two devices, rustdev:0 and "
    with pytest.raises(RuntimeError, match=text + "cpu!"):
        torch.cross(device, torch.zeros(3), dim=0)
    with pytest.raises(RuntimeError, match=text + "rustdev:1!"):
        torch.cross(device, torch.zeros(3, device="rustdev:1"), dim=0)
    with pytest.raises(RuntimeError, match=text):
        torch.cross(device, device, dim=0, out=torch.zeros(3))
    with pytest.raises(RuntimeError, match=text):
        device.gather(0, torch.tensor([0]))
    assert torch.isclose(device, torch.tensor(0.0)).all()


def test_an_operator_without_any_kernel() -> None:
    with pytest.raises(NotImplementedError, match=r"Could not run 'aten::_cudnn_init_dropout_state'.*rustdev"):
        torch._cudnn_init_dropout_state(0.5, True, 1, device="rustdev", dtype=torch.uint8)


def test_random_numbers_are_those_of_the_device_generator() -> None:
    def draw() -> torch.Tensor:
        return torch._standard_gamma(torch.ones(100, device="rustdev")).cpu()

    torch.manual_seed(5)
    first, second, expected = draw(), draw(), torch.rand(3)
    assert fell_back("aten::_standard_gamma") == 2
    assert not torch.equal(first, second)
    torch.manual_seed(5)
    assert torch.equal(torch.rand(3), expected)
    assert torch.equal(draw(), first)
    torch.rustdev.manual_seed(5)
    assert torch.equal(draw(), first)


def test_threads_share_no_state() -> None:
    from concurrent.futures import ThreadPoolExecutor

    def work(seed: int) -> bool:
        host = torch.randn(100, generator=torch.Generator().manual_seed(seed))
        device = host.to("rustdev")
        return all(torch.equal(device.frexp().mantissa.cpu(), host.frexp().mantissa) for _ in range(20))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(8)))


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
