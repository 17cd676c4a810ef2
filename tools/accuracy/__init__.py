"""Accuracy of sums of many terms in 16 bit dtypes: ``python -m accuracy`` with ``tools`` on the path.

``meeting`` has calls that sum many terms into one element, and ``enlarged`` enlarges samples of PyTorch's operator database.
``measure`` compares results and gradients with float64. The command, ``__main__``, runs all calls and writes docs/accuracy.md.
"""
