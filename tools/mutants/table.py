"""The table of faults, and the source changes that make each selectable at run time."""

import hashlib
import re
import shlex
import textwrap
from dataclasses import asdict, dataclass
from pathlib import Path

import tomllib

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


@dataclass(frozen=True)
class Mutant:
    """An entry of the table: one fault."""

    number: int
    family: str
    fault: str
    file: str
    old: str
    new: str
    tests: str  # arguments of pytest for the tests that should find the fault
    statement: bool = False  # whether the texts are statements; else they are expressions
    seconds: int = 300  # time limit of these tests

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
            ValueError: If the old text does not occur exactly once.
        """
        found = text.count(self.old)
        if found != 1:
            raise ValueError(f"mutant {self.number}: {self.file} has the old text {found} times: {self.old!r}")
        begin = text.index(self.old)
        indentation = re.match(r"[ \t]*", text[text.rfind("\n", 0, begin) + 1 :])
        return text.replace(self.old, self._choice(indentation[0] if indentation else ""))

    def _choice(self, indentation: str) -> str:
        suffix, old, new = Path(self.file).suffix, self.old, self.new
        chosen = _CHOSEN[suffix].format(number=self.number)
        if _MARK in new:
            return new.replace(_MARK, chosen)
        if suffix == ".py" and self.statement:
            new, old = (textwrap.indent(text or "pass", f"{indentation}    ") for text in (new, old))
            return f"if {chosen}:\n{new}\n{indentation}else:\n{old}"
        if suffix == ".py":
            return f"(({new}) if {chosen} else ({old}))"
        if self.statement:
            return f"if {chosen} {{ {new} }} else {{ {old} }}"
        return f"(if {chosen} {{ {new} }} else {{ {old} }})" if suffix == ".rs" else f"({chosen} ? ({new}) : ({old}))"


def load() -> list[Mutant]:
    """Return the faults of the table, numbered from 1 in their order."""
    families = tomllib.loads(Path(__file__).with_name("mutants.toml").read_text())
    entries = [entry | {"family": family} for family, listed in families.items() for entry in listed]
    is_statement = [entry["old"].endswith(";") or not entry["new"] for entry in entries]
    return [Mutant(number, **entry, statement=is_statement[number - 1]) for number, entry in enumerate(entries, 1)]


def apply_all(mutants: list[Mutant], name: str, text: str) -> str:
    """Return the text of a file, named by its path in the tree, with all its faults."""
    own = [mutant for mutant in mutants if mutant.file == name]
    for mutant in own:
        text = mutant.apply(text)
    if own and Path(name).suffix in (".cpp", ".h"):
        text = f"#include <cstdlib>\n{text}"
    return text
