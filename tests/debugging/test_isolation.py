"""RUSTDEV_SANITIZE=memory and RUSTDEV_FILL=nan: planted faults are reported, correct programs run, each in a separate process."""

import subprocess
import textwrap
from pathlib import Path

import children
import pytest

START = """\
import ctypes
import torch, rustdev

def on_stream(function):
    torch.rustdev.launch_host_func(function)
    torch.rustdev.synchronize()

"""


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program under the memory checks, unless the environment says otherwise."""
    variables = {"RUSTDEV_SANITIZE": "memory", "RUSTDEV_FALLBACK": "allow"} | environment
    return children.python("-c", START + textwrap.dedent(code), path=Path(__file__).parents[1], **variables)


def line_of(code: str, text: str) -> int:
    """Return the line of a program where a text stands."""
    lines = (START + textwrap.dedent(code)).split("\n")
    return next(number for number, line in enumerate(lines, 1) if text in line)


TOUCHES = {
    "read": "ctypes.string_at(x.data_ptr() + 12, 4)",
    "write": "ctypes.memset(x.data_ptr() + 12, 0, 4)",
    "a view of another library": "list((ctypes.c_byte * 16).from_address(x.data_ptr() + 12))",
}


@pytest.mark.parametrize("touch", TOUCHES.values(), ids=TOUCHES)
def test_the_hosts_touch_faults_and_names_the_tensor(touch: str) -> None:
    code = f"""
    x = torch.ones(10, device="rustdev")
    torch.rustdev.synchronize()
    print("before", flush=True)
    {touch}
    print("after", flush=True)
    """
    done = run(code)
    assert done.returncode < 0
    assert done.stdout == "before\n"
    place = f"<string>:{line_of(code, 'torch.ones')} in <module>"
    assert f"byte 12 of a block of 40 bytes, allocated for stream 0 of device rustdev:0 at {place}" in done.stderr
    assert "the host touched memory of device rustdev:0 at 0x" in done.stderr
    assert "Fatal Python error: Segmentation fault" in done.stderr, "faulthandler shows the Python stack"
    assert f"line {line_of(code, touch)} in <module>" in done.stderr
    assert run(code, RUSTDEV_SANITIZE="").stdout == "before\nafter\n", "without the check it goes unseen"


PAST_END = """
    x = torch.zeros(10, device="rustdev")
    torch.rustdev.set_label(x, "weights")
    address = x.data_ptr()
    on_stream(lambda: ctypes.memset(address + 41, 7, 1))
    del x
"""
AFTER_FREE = """
    x = torch.zeros(10, device="rustdev")
    address = x.data_ptr()
    del x
    on_stream(lambda: ctypes.memset(address + 8, 0, 4))
    torch.rustdev.empty_cache()
"""
CAUGHT = """
    try:
        torch.rustdev.synchronize()
    except torch.AcceleratorError as error:
        print(error)
    print(torch.rustdev.memory_allocated(), torch.ones(2, device="rustdev").sum().item())
