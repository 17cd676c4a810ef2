"""PyTorch's database of operators, whose samples are drawn in a fraction of the time.

For each sample PyTorch looks for the running test with ``inspect.stack``, which reads the source of all frames: 45 ms under pytest.
It sets the seed of every kind of accelerator, each of which formats the stack. Here both do the same without reading files.
"""

import sys
import unittest
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any

import torch
import torch.mtia
from torch.testing._internal import common_methods_invocations, common_utils
from torch.testing._internal.opinfo import core

__all__ = ["op_db"]


def _running_test() -> Callable[..., Any] | None:
    """Return the method of ``unittest`` that runs; None outside of one."""
    frame: FrameType | None = sys._getframe(1)
    while frame:
        case = frame.f_locals.get("self")
        if isinstance(case, unittest.TestCase):
            *_, owner, name = case.id().rsplit(".", 2)
            if owner == type(case).__name__ and name.startswith("test"):
                return getattr(getattr(case, name, None), "__func__", None)
        frame = frame.f_back
    return None


core.extract_test_fn = common_utils.extract_test_fn = _running_test  # type: ignore[attr-defined]
_without_text = ModuleType("traceback")
_without_text.format_stack = list  # type: ignore[attr-defined]
for _accelerator in (torch.cuda, torch.xpu, torch.mtia):
    _accelerator.traceback = _without_text  # type: ignore[attr-defined]
op_db = common_methods_invocations.op_db
