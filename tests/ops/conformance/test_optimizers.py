"""Every optimizer of PyTorch's database against itself on the CPU, in each implementation; and the foreach operators."""

import copy
from typing import Any

import torch
from against_cpu import AgainstCpu, call, few
from rustdev_conformance.databases import choices, train
from torch.testing._internal.common_device_type import OpDTypes, instantiate_device_type_tests, ops
from torch.testing._internal.common_methods_invocations import foreach_op_db
from torch.testing._internal.common_optimizers import optim_db, optims


class TestOptimizers(AgainstCpu):
    """Names of tests are those of the kinds in expected.py."""

    @optims(optim_db, dtypes=[torch.float32])
    def test_optimizer(self, device: str, dtype: torch.dtype, optim_info: Any) -> None:
        with self.telling("optimizer", optim_info.optim_cls.__name__, dtype):
            for options in choices(few(optim_info.optim_inputs_func(device="cpu")), optim_info):
                self.check("", lambda _, on, it=options: train(optim_info, it, on, dtype), (), what=str(options), strides=False)


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
