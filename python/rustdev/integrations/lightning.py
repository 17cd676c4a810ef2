"""Lightning: ``Trainer(accelerator="rustdev")``.

The classes also work without :func:`rustdev.integrations.enable`, in a program that passes everything explicitly::

    Trainer(
        accelerator=RustdevAccelerator(),
        strategy=SingleDeviceStrategy(device="rustdev:0"),
        plugins=[MixedPrecision("bf16-mixed", device="rustdev")],
    )

``SingleDeviceStrategy`` and ``MixedPrecision`` are Lightning's own.
"""

from types import ModuleType
from typing import Any

import torch
from lightning.pytorch.accelerators import Accelerator, AcceleratorRegistry
from lightning.pytorch.plugins.precision import MixedPrecision
from lightning.pytorch.strategies import DDPStrategy, SingleDeviceStrategy
from lightning.pytorch.utilities.exceptions import MisconfigurationException

from .._name import NAME, variable
from ..device import device_count, is_available, set_device
from ..memory import empty_cache, memory_stats

__all__ = ["RustdevAccelerator", "RustdevDDPStrategy", "register"]


class RustdevAccelerator(Accelerator):  # type: ignore[misc]
    """Lightning's accelerator for the device. ``devices`` has the same meaning as for GPUs."""

    def setup_device(self, device: torch.device) -> None:
        """Set the current device."""
        set_device(device)

    def teardown(self) -> None:
        """Release unused cached memory to the system."""
        empty_cache()

    def get_device_stats(self, device: Any) -> dict[str, Any]:
        """Return the memory statistics of a device, for the callback DeviceStatsMonitor."""
        return memory_stats(device)

    @staticmethod
    def parse_devices(devices: int | str | list[int]) -> list[int]:
        """Return the indices of the requested devices.

        Args:
            devices: Number of devices (-1: all), or a list of indices; or one of these as a string.

        Raises:
            MisconfigurationException: If a device does not exist, or none is requested.
        """
        count = device_count()
        if isinstance(devices, str):
            numbers = [int(part) for part in devices.split(",") if part.strip()]
            devices = numbers if "," in devices else numbers[0]
        if isinstance(devices, int):
            devices = list(range(count if devices == -1 else devices))
        if not devices or not set(devices) <= set(range(count)):
            raise MisconfigurationException(f"devices {devices} are requested, and {variable('DEVICE_COUNT')} is {count}")
        return devices

    @staticmethod
    def get_parallel_devices(devices: list[int]) -> list[torch.device]:
        """Return the devices with these indices."""
        return [torch.device(NAME, index) for index in devices]

    @staticmethod
    def auto_device_count() -> int:
        """Return the number of devices for ``devices="auto"``: all devices, as for GPUs."""
        return device_count()

    @staticmethod
    def is_available() -> bool:
        """Return whether at least one device is usable."""
        return is_available()

    @staticmethod
    def name() -> str:
        """Return the name of the accelerator."""
        return NAME


class RustdevDDPStrategy(DDPStrategy):  # type: ignore[misc]
    """Distributed data parallel training with one process per device, over the backend ``rdccl``.

    Args:
        **kwargs: Arguments of Lightning's DDPStrategy.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"process_group_backend": f"cpu:gloo,{NAME}:rdccl"} | kwargs)

    def determine_ddp_device_ids(self) -> None:
        """Return None: the module is already on its device, and for a device id Lightning would open a CUDA stream."""


def register(connector: ModuleType) -> None:
    """Register the accelerator, and make the Trainer choose it by default with its strategy and precision plugin.

    Args:
        connector: ``lightning.pytorch.trainer.connectors.accelerator_connector``.
    """
    AcceleratorRegistry.register(NAME, RustdevAccelerator, description=RustdevAccelerator.__name__, override=True)
    cls = connector._AcceleratorConnector
    choose_strategy, init_precision = cls._choose_strategy, cls._check_and_init_precision

    def _choose_strategy(self: Any) -> Any:
        if not isinstance(self.accelerator, RustdevAccelerator):
            return choose_strategy(self)
        if len(self._parallel_devices) == 1 and self._num_nodes_flag == 1:
            return SingleDeviceStrategy(device=self._parallel_devices[0])
        return RustdevDDPStrategy()

    def _check_and_init_precision(self: Any) -> Any:
        mixed = self._precision_plugin_flag is None and self._precision_flag in ("16-mixed", "bf16-mixed")
        if mixed and isinstance(self.accelerator, RustdevAccelerator):
            self._precision_plugin_flag = MixedPrecision(self._precision_flag, device=NAME)
        return init_precision(self)

    cls._choose_auto_accelerator = staticmethod(lambda: NAME)
    cls._choose_strategy, cls._check_and_init_precision = _choose_strategy, _check_and_init_precision
