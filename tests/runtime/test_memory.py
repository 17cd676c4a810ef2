"""Device memory: statistics, limits, the cache, streams, history, snapshots, and errors."""

import gc
import os
import pickle
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import children
import pytest
import torch
from torch.cuda import _memory_viz

memory = torch.rustdev.memory

MIB = 1 << 20
KINDS = ("all", "small_pool", "large_pool")
VALUES = ("current", "peak", "allocated", "freed")
PER_KIND = (
    "allocation segment active inactive_split allocated_bytes reserved_bytes active_bytes inactive_split_bytes requested_bytes"
)
COUNTS = "num_alloc_retries num_ooms num_oom_rejections num_sync_all_streams num_device_alloc num_device_free max_split_size"
STATS = {f"{name}.{kind}.{value}" for name in PER_KIND.split() for kind in KINDS for value in VALUES}


@pytest.fixture(autouse=True)
def _fresh_memory() -> Iterator[None]:
    """Let each test start with an empty cache, fresh counters and no history."""
    gc.collect()
    torch.rustdev.empty_cache()
    for index in range(torch.rustdev.device_count()):
        torch.rustdev.reset_peak_memory_stats(index)
        torch.rustdev.reset_accumulated_memory_stats(index)
    yield
    memory._record_memory_history(None)
    for index in range(torch.rustdev.device_count()):
        torch.rustdev.set_per_process_memory_fraction(1.0, index)


def tensor(size: int, device: str = "rustdev") -> torch.Tensor:
    """A tensor of so many bytes."""
    return torch.empty(size, dtype=torch.uint8, device=device)


def run(code: str, **environment: str) -> str:
    """What a fresh process prints."""
    return children.run("import torch\n" + textwrap.dedent(code), check=True, **environment).stdout


