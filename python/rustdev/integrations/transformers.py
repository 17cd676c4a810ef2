"""Hugging Face's transformers: bfloat16 in the Trainer, and the device of pipelines."""

from types import ModuleType
from typing import Any

from .._imports import _replace_everywhere
from .._name import NAME

__all__ = ["allow_bfloat16", "choose_pipeline_device"]


def allow_bfloat16(import_utils: ModuleType) -> None:
    """Patch TrainingArguments to accept ``bf16=True``, which the device's autocast supports.

    Args:
        import_utils: ``transformers.utils.import_utils``.
    """
    _replace_everywhere(import_utils.is_torch_bf16_gpu_available, lambda: True)


def choose_pipeline_device(base: ModuleType) -> None:
    """Patch pipelines: an integer ``device`` means the device with this index, and the default is device 0.

    Args:
        base: ``transformers.pipelines.base``.
    """
    construct = base.Pipeline.__init__

    def __init__(self: Any, model: Any, *args: Any, device: Any = None, **kwargs: Any) -> None:  # noqa: N807
        if device is None and getattr(model, "hf_device_map", None) is None:
            device = 0
        if isinstance(device, int) and device >= 0:
            device = f"{NAME}:{device}"
        construct(self, model, *args, device=device, **kwargs)

    base.Pipeline.__init__ = __init__
