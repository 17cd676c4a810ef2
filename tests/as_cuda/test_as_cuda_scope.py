"""rustdev.as_cuda in this process: the meaning of "cuda" in the scope, and that leaving it restores everything."""

import copy
import io
import sys
import threading
import types
from typing import Any

import pytest
import rustdev
import torch
import torch.distributed as dist
from torch import nn
from torch.cuda import synchronize as imported_before
from torch.nn.utils.rnn import pack_sequence
from torch.utils._pytree import tree_map_only
from torch.utils._triton import has_triton


@pytest.fixture
def cuda() -> Any:
    with rustdev.as_cuda():
        yield


def snapshot() -> dict[tuple[str, ...], int]:
    """What the modules of torch and the others that are changed hold, and their classes."""
    held = {}
    for module in [m for m in list(sys.modules.values()) if isinstance(m, types.ModuleType)]:
        package = vars(module).get("__name__", "")
        if package.partition(".")[0] in ("torch", "threading", "multiprocessing", "rustdev", __name__):
            for name, value in list(vars(module).items()):
                held[package, name] = value
                if issubclass(type(value), type):
                    held |= {(package, name, inner): content for inner, content in vars(value).items()}
    return held


@pytest.mark.slow
def test_everything_is_as_before() -> None:
    with rustdev.as_cuda(profile="t4-16g"):
        pass  # what is loaded and made once
    fractions = [torch.rustdev.get_per_process_memory_fraction(index) for index in range(2)]
    registry = list(torch.serialization._package_registry)
    before = snapshot()
    with rustdev.as_cuda(profile="t4-16g"):
        inside = snapshot()
        torch.zeros(1, device="cuda")
    after = snapshot()
    assert before.keys() == after.keys()
    assert [name for name, value in before.items() if after[name] is not value] == []
    changed = {name for name, value in before.items() if inside.get(name) is not value}
    expected = {
        ("torch.cuda", "is_available"), ("torch.cuda", "Stream"), ("torch", "Generator"),
        ("threading", "Thread", "_bootstrap_inner"),
        ("torch.amp.autocast_mode", "autocast", "__init__"), ("torch.distributed.distributed_c10d", "init_process_group"),
        (__name__, "imported_before"),
    }  # fmt: skip
    assert expected <= changed
    assert {name for name in changed if name[0] in ("rustdev", "rustdev.device", "rustdev.memory")} == set()
    assert registry == torch.serialization._package_registry
    assert fractions == [torch.rustdev.get_per_process_memory_fraction(index) for index in range(2)]
    assert torch.overrides._get_current_function_mode_stack() == []
    assert not torch.cuda.is_available()


def test_modules_loaded_inside_are_put_right(monkeypatch: pytest.MonkeyPatch) -> None:
    late = types.ModuleType("late")
    with rustdev.as_cuda():
        monkeypatch.setitem(sys.modules, "late", late)
        exec("from torch.cuda import synchronize, Stream\nfrom torch import Generator", vars(late))
        assert late.synchronize is torch.cuda.synchronize
    assert late.synchronize is torch.cuda.synchronize
    assert late.Stream is torch.cuda.Stream
    assert late.Generator is torch.Generator


