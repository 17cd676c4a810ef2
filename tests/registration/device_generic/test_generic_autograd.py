"""Device-generic tests written as PyTorch writes them: gradients and modules. Run by ``tools/upstream``."""

import torch
from torch.autograd import gradcheck
from torch.testing import make_tensor
from torch.testing._internal.common_device_type import dtypes, expectedFailureMeta, instantiate_device_type_tests
from torch.testing._internal.common_utils import TestCase, run_tests


class TestGenericAutograd(TestCase):
    """Gradients on the device that the framework hands over."""

    @dtypes(torch.double)
    def test_gradcheck(self, device: str, dtype: torch.dtype) -> None:
        x = make_tensor((3, 2), device=device, dtype=dtype, requires_grad=True)
        self.assertTrue(gradcheck(lambda x: (x.exp() @ x.t()).sum(0), (x,)))

    @expectedFailureMeta
    @dtypes(torch.float, torch.bfloat16)
    def test_linear_layer(self, device: str, dtype: torch.dtype) -> None:
        layer = torch.nn.Linear(3, 2, device=device, dtype=dtype)
        layer(torch.ones(4, 3, device=device, dtype=dtype)).sum().backward()
        self.assertEqual(layer.weight.grad, torch.full((2, 3), 4.0, device=device, dtype=dtype))

    def test_device_of_a_gradient(self, device: str) -> None:
        x = torch.ones(2, device=device, requires_grad=True)
        x.square().sum().backward()
        self.assertEqual(x.grad.device, torch.device(device))


instantiate_device_type_tests(TestGenericAutograd, globals())

if __name__ == "__main__":
    run_tests()
