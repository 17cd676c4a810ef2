"""The device with kernels that are wrong, without graphs, and with tensors that cannot be sent, for the conformance kit to find."""

from multiprocessing.reduction import ForkingPickler

import rustdev  # noqa: F401 - the kernels take the place of its own
import torch

LIBRARY = torch.library.Library("aten", "IMPL")


def wrong_values(value: torch.Tensor) -> torch.Tensor:
    return value * -1.001


def wrong_dtype(value: torch.Tensor) -> torch.Tensor:
    return (value * 0.5).double()


def no_kernel(value: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError("there is no kernel of tan")


def no_graph() -> None:
    raise RuntimeError("Graph is not supported on device type: rustdev")


def not_sent(value: torch.Tensor) -> None:
    raise RuntimeError("there is no handle of the memory")


ForkingPickler.register(torch.Tensor, not_sent)
torch.accelerator.Graph = no_graph  # type: ignore[assignment,misc]
LIBRARY.impl("neg", wrong_values, "PrivateUse1")
LIBRARY.impl("sin", wrong_dtype, "PrivateUse1")
LIBRARY.impl("tan", no_kernel, "PrivateUse1")
