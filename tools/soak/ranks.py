"""Programs of several processes with unlucky timing: how they are made, run and judged, for the mode "ranks".

Each program is a group of two or four processes that make the same calls, in which one rank is late: before a call, on its stream,
or behind it, perhaps while another of its threads holds Python's lock. At some point the group ends: by its program, or because one
rank leaves. Values are compared with what one process computes; a process that hangs, ends by a signal or says nothing of a lost
rank is a finding. The processes are forked from this one, which has PyTorch and has not used the device.
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

#: Seconds that a program may take. It takes one or two where the machine has nothing else to do.
PATIENCE = 240
#: Calls of a program.
CALLS = 10
COLLECTIVES = (
    "all_reduce", "reduce", "broadcast", "all_gather", "all_gather of different sizes", "all_gather_into_tensor", "gather",
    "scatter",
    "reduce_scatter", "reduce_scatter of different sizes", "reduce_scatter_tensor", "all_to_all", "all_to_all_single", "barrier",
    "coalesced all_reduce", "send and recv", "isend and irecv",
)  # fmt: skip
#: How a rank comes to a result: the work or another stream waits, or the host does, in one of the ways that PyTorch has.
WAITS = (
    "none", "work", "other stream", "future", "cpu", "tolist", "item", "bool", "equal", "index", "nonzero", "pickle", "save",
    "synchronize", "event", "stream",
)  # fmt: skip
#: How a program ends. The first two are ends of all ranks, the others of one.
ENDS = ("destroy", "return", "exit", "exception", "destroy alone", "kill")
#: Those behind which the other ranks may see an error, since calls follow.
BREAKS = ("exception", "destroy alone", "kill")
#: With what exit code the rank leaves.
CODES = {"exception": 1, "kill": -signal.SIGKILL}


@dataclass(frozen=True)
class Call:
    """One call of all ranks.

    Attributes:
        number: Its place in the program; it gives the numbers that are sent.
        collective: One of ``COLLECTIVES``.
        elements: The elements that a rank has.
        root: Of the collectives that have one.
        stream: Which of the streams is current.
        wait: One of ``WAITS``.
        late: The rank that is late.
        before: Milliseconds that its host is late with the call.
        busy: Milliseconds for which its stream is busy when it is made.
        behind: Milliseconds that its host is late with the wait.
        locked: Milliseconds for which another of its threads holds Python's lock meanwhile.
    """

    number: int
    collective: str
    elements: int
    root: int
    stream: int
    wait: str
    late: int
    before: int
    busy: int
    behind: int
    locked: int

    def __str__(self) -> str:
        delays = {"before": self.before, "stream": self.busy, "behind": self.behind, "lock": self.locked}
        late = ", ".join(f"{name} {value} ms" for name, value in delays.items() if value)
        return (
            f"%{self.number} = {self.collective}({self.elements}; root {self.root})  # stream {self.stream}, waits by {self.wait}"
            + f"; rank {self.late}: {late}" * bool(late)
        )


@dataclass(frozen=True)
class Program:
    """What the processes of a group do.

    Attributes:
        ranks: How many there are.
        calls: Their calls, in order.
        end: One of ``ENDS``.
        leaver: The rank that leaves, where one does.
        point: Before which call it does; behind the last where the group is not broken by it.
    """

    ranks: int
    calls: tuple[Call, ...]
    end: str
    leaver: int
    point: int

    def __str__(self) -> str:
        where = f"rank {self.leaver}, before %{self.point}" if self.end in BREAKS else "behind all"
        return "\n".join(f"  {it}" for it in (*self.calls, f"{self.ranks} ranks, end: {self.end}, {where}"))


def make(seed: str) -> Program:
    """Make a program."""
    chance = random.Random(seed)
    ranks, end = chance.choice((2, 2, 2, 4)), chance.choice(ENDS)

    def delay(likely: float) -> int:
        return chance.choice((1, 4, 7, 20, 60)) if chance.random() < likely else 0

    calls = tuple(
        Call(
            number,
            chance.choice(COLLECTIVES),
            chance.choice((1, 4, 1000, 300_000)),
            chance.randrange(ranks),
            chance.randrange(2),
            chance.choice(WAITS),
            chance.randrange(ranks),
            delay(0.3),
            delay(0.4),
            delay(0.2),
            delay(0.2),
        )
        for number in range(CALLS)
    )
    return Program(ranks, calls, end, chance.randrange(ranks), chance.randrange(CALLS) if end in BREAKS else CALLS)


def fault(seed: str) -> str | None:
    """Run a program, and return what is not right: what the processes said of it, and its calls."""
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
    """Start a rank. In its process this does not return but ends, as a program does: with all that Python does at its end."""
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
    """Return the exit codes; None of a process that has to be killed."""
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
    for number in (signal.SIGUSR1, signal.SIGKILL):  # the first has a process say where it is
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
    """Return what is wrong with the end of a process."""
    if code is None:
        return f"hangs, after {PATIENCE} s"
    wanted = CODES.get(program.end, 0) if rank == program.leaver else 0
    if code == wanted:
        return None
    return f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code} in place of {wanted}"
