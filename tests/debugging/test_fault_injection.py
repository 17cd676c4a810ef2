"""Injected faults: they are raised like real faults, the device keeps working, and no memory leaks."""

import gc
from collections.abc import Iterator

import pytest
import torch
from children import run

inject_faults = torch.rustdev.inject_faults
rustdev = "rustdev"


@pytest.fixture(autouse=True)
def _no_memory_is_lost() -> Iterator[None]:
    gc.collect()
    torch.rustdev.synchronize()
    before = torch.rustdev.memory_allocated()
    yield
    gc.collect()
    torch.rustdev.synchronize()
    assert torch.rustdev.memory_allocated() == before


def test_the_request_of_that_number_is_refused() -> None:
    with inject_faults("oom:3"):
        kept = [torch.empty(1000, device=rustdev) for _ in range(2)]
        with pytest.raises(torch.OutOfMemoryError, match="injected by oom:3"):
            torch.empty(1000, device=rustdev)
        kept.append(torch.ones(1000, device=rustdev))
    assert kept[2].sum().item() == 1000


def test_an_injected_shortage_is_counted_and_observed_like_a_real_one() -> None:
    before = torch.rustdev.memory_stats()
    cached = torch.empty(32 << 20, device=rustdev)
    del cached
    assert torch.rustdev.memory_reserved() > 0
    with inject_faults("oom:1"), pytest.raises(torch.OutOfMemoryError, match=r"Tried to allocate 3\.91 KiB"):
        torch.empty(1000, device=rustdev)
    after = torch.rustdev.memory_stats()
    assert after["num_ooms"] == before["num_ooms"] + 1
    assert after["num_alloc_retries"] == before["num_alloc_retries"] + 1
    assert after["num_device_free"] > before["num_device_free"], "the cache was given back"


def refusal() -> str:
    """Return the text with which a request for memory is refused, if it is."""
    try:
        torch.empty(8, device=rustdev)
    except torch.OutOfMemoryError as error:
        return str(error)
    return ""


def test_a_random_shortage_repeats_with_its_seed() -> None:
    def refused(seed: int) -> list[int]:
        with inject_faults(f"oom:p=0.2, seed={seed}"):
            texts = [refusal() for _ in range(100)]
        assert all(f"seed={seed}" in text for text in texts if text)
        return [number for number, text in enumerate(texts) if text]

    first = refused(7)
    assert 5 <= len(first) <= 40
    assert refused(7) == first
    assert refused(8) != first


@pytest.mark.parametrize("size", [8, 1 << 20])
def test_the_run_of_that_number_fails_and_the_stream_recovers(size: int) -> None:
    x = torch.ones(size, device=rustdev)
    with inject_faults("kernel:add:2"):
        first = x + 1
        second = x + 1
        third = x * 3
        with pytest.raises(torch.AcceleratorError, match=r"add failed on stream .*injected by kernel:add:2"):
            torch.rustdev.synchronize()
        fourth = x + 4
    assert (first[0].item(), fourth[0].item()) == (2, 5)
    del second, third
    assert (x * 3).sum().item() == 3 * size


def test_a_failure_concerns_its_stream_alone() -> None:
    x = torch.ones(8, device=rustdev)
    side = torch.rustdev.Stream()
    torch.rustdev.synchronize()
    with inject_faults("kernel:mul:1"):
        with torch.rustdev.stream(side):
            x * 2
        y = x * 2
        torch.rustdev.current_stream().synchronize()
        with pytest.raises(torch.AcceleratorError, match="mul"):
            side.synchronize()
    assert y.tolist() == [2] * 8


def test_a_host_function_can_fail() -> None:
    with inject_faults("kernel:host_func:1"):
        torch.rustdev.launch_host_func(lambda: None)
        with pytest.raises(torch.AcceleratorError, match="host_func failed"):
            torch.rustdev.synchronize()


def test_a_task_inside_of_a_graph_can_fail() -> None:
    x = torch.zeros(8, device=rustdev)
    torch.rustdev.synchronize()
    graph = torch.rustdev.Graph()
    with torch.rustdev.graph(graph):
        x.add_(1)
        x.mul_(2)
    with inject_faults("kernel:mul:2"):
        graph.replay()
        torch.rustdev.synchronize()
        graph.replay()
        with pytest.raises(torch.AcceleratorError, match="mul: injected"):
            torch.rustdev.synchronize()
    assert x.tolist() == [3] * 8