#: Programs, their environment and what they print. Segments that other tests' tensors keep open would serve these requests too.
ALONE: dict[str, tuple[str, dict[str, str], str]] = {
    "reserved bytes are exact": (
        """
        reserved = torch.rustdev.memory_reserved
        found = [reserved()]
        small = torch.empty(1000, dtype=torch.uint8, device="rustdev")
        found.append(reserved() >> 20)
        large = torch.empty(3 << 20, dtype=torch.uint8, device="rustdev")
        found.append(reserved() >> 20)
        del small, large
        torch.rustdev.empty_cache()
        print(*found, reserved())
        """, {}, "0 2 22 0",
    ),
    "blocks above max_split_size are not split": (
        """
        large = torch.empty(100 << 20, dtype=torch.uint8, device="rustdev")
        stats = torch.rustdev.memory_stats()
        print(stats["max_split_size"] >> 20, stats["oversize_allocations.current"], stats["oversize_segments.current"])
        del large
        small = torch.empty(12 << 20, dtype=torch.uint8, device="rustdev")
        print(torch.rustdev.memory_reserved() >> 20)
        """, {"PYTORCH_ALLOC_CONF": "pinned_max_cached_size_mb:64,max_split_size_mb:32"}, "32 1 1 112",
    ),
    "history may start before the device is used": (
        """
        torch.rustdev.memory._record_memory_history(max_entries=10)
        block = torch.empty(1000, device="rustdev:1")
        traces = torch.rustdev.memory._snapshot()["device_traces"]
        print(len(traces), *(event["action"] for event in traces[1]))
        """, {}, "2 segment_alloc alloc snapshot",
    ),
    "settings are in the snapshot": (
        """
        settings = torch.rustdev.memory._snapshot()["allocator_settings"]
        print(settings["PYTORCH_ALLOC_CONF"], settings["max_split_size"] >> 20, settings["garbage_collection_threshold"])
        """,
        {"RUSTDEV_ALLOC_CONF": "max_split_size_mb:64,garbage_collection_threshold:0.75"},
        "max_split_size_mb:64,garbage_collection_threshold:0.75 64 0.75",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ALONE)
def test_a_process_of_its_own(name: str) -> None:
    code, environment, printed = ALONE[name]
    assert run(code, **environment).split() == printed.split()


def test_the_cache_makes_room() -> None:
    code = """
        blocks = [torch.empty(60 << 20, dtype=torch.uint8, device="rustdev") for _ in range(4)]
        del blocks
        whole = torch.empty(250 << 20, dtype=torch.uint8, device="rustdev")
        stats = torch.rustdev.memory_stats()
        print(stats["num_alloc_retries"], stats["num_ooms"], stats["num_device_free"])
    """
    assert run(code, RUSTDEV_MEMORY_LIMIT="256M") == "1 0 4\n"


@pytest.mark.slow
def test_processes_of_a_machine_share_what_is_available() -> None:
    code = "print(torch.rustdev.mem_get_info()[1])"
    one, four = (int(run(code, LOCAL_WORLD_SIZE=count)) for count in ("1", "4"))
    assert four < one / 2
    assert int(run(code, LOCAL_WORLD_SIZE="4", RUSTDEV_MEMORY_LIMIT="512M")) == 512 * MIB


def history(**settings: object) -> Callable[[], None]:
    """Return a call that records with settings."""
    return lambda: memory._record_memory_history(**settings)


device = torch.rustdev
WRONG: list[tuple[Callable[[], object], type[Exception], str | None]] = [
    (lambda: device.caching_allocator_delete(12345), RuntimeError, "no live block"),
    (lambda: device.caching_allocator_alloc(-1), ValueError, "negative"),
    (lambda: device.caching_allocator_alloc(10, stream=1 << 40), RuntimeError, "no stream"),
    (lambda: device.caching_allocator_alloc(10, 0, device.current_stream(1)), ValueError, "memory of rustdev:0 cannot belong to"),
    (lambda: device.caching_allocator_alloc(10, 0, torch.Stream("cpu")), ValueError, "memory of rustdev:0 cannot belong to"),
    (lambda: device.caching_allocator_alloc(10, stream="default"), TypeError, None),
    (lambda: device.set_per_process_memory_fraction(-0.1), ValueError, "between 0 and 1"),
    (lambda: device.set_per_process_memory_fraction(1.5), ValueError, "between 0 and 1"),
    (lambda: device.set_per_process_memory_fraction(1), TypeError, "float"),
    (lambda: device.attach_out_of_memory_observer(3), TypeError, "expected a function, got int"),
    *(
        (lambda function=function: function(99), RuntimeError, "invalid device ordinal")
        for function in (device.memory_stats, device.mem_get_info)
    ),
    *(
        (lambda function=function: function("cpu"), ValueError, "rustdev device")
        for function in (device.memory_stats, device.mem_get_info)
    ),
    (history(enabled="some"), ValueError, "some"),
    (history(context="some"), ValueError, "some"),
    (history(stacks="some"), ValueError, "some"),
    (history(skip_actions=["some"]), ValueError, "some"),
    (history(max_entries=-1), ValueError, "negative"),
    (history(record_pinned_host_memory=True), NotImplementedError, "pinned"),
    (history(record_cuda=False), NotImplementedError, "pinned"),
    (lambda: device.caching_allocator_enable(False), NotImplementedError, "cannot be switched off"),
]


@pytest.mark.parametrize(("call", "error", "text"), WRONG)
def test_wrong_uses_are_refused(call: Callable[[], object], error: type[Exception], text: str | None) -> None:
    with pytest.raises(error, match=text):
        call()


# ---- statistics -----------------------------------------------------------------------------------------------------


def test_the_keys_are_those_of_torch_cuda() -> None:
    keys = STATS | {f"{name}.{value}" for name in ("oversize_allocations", "oversize_segments") for value in VALUES}
    keys |= set(COUNTS.split())
    stats = torch.rustdev.memory_stats()
    assert list(stats) == sorted(keys)
    assert all(isinstance(value, int) for value in stats.values())
    nested = torch.rustdev.memory_stats_as_nested_dict()
    assert nested["allocated_bytes"]["all"]["current"] == stats["allocated_bytes.all.current"]
    assert nested["reserved_bytes_by_private_pools"] == {}
    torch.rustdev.caching_allocator_enable()
    assert torch.rustdev.get_allocator_backend() == "native"


def test_allocated_bytes_are_exact() -> None:
    before = torch.rustdev.memory_allocated()
    requested = torch.rustdev.memory_stats()["requested_bytes.all.current"]
    small, large = tensor(1000), tensor(3 * MIB)
    assert torch.rustdev.memory_allocated() - before == 1024 + 3 * MIB
    stats = torch.rustdev.memory_stats()
    assert stats["requested_bytes.all.current"] - requested == 1000 + 3 * MIB
    assert (stats["allocation.small_pool.allocated"], stats["allocation.large_pool.allocated"]) == (1, 1)
    del small
    assert torch.rustdev.memory_allocated() - before == 3 * MIB
    assert torch.rustdev.max_memory_allocated() - before == 1024 + 3 * MIB
    del large
    assert torch.rustdev.memory_allocated() == before
    assert torch.rustdev.memory_stats()["requested_bytes.all.current"] == requested
    assert torch.rustdev.memory_reserved() == torch.rustdev.max_memory_reserved()


def test_devices_are_counted_apart() -> None:
    held = tensor(MIB, "rustdev:1")
    for device in (1, "rustdev:1", torch.device("rustdev:1")):
        assert torch.rustdev.memory_allocated(device) == MIB
    assert torch.rustdev.memory_allocated() == torch.rustdev.memory_allocated("rustdev") == torch.rustdev.memory_allocated(0)
    with torch.rustdev.device(1):
        assert torch.rustdev.memory_allocated() == MIB
    del held
    assert torch.rustdev.memory_allocated(1) == 0


def test_peaks_and_histories_can_be_reset() -> None:
    before = torch.rustdev.memory_allocated()
    del (held := [tensor(MIB), tensor(2 * MIB)])[1]
    torch.rustdev.reset_peak_memory_stats()
    assert torch.rustdev.max_memory_allocated() == torch.rustdev.memory_allocated()
    assert torch.rustdev.memory_stats()["allocated_bytes.all.allocated"] == 3 * MIB
    torch.rustdev.reset_accumulated_memory_stats()
    stats = torch.rustdev.memory_stats()
    assert (stats["allocated_bytes.all.allocated"], stats["allocated_bytes.all.freed"], stats["num_device_alloc"]) == (0, 0, 0)
    assert stats["allocated_bytes.all.current"] - before == MIB * len(held)


def test_torch_accelerator_tells_the_same() -> None:
    held, accelerator = tensor(5 * MIB), torch.accelerator
    for name in ("memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved"):
        assert getattr(accelerator, name)() == getattr(torch.rustdev, name)() >= held.nbytes
    assert accelerator.memory.get_memory_info() == torch.rustdev.mem_get_info()
    assert set(accelerator.memory_stats()) >= STATS
    del held
    accelerator.empty_cache()
    accelerator.reset_peak_memory_stats()
    accelerator.reset_accumulated_memory_stats()
    assert torch.rustdev.max_memory_reserved() == torch.rustdev.memory_reserved()
    assert accelerator.memory_stats()["allocation.all.allocated"] == 0


def test_memory_info_is_the_budget_and_what_is_left_of_it() -> None:
    held = tensor(40 * MIB)
    free, total = torch.rustdev.mem_get_info()
    assert torch.rustdev.memory_reserved() >= held.nbytes
    assert total - free == sum(torch.rustdev.memory_reserved(index) for index in range(2)), "the devices share a budget"
    assert total == torch.rustdev.get_device_properties().total_memory
    assert torch.rustdev.mem_get_info("rustdev:1") == (free, total)


def test_summary_is_a_table() -> None:
    held = tensor(3 * MIB)
    text = torch.rustdev.memory_summary()
    assert "device 0" in text
    assert "3.0 MiB" in text
    assert held.nbytes == 3 * MIB
    assert text.count("in large segments") == 9
    short = torch.rustdev.memory_summary(1, abbreviated=True)
    assert "device 1" in short
    assert "in large segments" not in short
    assert len({len(line) for line in text.splitlines()[2:]}) == 1


# ---- the cache --------------------------------------------------------------------------------------------------------


def test_freed_memory_is_used_again() -> None:
    before = torch.rustdev.memory_stats()
    assert tensor(0).data_ptr() == 0
    assert torch.rustdev.memory_stats() == before, "tensors without elements take nothing"
    for size in (1, 513, 1000, 3 * MIB, 333 * MIB + 17):
        address = tensor(size).data_ptr()
        assert address % 512 == 0
        segments = torch.rustdev.memory_stats()["num_device_alloc"]
        for _ in range(5):
            assert tensor(size).data_ptr() == address
        assert torch.rustdev.memory_stats()["num_device_alloc"] == segments


def test_empty_cache_gives_back_what_no_tensor_uses() -> None:
    torch.rustdev.empty_cache()
    kept = tensor(1000)
    before = torch.rustdev.memory_reserved()
    del (large := [tensor(100 * MIB)])[0]
    assert not large
    assert torch.rustdev.memory_reserved() == before + 100 * MIB
    torch.rustdev.empty_cache()
    assert torch.rustdev.memory_reserved() == before
    assert torch.rustdev.memory_stats()["num_device_free"] >= 1
    kept.fill_(1)
    assert kept.cpu().sum() == 1000


def test_empty_cache_waits_for_queued_tasks() -> None:
    source = torch.ones(MIB, device="rustdev")
    torch.rustdev._sleep(50_000_000)
    result = (source + 1).sum()
    del source
    torch.rustdev.empty_cache()
    assert result.item() == 2 * MIB


def test_streams_do_not_share_freed_memory() -> None:
    with torch.rustdev.stream(torch.rustdev.Stream()):
        address = tensor(4 * MIB).data_ptr()
    assert tensor(4 * MIB).data_ptr() != address


def test_memory_used_by_another_stream_waits_for_it() -> None:
    stream = torch.rustdev.Stream()
    block = tensor(4 * MIB)
    address = block.data_ptr()
    with torch.rustdev.stream(stream):
        torch.rustdev._sleep(300_000_000)
    block.record_stream(stream)
    before = torch.rustdev.memory_allocated()
    del block
    assert torch.rustdev.memory_allocated() == before - 4 * MIB
    stats = torch.rustdev.memory_stats()
    assert stats["active_bytes.all.current"] == stats["allocated_bytes.all.current"] + 4 * MIB
    states = [block["state"] for segment in memory.memory_snapshot() for block in segment["blocks"]]
    assert states.count("active_awaiting_free") == 1
    assert tensor(4 * MIB).data_ptr() != address
    stream.synchronize()
    assert torch.rustdev.memory_stats()["active_bytes.all.current"] == torch.rustdev.memory_allocated()
    assert tensor(4 * MIB).data_ptr() == address


def test_raw_memory_without_a_tensor() -> None:
    address = torch.rustdev.caching_allocator_alloc(1000, "rustdev:1")
    assert torch.rustdev.memory_allocated(1) == 1024
    torch.rustdev.caching_allocator_delete(address)
    assert torch.rustdev.memory_allocated(1) == 0
    stream = torch.rustdev.Stream()
    for on in (stream, stream.stream_id):
        torch.rustdev.caching_allocator_delete(torch.rustdev.caching_allocator_alloc(1000, stream=on))
    assert torch.rustdev.caching_allocator_alloc(0) == 0


# ---- limits -----------------------------------------------------------------------------------------------------------


def test_out_of_memory_tells_the_sizes_and_the_device_works_on() -> None:
    held = tensor(3 * MIB)
    ooms, seen = torch.rustdev.memory_stats()["num_ooms"], []
    torch.rustdev.attach_out_of_memory_observer(lambda *sizes: seen.append(sizes))
    free, total = torch.rustdev.mem_get_info()
    with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate") as caught:
        tensor(total * 2)
    for text in (
        "total capacity",
        "is free",
        "reserved but unallocated",
        f"{torch.rustdev.memory_allocated() / MIB:.2f} MiB is allocated",
    ):
        assert text in str(caught.value)
    stats = torch.rustdev.memory_stats()
    assert (stats["num_ooms"], stats["num_alloc_retries"]) == (ooms + 1, 1)
    assert seen == [(0, 2 * total, total, free)], "an observer sees the error first"
    assert (held.fill_(2) + 1).cpu().eq(3).all()


def test_devices_share_four_fifths_of_what_is_available() -> None:
    code = """
        import re
        import torch

        def available():
            with open("/proc/meminfo") as lines:
                return int(re.search(r"MemAvailable: *([0-9]+) kB", lines.read())[1]) << 10

        def empty(size, device):
            return torch.empty(size, dtype=torch.uint8, device=f"rustdev:{device}")

        before = available()
        total = torch.rustdev.get_device_properties(0).total_memory
        assert total <= 0.85 * before, (total, before)
        assert torch.rustdev.mem_get_info(0) == torch.rustdev.mem_get_info(1) == (total, total)
        held = empty(64 << 20, 0)
        assert torch.rustdev.mem_get_info(1) == (total - (64 << 20), total)
        # Each would have as much alone.
        half = empty(total * 3 // 5, 0)
        try:
            empty(total * 3 // 5, 1)
        except torch.OutOfMemoryError as error:
            print(re.search("Other devices have reserved .* of the capacity", str(error)) is not None)
        del half
        print(empty(total * 3 // 5, 1).numel() == total * 3 // 5)
        blocks = []
        try:
            for _ in range(total // (256 << 20) + 1):
                blocks.append(empty(256 << 20, len(blocks) % 2))
        except torch.OutOfMemoryError:
            print("short")
        print(held.fill_(2).max().item())
    """
    assert run(code, RUSTDEV_DEVICE_COUNT="2").split() == ["True", "True", "short", "2"]


def test_fraction_limits_the_process() -> None:
    assert torch.rustdev.get_per_process_memory_fraction() == 1.0
    _, total = torch.rustdev.mem_get_info(1)
    torch.rustdev.set_per_process_memory_fraction(100 * MIB / total, "rustdev:1")
    assert torch.rustdev.get_per_process_memory_fraction(1) == 100 * MIB / total
    held = tensor(60 * MIB, "rustdev:1")
    with pytest.raises(torch.OutOfMemoryError, match="This process may use"):
        tensor(60 * MIB, "rustdev:1")
    assert held.nbytes + tensor(60 * MIB).nbytes == 120 * MIB


# ---- history and snapshots ----------------------------------------------------------------------------------------------


def allocate_here(size: int) -> torch.Tensor:
    """Stands in stacks."""
    return tensor(size)


def test_stacks_of_live_memory() -> None:
    memory._record_memory_history("state")
    block = allocate_here(5 * MIB)
    frames = memory._allocation_traceback(block.untyped_storage().data_ptr())
    assert frames is not None
    assert [frame["name"] for frame in frames[:3]] == ["tensor", "allocate_here", "test_stacks_of_live_memory"]
    assert frames[1]["filename"] == __file__
    assert frames[1]["line"] == allocate_here.__code__.co_firstlineno + 2
    assert memory._snapshot()["device_traces"][0] == []
    assert memory._allocation_traceback(block.data_ptr() + 512) is None
    memory._record_memory_history(None)
    assert memory._allocation_traceback(allocate_here(6 * MIB).data_ptr()) is None


def actions(trace: list[dict[str, Any]]) -> list[str]:
    """The names of the events."""
    return [event["action"] for event in trace]


def test_history_has_every_event_in_order() -> None:
    memory._record_memory_history()
    address = allocate_here(30 * MIB).data_ptr()
    torch.rustdev.empty_cache()
    free, total = torch.rustdev.mem_get_info()
    with pytest.raises(torch.OutOfMemoryError):
        tensor(2 * total)
    trace = memory._snapshot()["device_traces"][0]
    assert actions(trace) == ["segment_alloc", "alloc", "free_requested", "free_completed", "segment_free", "oom", "snapshot"]
    assert {event["addr"] for event in trace[:5]} == {address}
    assert {event["size"] for event in trace[:5]} == {30 * MIB}
    assert (trace[5]["size"], trace[5]["device_free"]) == (2 * total, free)
    assert [event["frames"][0]["name"] for event in trace[:2]] == ["tensor", "tensor"]
    assert trace[2]["frames"][0]["name"] == "test_history_has_every_event_in_order"
    times = [event["time_us"] for event in trace]
    assert times == sorted(times)
    assert all(event["stream"] == 0 for event in trace)
    memory._record_memory_history(None)
    assert memory._snapshot()["device_traces"][0] == []


def test_history_keeps_the_newest_and_skips_what_is_not_wanted() -> None:
    memory._record_memory_history(max_entries=3, skip_actions=["free_requested", "snapshot"], context="alloc")
    for size in (1, 2, 3):
        tensor(size * MIB)
    trace = memory._snapshot()["device_traces"][0]
    assert actions(trace) == ["free_completed", "alloc", "free_completed"]
    assert trace[1]["frames"]
    assert not trace[2]["frames"]


def test_history_takes_every_keyword_of_cuda() -> None:
    memory._record_memory_history(
        "all", "all", "python", 10, None, True, compile_context=True, global_record_annotations=True, skip_actions=["snapshot"]
    )
    del_me = allocate_here(2 * MIB)
    assert actions(memory._snapshot()["device_traces"][0])[-1] == "alloc"
    assert del_me.nbytes == 2 * MIB


def test_history_of_the_older_form() -> None:
    memory._record_memory_history(True, trace_alloc_max_entries=3, trace_alloc_record_context=True, clear_history=True)
    blocks = [allocate_here(size * MIB) for size in (30, 40, 50, 60)]
    trace = memory._snapshot()["device_traces"][0]
    assert len(trace) == 3
    assert trace[1]["action"] == "alloc"
    assert trace[1]["frames"]
    memory._record_memory_history(True)
    blocks.append(allocate_here(70 * MIB))
    assert len(memory._snapshot()["device_traces"][0]) == 1
    assert memory._allocation_traceback(blocks[-1].data_ptr())
    memory._record_memory_history(False)
    assert memory._snapshot()["device_traces"][0] == []


def test_snapshot_describes_every_segment() -> None:
    blocks = [tensor(size) for size in (1000, 3 * MIB, 30 * MIB)]
    segments = memory.memory_snapshot()
    mine = [segment for segment in segments if segment["device"] == 0]
    assert sum(segment["total_size"] for segment in mine) == torch.rustdev.memory_reserved()
    assert sum(segment["allocated_size"] for segment in mine) == torch.rustdev.memory_allocated()
    assert {segment["segment_type"] for segment in mine} == {"small", "large"}
    for segment in mine:
        address = segment["address"]
        for block in segment["blocks"]:
            assert block["address"] == address
            address += block["size"]
        assert address == segment["address"] + segment["total_size"]
        assert segment["requested_size"] <= segment["allocated_size"] <= segment["active_size"] <= segment["total_size"]
    live = {block["address"]: block for segment in mine for block in segment["blocks"] if block["state"] == "active_allocated"}
    for block in blocks:
        assert live[block.data_ptr()]["requested_size"] == block.nbytes
    assert memory.memory_snapshot((0, 0))
    assert memory.memory_snapshot((0, 7)) == []


def test_memory_viz_shows_the_snapshot(tmp_path: Path) -> None:
    memory._record_memory_history()
    blocks = [allocate_here(size) for size in (1000, 3 * MIB, 30 * MIB)]
    del blocks[1]
    file = tmp_path / "snapshot.pickle"
    memory._dump_snapshot(str(file))
    with file.open("rb") as stream:
        snapshot = pickle.load(stream)
    assert "alloc" in _memory_viz.trace(snapshot)
    assert "segments: " in _memory_viz.segsum(snapshot)
    assert "allocate_here" in _memory_viz.segments(snapshot, format_flamegraph=lambda text: text)
    assert "allocate_here" in _memory_viz.memory(snapshot, format_flamegraph=lambda text: text)
    assert "<html" in _memory_viz.trace_plot(snapshot).lower()
    assert "<html" in _memory_viz.segment_plot(snapshot).lower()
    assert _memory_viz.compare(snapshot["segments"], [], format_flamegraph=lambda text: text).count("only_before")
    assert len(blocks) == 2


# ---- profiler, threads, processes -----------------------------------------------------------------------------------------


def test_older_names_warn_and_work() -> None:
    block = tensor(5 * MIB)
    with pytest.warns(FutureWarning, match="memory_reserved"):
        assert torch.rustdev.memory_cached() == torch.rustdev.memory_reserved() > 0
    with pytest.warns(FutureWarning, match="max_memory_reserved"):
        assert torch.rustdev.max_memory_cached(0) == torch.rustdev.max_memory_reserved(0)
    del block
    for reset in (torch.rustdev.reset_max_memory_allocated, torch.rustdev.reset_max_memory_cached):
        peak = torch.rustdev.max_memory_allocated()
        with pytest.warns(FutureWarning, match="reset_peak_memory_stats"):
            reset()
        assert torch.rustdev.max_memory_allocated() <= peak
    assert torch.rustdev.max_memory_allocated() == torch.rustdev.memory_allocated()


def test_memory_of_the_device_and_of_its_process() -> None:
    block = tensor(5 * MIB)
    used = torch.rustdev.device_memory_used()
    assert used == torch.rustdev.memory_reserved() >= block.nbytes
    assert torch.rustdev.list_gpu_processes().split() == (
        ["GPU:0", "process", str(os.getpid()), "uses", f"{used / MIB:.3f}", "MB", "GPU", "memory"]
    )
    gc.collect()
    torch.rustdev.empty_cache()
    assert torch.rustdev.list_gpu_processes(1) == "GPU:1\nno processes are running"
