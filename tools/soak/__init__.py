"""Random programs on two devices and their streams, held against the CPU: ``python -m soak`` with ``tools`` on the path."""
