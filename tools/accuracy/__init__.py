"""How near sums of many terms in 16 bits are to the exact ones: ``python -m accuracy`` with ``tools`` on the path.

``meeting`` has calls in which many terms meet at one element, and ``enlarged`` makes calls of PyTorch's operator database that have
as many terms. ``measure`` holds results and gradients against float64. The command, ``__main__``, goes over all calls and writes
docs/accuracy.md.
"""
