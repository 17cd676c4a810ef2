"""Settings of the examples: the device is there, and the data, which files make as they are imported, are the same in each run."""

import rustdev  # noqa: F401
import torch

torch.manual_seed(0)