@pytest.mark.usefixtures("cuda")
def test_names_of_devices() -> None:
    x = torch.ones(2, device="cuda")
    assert x.is_cuda
    assert x.device == torch.device("cuda:0") == torch.device("cuda", 0)
    assert x.to(x.device) is x
    for other in (x.cuda(1), x.cuda("cuda:1"), x.to("cuda:1"), x.to(1), x.to(torch.device("cuda", 1)), torch.ones(2, device=1)):
        assert other.device == torch.device("cuda:1")
        assert other.get_device() == 1
    assert torch.zeros(2, device=x.device).is_cuda
    assert x.new_zeros(3, device="cuda:1").device.index == 1
    assert torch.zeros_like(torch.ones(2), device="cuda").is_cuda
    assert torch.as_tensor([1, 2], device="cuda").is_cuda
    assert x.cpu().device.type == "cpu"
    assert not x.cpu().is_cuda
    assert x.type() == "torch.cuda.FloatTensor"
    assert x.cpu().type("torch.cuda.FloatTensor").is_cuda
    assert x.cpu().type(torch.cuda.DoubleTensor).type() == "torch.cuda.DoubleTensor"
    assert isinstance(x, torch.cuda.FloatTensor)
    assert torch.ones(2).pin_memory().is_pinned()
    assert x.untyped_storage().is_cuda
    assert torch.ones(2).untyped_storage().cuda().is_cuda
    assert pack_sequence([torch.ones(2)]).cuda().is_cuda
    assert "rustdev" in repr(x)  # what a person reads is what there is
    x = torch.ones(1, device="cuda:1")
    for other in (torch.cuda.Stream(x.device), torch.cuda.current_stream(1), x.untyped_storage(), torch.Generator(x.device)):
        assert other.device == x.device
        assert torch.ones(1, device=other.device).device == x.device
    for model in (nn.Linear(2, 2).cuda(), nn.Linear(2, 2).to("cuda"), nn.Linear(2, 2, device="cuda"), nn.Linear(2, 2).cuda(0)):
        assert next(model.parameters()).device == torch.device("cuda:0")
    assert torch._C._nn._parse_to("cuda")[0] == torch.device("cuda")  # as modules of other libraries ask it


@pytest.mark.usefixtures("cuda")
def test_data_parallel_threads() -> None:
    for ids in ([0], None):
        model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).cuda()
        parallel = nn.DataParallel(model, device_ids=ids)
        x = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 9.0]])
        result = parallel.eval()(x)
        assert result.device == torch.device("cuda:0")
        torch.testing.assert_close(result, model(x.cuda()))
        result.sum().backward()
        assert model[0].bias.grad.tolist() == pytest.approx([4 * (1 + 1e-5) ** -0.5] * 2)


class Wrapper(torch.Tensor):
    """A tensor around another, which takes its device from that."""

    inner: torch.Tensor

    @staticmethod
    def __new__(cls: Any, inner: torch.Tensor) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)

    def __init__(self, inner: torch.Tensor) -> None:
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = tree_map_only(cls, lambda each: each.inner, (args, kwargs or {}))
        return tree_map_only(torch.Tensor, cls, func(*args, **kwargs))


@pytest.mark.usefixtures("cuda")
def test_wrapper_subclasses_are_on_the_device() -> None:
    x = torch.arange(12.0, device="cuda").reshape(3, 4)
    wrapped = Wrapper(x)
    assert wrapped.is_cuda
    assert wrapped.device == x.device == torch.device("cuda:0")
    for index in (0, slice(2), (slice(None), 1), torch.tensor([2, 0], device="cuda"), (..., None), x > 3):
        assert torch.equal(wrapped[index].inner, x[index])
    assert torch.equal(wrapped.narrow(0, 1, 2).inner, x[1:])
    assert wrapped.to(wrapped.device) is wrapped.to("cuda") is wrapped.cuda() is wrapped
    assert wrapped.new_empty(2).device == torch.empty_like(wrapped).device == wrapped.new_tensor([1.0]).device == x.device
    for other in (copy.deepcopy(wrapped), copy.copy(wrapped), wrapped.detach(), wrapped.data, wrapped.half(), *wrapped.split(1)):
        assert other.inner.device == other.device == x.device
    file = io.BytesIO()
    torch.save(wrapped, file)
    file.seek(0)
    assert torch.equal(torch.load(file, weights_only=False).inner, x)
    wrapped[0] = 5.0
    assert x[0].tolist() == [5] * 4
    parameter = nn.Parameter(Wrapper(x))
    parameter.mul(2).sum().backward()
    assert parameter.grad.inner.tolist() == [[2] * 4] * 3


