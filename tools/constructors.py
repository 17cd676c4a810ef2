"""Parameters of classes that are made by ``__new__``, for the reference of the documentation site (mkdocs.yml names this file)."""

from __future__ import annotations

from typing import Any

import griffe


class Constructors(griffe.Extension):
    """Shows ``__new__`` as ``__init__``, where a class has no ``__init__``."""

    def on_class_members(self, *, cls: griffe.Class, **kwargs: Any) -> None:
        """Adds the method to a class that has been read."""
        made = cls.members.get("__new__")
        if isinstance(made, griffe.Function) and "__init__" not in cls.members:
            cls["__init__"] = griffe.Function("__init__", parameters=made.parameters, lineno=made.lineno, endlineno=made.endlineno)
