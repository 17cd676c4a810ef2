"""Devices: count, selection, properties, and errors."""

import pytest
import torch
from children import python, run, run_fresh


def test_count_and_availability() -> None:
    assert torch.rustdev.is_available()
    assert torch.rustdev.device_count() == 2
    assert not torch.rustdev._is_in_bad_fork()
    torch.rustdev.init()
    assert torch.rustdev.is_initialized()


#: Asks each question in a child, for after the first use there is no going back.
USES = """
import os, torch, warnings
device = torch.rustdev

def is_initialized_after(use):
    child = os.fork()
    if child == 0:
        use()
        assert device._initialized == device.is_initialized()
        os._exit(device.is_initialized())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

for name, use in USES.items():
    print(name, is_initialized_after(eval("lambda: (" + use + ")")))
"""
#: As torch.cuda has it, before and behind.
STARTS_NOTHING = (
    "None",
    "device.device_count(), device.is_available(), torch.accelerator.is_available(), torch.accelerator.device_count()",
    "device.manual_seed(1), device.manual_seed_all(1), torch.manual_seed(1), device.seed(), device.seed_all()",
    "device.set_rng_state(torch.zeros(16, dtype=torch.uint8))",
    "device.memory_stats(), device.memory_allocated(), device.max_memory_reserved(0), device.memory_snapshot()",
    "torch.accelerator.memory_stats(), torch.accelerator.memory_allocated(), device.host_memory_stats()",
    "device.empty_cache(), torch.accelerator.empty_cache(), device.empty_host_cache()",
    "device.get_arch_list(), device.Event(), torch.ones(2).is_pinned()",
    "torch.autocast('rustdev').__enter__(), torch.amp.GradScaler('rustdev')",
    "torch.ones(2, requires_grad=True).sum().backward()",
    "torch._subclasses.FakeTensorMode().__enter__(), torch.empty(2, device='rustdev')",
)
STARTS = (
    "device.init()",
    "device.current_device()",
    "device.set_device(0)",
    "device.device(0).__enter__()",
    "torch.accelerator.set_device_index(0)",
    "torch.accelerator.current_device_index()",
    "device.synchronize()",
    "device.Stream()",
    "device.current_stream()",
    "device.default_stream()",
    "device.Event().record()",
    "device.get_device_properties(0)",
    "device.get_device_capability()",
    "device.can_device_access_peer(0, 1)",
    "device.mem_get_info()",
    "device.get_rng_state()",
    "device.initial_seed()",
    "torch.ones(2, device='rustdev')",
    "torch.ones(2).to('rustdev:1')",
    "torch.nn.Linear(2, 2).to('rustdev')",
    "torch.UntypedStorage(4, device='rustdev')",
    "torch.ones(2).pin_memory()",
)


def test_the_first_use_is_what_initializes() -> None:
    uses = {
        f"{kind} {number}": use for kind, all_of in (("no", STARTS_NOTHING), ("yes", STARTS)) for number, use in enumerate(all_of)
    }
    result = run(f"USES = {uses!r}\n{USES}")
    assert result.stderr == ""
    told = dict(line.rsplit(" ", 1) for line in result.stdout.splitlines())
    wrong = {uses[name]: answer for name, answer in told.items() if answer != ("0" if name.startswith("no") else "1")}
    assert not wrong
    assert told.keys() == uses.keys()


def test_seeds_that_are_set_before_the_first_use_count() -> None:
    code = """
import torch
assert not torch.rustdev.is_initialized()
torch.manual_seed(5)
first = torch.rand(4, device="rustdev")
torch.rustdev.manual_seed(5)
assert torch.equal(first, torch.rand(4, device="rustdev"))
print("equal")
"""
    result = run(code)
    assert (result.stdout, result.stderr) == ("equal\n", "")


def test_set_device() -> None:
    assert torch.rustdev.current_device() == 0
    torch.rustdev.set_device(1)
    assert torch.rustdev.current_device() == 1
    torch.rustdev.set_device("rustdev:0")
    assert torch.rustdev.current_device() == 0
    torch.rustdev.set_device(torch.device("rustdev", 1))
    torch.rustdev.set_device(-1)
    assert torch.rustdev.current_device() == 1


def test_device_of() -> None:
    tensor = torch.empty(1, device="rustdev:1")
    for given, index in ((tensor, 1), (tensor.untyped_storage(), 1), (torch.empty(1), 0)):
        with torch.rustdev.device_of(given), torch.rustdev.device(None):
            assert torch.rustdev.current_device() == index


