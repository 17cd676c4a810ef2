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
        assert "use the 'spawn' start method" in str(error), error
    else:
        raise AssertionError("not refused")
"""


def run(code: str) -> None:
    """Run code in a Python of its own, for these tests must not fork a process with running threads."""
    result = children.run(PRELUDE + code)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip().endswith("passed"), result.stdout


def test_use_after_fork_is_refused() -> None:
    # Another thread holds the pools' locks again and again while the process forks; a child that took one would hang.
    run(
        """
import signal, threading
def unused():
    assert torch.ones(4, device="rustdev").sum().item() == 4

assert in_child(unused) == 0, "of a process that has not used the device"
memory = torch.rustdev.memory
tensor, pinned, stream = torch.ones(4, device="rustdev"), torch.ones(4).pin_memory(), torch.rustdev.Stream()
recorded, unrecorded = torch.rustdev.Event(), torch.rustdev.Event()
recorded.record()
torch.rustdev.synchronize()
states = torch.rustdev.get_rng_state_all()
memory._record_memory_history(max_entries=1000)

def child():
    signal.alarm(60)
    assert torch.rustdev._is_in_bad_fork() and not torch.rustdev.is_initialized()
    assert torch.rustdev.device_count() == 0 and not torch.rustdev.is_available()
    for call in (
        lambda: torch.empty(4, device="rustdev"),
        lambda: torch.empty(4, device="rustdev:1"),
        lambda: tensor + 1,
        lambda: tensor.tolist(),
        lambda: torch.ones(3).to("rustdev"),
        lambda: stream.synchronize(),
        lambda: recorded.record(),
        lambda: recorded.query(),
        lambda: unrecorded.query(),
        lambda: memory._record_memory_history(),
        lambda: memory._record_memory_history(None),
        lambda: memory._snapshot(),
        lambda: memory._allocation_traceback(tensor.data_ptr()),
        lambda: torch.rustdev.attach_out_of_memory_observer(print),
        lambda: torch.rustdev.set_rng_state_all(states),
        *(getattr(torch.rustdev, name) for name in (
            "init", "current_device", "synchronize", "Stream", "current_stream", "get_rng_state", "memory_snapshot",
            "reset_peak_memory_stats", "reset_accumulated_memory_stats", "reset_peak_host_memory_stats",
            "reset_accumulated_host_memory_stats", "mem_get_info", "get_rng_state_all", "seed_all", "initial_seed")),
        *(lambda name=name: getattr(torch.rustdev, name)(1)
          for name in ("set_device", "manual_seed", "manual_seed_all", "set_num_threads")),
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
assert tensor.sum().item() == 4
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
