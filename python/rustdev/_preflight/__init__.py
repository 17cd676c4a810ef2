"""Parts of ``python -m rustdev.preflight``: the watch over a run, the examination of its memory, and the report."""
