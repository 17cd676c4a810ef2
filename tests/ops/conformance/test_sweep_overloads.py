"""The sweep of layouts over every ATen overload that writes to an argument: ``out=`` and in-place forms."""

from typing import Any

import torch
from against_cpu import AgainstCpu, is_plain, outcome, tensors
from layouts import LAYOUTS, chance, relaid, replaced, shifted
from overloads import Call, copied, forms, named, schemas, writers, written
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_utils import parametrize
from torch.utils import _pytree as pytree

SCHEMAS = schemas()
#: Operators of which the CPU's kernel takes what it writes to for contiguous: it ends the process, or writes beside it.
DEADLY = {
    *("_log_softmax", "_log_softmax_backward_data", "_softmax", "_softmax_backward_data", "gelu", "im2col", "col2im"),
    *("adaptive_max_pool3d", "adaptive_max_pool3d_backward", "avg_pool3d", "avg_pool3d_backward", "narrow_copy"),
    *("fractional_max_pool2d", "fractional_max_pool2d_backward", "fractional_max_pool3d", "fractional_max_pool3d_backward"),
    *("max_pool3d_with_indices", "max_pool3d_with_indices_backward", "replication_pad2d", "replication_pad2d_backward"),
    *("replication_pad3d", "replication_pad3d_backward", "upsample_bicubic2d_backward"),
    *("rrelu_with_noise", "rrelu_with_noise_", "rrelu_with_noise_backward"),
}
#: Parts of the names of operators that leave memory as they find it.
UNWRITTEN = ("empty", "resize")


def targets_of(overload: Any, call: Call) -> dict[str, Any] | None:
    """Return the arguments that are written to, for a call like this one."""
    given = named(call)
    outs = [it.name for it in overload._schema.arguments if it.is_out]
    if not outs:
        return {name: given[name] for name in written(overload) if name in given}
    result, refusal = outcome(lambda: call.overload(*copied(call.args), **copied(call.kwargs)))
    if refusal is not None:
        return None
    results = list(result) if isinstance(result, tuple) else [result]
    if len(results) != len(outs) or not tensors(results) or not all(map(is_plain, tensors(results))):
        return None
    return dict(zip(outs, pytree.tree_map_only(torch.Tensor, torch.zeros_like, results), strict=True))


def variants(given: dict[str, Any], targets: dict[str, Any]) -> Any:
    """Yield arguments whose written ones are of each layout, and share memory with each other argument."""
    fresh = {**given, **targets}
    yield "contiguous", copied(fresh)
    for what, layout in LAYOUTS.items():
        changed = relaid(targets, layout)
        if changed is not None:
            yield what, {**copied(given), **changed}
    if len(targets) != 1 or len(tensors(targets)) != 1:
        return
    (target,) = tensors(targets)
    for value in tensors(given):
        if value is target or not is_plain(value):
            continue
        if value.shape == target.shape and value.dtype is target.dtype:
            yield "shared", copied({**given, **pytree.tree_map_only(torch.Tensor, lambda _, value=value: value, targets)})
        pair = shifted(value, target)
        if pair is not None:
            yield "shifted", replaced(replaced(fresh, value, pair[0]), target, pair[1])


class TestOverloads(AgainstCpu):
    """Names of tests are those of the kinds in expected.py."""

    same_exceptions = True

    @parametrize("name", [name for name in writers() if name not in DEADLY])
    def test_overload(self, device: str, name: str) -> None:
        with self.telling("overload", name):
            for overload, call in forms(name, SCHEMAS[name]):
                targets = targets_of(overload, call)
                if targets:
                    self.hold(overload, call, targets)

    def hold(self, overload: Any, call: Call, targets: dict[str, Any]) -> None:
        """Compare an overload's results in targets of each layout."""
        keys = {it.name for it in overload._schema.arguments}
        given = {key: value for key, value in named(call).items() if key in keys}
        state = torch.get_rng_state()
        outcome(lambda: overload(**copied({**given, **targets})))
        random = not torch.equal(state, torch.get_rng_state()) or any(part in overload._schema.name for part in UNWRITTEN)
        for what, arguments in variants(given, targets):
            self.check(
                f"{overload._schema.overload_name or 'default'} {what}",
                lambda arguments, _device: overload(**arguments),
                arguments,
                by_chance=chance(lambda: random, what, lambda apart: overload(**apart), arguments),
                memory=True,
            )


instantiate_device_type_tests(TestOverloads, globals())
