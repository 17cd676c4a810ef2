"""A backward runs on the thread that calls it, unless the user turns PyTorch's switch on or sets RUSTDEV_AUTOGRAD_THREADS."""

import threading

import children
import pytest
import torch
from in_threads import in_thread
from torch.utils.checkpoint import checkpoint

D = "rustdev"


def thread_of_backward(device: str = D) -> int:
    """Return the thread on which a hook of a backward runs."""
    threads: list[int] = []
    x = torch.ones(3, device=device, requires_grad=True)
    y = x * 2
    y.register_hook(lambda _grad: threads.append(threading.get_ident()))
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 2.0, 2.0]
    return threads[0]


def on_callers_thread() -> bool:
    return thread_of_backward() == threading.get_ident()


def test_backward_stays_on_its_callers_thread() -> None:
    assert on_callers_thread()
    assert in_thread(on_callers_thread)


def test_backward_of_a_graph_of_another_thread() -> None:
    x = torch.ones(3, device=D, requires_grad=True)
    threads: list[int] = []
    y = (x * 2).sum()
    x.register_hook(lambda _grad: threads.append(threading.get_ident()))

    def backward() -> bool:
        y.backward()
        return threads == [threading.get_ident()]

    assert in_thread(backward)


def test_a_thread_that_began_without_gradients() -> None:
    def begin() -> bool:
        with torch.inference_mode():
            torch.ones(3, device=D).add_(1)
            torch.rustdev.current_stream().query()
        return on_callers_thread()

    assert in_thread(begin)


def test_the_users_switch_holds() -> None:
    assert on_callers_thread()
    with torch.autograd.set_multithreading_enabled(True):
        assert not on_callers_thread()
        assert not on_callers_thread()
    assert on_callers_thread()


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint_and_reentrant_backward(reentrant: bool) -> None:
    x = torch.ones(3, device=D, requires_grad=True)
    y = checkpoint(lambda given: checkpoint(torch.sin, given, use_reentrant=reentrant) * 2, x, use_reentrant=reentrant)
    y.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad.cpu(), 2 * torch.cos(torch.ones(3)))


def test_an_error_in_the_backward_leaves_the_device_usable() -> None:
    x = torch.ones(3, device=D, requires_grad=True)
    y = x * 2

    def fail(_grad: torch.Tensor) -> None:
        raise ValueError("in the hook")

    y.register_hook(fail)
    with pytest.raises(ValueError, match="in the hook"):
        y.sum().backward()
    assert on_callers_thread()


def test_the_variable_brings_the_threads_back() -> None:
    program = (
        "import threading, torch\n"
        "x = torch.ones(3, device='rustdev', requires_grad=True)\n"
        "y = x * 2\n"
        "y.register_hook(lambda grad: print(threading.current_thread() is threading.main_thread()))\n"
        "y.sum().backward()"
    )
    for value, expected in (("1", "False"), ("0", "True")):
        result = children.run(program, RUSTDEV_AUTOGRAD_THREADS=value)
        assert result.stdout.split() == [expected], result.stderr
