"""What became of a mode: the worker writes it, the command reads and prints it. Standard library only."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from .resources import ALLOWANCE, Sample, course, grown, is_judged

_HEADINGS = ("mode", "programs", "differences", "findings", "shortages", "memory, MiB", "device, bytes", "threads", "descriptors")
_WIDTHS = (16, 8, 11, 8, 9, 18, 18, 12, 12)


@dataclass
class Report:
    """One mode's run.

    Attributes:
        mode: Its name.
        program: The number of the program that runs, or ran last.
        programs: How many have run.
        differences: Programs with a value that is not the CPU's.
        findings: Programs that ended with an exception, of a sanitizer or another one, or with the process.
        shortages: Requests for memory that were refused and tried again.
        samples: What the process held, after each batch of programs.
        is_over: Whether the worker came to its end.
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
        """Write it to a file, in place of what is there."""
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, path: Path, mode: str) -> "Report":
        """Read it, or return an empty one where a worker has ended before it wrote any."""
        return cls(**json.loads(path.read_text())) if path.exists() else cls(mode)

    def is_clean(self) -> bool:
        """Whether nothing differed, was found or grew."""
        return not (self.differences or self.findings or grown(self.samples))

    def row(self) -> str:
        """Return a line of the table."""
        counts = (self.programs, self.differences, self.findings, self.shortages)
        return _line((self.mode, *map(str, counts), *(self._course(name) for name in ALLOWANCE)))

    def _course(self, name: str) -> str:
        """Return how a resource went, as the rule sees it."""
        if not is_judged(self.samples):
            return "too few samples"
        ends = course(self.samples, name)
        first, last = (f"{end / (1 << 20):.1f}" if name == "memory" else str(end) for end in ends)
        return f"{first} to {last}" + " (!)" * (name in grown(self.samples))


def _line(cells: tuple[str, ...]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, _WIDTHS, strict=True)).rstrip()


def table(reports: list[Report]) -> str:
    """Return a line for each mode; of each resource the first third's maximum and the last third's minimum."""
    return "\n".join([_line(_HEADINGS), *(report.row() for report in reports)])
