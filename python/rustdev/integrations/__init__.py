"""Support for libraries that choose the device from a fixed list of names, of Hugging Face, Lightning, DeepSpeed and torchao.

Two lines opt a program in, before or after it imports these libraries, and before DeepSpeed:

    import rustdev.integrations

    rustdev.integrations.enable()

This imports none of the libraries: each is patched when the module concerned is loaded. docs/libraries.md has a table of what works
unchanged, what works with this call, and what does not work.

| module | what it holds |
|---|---|
| ``accelerate`` | the device, the processes' communication backend and the memory that accelerate finds |
| ``transformers`` | bfloat16 in the Trainer, the device of pipelines |
| ``safetensors`` | the device's name for its reader |
| ``lightning`` | an accelerator, a strategy and a precision plugin; it imports Lightning |
| ``deepspeed`` | an accelerator, and the operator of its Adam; it imports DeepSpeed |
| ``torchao`` | products of int8 weights, and a configuration for 4 bits a weight; it imports torchao |
"""

import functools
import os
import warnings
from importlib import import_module, metadata
from types import ModuleType
from typing import NamedTuple

from .._imports import _after_import
from .._name import NAME

__all__ = ["enable"]


class _Patch(NamedTuple):
    """A change to a library.

    Attributes:
        library: Distribution whose version is checked.
        first: Oldest supported release, as (major, minor).
        below: First release that has not been tested, as (major, minor).
        module: Module of the library to patch. The patch is applied when the module has been loaded.
        function: Module of this package and its function that applies the patch, given the library's module.
        reason: Why the library needs the patch, as a sentence.
    """

    library: str
    first: tuple[int, int]
    below: tuple[int, int]
    module: str
    function: tuple[str, str]
    reason: str

    def apply(self, module: ModuleType) -> None:
        """Apply the patch if the library's release is supported and has the patched names; else warn."""
        version = metadata.version(self.library)
        major, minor = version.split(".")[:2]
        if self.first <= (int(major), int(minor)) < self.below:
            file, name = self.function
            try:
                getattr(import_module(f"{__name__}.{file}"), name)(module)
            except (AttributeError, ImportError):
                pass
            else:
                return
        known = f"{'.'.join(map(str, self.first))} or newer, below {'.'.join(map(str, self.below))}"
        warnings.warn(f"rustdev knows {self.library} {known}, and leaves {version} as it is: {self.reason}", stacklevel=2)


_PATCHES = (
    _Patch(
        "accelerate", (1, 15), (2, 0), "accelerate.state", ("accelerate", "choose_backend"),
        "The device that it takes from the environment overrides cpu=True, and it knows no communication backend for it.",
    ),
    _Patch(
        "accelerate", (1, 15), (2, 0), "accelerate.utils.modeling", ("accelerate", "count_memory"),
        'It sees the memory of the CPU alone, so that device_map="auto" stays there.',
    ),
    _Patch(
        "transformers", (5, 24), (6, 0), "transformers.utils.import_utils", ("transformers", "allow_bfloat16"),
        "It refuses bf16=True on accelerators that are not on its list.",
    ),
    _Patch(
        "transformers", (5, 24), (6, 0), "transformers.pipelines.base", ("transformers", "choose_pipeline_device"),
        "Pipelines without a device, or with a number, run on the CPU.",
    ),
    _Patch(
        "safetensors", (0, 8), (1, 0), "safetensors.torch", ("safetensors", "read_onto_device"),
        "Its reader has a list of devices' names, so that accelerate cannot load a state that it saved from several processes.",
    ),
    _Patch(
        "lightning", (2, 6), (3, 0), "lightning.pytorch.trainer.connectors.accelerator_connector", ("lightning", "register"),
        "It has no entry point for accelerators, gives one that it does not know the CPU, and autocasts for CUDA.",
    ),
    _Patch(
        "deepspeed", (0, 19), (1, 0), "deepspeed.accelerator.real_accelerator", ("deepspeed", "use_accelerator"),
        "It has a list of accelerators, and chooses the CPU.",
    ),
    _Patch(
        "torchao", (0, 18), (0, 19), "torchao.quantization", ("torchao", "multiply_int8"),
        "It converts int8 weights to the activations' dtype, and multiplies int8 activations as int32, on devices but its own.",
    ),
)  # fmt: skip


@functools.cache
def enable() -> None:
    """Enable the device in accelerate, transformers, safetensors, Lightning, DeepSpeed and torchao, in each when it is imported.

    accelerate, transformers' Trainer and pipelines, Lightning's Trainer and DeepSpeed then use the device by default, as they use a
    GPU. To this end ``ACCELERATE_TORCH_DEVICE`` is set unless it is set already. A second call has no effect. An unsupported
    release of a library is not patched, with a warning. Call it before DeepSpeed is imported, which chooses its device then.
    """
    os.environ.setdefault("ACCELERATE_TORCH_DEVICE", NAME)
    for patch in _PATCHES:
        _after_import(patch.module, patch.apply)
