"""The table of faults, and the source changes that make each selectable at run time."""

import hashlib
import re
import shlex
import textwrap
from dataclasses import asdict, dataclass
from pathlib import Path

import tomllib

__all__ = ["VARIABLE", "Mutant", "apply_all", "load"]

#: Environment variable with the number of the selected fault; unset or 0: no fault. The package rejects unknown names with the
#: prefix RUSTDEV_, and some tests remove such variables.
VARIABLE = "TEST_RUSTDEV_MUTANT"
#: Placeholder in a new text for the condition that the fault is selected, for faults that replace no whole expression or statement.
_MARK = "MUTANT"
#: Condition that a fault is selected, by file suffix.
_CHOSEN = {
    ".rs": "crate::mutant::is({number})",
    ".py": f'(__import__("os").environ.get("{VARIABLE}") == "{{number}}")',
    ".cpp": f'(std::getenv("{VARIABLE}") != nullptr && std::atoi(std::getenv("{VARIABLE}")) == {{number}})',
}
_CHOSEN[".h"] = _CHOSEN[".cpp"]


class TableError(Exception):
    """An entry of the table cannot be applied."""


@dataclass(frozen=True)
class Mutant:
    """An entry of the table: one fault."""

    number: int
    family: str
    fault: str
    file: str
    old: str
    new: str
    #: Arguments of pytest for the tests that should find the fault.
    tests: str
    statement: bool = False
    #: Time limit of these tests.
    seconds: int = 300

    @property
    def arguments(self) -> list[str]:
        """Arguments of pytest."""
        return shlex.split(self.tests)

    @property
    def digest(self) -> str:
        """Hash of the entry without its number, family and description."""
        entry = {name: value for name, value in asdict(self).items() if name not in ("number", "family", "fault")}
        return hashlib.sha256(repr(sorted(entry.items())).encode()).hexdigest()[:12]

    def apply(self, text: str) -> str:
        """Return the text of the file with the selectable fault.

        Raises:
            TableError: If the old text does not occur exactly once.
        """
        found = text.count(self.old)
        if found != 1:
            raise TableError(f"mutant {self.number}: {self.file} has the old text {found} times: {self.old!r}")
        begin = text.index(self.old)
        indentation = re.match(r"[ \t]*", text[text.rfind("\n", 0, begin) + 1 :])
        return text.replace(self.old, self._choice(indentation[0] if indentation else ""))

    def _choice(self, indentation: str) -> str:
        suffix = Path(self.file).suffix
        chosen = _CHOSEN[suffix].format(number=self.number)
        if _MARK in self.new:
            return self.new.replace(_MARK, chosen)
        if suffix == ".py":
            return self._python_choice(chosen, indentation)
        if self.statement:
            condition = chosen if suffix == ".rs" else f"({chosen})"
            return f"if {condition} {{ {self.new} }} else {{ {self.old} }}"
        if suffix == ".rs":
            return f"(if {chosen} {{ {self.new} }} else {{ {self.old} }})"
        return f"({chosen} ? ({self.new}) : ({self.old}))"

    def _python_choice(self, chosen: str, indentation: str) -> str:
        if not self.statement:
            return f"(({self.new}) if {chosen} else ({self.old}))"
        new, old = (textwrap.indent(text or "pass", f"{indentation}    ") for text in (self.new, self.old))
        return f"if {chosen}:\n{new}\n{indentation}else:\n{old}"


def load() -> list[Mutant]:
    """Return the faults of the table.

    Raises:
        TableError: If they are not numbered consecutively from 1.
    """
    entries = tomllib.loads(Path(__file__).with_name("mutants.toml").read_text())["mutant"]
    mutants = [Mutant(**entry) for entry in entries]
    if [mutant.number for mutant in mutants] != list(range(1, len(mutants) + 1)):
        raise TableError("the numbers of the mutants are not those from 1 on, in their order")
    return mutants


def apply_all(mutants: list[Mutant], name: str, text: str) -> str:
    """Return the text of a file, named by its path in the tree, with all its faults."""
    own = [mutant for mutant in mutants if mutant.file == name]
    for mutant in own:
        text = mutant.apply(text)
    if own and Path(name).suffix in (".cpp", ".h"):
        text = f"#include <cstdlib>\n{text}"
    return text
