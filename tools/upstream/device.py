"""What ``TORCH_TEST_DEVICES`` names: the class that PyTorch's test framework instantiates generic tests for.

The framework runs this file at the end of its own import and adds ``TEST_CLASS`` to its devices. It has found the CPU and the
backend by itself already; with rustdev alone, every test runs once.
"""

from torch.testing._internal import common_device_type

common_device_type.device_type_test_bases.clear()


class RustdevTestBase(common_device_type.PrivateUse1TestBase):
    """Generic tests of ``rustdev``: ``TestX`` becomes ``TestXRUSTDEV``, ``test_y`` becomes ``test_y_rustdev``."""

    device_type = "rustdev"


TEST_CLASS = RustdevTestBase
