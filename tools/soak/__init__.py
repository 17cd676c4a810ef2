"""Random programs on two devices and their streams, held against the CPU: ``python -m soak`` with ``tools`` on the path.

The command, ``__main__``, starts a process for each mode of ``modes``, in sequence. In it ``worker`` runs programs:
``program`` makes, runs, compares and shortens them, from the operators of ``operators``, on the machines of ``machines``.
``resources`` says whether the process grew, and ``report`` is what the worker hands back.
"""