def test_copies_are_slow_without_a_thread_that_waits() -> None:
    source = torch.ones(8).pin_memory()
    torch.rustdev.synchronize()
    with inject_faults("copy:200"):
        target = source.to(rustdev, non_blocking=True)
        assert not torch.rustdev.current_stream().query()
    assert target.tolist() == [1] * 8


def test_copies_within_the_device_are_not_slow() -> None:
    x = torch.ones(8, device=rustdev)
    y = torch.empty_like(x)
    torch.rustdev.synchronize()
    with inject_faults("copy:3600000"):
        y.copy_(x)
        torch.rustdev.synchronize()


def flipped_bits(left: torch.Tensor, right: torch.Tensor) -> int:
    """Return in how many bits two tensors differ."""
    left, right = (tensor.cpu().contiguous().view(torch.uint8).flatten() for tensor in (left, right))
    return sum(int(value).bit_count() for value in (left ^ right).tolist())


@pytest.mark.parametrize("size", [8, 1 << 18])
def test_one_bit_of_the_output_is_flipped(size: int) -> None:
    x = torch.arange(size, dtype=torch.float32, device=rustdev)
    with inject_faults("bitflip:mul:2,seed=3"):
        results = [x * 2 for _ in range(3)]
        torch.rustdev.synchronize()
    expected = torch.arange(size, dtype=torch.float32) * 2
    assert [flipped_bits(result, expected) for result in results] == [0, 1, 0]


def test_a_flip_repeats_with_its_seed_and_stays_in_the_output() -> None:
    def flipped(seed: int) -> torch.Tensor:
        base = torch.zeros(32, 32, device=rustdev)
        with inject_faults(f"bitflip:fill_:1,seed={seed}"):
            base[:, ::2].fill_(1)
        return base.cpu()

    expected = torch.zeros(32, 32)
    expected[:, ::2] = 1
    results = [flipped(seed) for seed in range(40)]
    assert all(flipped_bits(result, expected) == 1 for result in results)
    assert all(torch.equal(result[:, 1::2], expected[:, 1::2]) for result in results), "gaps between elements stay"
    assert torch.equal(flipped(5).view(torch.int32), results[5].view(torch.int32))
    assert len({tuple(result.view(torch.int32).flatten().tolist()) for result in results}) > 20


def test_any_task_may_have_a_flip() -> None:
    x = torch.zeros(64, device=rustdev)
    with inject_faults("bitflip:p=0.5,seed=1"):
        for _ in range(16):
            x.mul_(1)
        torch.rustdev.synchronize()
    assert 3 <= flipped_bits(x, torch.zeros(64)) <= 16


def test_the_innermost_list_is_in_force_and_the_outer_one_goes_on_counting_afterwards() -> None:
    with inject_faults("oom:2"):
        torch.empty(8, device=rustdev)
        with inject_faults("oom:1"), pytest.raises(torch.OutOfMemoryError, match="oom:1"):
            torch.empty(8, device=rustdev)
        with inject_faults(""):
            torch.empty(8, device=rustdev)
        with pytest.raises(torch.OutOfMemoryError, match="oom:2"):
            torch.empty(8, device=rustdev)
    torch.empty(8, device=rustdev)


def test_a_malformed_part_is_named() -> None:
    with pytest.raises(ValueError, match='"fire:1" is not valid'), inject_faults("oom:9,fire:1"):
        pass


def test_the_environment_injects_faults_from_the_start_and_the_block_restores_them() -> None:
    code = """
import torch
with torch.rustdev.inject_faults(""):
    torch.ones(4, device="rustdev")
torch.empty(4, device="rustdev")
try:
    torch.empty(4, device="rustdev")
except torch.OutOfMemoryError as error:
    print("injected by oom:2" in str(error))
print(torch.ones(4, device="rustdev").tolist())
"""
    result = run(code, RUSTDEV_FAULTS="oom:2")
    assert (result.returncode, result.stdout) == (0, "True\n[1.0, 1.0, 1.0, 1.0]\n"), result.stderr


@pytest.mark.parametrize("end", ["", "import sys; sys.exit(3)", "raise KeyboardInterrupt"])
def test_a_process_ends_while_a_task_hangs(end: str) -> None:
    code = f"""
import torch
x = torch.ones(4, device="rustdev")
torch.rustdev.synchronize()
with torch.rustdev.inject_faults("hang:add"):
    y = x + 1
print(torch.rustdev.current_stream().query(), flush=True)
{end}
"""
    result = run(code)
    assert result.stdout == "False\n"
    assert result.returncode == (3 if "exit" in end else -2 if "raise" in end else 0)
