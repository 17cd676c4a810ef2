"""Small versions of public models of many families, on the device and on PyTorch's CPU device: ``make zoo``."""