@pytest.mark.parametrize("index", [2, 63, 200, 1 << 40])
def test_index_out_of_range(index: int) -> None:
    calls = [
        lambda: torch.rustdev.set_device(index),
        lambda: torch.rustdev.device(index).__enter__(),
        lambda: torch.rustdev.synchronize(index),
        lambda: torch.rustdev._exchange_device(index),
    ]
    if index < 64:
        calls += [
            lambda: torch.empty(1, device=f"rustdev:{index}"),
            lambda: torch.rustdev.get_device_properties(index),
            lambda: torch.rustdev.current_stream(index),
            lambda: torch.rustdev.Stream(index),
            lambda: torch.Stream(f"rustdev:{index}"),
            lambda: torch.Generator(f"rustdev:{index}"),
            lambda: torch.rustdev.get_rng_state(index),
        ]
    for call in calls:
        with pytest.raises(RuntimeError, match=f"invalid device ordinal {index}"):
            call()
    with torch.rustdev.device(-(1 << 40)):
        assert torch.rustdev.current_device() == 0
    for device in ("cpu", "cuda:0", torch.device("meta"), 1.5):
        for function in (torch.rustdev.set_device, torch.rustdev.synchronize):
            with pytest.raises(ValueError, match="Expected a rustdev device"):
                function(device)
    assert torch.ones(2, device="rustdev").sum().item() == 2


def test_negative_sizes_are_refused() -> None:
    with pytest.raises(RuntimeError, match="negative dimension"):
        torch.empty(-1, device="rustdev")
    with pytest.raises(RuntimeError, match="-1"):
        torch.empty_strided((2, 2), (-1, 1), device="rustdev")
    with pytest.raises(torch.OutOfMemoryError):
        torch.UntypedStorage(-4, device="rustdev")
    assert torch.ones(2, device="rustdev").sum().item() == 2


def test_properties() -> None:
    properties = torch.rustdev.get_device_properties(1)
    assert properties.name == torch.rustdev._rustdev.hardware_name() or properties.name.startswith("rustdev (")
    assert properties.total_memory > 0
    assert properties.multi_processor_count == torch.rustdev.get_num_threads() >= 1
    assert torch.rustdev.get_device_name() == properties.name
    assert torch.rustdev.get_device_capability() == (properties.major, properties.minor)
    assert torch.rustdev.is_bf16_supported()


def test_peers() -> None:
    assert torch.rustdev.can_device_access_peer(0, 1)
    assert not torch.rustdev.can_device_access_peer(0, 0)
    with pytest.raises(RuntimeError, match="invalid device ordinal 2"):
        torch.rustdev.can_device_access_peer(0, 2)


def test_threads() -> None:
    before = torch.rustdev.get_num_threads()
    try:
        torch.rustdev.set_num_threads(2)
        assert torch.rustdev.get_num_threads() == 2
        for count in (0, -1):
            with pytest.raises((ValueError, RuntimeError), match="number of threads"):
                torch.rustdev.set_num_threads(count)
        assert torch.rustdev.get_num_threads() == 2
    finally:
        torch.rustdev.set_num_threads(before)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RUSTDEV_DEVICE_COUNT", "0"),
        ("RUSTDEV_DEVICE_COUNT", "two"),
        ("RUSTDEV_MEMORY_LIMIT", "12Q"),
        ("RUSTDEV_MEMORY_LIMIT", "8000000T"),
        ("RUSTDEV_VISIBLE_DEVICES", "0,0"),
        ("RUSTDEV_VISIBLE_DEVICES", "2"),
        ("RUSTDEV_SPEED", "1"),
        ("RUSTDEV_TIMEOUT", "soon"),
        ("RUSTDEV_FAULTS", "oom:9,oom:0"),
        ("RUSTDEV_SANITIZE", "everything"),
        ("RUSTDEV_FILL", "everything"),
        ("RUSTDEV_PROFILE", "t5"),
        ("PYTORCH_ALLOC_CONF", "garbage_collection_threshold:2"),
    ],
)
def test_environment_is_checked_at_import(name: str, value: str) -> None:
    soft_then_hard = run("import torch; print(torch.rustdev.is_available(), flush=True); import rustdev", **{name: value})
    assert soft_then_hard.stdout.strip() == "False"
    assert "RuntimeWarning" in soft_then_hard.stderr
    last = soft_then_hard.stderr.splitlines()[-1]
    assert last.startswith("ValueError")
    assert name in last
    assert value.rpartition(",")[2] in last or name == "RUSTDEV_SPEED", "the part that is wrong"
    assert "panicked" not in soft_then_hard.stderr


