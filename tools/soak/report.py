"""Result of a mode: the worker writes it, the command reads and prints it. Standard library only."""

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pages

#: Sampled resources, with the allowed growth in a run: for objects that are created once but late, such as a library's thread that
#: starts at first use, or structures of malloc. All device values are freed, so device memory may not grow at all.
ALLOWANCE = {"memory": 8 << 20, "device": 0, "threads": 2, "descriptors": 2}
#: Minimum number of samples for the rule.
FEWEST = 6

Sample = dict[str, int]


def held() -> Sample:
    """Return the resident memory in bytes, the number of threads and the number of open file descriptors of this process.

    File-backed pages do not count: they are code, which becomes resident when it first runs.
    """
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    memory = sum(int(status[name].split()[0]) << 10 for name in ("RssAnon", "RssShmem"))
    # Minus one: listing the directory opens a file descriptor.
    return {"memory": memory, "threads": int(status["Threads"]), "descriptors": len(os.listdir("/proc/self/fd")) - 1}


@dataclass
class Report:
    """Run of one mode."""

    mode: str
    program: int = 0  # number of the current or last program
    programs: int = 0  # how many have run
    differences: int = 0  # programs with a value that differs from the CPU's
    findings: int = 0  # programs that ended by an exception, of a sanitizer or another one, or by the death of the process
    shortages: int = 0  # refused requests for memory that were retried
    samples: list[Sample] = field(default_factory=list)  # resources of the process, after each batch of programs
    is_over: bool = False  # whether the worker has completed

    def save(self, path: Path) -> None:
        """Write the report to a file, replacing its content."""
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, path: Path, mode: str) -> "Report":
        """Read a report; an empty one if the worker ended before it wrote any."""
        return cls(**json.loads(path.read_text())) if path.exists() else cls(mode)

    def is_judged(self) -> bool:
        """Whether there are enough samples for the rule."""
        return len(self.samples) >= FEWEST

    def course(self, name: str) -> tuple[int, int]:
        """Return the maximum of the first third of the samples of a resource and the minimum of the last."""
        third, values = len(self.samples) // 3, [sample[name] for sample in self.samples]
        return max(values[:third]), min(values[-third:])

    def grown(self) -> list[str]:
        """Return resources whose minimum in the last third exceeds the maximum in the first by more than the allowance.

        A leak raises every sample of the last third above all of the first. Noise raises only some samples, and objects that are
        created once raise the later samples by no more than the allowance; so neither is reported.
        """
        courses = {name: self.course(name) for name in ALLOWANCE if self.is_judged()}
        return [name for name, (first, last) in courses.items() if last - first > ALLOWANCE[name]]

    def is_clean(self) -> bool:
        """Whether there is no difference, no finding and no growth."""
        return not (self.differences or self.findings or self.grown())

    def text(self, name: str) -> str:
        """Return the course of a resource as text."""
        if not self.is_judged():
            return "too few samples"
        first, last = (f"{end / (1 << 20):.1f}" if name == "memory" else str(end) for end in self.course(name))
        return f"{first} to {last}" + " (!)" * (name in self.grown())


def table(reports: list[Report]) -> str:
    """Return a table with a row per mode. Resources show the maximum of the first third and the minimum of the last third."""
    head = "mode | programs: | differences: | findings: | shortages: | memory, MiB | device, bytes | threads | descriptors"
    counts = ([it.mode, it.programs, it.differences, it.findings, it.shortages] for it in reports)
    rows = ([*cells, *map(it.text, ALLOWANCE)] for cells, it in zip(counts, reports, strict=True))
    return "\n".join(pages.table(head, rows))
