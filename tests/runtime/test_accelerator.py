"""The functions of torch.accelerator, and torch.amp with the device."""

import pytest
import torch

accelerator = torch.accelerator


def test_current_accelerator() -> None:
    assert accelerator.current_accelerator() == torch.device("rustdev")
    assert accelerator.current_accelerator(check_available=True) == torch.device("rustdev")
    assert accelerator.is_available()
    assert accelerator.device_count() == 2


def test_device_index() -> None:
    assert accelerator.current_device_index() == 0
    accelerator.set_device_index(1)
    assert accelerator.current_device_index() == torch.rustdev.current_device() == 1
    accelerator.set_device_index("rustdev:0")
    assert accelerator.current_device_index() == 0
    with accelerator.device_index(1):
        assert accelerator.current_device_index() == 1
        with accelerator.device_index(None):
            assert accelerator.current_device_index() == 1
    assert accelerator.current_device_index() == 0
    with pytest.raises(RuntimeError, match="invalid device ordinal 9"):
        accelerator.set_device_index(9)
    with pytest.raises(RuntimeError, match="invalid device ordinal 9"), accelerator.device_index(9):
        pass


def test_capability() -> None:
    dtypes = accelerator.get_device_capability()["supported_dtypes"]
    assert {torch.float32, torch.bfloat16, torch.int64, torch.complex128, torch.bool} <= dtypes
    assert accelerator.get_device_capability("rustdev:1")["supported_dtypes"] == dtypes
    with pytest.raises(RuntimeError, match="invalid device ordinal 9"):
        accelerator.get_device_capability("rustdev:9")


def test_streams() -> None:
    assert accelerator.current_stream() == torch.rustdev.default_stream()
    stream = torch.Stream("rustdev:1")
    accelerator.set_stream(stream)
    assert accelerator.current_stream() == torch.rustdev.current_stream() == stream
    assert accelerator.current_device_index() == 1
    assert accelerator.current_stream("rustdev:0") == torch.rustdev.default_stream(0)


def test_synchronize() -> None:
    stream = torch.rustdev.Stream(1)
    with stream:
        torch.rustdev._sleep(20_000_000)
    accelerator.synchronize("rustdev:0")
    assert not stream.query()
    accelerator.synchronize("rustdev:1")
    assert stream.query()


def test_generic_events() -> None:
    start, end = torch.Event(enable_timing=True), torch.Event(enable_timing=True)
    start.record()
    torch.rustdev._sleep(10_000_000)
    end.record()
    end.synchronize()
    assert start.elapsed_time(end) >= 9.0
    stream = torch.Stream()
    stream.wait_event(end)
    assert stream.record_event().query() or stream.synchronize() is None


def test_memory() -> None:
    accelerator.empty_cache()
    before = accelerator.memory_allocated()
    accelerator.reset_peak_memory_stats()
    tensor = torch.empty(1 << 20, device="rustdev")
    held = accelerator.memory_allocated() - before
    assert held >= tensor.nbytes
    assert accelerator.memory_reserved() >= accelerator.memory_allocated()
    del tensor
    assert accelerator.memory_allocated() == before
    assert accelerator.max_memory_allocated() >= before + held
    assert accelerator.max_memory_reserved() >= accelerator.max_memory_allocated()
    assert accelerator.memory_stats()["allocated_bytes.all.current"] == before
    accelerator.reset_accumulated_memory_stats()
    assert accelerator.memory_stats()["allocation.all.allocated"] == 0
    accelerator.empty_cache()
    free, total = accelerator.get_memory_info()
    assert 0 < free <= total == torch.rustdev.get_device_properties().total_memory


def test_empty_host_cache() -> None:
    tensor = torch.empty(1 << 16).pin_memory()
    assert tensor.is_pinned()
    del tensor
    if hasattr(accelerator, "empty_host_cache"):
        accelerator.empty_host_cache()


@pytest.mark.skipif(not hasattr(accelerator, "random"), reason="this torch has no torch.accelerator.random")
def test_random() -> None:
    torch.manual_seed(5)
    assert accelerator.random.initial_seed() == accelerator.random.initial_seed("rustdev:1") == 5
    assert torch.equal(accelerator.random.get_rng_state("rustdev:1"), torch.rustdev.get_rng_state(1))
    assert len(accelerator.random.get_rng_state_all()) == 2


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(dtype: torch.dtype) -> None:
    assert torch.rustdev.is_autocast_available()
    assert dtype in torch.rustdev.get_amp_supported_dtype() == torch.rustdev.amp.get_amp_supported_dtype()
    left, right = torch.rand(4, 4, device="rustdev"), torch.rand(4, 4, device="rustdev")
    with torch.autocast("rustdev", dtype=dtype):
        assert torch.mm(left, right).dtype == dtype
        assert torch.nn.functional.softmax(torch.mm(left, right), dim=-1).dtype == torch.float32
    assert torch.mm(left, right).dtype == torch.float32


def test_autocast_under_autograd_and_refusals() -> None:
    layer = torch.nn.Linear(4, 4, device="rustdev")
    with torch.autocast("rustdev", dtype=torch.bfloat16):
        output = layer(torch.rand(2, 4, device="rustdev"))
        loss = output.float().pow(2).mean()
        with pytest.raises(RuntimeError, match="binary_cross_entropy_with_logits"):
            torch.nn.functional.binary_cross_entropy(torch.rand(2, device="rustdev"), torch.rand(2, device="rustdev"))
    loss.backward()
    assert output.dtype == torch.bfloat16
    assert layer.weight.grad is not None
    assert layer.weight.grad.dtype == torch.float32
    with pytest.warns(UserWarning, match="not supported"), torch.autocast("rustdev", dtype=torch.float64):
        assert not torch.is_autocast_enabled("rustdev")


def test_grad_scaler() -> None:
    layer = torch.nn.Linear(4, 1, device="rustdev")
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("rustdev", init_scale=8.0)
    before = layer.weight.detach().clone()
    scaler.scale(layer(torch.ones(2, 4, device="rustdev")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 8.0
    torch.testing.assert_close(before - layer.weight, torch.full((1, 4), 0.2, device="rustdev"))
