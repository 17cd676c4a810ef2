"""``custom_kernel::softcap``: a custom operator that runs on the streams of rustdev. Its kernel is the Rust crate in this folder.

Run it (``python examples/custom_kernel/custom_kernel.py``) to build the crate with cargo and to run the operator.
"""

import ctypes
import subprocess
from pathlib import Path

import torch

# Functions of the runtime, in the order of `Runtime` in src/runtime.rs.
FUNCTIONS = ("rd_stream_current", "rd_stream_submit", "rd_parallel")
DIRECTORY = Path(__file__).parent


def build(target: Path = DIRECTORY / "target") -> Path:
    """Build the crate with cargo.

    Args:
        target: Build directory of cargo.

    Returns:
        Path of the library.
    """
    manifest = DIRECTORY / "Cargo.toml"
    command = ["cargo", "build", "--release", "--quiet", "--manifest-path", str(manifest), "--target-dir", str(target)]
    subprocess.run(command, check=True)
    return target / "release/libcustom_kernel.so"


def load(path: Path) -> None:
    """Load the library, pass it the functions of the loaded runtime, and register the operator.

    Args:
        path: Path of the library, from :func:`build`.
    """
    from rustdev import _rustdev

    # The module is already loaded: this is its handle, not a second copy.
    runtime = ctypes.CDLL(_rustdev.__file__)
    runtime.rd_last_error.restype = ctypes.c_char_p
    library = ctypes.CDLL(str(path))
    addresses = [ctypes.cast(getattr(runtime, name), ctypes.c_void_p) for name in FUNCTIONS]
    library.connect((ctypes.c_void_p * len(addresses))(*addresses))
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    library.softcap.argtypes = [ctypes.c_int32, pointer, pointer, size, ctypes.c_float]
    library.softcap.restype = ctypes.c_int32

    @torch.library.custom_op("custom_kernel::softcap", mutates_args=(), device_types="rustdev")
    def softcap(x: torch.Tensor, cap: float) -> torch.Tensor:
        if x.dtype is not torch.float32:
            raise TypeError(f"softcap takes float32, not {x.dtype}")
        x = x.contiguous()
        out = torch.empty_like(x)
        status = library.softcap(x.device.index, out.data_ptr(), x.data_ptr(), x.numel(), cap)
        if status != 0:
            raise RuntimeError(f"softcap: {runtime.rd_last_error().decode()}")
        return out

    @softcap.register_fake
    def _(x: torch.Tensor, cap: float) -> torch.Tensor:
        return torch.empty_like(x, memory_format=torch.contiguous_format)

    def setup(ctx: torch.autograd.function.FunctionCtx, inputs: tuple[torch.Tensor, float], output: torch.Tensor) -> None:
        ctx.save_for_backward(output)
        ctx.cap = inputs[1]  # type: ignore[attr-defined]

    def backward(ctx: torch.autograd.function.FunctionCtx, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        (output,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return grad * (1 - (output / ctx.cap).square()), None  # type: ignore[attr-defined]

    softcap.register_autograd(backward, setup_context=setup)


def main() -> None:
    """Build and load the operator, and compare it with the same formula in PyTorch operators."""
    load(build())
    x = torch.linspace(-100, 100, 1_000_000, device="rustdev", requires_grad=True)
    y = torch.ops.custom_kernel.softcap(x, 30.0)
    y.sum().backward()
    print("largest difference from 30 * tanh(x / 30):", (y - 30 * torch.tanh(x / 30)).abs().max().item())
    print("gradient at 0:", x.grad[500_000].item() if x.grad is not None else None)


if __name__ == "__main__":
    main()
