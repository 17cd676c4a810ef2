"""Extension for the reference of the documentation site (see mkdocs.yml): shows the parameters of classes with ``__new__``."""

from typing import Any

import griffe


class Constructors(griffe.Extension):
    """Shows the parameters of ``__new__`` as those of ``__init__`` if a class has no ``__init__``."""

    def on_class_members(self, *, cls: griffe.Class, **kwargs: Any) -> None:
        """Adds ``__init__`` to a class."""
        made = cls.members.get("__new__")
        if isinstance(made, griffe.Function) and "__init__" not in cls.members:
            cls["__init__"] = griffe.Function("__init__", parameters=made.parameters, lineno=made.lineno, endlineno=made.endlineno)
