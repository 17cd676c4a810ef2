"""``python -m rustdev.conformance --device mychip``: check any PyTorch device, and write a scorecard.

    python -m rustdev.conformance --device mychip [--level smoke|core|full] [--import MODULE] [--only PATTERN]

The checks are the package ``rustdev_conformance``, whose child processes do not import rustdev unless that is the device.
"""

import sys

from rustdev_conformance.__main__ import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], "rustdev.conformance"))