def test_default_devices() -> None:
    with rustdev.as_cuda():
        with torch.device("cuda"):
            assert torch.zeros(2).is_cuda
            assert torch.zeros(2).device.type == "cuda"
        assert not torch.zeros(2).is_cuda
        torch.set_default_device("cuda:1")
        assert torch.zeros(2).device == torch.device("cuda:1")
    assert torch.zeros(2).device.type == "cpu"
    try:
        with rustdev.as_cuda():
            torch.set_default_tensor_type("torch.cuda.DoubleTensor")
            assert torch.zeros(2).type() == "torch.cuda.DoubleTensor"
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.zeros(2).device.type == "cpu"


@pytest.mark.usefixtures("cuda")
def test_functions_of_cuda() -> None:
    assert torch.cuda.is_available()
    assert torch.cuda.device_count() == 2
    assert torch.backends.cuda.is_built()
    assert torch.backends.cudnn.version() is None
    assert torch.get_device_module("cuda") is torch.cuda
    torch.cuda.set_device("cuda:1")
    assert torch.cuda.current_device() == 1
    assert torch.zeros(1, device="cuda").device.index == 1
    with torch.cuda.device(torch.device("cuda:0")):
        assert torch.zeros(1, device="cuda").device.index == 0
    torch.cuda.set_device(0)
    before = torch.cuda.memory_allocated("cuda:0")
    x = torch.ones(1 << 20, device="cuda")
    assert torch.cuda.memory_allocated() - before == x.nbytes
    assert torch.cuda.get_device_properties("cuda").total_memory == torch.cuda.mem_get_info(0)[1]
    assert "rustdev" in torch.cuda.get_device_name(torch.device("cuda", 1))
    torch.cuda.synchronize("cuda:1")
    imported_before()
    torch.cuda.empty_cache()
    with torch.cuda.nvtx.range("part"):
        pass
    torch.cuda.cudart().cudaProfilerStart()


@pytest.mark.usefixtures("cuda")
def test_random_numbers() -> None:
    torch.cuda.manual_seed_all(7)
    state = torch.cuda.get_rng_state("cuda:0")
    x = torch.randn(3, device="cuda")
    torch.cuda.set_rng_state(state)
    assert torch.equal(x, torch.randn(3, device="cuda"))
    for devices in ([0, 1], [x.device], (d for d in ("cuda:0", x.device))):
        with torch.random.fork_rng(devices=devices, device_type="cuda"), torch.random.fork_rng(devices=[x.device]):
            torch.cuda.manual_seed(3)
    generator = torch.Generator(device="cuda").manual_seed(7)
    assert isinstance(generator, torch.Generator)
    assert torch.equal(x, torch.randn(3, device="cuda", generator=generator))
    torch.manual_seed(7)
    assert torch.equal(x, torch.randn(3, device="cuda"))


@pytest.mark.usefixtures("cuda")
def test_classes_with_type_parameters_keep_them() -> None:
    """Programs that are imported in the scope have them in annotations, as torch.distributed.checkpoint does."""
    alias: Any = torch.futures.Future[list[int]]
    future = alias(devices=["cuda:0"])
    assert isinstance(future, torch.futures.Future)
    future.set_result(torch.ones(2, device="cuda"))
    assert future.wait().sum() == 2


@pytest.mark.usefixtures("cuda")
def test_streams_events_and_graphs() -> None:
    side = torch.cuda.Stream("cuda:0", priority=-1)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        assert torch.cuda.current_stream() == side
        start.record()
        torch.cuda._sleep(2_000_000)
        x = torch.ones(2, device="cuda")
        end.record()
    torch.cuda.current_stream().wait_event(end)
    x.record_stream(torch.cuda.current_stream())
    assert x.tolist() == [1, 1]
    end.synchronize()
    assert start.elapsed_time(end) >= 2
    assert isinstance(side, torch.cuda.Stream)
    assert isinstance(side, torch.Stream)
    assert side.cuda_stream
    torch.cuda.default_stream().wait_stream(torch.Stream(device="cuda"))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(cuda_graph=graph):
        y = x * 2
    x.fill_(4)
    graph.replay()
    assert y.tolist() == [8, 8]


