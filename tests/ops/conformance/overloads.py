"""Calls of ATen's overloads, recorded from PyTorch's databases, and the overloads that write to arguments."""

import functools
import warnings
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch.testing._internal.common_methods_invocations import foreach_unary_op_db, op_db
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

#: Keeps so many calls of each overload.
KEPT = 3
#: Sizes and dtypes of tensors that are made up for an operator that the databases do not call.
SHAPES = ((3, 4), (4, 4), (2, 3, 4), (2, 3, 4, 4), (2, 3, 4, 4, 4), (4,))
MADE_UP = {"int": 1, "SymInt": 1, "float": 0.5, "number": 1, "bool": False, "List[int]": [1, 1], "List[SymInt]": [1, 1]}
#: Internal operators of other devices and libraries, of quantised and of sparse tensors.
FOREIGN = ("cudnn", "miopen", "mkldnn", "mps", "quantize", "sparse", "nested", "_copy_from", "set_", "from_file")
#: Arguments of functional forms that those with out= do not have.
FACTORY = ("dtype", "layout", "device", "pin_memory")


class Call(NamedTuple):
    """A call of an overload: what is called, and with what."""

    overload: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@functools.cache
def schemas() -> dict[str, list[Any]]:
    """Return the overloads of each of ATen's operators."""
    found = defaultdict(list)
    for schema in torch._C._jit_get_all_schemas():
        namespace, _, name = schema.name.partition("::")
        if namespace == "aten" and not any(part in name for part in FOREIGN):
            found[name].append(getattr(getattr(torch.ops.aten, name), schema.overload_name or "default"))
    return found


def written(overload: Any) -> list[str]:
    """Return the names of the arguments that an overload writes to."""
    arguments = [it for it in overload._schema.arguments if it.alias_info is not None and it.alias_info.is_write]
    return [it.name for it in arguments if str(it.type) in ("Tensor", "List[Tensor]", "Optional[Tensor]")]


def writers() -> list[str]:
    """Return the names of the operators of which an overload writes to one of its arguments."""
    return sorted(name for name, overloads in schemas().items() if any(map(written, overloads)))


class _Recorder(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.calls: dict[str, list[Call]] = defaultdict(list)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        known = self.calls[func._schema.name.partition("::")[2]]
        if sum(call.overload is func for call in known) < KEPT and is_strided((args, kwargs)):
            known.append(Call(func, *copied((args, kwargs))))
        return func(*args, **kwargs)


def is_strided(tree: Any) -> bool:
    """Return whether a tree's tensors all have strides."""
    leaves = [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]
    return all(type(it) is torch.Tensor and it.layout is torch.strided and not it.is_quantized for it in leaves)


def copied(tree: Any) -> Any:
    """Return a tree with copies of its tensors, which have memory of their own."""
    made: dict[int, torch.Tensor] = {}

    def copy(value: torch.Tensor) -> torch.Tensor:
        return made.setdefault(id(value), value.detach().resolve_conj().resolve_neg().clone())

    return pytree.tree_map_only(torch.Tensor, copy, tree)


@functools.cache
def recorded() -> dict[str, list[Call]]:
    """Return what ATen's operators are called with by the databases' first samples, forward and backward."""
    recorder = _Recorder()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op in op_db:
            dtypes = [dtype for dtype in (torch.float32, torch.int64, torch.complex64) if dtype in op.dtypes]
            for dtype in dtypes[:1]:
                takes_gradient = op.supports_autograd and dtype.is_floating_point
                for sample in islice(op.sample_inputs("cpu", dtype, requires_grad=takes_gradient), 2):
                    _record(recorder, op, sample)
        for op in foreach_unary_op_db:
            for sample in islice(op.sample_inputs("cpu", torch.float32), 1):
                _record(recorder, op.inplace_variant or op.method_variant, sample)
    return recorder.calls


def _record(recorder: _Recorder, op: Any, sample: Any) -> None:
    forms = [op, getattr(op, "inplace_variant", None)]
    for form in forms:
        if form is None:
            continue
        given = copied((sample.input, sample.args, sample.kwargs)) if form is not op else (sample.input, sample.args, sample.kwargs)
        try:
            with recorder:
                results = form(given[0], *given[1], **given[2])
                results = [it for it in pytree.tree_leaves(results) if isinstance(it, torch.Tensor) and it.requires_grad]
                if results:
                    torch.autograd.backward(results, [torch.ones_like(it) for it in results])
            if form is op and hasattr(op, "aliases"):
                _record_composite(recorder, op, given)
        except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError, AssertionError):
            continue


