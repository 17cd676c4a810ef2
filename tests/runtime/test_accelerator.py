"""Devices and streams by torch.accelerator; test_memory.py has its memory."""

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
