"""The end of the interpreter: PyTorch's autograd threads must not run into it.

Where the user asks for it, PyTorch runs the backward of device tensors on a thread per device. That thread tells of the end of a
backward before it drops what it kept of it, Python objects among them (``Engine::thread_main`` in
``torch/csrc/autograd/engine.cpp``; ``thread_locals_`` of ``graph_task.h``). A program that ends at that moment leaves the thread
waiting for an interpreter that is gone, and CPython ends such threads in a way that C++ answers with ``std::terminate``.
"""

import atexit
import contextlib

import torch
from torch.autograd import Variable, set_multithreading_enabled

from .device import device_count, is_initialized
from .memory import memory_stats


def settle_autograd() -> None:
    """Return when the autograd threads have dropped what they kept of earlier backwards.

    A thread does that before it takes its next task, so each is given one, which keeps nothing of Python's. Does nothing where no
    device memory was ever used: then there was no backward either.
    """
    if not is_initialized() or not any(memory_stats(index)["allocation.all.allocated"] for index in range(device_count())):
        return
    for index in range(device_count()):
        # At the end of a program whatever fails has been told before, or is of no use any more.
        with contextlib.suppress(Exception), torch.inference_mode(False), torch.enable_grad(), set_multithreading_enabled(True):
            leaf = torch.ones((), device=f"rustdev:{index}", requires_grad=True)
            # Not by torch.autograd, which keeps the context of Python; into `leaf.grad`, as results that are returned are kept.
            Variable._execution_engine.run_backward((leaf * 1,), (torch.ones_like(leaf),), False, False, (), True, True)


def _install() -> None:
    """Have it done at the end, before the runtime stops: what is registered last is called first."""
    atexit.register(settle_autograd)
