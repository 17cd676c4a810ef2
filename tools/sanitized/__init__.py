"""Python tests of a module that was built with a sanitizer: ``python -m sanitized`` with ``tools`` on the path."""
