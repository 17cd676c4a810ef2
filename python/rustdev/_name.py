"""The name of the backend: its device type, its module ``torch.<name>`` and the beginning of its environment variables.

It is ``rustdev``, unless a backend that is built on this package registers with a name of its own (docs/own-backend.md).
"""

from . import _rustdev

#: The device type.
NAME: str = _rustdev.backend


def variable(setting: str) -> str:
    """Return the name of the environment variable of a setting: ``RUSTDEV_PROFILE`` for ``PROFILE``."""
    return f"{NAME.upper()}_{setting}"
