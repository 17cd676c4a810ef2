"""The modes that programs run in. Standard library only: the command reads it without torch."""

from dataclasses import dataclass, field

#: The variables that belong to the modes: a child has those of its own mode alone.
VARIABLES = ("RUSTDEV_SCHEDULE", "RUSTDEV_SANITIZE", "RUSTDEV_FILL", "RUSTDEV_FAULTS")
#: How likely a request for device memory is to be refused in the mode "faults".
SHORTAGE = 0.1


@dataclass(frozen=True)
class Mode:
    """One mode.

    Attributes:
        share: Its part of the time, beside those of the others.
        settings: Environment variables; ``{seed}`` is the run's.
        tries: How often a step is tried that runs out of memory.
    """

    share: int = 1
    settings: dict[str, str] = field(default_factory=dict)
    tries: int = 1

    def environment(self, seed: int) -> dict[str, str]:
        """Return the variables that a child of a run with that seed has."""
        return {name: value.format(seed=seed % (1 << 32)) for name, value in self.settings.items()}


MODES: dict[str, Mode] = {
    "plain": Mode(2),
    "random": Mode(3, {"RUSTDEV_SCHEDULE": "random:{seed}"}),
    "lazy": Mode(1, {"RUSTDEV_SCHEDULE": "lazy"}),
    "eager": Mode(1, {"RUSTDEV_SCHEDULE": "eager"}),
    "reverse-priority": Mode(1, {"RUSTDEV_SCHEDULE": "reverse-priority"}),
    "race": Mode(2, {"RUSTDEV_SANITIZE": "race:error"}),
    "memory": Mode(3, {"RUSTDEV_SANITIZE": "memory"}),
    "fill": Mode(1, {"RUSTDEV_FILL": "nan"}),
    # Processes of a group, one of them late or lost.
    "ranks": Mode(2),
    # Twenty shortages in a row do not happen by chance.
    "faults": Mode(1, {"RUSTDEV_FAULTS": f"oom:p={SHORTAGE},seed={{seed}}"}, tries=20),
}
