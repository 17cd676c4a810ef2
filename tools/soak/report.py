"""Result of a mode: the worker writes it, the command reads and prints it. Standard library only."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from .resources import ALLOWANCE, Sample, course, grown, is_judged

_HEADINGS = ("mode", "programs", "differences", "findings", "shortages", "memory, MiB", "device, bytes", "threads", "descriptors")
_WIDTHS = (16, 8, 11, 8, 9, 18, 18, 12, 12)


@dataclass
class Report:
    """Run of one mode.

    Attributes:
        mode: Name of the mode.
        program: Number of the current or last program.
        programs: Number of programs that have run.
        differences: Number of programs with a value that differs from the CPU's.
        findings: Number of programs that ended by an exception, of a sanitizer or another one, or by the death of the process.
        shortages: Number of refused requests for memory that were retried.
        samples: Resources of the process, after each batch of programs.
        is_over: Whether the worker has completed.
    """

    mode: str
    program: int = 0
    programs: int = 0
    differences: int = 0
    findings: int = 0
    shortages: int = 0
    samples: list[Sample] = field(default_factory=list)
    is_over: bool = False

    def save(self, path: Path) -> None:
        """Write the report to a file, replacing its content."""
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, path: Path, mode: str) -> "Report":
        """Read a report; an empty one if the worker ended before it wrote any."""
        return cls(**json.loads(path.read_text())) if path.exists() else cls(mode)

    def is_clean(self) -> bool:
        """Whether there is no difference, no finding and no growth."""
        return not (self.differences or self.findings or grown(self.samples))

    def row(self) -> str:
        """Return the row of the table."""
        counts = (self.programs, self.differences, self.findings, self.shortages)
        return _line((self.mode, *map(str, counts), *(self._course(name) for name in ALLOWANCE)))

    def _course(self, name: str) -> str:
        """Return the course of a resource as text."""
        if not is_judged(self.samples):
            return "too few samples"
        ends = course(self.samples, name)
        first, last = (f"{end / (1 << 20):.1f}" if name == "memory" else str(end) for end in ends)
        return f"{first} to {last}" + " (!)" * (name in grown(self.samples))


def _line(cells: tuple[str, ...]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, _WIDTHS, strict=True)).rstrip()


def table(reports: list[Report]) -> str:
    """Return a table with a row per mode. Resources show the maximum of the first third and the minimum of the last third."""
    return "\n".join([_line(_HEADINGS), *(report.row() for report in reports)])
