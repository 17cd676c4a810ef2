"""PyTorch's own device-generic tests, run against rustdev: ``make upstream DIR=<checkout of PyTorch>``."""