def _record_composite(recorder: _Recorder, op: Any, given: Any) -> None:
    """Record the call of an operator that PyTorch takes apart before a recorder sees it."""
    names = {it.replace(".", "_") for it in (op.name, *(alias.name for alias in op.aliases))}
    for name in names:
        if recorder.calls.get(name):
            continue
        try:
            overload = torch._C._jit_resolve_packet(f"aten::{name}", given[0], *given[1], **given[2])
        except RuntimeError:
            continue
        packet = getattr(torch.ops.aten, name)
        recorder.calls[name].append(Call(getattr(packet, overload or "default"), *copied(((given[0], *given[1]), given[2]))))


def made_up(overload: Any) -> Iterator[Call]:
    """Yield calls of a functional overload with arguments that are made up by their types."""
    for shape in SHAPES:
        for dtype in (torch.float32, torch.int64):
            generator = torch.Generator().manual_seed(0)
            args, kwargs = [], {}
            for it in overload._schema.arguments:
                if it.has_default_value():
                    continue
                kind = str(it.type)
                if kind == "Tensor":
                    value: Any = torch.randint(1, 4, shape, generator=generator).to(dtype)
                elif kind == "List[Tensor]":
                    value = [torch.randint(1, 4, shape, generator=generator).to(dtype) for _ in range(2)]
                else:
                    value = MADE_UP.get(kind)
                if it.kwarg_only:
                    kwargs[it.name] = value
                else:
                    args.append(value)
            yield Call(overload, tuple(args), kwargs)


def named(call: Call) -> dict[str, Any]:
    """Return a call's arguments by their names."""
    names = [it.name for it in call.overload._schema.arguments]
    return {**dict(zip(names, call.args, strict=False)), **call.kwargs}


def forms(name: str, overloads: list[Any]) -> Iterator[tuple[Any, Call]]:
    """Yield the overloads of an operator that write somewhere, each beside a call whose arguments it takes.

    That is a call of the functional overload, which of an in-place operator is the one without the underscore, or its own.
    """
    calls = [*recorded().get(name, []), *(recorded().get(name[:-1], []) if name.endswith("_") else [])]
    functional = [call for call in calls if not written(call.overload)]
    if not calls:
        stems = schemas().get(name.removesuffix("_"), [])
        functional = [call for it in stems if not written(it) for call in islice(_accepted(it), 1)]
    for overload in filter(written, overloads):
        own = [call for call in calls if call.overload is overload]
        yield from ((overload, call) for call in own or functional if takes(overload, call))


def takes(overload: Any, call: Call) -> bool:
    """Return whether an overload takes a call's arguments, but for what it writes to."""
    arguments = [it for it in overload._schema.arguments if not it.is_out]
    given = {key for key, value in named(call).items() if value is not None and key not in FACTORY}
    needed = {it.name for it in arguments if not it.has_default_value()}
    return needed <= given <= {it.name for it in arguments}


def _accepted(overload: Any) -> Iterator[Call]:
    """Yield calls with made up arguments that the CPU takes; internal operators may not look at theirs, and are left out."""
    name = overload._schema.name.partition("::")[2]
    if name.startswith("_") or not (hasattr(torch, name) or hasattr(torch.Tensor, name)) or "norm" in name:
        return
    for call in made_up(overload):
        try:
            call.overload(*copied(call.args), **copied(call.kwargs))
        except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError):
            continue
        yield call
