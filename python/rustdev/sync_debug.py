"""A warning or an error where an operator waits for the device though the program has not asked it to."""

from . import _rustdev
from ._utils import _refuse_in_fork_child

__all__ = ["get_sync_debug_mode", "set_sync_debug_mode"]

_MODES = ("default", "warn", "error")


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Choose what happens when an operator waits for the device.

    These wait: copies to and from the host that are not of pinned memory with ``non_blocking=True``; what reads a value, such as
    ``tensor.item()``, ``tensor.tolist()``, ``nonzero`` and masks as indices; operators that fall back to the CPU. Calls that say
    that they wait, such as :func:`synchronize`, do so in every mode.

    Args:
        debug_mode: 0 or ``"default"``: nothing; 1 or ``"warn"``: a warning; 2 or ``"error"``: a RuntimeError before it waits.

    Raises:
        RuntimeError: ``debug_mode`` is none of these.
    """
    _refuse_in_fork_child()
    mode = _MODES.index(debug_mode) if debug_mode in _MODES else debug_mode
    if mode not in (0, 1, 2):
        raise RuntimeError(f"invalid value of debug_mode, expected one of 0, 1, 2, {', '.join(_MODES)}, and not {debug_mode!r}")
    _rustdev.set_sync_debug_mode(int(mode))


def get_sync_debug_mode() -> int:
    """Return what :func:`set_sync_debug_mode` has set: 0 nothing, 1 a warning, 2 an error."""
    return _rustdev.sync_debug_mode()
