"""Resources of a process, and the rule that decides whether it has grown. Standard library only."""

import os
from pathlib import Path

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


def course(samples: list[Sample], name: str) -> tuple[int, int]:
    """Return the maximum of the first third of the samples and the minimum of the last."""
    third = len(samples) // 3
    values = [sample[name] for sample in samples]
    return max(values[:third]), min(values[-third:])


def is_judged(samples: list[Sample]) -> bool:
    """Whether there are enough samples for the rule."""
    return len(samples) >= FEWEST


def grown(samples: list[Sample]) -> list[str]:
    """Return resources that have grown: the minimum of the last third exceeds the maximum of the first by more than the allowance.

    A leak raises every sample of the last third above all of the first. Noise raises only some samples, and objects that are
    created once raise the later samples by no more than the allowance; so neither is reported.
    """
    if not is_judged(samples):
        return []
    return [name for name in ALLOWANCE if course(samples, name)[1] - course(samples, name)[0] > ALLOWANCE[name]]
