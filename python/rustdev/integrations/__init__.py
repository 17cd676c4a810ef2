"""Libraries that choose the device by a list of names, on which this one is not: Hugging Face's, Lightning.

One line opts a program in, before or after it imports them:

    import rustdev.integrations

    rustdev.integrations.enable()

No library is imported for that: what has to be told to one is told when the module concerned is loaded. docs/libraries.md has a
table of what works unchanged, what works with this line, and what does not work.

| module | what it holds |
|---|---|
| ``accelerate`` | the device, the processes' communication backend and the memory that accelerate finds |
| ``transformers`` | bfloat16 in the Trainer, the device of pipelines |
| ``safetensors`` | the device's name for its reader |
| ``lightning`` | an accelerator, a strategy and a precision plugin; it imports Lightning |
"""

import functools
import os
import warnings
from importlib import import_module, metadata
from types import ModuleType
from typing import NamedTuple

from .._imports import _after_import

__all__ = ["enable"]


class _Patch(NamedTuple):
    """A change to a library.

    Attributes:
        library: The distribution, whose version decides.
        first: The oldest release with what is changed, as major and minor version.
        below: The first release that has not been looked at.
        module: The library's module; the change is made when it has been loaded.
        function: The module in this package that makes the change, and its function, which takes the library's module.
        reason: Why the library needs it, as a sentence.
    """

    library: str
    first: tuple[int, int]
    below: tuple[int, int]
    module: str
    function: tuple[str, str]
    reason: str

    def apply(self, module: ModuleType) -> None:
        """Make the change if the library's release is one that it was written for and has what is changed; else warn."""
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
)  # fmt: skip


@functools.cache
def enable() -> None:
    """Have accelerate, transformers, safetensors and Lightning know the device, each from when it is imported.

    accelerate, transformers' Trainer and pipelines, and Lightning's Trainer then run on it where nothing else is asked for, as they
    do on a GPU. ``ACCELERATE_TORCH_DEVICE`` is set for that unless it is set already. A second call changes nothing. A release of a
    library that has not been looked at is left as it is, with a warning.
    """
    os.environ.setdefault("ACCELERATE_TORCH_DEVICE", "rustdev")
    for patch in _PATCHES:
        _after_import(patch.module, patch.apply)