@pytest.mark.usefixtures("cuda")
def test_mixed_precision() -> None:
    x = torch.ones(2, 2, device="cuda")
    for context in (torch.autocast("cuda"), torch.autocast(x.device.type, dtype=torch.float16), torch.amp.autocast("cuda")):
        with context:
            assert torch.is_autocast_enabled()
            assert torch.is_autocast_enabled("cuda")
            assert (x @ x).dtype == torch.float16
    for dtype in (torch.float32, torch.float64):  # of which the CPU device warns
        with torch.autocast("cuda", dtype=dtype):
            assert torch.get_autocast_dtype("cuda") == dtype
            assert (x.half() @ x.half()).dtype == dtype
    with pytest.warns(FutureWarning, match="deprecated"):
        context = torch.cuda.amp.autocast(dtype=torch.bfloat16)
    with context:
        assert torch.get_autocast_gpu_dtype() == torch.get_autocast_dtype("cuda") == torch.bfloat16
        assert (x @ x).dtype == torch.bfloat16
    with pytest.warns(FutureWarning, match="deprecated"):
        old = torch.cuda.amp.GradScaler(init_scale=8.0)
    for scaler in (old, torch.amp.GradScaler("cuda", init_scale=8.0), torch.amp.GradScaler(init_scale=8.0)):
        assert scaler.is_enabled()
        assert scaler.scale(x).tolist() == [[8, 8], [8, 8]]


