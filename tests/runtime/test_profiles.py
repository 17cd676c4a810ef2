"""RUSTDEV_PROFILE: the devices imitate a GPU. Each test uses a separate process, since the environment is read once."""

import json

import pytest
import rustdev
from children import run
from rustdev import _rustdev

PROGRAM = """
import json, torch
properties = torch.rustdev.get_device_properties(1)
try:
    torch.empty(properties.total_memory + 1, dtype=torch.uint8, device="rustdev")
    short = False
except torch.OutOfMemoryError:
    short = True
with torch.rustdev.as_cuda():
    as_cuda = [torch.cuda.get_device_name(), torch.cuda.get_device_capability(), torch.cuda.mem_get_info()[1]]
with torch.rustdev.as_cuda(profile="t4-16g"):
    other = [torch.cuda.get_device_name(), torch.cuda.get_device_capability(), torch.cuda.get_device_properties().total_memory]
    other += [torch.cuda.is_bf16_supported(including_emulation=False), torch.cuda.is_tf32_supported()]
print(json.dumps({
    "name": properties.name, "capability": torch.rustdev.get_device_capability(), "major": properties.major,
    "memory": properties.total_memory, "info": torch.accelerator.get_memory_info()[1], "short": short,
    "bfloat16": [torch.rustdev.is_bf16_supported(), torch.rustdev.is_bf16_supported(including_emulation=False)],
    "tf32": torch.rustdev.is_tf32_supported(),
    "threads": properties.multi_processor_count == torch.rustdev.get_num_threads(), "as_cuda": as_cuda, "other": other,
    "sum": torch.ones(4, dtype=torch.bfloat16, device="rustdev").sum().item(),
}))
"""
#: Compiles a function for each profile and dtype, and prints the numbers of kernels.
COMPILED = """
import contextlib, sys, torch
from torch._inductor import metrics
device = sys.argv[1]
for given in sys.argv[2:]:
    profile, dtype = given.split(":")
    torch._dynamo.reset()
    metrics.reset()
    with torch.rustdev.as_cuda(profile=profile) if device == "cuda" else contextlib.nullcontext():
        x = torch.ones(5, dtype=getattr(torch, dtype), device=device)
        y = torch.compile(lambda x: x + 1)(x)
        assert y.tolist() == [2] * 5
    print(metrics.generated_kernel_count)
"""
FLOAT8 = """
import contextlib, torch
a, scale = torch.zeros(16, 16, dtype=torch.float8_e4m3fn, device="rustdev"), torch.ones((), device="rustdev")
for profile in (None, "a100-80g", "l4-24g"):
    with torch.rustdev.as_cuda(profile=profile) if profile else contextlib.nullcontext():
        try:
            print(torch._scaled_mm(a, a.t(), scale, scale, out_dtype=torch.bfloat16).sum().item())
        except RuntimeError as error:
            print(error)
"""
GIB = 1 << 30


def told(**environment: str) -> dict[str, object]:
    """What a program with that environment finds."""
    result = run(PROGRAM, **environment)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("profile", "name", "capability", "memory", "has_bfloat16"),
    [("a100-80g", "NVIDIA A100-SXM4-80GB", [8, 0], 80 * GIB, True), ("t4-16g", "Tesla T4", [7, 5], 16 * GIB, False)],
)
def test_the_device_imitates_a_gpu(profile: str, name: str, capability: list[int], memory: int, has_bfloat16: bool) -> None:
    found = told(RUSTDEV_PROFILE=profile)
    own = rustdev.get_device_name()
    assert found["name"] == f"{name} ({own})"
    assert found["capability"] == capability
    assert found["major"] == capability[0]
    assert found["memory"] == found["info"] == memory
    assert found["short"]
    assert found["bfloat16"] == [True, has_bfloat16]
    assert found["tf32"] == has_bfloat16
    assert found["threads"]
    assert found["as_cuda"] == [f"{name} ({own})", capability, memory]
    assert found["other"] == [f"Tesla T4 ({own})", [7, 5], 16 * GIB, False, False]
    assert found["sum"] == 4


T4, A100 = {"t4-16g:bfloat16": 0, "t4-16g:float16": 1}, {"a100-80g:bfloat16": 1}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("device", "profile", "kernels"), [("cuda", "", A100 | T4), ("rustdev", "t4-16g", T4), ("rustdev", "a100-80g", A100)]
)
def test_graphs_of_bfloat16_are_compiled_where_the_gpu_has_it(device: str, profile: str, kernels: dict[str, int]) -> None:
    result = run(COMPILED, device, *kernels, **({"RUSTDEV_PROFILE": profile} if profile else {}))
    assert result.returncode == 0, result.stderr
    assert list(map(int, result.stdout.split())) == list(kernels.values())
    warning = f"UserWarning: Tesla T4 ({rustdev.get_device_name()}) does not support bfloat16 compilation natively, skipping"
    assert (warning in result.stderr) == (0 in kernels.values())


def test_products_of_float8_are_refused_where_the_gpu_lacks_them() -> None:
    refusal = "torch._scaled_mm is only supported from compute capability 8.9 on, and {} has {}"
    t4, a100 = refusal.format("Tesla T4", "7.5"), refusal.format("NVIDIA A100-SXM4-80GB", "8.0")
    for environment, outside in (({}, "0.0"), ({"RUSTDEV_PROFILE": "t4-16g"}, t4), ({"RUSTDEV_PROFILE": "h100-80g"}, "0.0")):
        result = run(FLOAT8, **environment)
        assert result.returncode == 0, result.stderr
        assert result.stdout.splitlines() == [outside, a100, "0.0"]
        assert not result.stderr


def test_a_memory_limit_goes_before_the_profiles_memory() -> None:
    found = told(RUSTDEV_PROFILE="h100-80g", RUSTDEV_MEMORY_LIMIT="1G")
    assert found["memory"] == found["info"] == GIB
    assert found["capability"] == [9, 0]


def test_without_a_profile_the_device_is_its_own() -> None:
    assert rustdev.get_device_name() == _rustdev.hardware_name() or rustdev.get_device_name().startswith("rustdev (")
    assert ".".join(map(str, rustdev.get_device_capability())) == rustdev.__version__.rpartition(".")[0]
    assert rustdev.is_bf16_supported(including_emulation=False)
