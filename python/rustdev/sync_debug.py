"""Sync debug mode: a warning or an error if an operator implicitly waits for the device."""

from . import _rustdev
from ._utils import _refuse_in_fork_child

__all__ = ["get_sync_debug_mode", "set_sync_debug_mode"]

_MODES = ("default", "warn", "error")


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Set the debug mode for operators that implicitly wait for the device.

    Such operators are: copies to and from the host, except copies of pinned memory with ``non_blocking=True``; operators that read
    values, such as ``tensor.item()``, ``tensor.tolist()``, ``nonzero`` and mask indexing; operators that fall back to the CPU.
    Explicit waits, such as :func:`synchronize`, are allowed in every mode.

    Args:
        debug_mode: 0 or ``"default"``: no effect; 1 or ``"warn"``: warn; 2 or ``"error"``: raise RuntimeError before the wait.

    Raises:
        RuntimeError: If ``debug_mode`` is none of these.
    """
    _refuse_in_fork_child()
    mode = _MODES.index(debug_mode) if debug_mode in _MODES else debug_mode
    if mode not in (0, 1, 2):
        raise RuntimeError(f"invalid value of debug_mode, expected one of 0, 1, 2, {', '.join(_MODES)}, and not {debug_mode!r}")
    _rustdev.set_sync_debug_mode(int(mode))


def get_sync_debug_mode() -> int:
    """Return the sync debug mode: 0 (default), 1 (warn) or 2 (error); see :func:`set_sync_debug_mode`."""
    return _rustdev.sync_debug_mode()
