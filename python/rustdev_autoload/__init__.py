"""Entry point of the group ``torch.backends``: makes the device available by ``import torch`` alone.

It is a package of its own so that it can fail softly. An exception in an entry point would abort ``import torch``; here it becomes
a warning that leaves the device unregistered, and a later ``import rustdev`` raises it.
"""

import warnings

__all__ = ["load"]


def load() -> None:
    """Import rustdev; nothing happens if that import is what brought torch in."""
    try:
        import rustdev  # noqa: F401
    except Exception as error:
        warnings.warn(f"the device rustdev is not available: {error}", RuntimeWarning, stacklevel=2)
