"""Public models of many families, made small, on the device and on PyTorch's CPU device: ``make zoo``."""
