"""Hugging Face's accelerate: the device of each process, the communication backend, and the available memory."""

import os
from types import ModuleType
from typing import Any

import torch

from .._imports import _replace_everywhere
from .._name import NAME
from ..device import device_count, set_device
from ..memory import mem_get_info

__all__ = ["choose_backend", "count_memory"]


def choose_backend(state: ModuleType) -> None:
    """Patch PartialState: honour ``cpu=True``, and give each of several processes a device and a communication backend.

    Args:
        state: ``accelerate.state``.
    """
    prepare = state.PartialState._prepare_backend

    def _prepare_backend(self: Any, cpu: bool = False, sagemaker_dp: bool = False, backend: str | None = None) -> tuple[Any, Any]:
        rank = int(os.environ.get("LOCAL_RANK", -1))
        ours = self.device is not None and self.device.type == NAME
        if ours and cpu:
            self.device = None
        elif ours and rank != -1:
            if self.device.index is None:
                self.device = torch.device(NAME, rank)
            set_device(self.device)
            return backend or f"cpu:gloo,{NAME}:rdccl", state.DistributedType.MULTI_GPU
        return prepare(self, cpu, sagemaker_dp, backend)  # type: ignore[no-any-return]

    state.PartialState._prepare_backend = _prepare_backend


def count_memory(modeling: ModuleType) -> None:
    """Patch get_max_memory to include the free memory of each device, for ``device_map="auto"``.

    Args:
        modeling: ``accelerate.utils.modeling``.
    """
    measure = modeling.get_max_memory

    def get_max_memory(max_memory: dict[int | str, int | str] | None = None) -> Any:
        count = device_count()
        if max_memory is None:
            return {**{index: mem_get_info(index)[0] for index in range(count)}, **measure()}
        for key, size in max_memory.items():
            if isinstance(size, str):
                max_memory[key] = modeling.convert_file_size_to_int(size)
        ours = {index: max_memory[index] for index in range(count) if index in max_memory}
        return {**ours, **measure({key: size for key, size in max_memory.items() if key not in ours})}

    _replace_everywhere(measure, get_max_memory)
