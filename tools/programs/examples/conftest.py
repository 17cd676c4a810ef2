"""Settings of the examples: the device is there, and one thread of the CPU device's for sums in one order."""

import rustdev  # noqa: F401
