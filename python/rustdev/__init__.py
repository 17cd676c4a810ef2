"""rustdev: a PyTorch accelerator that runs on any CPU."""


def _autoload() -> None:
    """Entry point of the group ``torch.backends``: importing the package has registered the device.

    It stands above the imports, because ``import rustdev`` imports torch, which loads this entry point before the package is complete.
    """


import torch  # noqa: E402, F401

from . import _rustdev  # noqa: E402, F401
