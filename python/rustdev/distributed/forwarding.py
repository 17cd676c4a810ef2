"""Methods of the ``Work`` objects that programs receive.

Such an object is a C++ wrapper of an ``RdcclWork`` that forwards only ``wait`` and ``get_future``. The other methods of
``torch.distributed.Work`` are therefore replaced by methods that find the wrapped RdcclWork, if any, and forward to it.
"""

import functools
from collections.abc import Callable, Iterable
from typing import Any

from torch._C._distributed_c10d import Work

from .work import RdcclWork, finding


def _inner(work: Work) -> RdcclWork | None:
    """Return the RdcclWork that a Work wraps; None for other backends. It registers itself in ``finding`` in ``get_future``."""
    if type(work) is not Work:
        return None
    found: list[RdcclWork] = []
    finding.found = found
    try:
        work.get_future()
    except RuntimeError:  # not every backend has futures
        return None
    finally:
        del finding.found
    return found[0] if found else None


def _forwarding(name: str) -> Callable[..., Any]:
    method = getattr(Work, name)

    @functools.wraps(method)
    def forward(self: Work, *arguments: Any) -> Any:
        inner = _inner(self)
        return method(self, *arguments) if inner is None else getattr(inner, name)(*arguments)

    forward._is_rdccl = True  # type: ignore[attr-defined]
    return forward


def install_work_methods(
    names: Iterable[str] = (
        "is_completed",
        "is_success",
        "exception",
        "result",
        "source_rank",
        "_source_rank",
        "synchronize",
        "block_current_stream",
    ),
) -> None:
    """Make methods of ``torch.distributed.Work`` forward to RdcclWork.

    Args:
        names: Methods to replace; methods that this torch does not have are skipped.
    """
    for name in names:
        if hasattr(Work, name) and not hasattr(getattr(Work, name), "_is_rdccl"):
            setattr(Work, name, _forwarding(name))
