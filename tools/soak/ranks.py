"""Programs of several processes with unlucky timing, for the mode "ranks": generation, execution and evaluation.

Each program is a group of two or four processes that make the same calls. One rank is late: before a call, on its stream, or after
it, possibly while another of its threads holds the GIL. At some point the group ends, by the program or because one rank leaves.
Values are compared with those of a single process. A process that hangs, dies by a signal or does not report a lost rank is a
finding. The processes are forked from this one, which has imported PyTorch but not used the device.
"""

import contextlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

#: Time limit of a program in seconds. On an idle machine it takes one or two.
PATIENCE = 240
#: Number of calls of a program.
CALLS = 10
COLLECTIVES = (
    "all_reduce", "reduce", "broadcast", "all_gather", "all_gather of different sizes", "all_gather_into_tensor", "gather",
    "scatter",
    "reduce_scatter", "reduce_scatter of different sizes", "reduce_scatter_tensor", "all_to_all", "all_to_all_single", "barrier",
    "coalesced all_reduce", "send and recv", "isend and irecv",
)  # fmt: skip
#: How a rank waits for a result: by the work, by another stream, or on the host by one of PyTorch's ways to read a tensor.
WAITS = (
    "none", "work", "other stream", "future", "cpu", "tolist", "item", "bool", "equal", "index", "nonzero", "pickle", "save",
    "synchronize", "event", "stream",
)  # fmt: skip
#: How a program ends: in the first two ways all ranks end, in the others one rank leaves.
ENDS = ("destroy", "return", "exit", "exception", "destroy alone", "kill")
#: Ends after which the other ranks may see an error, since they make further calls.
BREAKS = ("exception", "destroy alone", "kill")
#: Exit codes of the leaving rank.
CODES = {"exception": 1, "kill": -signal.SIGKILL}


@dataclass(frozen=True)
class Call:
    """One call of all ranks, with the delays of one rank in milliseconds."""

    number: int  # index in the program; it determines the data
    collective: str
    elements: int  # of a rank
    root: int
    stream: int
    wait: str  # one of WAITS
    late: int  # the rank with the delays
    before: int  # its host delays the call
    busy: int  # its stream is busy at the call
    behind: int  # its host delays the wait
    locked: int  # another of its threads holds the GIL meanwhile

    def __str__(self) -> str:
        delays = {"before": self.before, "stream": self.busy, "behind": self.behind, "lock": self.locked}
        late = ", ".join(f"{name} {value} ms" for name, value in delays.items() if value)
        return (
            f"%{self.number} = {self.collective}({self.elements}; root {self.root})  # stream {self.stream}, waits by {self.wait}"
            + f"; rank {self.late}: {late}" * bool(late)
        )


@dataclass(frozen=True)
class Program:
    """Program of the processes of a group."""

    ranks: int
    calls: tuple[Call, ...]
    end: str  # one of ENDS
    leaver: int  # the rank that leaves, if any
    point: int  # number of the call before which it leaves; after the last call if this does not break the group

    def __str__(self) -> str:
        where = f"rank {self.leaver}, before %{self.point}" if self.end in BREAKS else "behind all"
        return "\n".join(f"  {it}" for it in (*self.calls, f"{self.ranks} ranks, end: {self.end}, {where}"))


def make(seed: str) -> Program:
    """Make a program."""
    chance = random.Random(seed)
    ranks, end = chance.choice((2, 2, 2, 4)), chance.choice(ENDS)

    def delay(likely: float) -> int:
        return chance.choice((1, 4, 7, 20, 60)) if chance.random() < likely else 0

    def call(number: int) -> Call:
        collective, elements, root = chance.choice(COLLECTIVES), chance.choice((1, 4, 1000, 300_000)), chance.randrange(ranks)
        stream, wait, late = chance.randrange(2), chance.choice(WAITS), chance.randrange(ranks)
        return Call(number, collective, elements, root, stream, wait, late, *map(delay, (0.3, 0.4, 0.2, 0.2)))

    calls = tuple(map(call, range(CALLS)))
    return Program(ranks, calls, end, chance.randrange(ranks), chance.randrange(CALLS) if end in BREAKS else CALLS)


def fault(seed: str) -> str | None:
    """Run a program. Return a report of what went wrong, with the output of the processes and the calls; None if all is well."""
    program = make(seed)
    directory = Path(tempfile.mkdtemp(prefix="soak-ranks-"))
    ranks = [_fork(program, rank, directory) for rank in range(program.ranks)]
    try:
        codes = _join(ranks)
        wrong = [f"rank {rank} {what}" for rank, code in enumerate(codes) if (what := _wrong(program, rank, code))]
        if not wrong:
            return None
        said = [f"rank {rank}: {(directory / f'log{rank}').read_text(errors='replace')[-6000:]}" for rank in range(program.ranks)]
        return "\n".join([", ".join(wrong), *said, str(program)])
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _fork(program: Program, rank: int, directory: Path) -> int:
    """Fork a rank and return its pid. The child does not return: it exits like a program, with Python's finalization."""
    sys.stdout.flush()
    if child := os.fork():
        return child
    log = os.open(directory / f"log{rank}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    from . import rank as process

    sys.excepthook = lambda *error: traceback.print_exception(*error)
    process.run(program, rank, directory / "store")
    sys.exit()


def _join(children: list[int]) -> list[int | None]:
    """Return the exit codes; None for a process that had to be killed."""
    codes: dict[int, int] = {}
    deadline = time.monotonic() + PATIENCE

    def reap() -> bool:
        for child in set(children) - codes.keys():
            found, status = os.waitpid(child, os.WNOHANG)
            if found:
                codes[child] = os.waitstatus_to_exitcode(status)
        return len(codes) == len(children)

    while not reap() and time.monotonic() < deadline:
        time.sleep(0.005)
    for number in (signal.SIGUSR1, signal.SIGKILL):  # the first makes a process print its stacks
        for child in set(children) - codes.keys():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, number)
        if len(codes) < len(children):
            time.sleep(1)
    result = [codes.get(child) for child in children]
    while not reap():
        time.sleep(0.005)
    return result


def _wrong(program: Program, rank: int, code: int | None) -> str | None:
    """Return what is wrong with the exit of a process; None if it is as expected."""
    if code is None:
        return f"hangs, after {PATIENCE} s"
    wanted = CODES.get(program.end, 0) if rank == program.leaver else 0
    if code == wanted:
        return None
    return f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code} in place of {wanted}"
