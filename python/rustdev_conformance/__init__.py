"""Checks of any PyTorch device against PyTorch's CPU device, with a scorecard: ``python -m rustdev.conformance``.

This package imports nothing of ``rustdev``, whose import would take PyTorch's only slot for an extension device. The command's
own process imports neither PyTorch nor the device; its children do (``child``).
"""
