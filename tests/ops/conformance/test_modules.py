"""Every module of PyTorch's database against itself on the CPU: results and gradients."""

from collections.abc import Callable
from typing import Any

import torch
from against_cpu import AgainstCpu, few, seeded
from rustdev_conformance.compare import gradients
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_modules import module_db, modules


class AgainstItself(AgainstCpu):
    """A test of modules."""

    def hold(self, module_info: Any, training: bool, prepare: Callable[[torch.nn.Module], Any] = lambda module: module) -> None:
        """Compare a module of float32 on its samples with itself on the CPU; ``prepare`` is applied to the device's."""

        def run(given: Any, on: str) -> Any:
            module, args, kwargs = given
            results = seeded(lambda: (module if on == "cpu" else prepare(module))(*args, **kwargs))
            return results, gradients(results, (list(module.parameters()), args, kwargs))

        samples = module_info.module_inputs_func(
            module_info, device="cpu", dtype=torch.float32, requires_grad=True, training=training
        )
        for sample in few(samples):
            if sample.forward_input is None:
                continue
            made = sample.constructor_input
            host = module_info.module_cls(*made.args, **made.kwargs).train(training).to(torch.float32)
            args, kwargs = sample.forward_input.args, sample.forward_input.kwargs
            if isinstance(host, torch.nn.modules.lazy.LazyModuleMixin):
                host(*args, **kwargs)
            random = training and any(isinstance(it, torch.nn.modules.dropout._DropoutNd) and it.p > 0 for it in host.modules())
            random = random or "RReLU" in module_info.name or "FractionalMaxPool" in module_info.name
            self.check("", run, (host, args, kwargs), by_chance=lambda _, random=random: random, strides=False)


class TestModules(AgainstItself):
    """Names of tests are those of the kinds in expected.py."""

    @modules(module_db, allowed_dtypes=(torch.float32,))
    def test_module(self, device: str, dtype: torch.dtype, module_info: Any, training: bool) -> None:
        with self.telling("module", module_info.formatted_name, dtype):
            self.hold(module_info, training)


instantiate_device_type_tests(TestModules, globals())
