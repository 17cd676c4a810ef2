"""Every module of PyTorch's database against itself on the CPU: results and gradients."""

import copy
import warnings
from collections.abc import Callable
from typing import Any

import torch
from against_cpu import Comparison, expecting, few, on_device, precise, seeded
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_modules import module_db, modules
from torch.testing._internal.common_utils import TestCase
from torch.utils import _pytree as pytree


def run_module(module: torch.nn.Module, given: Any) -> Any:
    """Return results, and the gradients of parameters and inputs."""
    args, kwargs = given
    results = seeded(lambda: module(*args, **kwargs))
    leaves = [leaf for leaf in [*module.parameters(), *pytree.tree_leaves(given)] if isinstance(leaf, torch.Tensor)]
    leaves = [leaf for leaf in leaves if leaf.requires_grad]
    outputs = [it for it in pytree.tree_leaves(results) if isinstance(it, torch.Tensor) and it.requires_grad]
    if not outputs or not leaves:
        return results
    grads = torch.autograd.grad(outputs, leaves, [torch.ones_like(it) for it in outputs], allow_unused=True)
    return results, [grad for grad in grads if grad is not None]


def hold_module(
    test: TestCase, device: str, module_info: Any, training: bool, prepare: Callable[[torch.nn.Module], Any] = lambda module: module
) -> None:
    """Compare a module of float32 on its samples with itself on the CPU; ``prepare`` is applied to the device's."""
    comparison = Comparison(test, device)
    dtype = torch.float32
    samples = module_info.module_inputs_func(module_info, device="cpu", dtype=dtype, requires_grad=True, training=training)
    for sample in few(samples):
        if sample.forward_input is None:
            continue
        made = sample.constructor_input
        host = module_info.module_cls(*made.args, **made.kwargs).train(training).to(dtype)
        given = (sample.forward_input.args, sample.forward_input.kwargs)
        if isinstance(host, torch.nn.modules.lazy.LazyModuleMixin):
            host(*given[0], **given[1])
        mine, exact = prepare(copy.deepcopy(host).to(device)), copy.deepcopy(host).double()
        moved, wide = on_device(given, device), precise(given)
        random = training and any(isinstance(part, torch.nn.modules.dropout._DropoutNd) and part.p > 0 for part in host.modules())
        random = random or "RReLU" in module_info.name or "FractionalMaxPool" in module_info.name
        expected = run_module(host, given)
        actual = run_module(mine, moved)
        comparison.results(
            actual,
            expected,
            values=not random,
            strides=False,
            exact=lambda change, exact=exact, wide=wide: run_module(copy.deepcopy(exact), change(wide)),
        )


class TestModules(TestCase):
    """Names of tests are those of the kinds in expected.py."""

    def setUp(self) -> None:
        super().setUp()
        warnings.simplefilter("ignore")

    @modules(module_db, allowed_dtypes=(torch.float32,))
    def test_module(self, device: str, dtype: torch.dtype, module_info: Any, training: bool) -> None:
        with expecting("module", module_info.formatted_name, dtype):
            hold_module(self, device, module_info, training)


instantiate_device_type_tests(TestModules, globals())
