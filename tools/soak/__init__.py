"""Random programs on two devices and their streams, compared with the CPU: ``python -m soak`` with ``tools`` on the path.

The command, ``__main__``, starts a process for each mode of ``modes``, in sequence. In it ``worker`` runs programs: ``program``
makes, runs, compares and shrinks them, from the operators of ``operators``, on the machines of ``machines``. ``report`` is the
worker's result, and decides whether the process has grown.
"""
