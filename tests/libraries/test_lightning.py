"""Lightning: the accelerator by name and by class, devices, precision, strategies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.plugins.precision import MixedPrecision
from lightning.pytorch.strategies import SingleDeviceStrategy
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from rustdev.integrations.lightning import RustdevAccelerator, RustdevDDPStrategy
from torch import nn

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Programs


class Plane(pl.LightningModule):
    """A layer, and what it returned."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(4, 1)
        self.seen: set[tuple[torch.dtype, str]] = set()

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], index: int) -> torch.Tensor:
        inputs, wanted = batch
        output = self.layer(inputs)
        self.seen.add((output.dtype, str(output.device)))
        loss = (output.float() - wanted).square().mean()
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 0.1)


def data() -> torch.utils.data.DataLoader:
    points = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(points, points.sum(1, keepdim=True)), 16)


def trainer(**options: Any) -> pl.Trainer:
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
    return pl.Trainer(**quiet | {"max_epochs": 20} | options)


def train(**options: Any) -> Plane:
    model = Plane()
    trainer(**options).fit(model, data())
    return model


def test_training_is_the_cpus() -> None:
    trained = train(accelerator="rustdev", devices=1, gradient_clip_val=1.0)
    on_cpu = train(accelerator="cpu", gradient_clip_val=1.0)
    assert trained.seen == {(torch.float32, "rustdev:0")}
    assert on_cpu.seen == {(torch.float32, "cpu")}
    torch.testing.assert_close(trained.layer.weight.cpu(), on_cpu.layer.weight, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [("bf16-mixed", torch.bfloat16), ("16-mixed", torch.float16), ("bf16-true", torch.bfloat16), ("64-true", torch.float64)],
)
def test_precision(precision: str, dtype: torch.dtype) -> None:
    model = train(accelerator="rustdev", devices=1, precision=precision)
    assert model.seen == {(dtype, "rustdev:0")}
    assert model.layer.weight.dtype == (dtype if precision.endswith("true") else torch.float32)
    torch.testing.assert_close(model.layer.weight.cpu().float(), torch.ones(1, 4), rtol=0, atol=0.05)


def test_float16_scales_its_gradients() -> None:
    chosen = trainer(accelerator="rustdev", devices=1, precision="16-mixed").precision_plugin
    assert isinstance(chosen, MixedPrecision)
    assert chosen.scaler is not None
    assert chosen.scaler.is_enabled()
    assert chosen.scaler._device == "rustdev"


def test_a_precision_plugin_of_the_users_stays() -> None:
    plugin = MixedPrecision("bf16-mixed", device="rustdev")
    assert trainer(accelerator="rustdev", devices=1, plugins=[plugin]).precision_plugin is plugin


@pytest.mark.parametrize(("devices", "indices"), [(1, [0]), ([1], [1]), ("1,", [1]), ("1", [0]), (-1, [0, 1]), ("0,1", [0, 1])])
def test_numbers_of_devices(devices: Any, indices: list[int]) -> None:
    made = trainer(accelerator="rustdev", devices=devices)
    assert made.device_ids == indices
    assert isinstance(made.strategy, SingleDeviceStrategy if len(indices) == 1 else RustdevDDPStrategy)
    assert made.strategy.root_device == torch.device("rustdev", indices[0])


def test_the_second_device_is_the_current_one_in_training() -> None:
    current: list[int] = []

    class Asks(pl.Callback):
        def on_train_batch_start(self, *arguments: Any) -> None:
            current.append(torch.rustdev.current_device())

    model = train(accelerator="rustdev", devices=[1], max_epochs=1, callbacks=[Asks()])
    assert set(current) == {1}
    assert model.seen == {(torch.float32, "rustdev:1")}


@pytest.mark.parametrize("devices", [3, [2], "0,5"])
def test_devices_that_do_not_exist_are_refused(devices: Any) -> None:
    with pytest.raises(MisconfigurationException, match="RUSTDEV_DEVICE_COUNT is 2"):
        trainer(accelerator="rustdev", devices=devices)


def test_the_default_is_the_device() -> None:
    assert isinstance(trainer(devices=1).accelerator, RustdevAccelerator)
    assert trainer(devices=1).strategy.root_device == torch.device("rustdev:0")


def test_statistics_of_memory() -> None:
    kept = torch.ones(1000, device="rustdev:1")
    found = RustdevAccelerator().get_device_stats(torch.device("rustdev:1"))
    assert found["allocated_bytes.all.current"] >= kept.nbytes


def test_checkpoints(tmp_path: Path) -> None:
    model = Plane()
    first = trainer(accelerator="rustdev", devices=1, max_epochs=2)
    first.fit(model, data())
    first.save_checkpoint(tmp_path / "saved.ckpt")
    loaded = Plane.load_from_checkpoint(tmp_path / "saved.ckpt", map_location="cpu")
    assert torch.equal(loaded.layer.weight, model.layer.weight.cpu())
    second = trainer(accelerator="rustdev", devices=1, max_epochs=4)
    again = Plane()
    second.fit(again, data(), ckpt_path=tmp_path / "saved.ckpt", weights_only=True)
    assert second.current_epoch == 4
    assert again.seen == {(torch.float32, "rustdev:0")}


def test_every_part_by_its_class_without_enabling(programs: Programs) -> None:
    code = """
import lightning.pytorch as pl, torch
from lightning.pytorch.plugins.precision import MixedPrecision
from lightning.pytorch.strategies import SingleDeviceStrategy
from rustdev.integrations.lightning import RustdevAccelerator

class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)
    def training_step(self, batch, index):
        output = self.layer(batch)
        print(f"<{output.dtype} {output.device}>")
        return output.sum()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)

trainer = pl.Trainer(
    accelerator=RustdevAccelerator(), strategy=SingleDeviceStrategy(device="rustdev:1"), devices=1, max_epochs=1, logger=False,
    plugins=[MixedPrecision("bf16-mixed", device="rustdev")], enable_checkpointing=False, enable_progress_bar=False,
)
trainer.fit(Model(), torch.utils.data.DataLoader(torch.randn(2, 2)))
"""
    assert programs.script(code).count("<torch.bfloat16 rustdev:1>") == 2


def test_the_example_learns(programs: Programs) -> None:
    assert "1 x rustdev (bf16-mixed)" in programs.example("lightning_digits.py", "--precision", "bf16-mixed")


def test_the_example_learns_in_two_processes(programs: Programs) -> None:
    assert "2 x rustdev (32-true)" in programs.example("lightning_digits.py", "--devices", "2")
