"""Every optimizer of PyTorch's database against itself on the CPU, in each implementation; and the foreach operators."""

import copy
from typing import Any

import torch
from against_cpu import AgainstCpu, call, few
from torch.testing._internal.common_device_type import OpDTypes, instantiate_device_type_tests, ops
from torch.testing._internal.common_methods_invocations import foreach_op_db
from torch.testing._internal.common_optimizers import optim_db, optims

STEPS = 3


def train(optim_info: Any, options: dict[str, Any], device: str, dtype: torch.dtype) -> list[torch.Tensor]:
    """Return the parameters after some steps."""
    generator = torch.Generator().manual_seed(1)
    parameters = [
        torch.randn(shape, generator=generator, dtype=dtype).to(device).requires_grad_() for shape in ((3, 4), (5,), (10, 10))
    ]
    options = copy.deepcopy(options)
    for key, value in options.items():
        options[key] = value.to(device) if isinstance(value, torch.Tensor) and value.dim() > 0 else value
    if optim_info.optim_cls is torch.optim.Muon:
        parameters = [parameter for parameter in parameters if parameter.dim() == 2]
    optimizer = optim_info.optim_cls(parameters, **options)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        # What is to be maximized has a maximum.
        loss = sum(((parameter - 1) ** 2).sum() for parameter in parameters) * (-1 if options.get("maximize") else 1)
        loss.backward()
        if optim_info.only_supports_sparse_grads:
            for parameter in parameters:
                parameter.grad = parameter.grad.to_sparse()
        return loss

    for _ in range(STEPS):
        closure()
        optimizer.step(closure) if optim_info.step_requires_closure else optimizer.step()
    return [parameter.detach() for parameter in parameters]


class TestOptimizers(AgainstCpu):
    """Names of tests are those of the kinds in expected.py."""

    @optims(optim_db, dtypes=[torch.float32])
    def test_optimizer(self, device: str, dtype: torch.dtype, optim_info: Any) -> None:
        with self.telling("optimizer", optim_info.optim_cls.__name__, dtype):
            for sample in few(optim_info.optim_inputs_func(device="cpu")):
                for choice in ({}, *({name: True} for name in optim_info.supported_impls if name != "differentiable")):
                    options = {**sample.kwargs, **choice}
                    if options.get("capturable") or (options.get("foreach") and options.get("fused")):
                        continue
                    if not options.get("fused") or (not options.get("differentiable") and "cpu" in optim_info.supports_fused_on):
                        run = lambda _, on, it=options: train(optim_info, it, on, dtype)  # noqa: E731
                        self.check("", run, (), what=str(options), strides=False)


class TestLists(AgainstCpu):
    """The ``_foreach_`` operators."""

    @ops(foreach_op_db, dtypes=OpDTypes.supported, allowed_dtypes=(torch.float32, torch.bfloat16, torch.int64))
    def test_foreach(self, device: str, dtype: torch.dtype, op: Any) -> None:
        with self.telling("foreach", op, dtype):
            for sample in few(op.sample_inputs("cpu", dtype)):
                given = (sample.input, sample.args, {k: v for k, v in sample.kwargs.items() if k != "disable_fastpath"})
                for variant in filter(None, (op.method_variant, op.inplace_variant)):
                    # The tensors of the first list after the call count, too.
                    self.check("", lambda it, on, form=variant: (call(form, it), it[0]), copy.deepcopy(given))


instantiate_device_type_tests(TestOptimizers, globals())
instantiate_device_type_tests(TestLists, globals())
