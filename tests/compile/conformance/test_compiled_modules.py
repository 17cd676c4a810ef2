"""Every module of PyTorch's database, compiled, against itself on the CPU, with gradients: in ``make conformance-compile``.

Once with the sizes as constants, once with all of them dynamic.
"""

import functools
import os
from typing import Any

os.environ.setdefault("CONFORMANCE_SAMPLES", "1")

import torch
from test_modules import AgainstItself
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_modules import module_db, modules


class TestCompiledModules(AgainstItself):
    """Names of tests are those of the kinds in expected.py."""

    def setUp(self) -> None:
        super().setUp()
        torch._dynamo.reset()

    @modules(module_db, allowed_dtypes=(torch.float32,))
    def test_compiled_module(self, device: str, dtype: torch.dtype, module_info: Any, training: bool) -> None:
        with self.telling("compiled_module", module_info.formatted_name, dtype):
            self.hold(module_info, training, torch.compile)

    @modules(module_db, allowed_dtypes=(torch.float32,))
    def test_compiled_module_dynamic(self, device: str, dtype: torch.dtype, module_info: Any, training: bool) -> None:
        with self.telling("compiled_module_dynamic", module_info.formatted_name, dtype):
            self.hold(module_info, training, functools.partial(torch.compile, dynamic=True))


instantiate_device_type_tests(TestCompiledModules, globals())
