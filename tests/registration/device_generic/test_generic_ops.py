"""Device-generic tests written as PyTorch writes them: operators, dtypes and devices. Run by ``tools/upstream``."""

import torch
from torch.testing import make_tensor
from torch.testing._internal.common_device_type import (
    deviceCountAtLeast,
    dtypes,
    dtypesIfPRIVATEUSE1,
    instantiate_device_type_tests,
    onlyCPU,
    onlyCUDA,
    onlyNativeDeviceTypes,
    ops,
    skipIf,
)
from torch.testing._internal.common_dtype import floating_types_and
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import TestCase, parametrize, run_tests

SOME = [op for op in op_db if op.name in ("add", "exp", "mm", "sort")]


class TestGenericOps(TestCase):
    """Operators on the device that the framework hands over."""

    @dtypes(*floating_types_and(torch.bfloat16, torch.half), torch.int64)
    def test_add_scalar(self, device: str, dtype: torch.dtype) -> None:
        x = make_tensor((3, 4), device=device, dtype=dtype)
        self.assertEqual((x + 2).cpu(), x.cpu() + 2)
        self.assertEqual((x + 2).dtype, dtype)

    @dtypes(torch.float64)
    @dtypesIfPRIVATEUSE1(torch.float32)
    def test_dtypes_of_this_device(self, device: str, dtype: torch.dtype) -> None:
        self.assertEqual(dtype, torch.float32)
        self.assertEqual(torch.ones(2, device=device, dtype=dtype).sum().item(), 2)

    @parametrize("size", [1, 7])
    def test_arange(self, device: str, size: int) -> None:
        self.assertEqual(torch.arange(size, device=device).cpu(), torch.arange(size))

    @ops(SOME, allowed_dtypes=(torch.float32,))
    def test_samples(self, device: str, dtype: torch.dtype, op: object) -> None:
        for sample in op.sample_inputs(device, dtype):
            expected = op(sample.input.cpu(), *(to_cpu(one) for one in sample.args), **sample.kwargs)
            self.assertEqual(to_cpu(op(sample.input, *sample.args, **sample.kwargs)), expected)

    @deviceCountAtLeast(2)
    def test_two_devices(self, devices: list[str]) -> None:
        self.assertEqual(devices[:2], ["rustdev:0", "rustdev:1"])
        self.assertEqual(torch.ones(2, device=devices[1]).to(devices[0]).cpu(), torch.ones(2))

    @onlyNativeDeviceTypes
    def test_is_native(self, device: str) -> None:
        self.assertEqual(torch.device(device).type, torch._C._get_privateuse1_backend_name())

    @onlyCUDA
    def test_of_cuda(self, device: str) -> None:
        self.fail("not for this device")

    @onlyCPU
    def test_of_the_cpu(self, device: str) -> None:
        self.fail("not for this device")

    @skipIf(True, "shows a skip")
    def test_skipped(self, device: str) -> None:
        self.fail("skipped")


def to_cpu(value: object) -> object:
    """Move every tensor to the CPU."""
    return torch.utils._pytree.tree_map(lambda one: one.cpu() if isinstance(one, torch.Tensor) else one, value)


instantiate_device_type_tests(TestGenericOps, globals())

if __name__ == "__main__":
    run_tests()
