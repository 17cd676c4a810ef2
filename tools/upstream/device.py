"""Device class for PyTorch's test framework, named by ``TORCH_TEST_DEVICES``.

The framework executes this file at the end of its own import and adds ``TEST_CLASS`` to its devices. It has already found the CPU
and the backend by itself. This file removes both, so that every test runs once, on rustdev.
"""

from torch.testing._internal import common_device_type

common_device_type.device_type_test_bases.clear()


class RustdevTestBase(common_device_type.PrivateUse1TestBase):
    """Generic tests of ``rustdev``: ``TestX`` becomes ``TestXRUSTDEV``, ``test_y`` becomes ``test_y_rustdev``."""

    device_type = "rustdev"


TEST_CLASS = RustdevTestBase
