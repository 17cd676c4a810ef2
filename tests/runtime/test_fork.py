"""Forked children: using the device raises PyTorch's usual error, and nothing else breaks."""

import children

PRELUDE = """
import os, sys, torch

def in_child(function):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            function()
            code = 0
        finally:
            sys.stdout.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def refused(call):
    try:
        call()
    except RuntimeError as error:
        assert "Cannot re-initialize rustdev in forked subprocess" in str(error), error
    else:
        raise AssertionError("not refused")
"""


def run(code: str) -> None:
    """Run code in a Python of its own, for these tests must not fork a process with running threads."""
    result = children.run(PRELUDE + code)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip().endswith("passed"), result.stdout


def test_use_after_fork_is_refused() -> None:
    run(
        """
tensor = torch.ones(4, device="rustdev")
stream, event = torch.rustdev.Stream(), torch.rustdev.Event()
event.record()
torch.rustdev.synchronize()

def child():
    assert torch.rustdev._is_in_bad_fork() and not torch.rustdev.is_initialized()
    assert torch.rustdev.device_count() == 0 and not torch.rustdev.is_available()
    for call in (
        lambda: torch.empty(4, device="rustdev"),
        lambda: torch.empty(4, device="rustdev:1"),
        lambda: tensor + 1,
        lambda: tensor.cpu(),
        lambda: tensor.tolist(),
        lambda: torch.ones(3).to("rustdev"),
        lambda: torch.rustdev.init(),
        lambda: torch.rustdev.set_device(0),
        lambda: torch.rustdev.current_device(),
        lambda: torch.rustdev.synchronize(),
        lambda: torch.rustdev.Stream(),
        lambda: torch.rustdev.current_stream(),
        lambda: stream.synchronize(),
        lambda: event.record(),
        lambda: torch.rustdev.get_rng_state(),
    ):
        refused(call)

assert in_child(child) == 0
assert tensor.sum().item() == 4
print("passed")
"""
    )


def test_what_knows_locks_or_threads_is_refused_in_the_child() -> None:
    # Another thread holds the pools' locks again and again while the process forks; a child that took one would hang.
    run(
        """
import signal, threading
import rustdev
memory = torch.rustdev.memory
block = torch.ones(4, device="rustdev")
pinned = torch.ones(4).pin_memory()
recorded, unrecorded = torch.rustdev.Event(), torch.rustdev.Event()
recorded.record()
states = torch.rustdev.get_rng_state_all()
memory._record_memory_history(max_entries=1000)

def child():
    signal.alarm(60)
    for call in (
        lambda: memory._record_memory_history(),
        lambda: memory._record_memory_history(None),
        lambda: memory._snapshot(),
        lambda: torch.rustdev.memory_snapshot(),
        lambda: memory._allocation_traceback(block.data_ptr()),
        lambda: torch.rustdev.attach_out_of_memory_observer(print),
        lambda: torch.rustdev.reset_peak_memory_stats(),
        lambda: torch.rustdev.reset_peak_host_memory_stats(),
        lambda: torch.rustdev.reset_accumulated_host_memory_stats(),
        lambda: torch.rustdev.get_rng_state_all(),
        lambda: torch.rustdev.set_rng_state_all(states),
        lambda: torch.rustdev.manual_seed(1),
        lambda: torch.rustdev.manual_seed_all(1),
        lambda: torch.rustdev.seed_all(),
        lambda: torch.rustdev.initial_seed(),
        lambda: torch.rustdev.set_num_threads(1),
        lambda: recorded.query(),
        lambda: unrecorded.query(),
    ):
        refused(call)
    assert torch.rustdev.memory_stats() == torch.rustdev.host_memory_stats() == {}
    assert torch.rustdev.memory_allocated() == 0
    torch.rustdev.empty_cache()
    torch.rustdev.empty_host_cache()
    assert torch.rustdev.get_num_threads() >= 1 and torch.rustdev.is_bf16_supported()

done = False
def churn():
    while not done:
        memory._snapshot()
        torch.rustdev.host_memory_stats()

thread = threading.Thread(target=churn)
thread.start()
codes = [in_child(child) for _ in range(20)]
done = True
thread.join()
assert codes == [0] * 20, codes
print("passed")
"""
    )


def test_child_can_use_the_cpu_and_drop_device_tensors() -> None:
    run(
        """
tensors = [torch.ones(1 << 16, device="rustdev") for _ in range(4)]
event = torch.rustdev.Event()
event.record()
torch.rustdev._sleep(50_000_000)

def child():
    global tensors, event
    torch.manual_seed(3)
    assert torch.ones(3).sum().item() == 3
    tensors = event = None

assert in_child(child) == 0
assert tensors[0].sum().item() == 1 << 16
print("passed")
"""
    )


def test_child_of_a_process_that_has_not_used_the_device_can_use_it() -> None:
    run(
        """
def child():
    assert torch.ones(4, device="rustdev").sum().item() == 4

assert in_child(child) == 0
assert torch.ones(4, device="rustdev").sum().item() == 4
print("passed")
"""
    )
