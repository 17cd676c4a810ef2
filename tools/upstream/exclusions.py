"""The excluded tests with their reasons: ``exclusions.toml``.

A table is named after a file, relative to PyTorch's ``test`` directory. Its keys are patterns (``*``, ``?``, ``[]``) for the part
of a test's name after the file, ``Class::test``. Its values are the reasons::

    ["test_torch.py"]
    "TestTorchDeviceTypeRUSTDEV::test_storage_meta_from_*" = "meta storages have no device of ours"
"""

from fnmatch import fnmatchcase
from pathlib import Path

import tomllib

DEFAULT = Path(__file__).with_name("exclusions.toml")


class Exclusions:
    """The exclusions in a file."""

    def __init__(self, path: Path = DEFAULT) -> None:
        """Read the file.

        Raises:
            ValueError: If an entry has no reason.
        """
        with path.open("rb") as file:
            tables = tomllib.load(file)
        self._reasons = {(file, pattern): reason for file, table in tables.items() for pattern, reason in table.items()}
        empty = [f"{file}::{pattern}" for (file, pattern), reason in self._reasons.items() if not str(reason).strip()]
        if empty:
            raise ValueError(f"exclusions without a reason: {', '.join(empty)}")

    def find(self, test: str) -> tuple[str, str] | None:
        """Return the entry that excludes a test, as ``file::pattern``, and its reason; None if the test is not excluded."""
        file, _, name = test.partition("::")
        for (excluded, pattern), reason in self._reasons.items():
            if excluded == file and fnmatchcase(name, pattern):
                return f"{excluded}::{pattern}", reason
        return None

    def entries(self) -> list[str]:
        """Return all entries, as ``file::pattern``."""
        return [f"{file}::{pattern}" for file, pattern in self._reasons]