def test_visible_devices_are_renumbered() -> None:
    code = """
import torch, warnings
warnings.simplefilter("error")
print(torch.rustdev.device_count(), torch.accelerator.device_count(), len(torch.rustdev.default_generators))
print(torch.ones(2, device="rustdev:1").sum().item())
with torch.random.fork_rng(devices=[0], device_type="rustdev"):
    torch.rustdev.manual_seed(1)
torch.ones(1, device="rustdev:2")
"""
    result = run(code, RUSTDEV_DEVICE_COUNT="4", RUSTDEV_VISIBLE_DEVICES="3,1")
    assert result.stdout.split() == ["2", "2", "2", "2.0"], result.stderr
    assert "invalid device ordinal 2: devices are 0 to 1" in result.stderr


def test_the_advice_of_fork_rng_can_be_followed() -> None:
    code = "import torch\nwith torch.random.fork_rng(device_type='rustdev'): pass\nprint('forked')"
    result = run(code)
    assert "set RUSTDEV_VISIBLE_DEVICES=0" in result.stderr
    result = run(code, RUSTDEV_VISIBLE_DEVICES="0")
    assert (result.stdout.strip(), result.stderr) == ("forked", "")


def test_no_device_may_be_visible() -> None:
    code = """
import torch
print(torch.rustdev.is_available(), torch.rustdev.device_count(), torch.accelerator.is_available())
torch.manual_seed(1)
torch.rustdev.manual_seed_all(1)
torch.rustdev.seed_all()
torch.rustdev.set_rng_state_all(torch.rustdev.get_rng_state_all())
torch.rustdev.empty_cache()
torch.rustdev.memory._record_memory_history()
print(torch.rustdev.memory._snapshot()["device_traces"], torch.ones(2).sum().item())
for call in (torch.rustdev.synchronize, torch.rustdev.Stream, lambda: torch.ones(1, device="rustdev"), torch.rustdev.mem_get_info):
    try:
        call()
    except RuntimeError as error:
        assert "invalid device ordinal 0" in str(error), error
    else:
        raise AssertionError("not refused")
from rustdev import info
print([line.split() for line in info.describe().splitlines() if line.startswith(("devices", "memory"))])
"""
    result = run(code, RUSTDEV_VISIBLE_DEVICES="")
    assert result.stdout.splitlines() == ["False 0 False", "[] 2.0", "[['devices:', '0']]"], result.stderr


@pytest.mark.slow
def test_environment_is_checked_where_rustdev_comes_first() -> None:
    result = run_fresh("import rustdev", RUSTDEV_DEVICE_COUNT="-1")
    assert "RuntimeWarning" not in result.stderr
    assert result.stderr.splitlines()[-1].startswith("ValueError")


def test_info_prints_what_a_bug_report_needs() -> None:
    result = python("-m", "rustdev.info")
    assert result.returncode == 0, result.stderr
    for word in ("rustdev", torch.__version__, "devices", "threads", "instruction set", "memory", "RUSTDEV_DEVICE_COUNT=2"):
        assert word in result.stdout, result.stdout


def test_stub_names_every_function_of_the_extension_module() -> None:
    import ast
    import inspect
    from pathlib import Path

    from rustdev import _rustdev

    stub = ast.parse((Path(torch.rustdev.__file__).parent / "_rustdev.pyi").read_text())
    declared = {node.name: [a.arg for a in node.args.args] for node in stub.body if isinstance(node, ast.FunctionDef)}
    for kind in (node for node in stub.body if isinstance(node, ast.ClassDef)):
        constructors = [node for node in kind.body if isinstance(node, ast.FunctionDef) and node.name in ("__new__", "__init__")]
        if constructors:
            declared[kind.name] = [a.arg for a in constructors[0].args.args[1:]]
        else:
            with pytest.raises(TypeError, match=r"No constructor defined|cannot create"):
                getattr(_rustdev, kind.name)()
    made_by_functions = {kind.name for kind in stub.body if isinstance(kind, ast.ClassDef)} - set(declared)
    actual = {
        name: list(inspect.signature(value).parameters)
        for name, value in vars(_rustdev).items()
        if callable(value) and not name.startswith("__") and name not in made_by_functions
    }
    assert declared == actual