class Triple(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        assert x.is_cuda
        return x * torch.full((), 3.0, device="cuda")

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * torch.full((), 3.0, device="cuda")


@pytest.mark.usefixtures("cuda")
def test_backward_functions_and_hooks() -> None:
    x = torch.ones(2, device="cuda", requires_grad=True)
    x.register_hook(lambda gradient: gradient + torch.ones(2, device="cuda"))
    Triple.apply(x).sum().backward()
    assert x.grad.tolist() == [4, 4]
    torch.autograd.backward(Triple.apply(x).sum())
    assert x.grad.tolist() == [8, 8]
    (gradient,) = torch.autograd.grad(Triple.apply(x).sum(), x)
    assert gradient.tolist() == [4, 4]


def test_files_say_cuda() -> None:
    file, outside = io.BytesIO(), io.BytesIO()
    torch.save(torch.ones(2, device="rustdev"), outside)
    with rustdev.as_cuda():
        torch.save(torch.ones(2, device="cuda:1"), file)
        seen = []
        for place in ("cuda", "cuda:1", torch.device("cuda", 1), None, {"cuda:1": "cuda:0"}, {"cuda:1": "cpu"}, "cpu"):
            file.seek(0)
            seen.append(str(torch.load(file, map_location=place).device))
        assert seen == ["cuda:0", "cuda:1", "cuda:1", "cuda:1", "cuda:0", "cpu", "cpu"]
        outside.seek(0)
        assert torch.load(outside).is_cuda
    file.seek(0)
    with pytest.raises(RuntimeError, match="Attempting to deserialize object on a CUDA device"):
        torch.load(file)
    file.seek(0)
    assert torch.load(file, map_location="rustdev").tolist() == [1, 1]


def test_threads() -> None:
    seen: list[Any] = []
    wait = threading.Event()

    def work() -> None:
        seen.append(torch.ones(1, device="cuda").device.type)
        wait.wait()
        try:
            torch.ones(1, device="cuda")
        except (RuntimeError, AssertionError):
            seen.append("no cuda")

    with rustdev.as_cuda():
        thread = threading.Thread(target=work)
        thread.start()
        while not seen and thread.is_alive():
            thread.join(0.01)
    wait.set()
    thread.join()
    assert seen == ["cuda", "no cuda"]


def test_nested_scopes_and_exceptions() -> None:
    outer = rustdev.as_cuda(profile="a100-80g")

    def fail() -> None:
        with outer:
            with outer, rustdev.as_cuda():
                assert torch.ones(1, device="cuda").is_cuda
            assert torch.cuda.get_device_name().startswith("NVIDIA A100")
            with pytest.raises(RuntimeError, match="cannot be t4-16g at once"), rustdev.as_cuda(profile="t4-16g"):
                pass
            assert torch.ones(1, device="cuda").is_cuda
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    make = rustdev.as_cuda()(lambda: torch.ones(1, device="cuda"))
    assert {make().device.type for _ in range(2)} == {"rustdev"}
    assert not torch.cuda.is_available()
    assert torch.overrides._get_current_function_mode_stack() == []


def test_a_mode_that_a_program_takes_off_the_stack() -> None:
    mode = torch.overrides.BaseTorchFunctionMode()

    def lose_the_mode() -> None:
        torch.overrides._pop_mode()
        with mode:
            for make in (lambda: torch.ones(1, device="cuda"), lambda: torch.ones(1).cuda()):
                with pytest.raises(RuntimeError, match='"cuda" does not mean rustdev here: the mode'):
                    make()

    with pytest.warns(RuntimeWarning, match="took the mode of rustdev.as_cuda off"), rustdev.as_cuda():
        lose_the_mode()
    scope = rustdev.as_cuda()
    with scope, mode:
        for has_default in (False, True):
            torch.set_default_device("cuda:1" if has_default else None)
            modes = torch.overrides._get_current_function_mode_stack()
            while torch._C._len_torch_function_stack():
                torch.overrides._pop_mode()
            for other in modes[:has_default] + modes[-1:]:
                torch.overrides._push_mode(other)
            scope._restore()
            assert torch.overrides._get_current_function_mode_stack()[-1] is mode
            assert torch.ones(1, device="cuda").is_cuda
            assert torch.ones(1).is_cuda is has_default
        scope._restore()
    # Modes that are entered out of order are left in the order of the program.
    scope.__enter__()
    mode.__enter__()
    scope.__exit__(None, None, None)
    assert torch.overrides._get_current_function_mode_stack() == [mode]
    mode.__exit__(None, None, None)


def test_a_real_gpu_is_not_hidden_by_accident(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(RuntimeError, match="force=True"), rustdev.as_cuda():
        pass
    with rustdev.as_cuda(force=True):
        assert torch.cuda.is_bf16_supported()


def test_profiles() -> None:
    with rustdev.as_cuda(profile="t4-16g"):
        properties = torch.cuda.get_device_properties("cuda")
        assert (properties.major, properties.minor) == torch.cuda.get_device_capability() == (7, 5)
        assert properties.total_memory <= 16 << 30
        assert properties.name == torch.cuda.get_device_name(0)
        assert properties.name.startswith("Tesla T4 (rustdev")
        assert not torch.cuda.is_bf16_supported(including_emulation=False)
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty((16 << 30) + 1, dtype=torch.uint8, device="cuda")
    with pytest.raises(ValueError, match="there is no profile 't5'; there are t4-16g"):
        rustdev.as_cuda(profile="t5")


@pytest.mark.usefixtures("cuda")
def test_compiled_functions_are_one_graph() -> None:
    place = torch.device("cuda", 1)

    @torch.compile(fullgraph=True, backend="aot_eager")
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x + torch.ones(3, device="cuda") + torch.ones(3).cuda() + torch.zeros(3).to("cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            z = y[None] @ y[:, None]
        return z + torch.ones(3, device=place).cuda(0).sum()

    x = torch.ones(3, device="cuda", requires_grad=True)
    result = function(x)
    assert result.dtype == torch.bfloat16
    assert result.tolist() == [[30]]
    result.sum().backward()
    assert x.grad.is_cuda
    assert x.grad.tolist() == [6, 6, 6]


def test_compiled_functions_of_a_gpu_with_tensor_cores() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        place = torch.accelerator.current_accelerator()
        return x + torch.ones(3, device=place) * 2 if torch.cuda.is_available() else x

    with rustdev.as_cuda(profile="a100-80g"):
        result = torch.compile(function)(torch.ones(3, device="cuda"))
        assert result.is_cuda
        assert result.tolist() == [3] * 3
        assert torch.cuda.is_available()
        assert not has_triton()
    interface = sys.modules["torch._dynamo.device_interface"].CudaInterface
    assert interface.synchronize is torch.cuda.synchronize


@pytest.mark.usefixtures("cuda")
def test_accelerator() -> None:
    x = torch.ones(1, device="cuda:1")
    current = torch.accelerator.current_accelerator()
    assert current == torch.accelerator.current_accelerator(check_available=True) == torch.device("cuda")
    assert torch.accelerator.device_count() == 2
    with torch.accelerator.device_index(1):
        assert torch.accelerator.current_device_index() == 1
        assert torch.ones(1, device=current).device == x.device
    for place in (x.device, "cuda:1", 1):
        torch.accelerator.synchronize(place)
        assert torch.accelerator.memory_allocated(place) == torch.cuda.memory_allocated(1)
        assert torch.accelerator.current_stream(place) == torch.cuda.current_stream(1)
        assert torch.accelerator.current_stream(place).device == x.device
        assert torch.float16 in torch.accelerator.get_device_capability(place)["supported_dtypes"]
    torch.accelerator.set_device_index(x.device)
    assert torch.cuda.current_device() == 1
    torch.accelerator.set_device_index("cuda:0")


@pytest.mark.usefixtures("cuda")
def test_bindings_that_libraries_call() -> None:
    torch._C._cuda_attach_out_of_memory_observer(lambda device, asked, total, free: seen.append(asked))
    seen: list[int] = []
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
    assert seen == [1 << 50]
    assert torch._C._cuda_getDeviceCount() == 2
    assert torch._C._cuda_exchangeDevice(1) == 0
    assert torch._C._cuda_getDevice() == 1
    torch._C._cuda_setDevice(0)
    assert torch._C._cuda_getCurrentRawStream(0) == torch.cuda.current_stream(0).cuda_stream
    assert torch._C._cuda_memoryStats(0).keys() == torch.cuda.memory_stats_as_nested_dict().keys()
    torch._C._cuda_synchronize()
    torch._C._cuda_emptyCache()


@pytest.mark.usefixtures("cuda")
def test_errors_name_the_device_that_the_program_knows() -> None:
    x = torch.ones(2, 2, device="cuda:1")
    with pytest.raises(TypeError, match=r"^can't convert cuda:1 device type tensor to numpy\. Use Tensor\.cpu\(\)"):
        x.numpy()
    for function in (x.add, x.mm, lambda other: torch.stack([x, other]), nn.Linear(2, 2).cuda(1)):
        with pytest.raises(RuntimeError, match=r"same device, .*\bcuda:1\b"):
            function(torch.ones(2, 2))


@pytest.mark.filterwarnings("ignore:.*torch.jit.script. is deprecated")
def test_scripted_modules() -> None:
    x = torch.ones(1, 2, 8, device="rustdev")
    with rustdev.as_cuda():
        attention = torch.jit.script(nn.MultiheadAttention(8, 2, batch_first=True).cuda())
        assert attention(x, x, x)[0].is_cuda
    assert torch.jit.script(nn.MultiheadAttention(8, 2, batch_first=True).to("rustdev"))(x, x, x)[0].shape == (1, 2, 8)


class Noisy(torch.distributions.Normal):
    """A program's own class, which PyTorch's code calls."""

    def _extended_shape(self, sample_shape: Any = ()) -> torch.Size:
        assert torch.ones(1, device="cuda").is_cuda
        return super()._extended_shape(sample_shape)


class Descent(torch.optim.SGD):
    """Likewise."""

    def _init_group(self, group: Any, *lists: Any) -> Any:
        self.scale = torch.ones((), device="cuda")
        return super()._init_group(group, *lists)


def train(device: str, optimizer: type[torch.optim.Optimizer], has_closure: bool) -> torch.Tensor:
    """Make two steps, with a hook and a closure that name the device."""
    weight = nn.Parameter(torch.linspace(-1, 1, 6, device=device))
    made = optimizer([weight], lr=0.1)
    made.register_step_pre_hook(lambda *_: seen.append(torch.ones(1, device=device)))
    seen: list[torch.Tensor] = []

    def closure() -> torch.Tensor:
        made.zero_grad()
        loss = (nn.functional.silu(weight) * torch.ones(6, device=device)).square().sum()
        loss.backward()
        nn.utils.clip_grad_norm_([weight], 0.5)
        return loss

    for _ in range(2):
        if not has_closure:
            closure()
        made.step(closure if has_closure else None)
    assert len(seen) == 2
    return weight.detach()


def test_steps_of_optimizers_are_those_of_the_device() -> None:
    for optimizer in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad, Descent):
        with rustdev.as_cuda():
            inside = [train("cuda", optimizer, has_closure).tolist() for has_closure in (False, True)]
        if optimizer is not Descent:
            assert inside == [train("rustdev", optimizer, has_closure).tolist() for has_closure in (False, True)]


@pytest.mark.usefixtures("cuda")
def test_clipping_reads_an_iterator_of_the_programs_with_the_mode() -> None:
    weight = nn.Parameter(torch.ones(4, device="cuda"))
    weight.grad = torch.full((4,), 10.0, device="cuda")
    nn.utils.clip_grad_norm_(filter(lambda parameter: parameter.is_cuda, [weight]), 1.0)
    assert weight.grad.norm().item() == pytest.approx(1.0, abs=1e-4)
    with pytest.warns(UserWarning, match="empty generator"):
        nn.utils.clip_grad_norm_((parameter for parameter in ()), 1.0)


@pytest.mark.usefixtures("cuda")
def test_what_runs_without_the_mode_calls_programs_with_it() -> None:
    place = torch.zeros(3, device="cuda")
    assert Noisy(place, place + 1).sample((2,)).shape == (2, 3)
    mixture = torch.distributions.Independent(Noisy(place, place + 1), 1)
    assert mixture.rsample().is_cuda
    assert torch.distributions.Normal(place, 1.0).log_prob(place).device == place.device
    assert len(torch.overrides._get_current_function_mode_stack()) == 1
    with pytest.raises(ValueError, match="Expected parameter"):
        torch.distributions.Normal(place, place - 1, validate_args=True)
    assert len(torch.overrides._get_current_function_mode_stack()) == 1


def test_compiled_steps_of_optimizers() -> None:
    def compiled(device: str) -> list[str]:
        """The graphs of a step."""
        graphs: list[str] = []

        def backend(graph: torch.fx.GraphModule, _: Any) -> Any:
            graphs.append(str([(node.op, str(node.target)) for node in graph.graph.nodes if node.op != "placeholder"]))
            return graph.forward

        weight = nn.Parameter(torch.ones(3, device=device))
        weight.grad = torch.ones(3, device=device)
        step = torch.compile(torch.optim.SGD([weight], lr=0.5, momentum=0.5).step, backend=backend)
        for expected in (0.5, -0.25):
            step()
            assert weight.tolist() == [expected] * 3
        return graphs

    with rustdev.as_cuda():
        inside = compiled("cuda")
    assert inside == compiled("rustdev")
    assert any("_foreach" in graph for graph in inside)


@pytest.mark.usefixtures("cuda")
def test_profiler_activities() -> None:
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profiler:
        torch.ones(64, 64, device="cuda").sum().item()
    assert sum(event.device_time_total for event in profiler.key_averages()) > 0


def test_backends_of_process_groups(tmp_path: Any) -> None:
    with rustdev.as_cuda():
        assert dist.is_nccl_available()
        for number, backend in enumerate(("nccl", "cpu:gloo,cuda:nccl", None)):
            dist.init_process_group(backend, init_method=f"file://{tmp_path}/{number}", rank=0, world_size=1)
            try:
                x = torch.ones(2, device="cuda")
                dist.all_reduce(x)
                assert x.tolist() == [1, 1]
                if backend == "nccl":
                    assert dist.get_backend() == "nccl"
                    mesh = dist.init_device_mesh("cuda", (1,))
                    assert dist.get_backend(mesh.get_group()) == "nccl"
                    dist.all_reduce(x, group=dist.new_group([0], backend="nccl"))
            finally:
                dist.destroy_process_group()
