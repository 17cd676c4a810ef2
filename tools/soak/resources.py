"""What a process holds, and the rule that says whether it grew. Standard library only."""

import os
from pathlib import Path

#: What is sampled, and by how much a process may grow in a run: what is made once and late, such as a thread of a library that
#: starts at its first use, or structures of the C library's allocator. Values of the device are all freed, so there is no byte.
ALLOWANCE = {"memory": 8 << 20, "device": 0, "threads": 2, "descriptors": 2}
#: With fewer samples the rule says nothing.
FEWEST = 6

Sample = dict[str, int]


def held() -> Sample:
    """Return this process's resident memory in bytes, its threads and its open file descriptors.

    Pages of files do not count: they are code, which becomes resident when it first runs.
    """
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    memory = sum(int(status[name].split()[0]) << 10 for name in ("RssAnon", "RssShmem"))
    # One less: the listing is an open file itself.
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
    """Return what has grown: the last third's minimum is above the first third's maximum by more than the allowance.

    A leak lifts every sample of the last third above every one of the first. Noise lifts some of them, and what is made once lifts
    those behind it by what the allowance covers; so neither counts, whichever samples it falls on.
    """
    if not is_judged(samples):
        return []
    return [name for name in ALLOWANCE if course(samples, name)[1] - course(samples, name)[0] > ALLOWANCE[name]]