"""


@pytest.mark.parametrize(
    ("code", "block", "found", "end"),
    [
        (PAST_END, "byte 41 of a block of 40 bytes (weights)", "was written, past its end; found when it was freed at", " 2.0\n"),
        (AFTER_FREE, "byte 8 of a block of 40 bytes", "was written after it was freed at", "\n0 2.0\n"),
    ],
    ids=["past the end", "after the free"],
)
def test_a_wrong_write_is_found(code: str, block: str, found: str, end: str) -> None:
    done = run(code + CAUGHT)
    assert done.returncode == 0, done.stderr
    place = f"<string>:{line_of(code, 'torch.zeros')} in <module>"
    assert f"{block}, allocated for stream 0 of device rustdev:0 at {place}" in done.stdout
    assert f"{found} <string>:{line_of(code, 'del x')} in <module>" in done.stdout
    assert done.stdout.endswith(end), "the device stays usable"


def test_unwritten_memory_is_nan() -> None:
    code = """
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        assert torch.empty(300, dtype=dtype, device="rustdev").isnan().all().item(), dtype
    assert (torch.empty(5, dtype=torch.int64, device="rustdev") == -1).all().item()
    kept = torch.ones(1000, device="rustdev")
    del kept
    assert torch.empty(1000, device="rustdev").isnan().all().item(), "memory that was used before"
    print(torch.empty(3, device="rustdev").add_(1).tolist())
    """
    for environment in ({"RUSTDEV_FILL": "nan", "RUSTDEV_SANITIZE": ""}, {}):
        done = run(code, **environment)
        assert (done.returncode, done.stdout) == (0, "[nan, nan, nan]\n"), done.stderr


CLEAN = {
    "ordered programs": """
    from ordered_programs import ORDERED
    for program in ORDERED:
        program()
        for device in range(2):
            torch.rustdev.synchronize(device)
    """,
    "the CPU fallback": """
    x = torch.randn(8, 8, device="rustdev")
    assert torch.linalg.det(x).cpu().shape == ()
    assert torch.bincount(torch.tensor([1, 2, 2], device="rustdev")).tolist() == [0, 1, 2]
    assert torch.nonzero(torch.eye(3, device="rustdev")).tolist() == [[0, 0], [1, 1], [2, 2]]
    assert torch.unique(torch.tensor([3, 1, 3], device="rustdev")).tolist() == [1, 3]
    torch.histc(x, 5), torch.linalg.svd(x), torch.linalg.eig(x)
    """,
    "more than the quarantine holds": """
    for size in (1, 1000, 1 << 20, 9 << 20):
        for step in range(20):
            torch.zeros(size, device="rustdev").add_(1)
    torch.rustdev.synchronize()
    torch.rustdev.empty_cache()
    assert torch.rustdev.memory_allocated() == torch.rustdev.memory_reserved() == 0
    """,
    "tensors that are pickled and saved": """
    import copy, io
    x = torch.arange(10, device="rustdev")
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    assert torch.load(file).tolist() == copy.deepcopy(x).tolist() == list(range(10))
    print(x)
    """,
}


@pytest.mark.parametrize("code", CLEAN.values(), ids=CLEAN)
def test_clean_programs_run(code: str) -> None:
    done = run(code)
    assert done.returncode == 0, done.stderr


def test_quarantined_memory_serves_before_the_budget_is_used_up() -> None:
    code = """
    for step in range(20):
        x = torch.ones(3 << 20, device="rustdev")
        assert x.sum().item() == 3 << 20
        del x
    """
    done = run(code, RUSTDEV_MEMORY_LIMIT="32M")
    assert done.returncode == 0, done.stderr


def test_a_task_that_names_freed_memory_is_refused() -> None:
    code = """
    class Range(ctypes.Structure):
        _fields_ = [("begin", ctypes.c_void_p), ("end", ctypes.c_void_p), ("write", ctypes.c_bool)]

    library = ctypes.CDLL(rustdev._rustdev.__file__)
    library.rd_last_error.restype = ctypes.c_char_p
    run = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)(lambda *_: True)
    destroy = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: None)

    def submit(begin, end, write):
        ranges = (Range * 1)(Range(begin, end, write))
        status = library.rd_stream_submit(
            0, ctypes.c_int64(0), b"softcap", ranges, ctypes.c_size_t(1), ctypes.c_uint64(0), run, None, destroy)
        return library.rd_last_error().decode() if status else "accepted"

    x = torch.zeros(10, device="rustdev")
    address = x.data_ptr()
    print(submit(address, address + 40, True))
    del x
    print(submit(address + 4, address + 8, False))
    print(submit(address + 8, address + 40, True))
    torch.rustdev.synchronize()
    """
    done = run(code)
    assert done.returncode == 0, done.stderr
    first, read, write = done.stdout.splitlines()
    assert first == "accepted"
    freed = f"freed at <string>:{line_of(code, 'del x')} in <module>"
    assert read.startswith("softcap reads device memory that was freed: offset 4 of a block of 40 bytes")
    assert write.startswith("softcap writes device memory that was freed: offset 8 of a block of 40 bytes")
    assert freed in read
    assert freed in write
