"""The modes that programs run in. Standard library only: the command imports it without torch."""

from dataclasses import dataclass, field

#: Environment variables of the modes: a child process has only those of its own mode.
VARIABLES = ("RUSTDEV_SCHEDULE", "RUSTDEV_SANITIZE", "RUSTDEV_FILL", "RUSTDEV_FAULTS")
#: Probability that a request for device memory is refused in the mode "faults".
SHORTAGE = 0.1


@dataclass(frozen=True)
class Mode:
    """One mode: its weight in the division of the time, environment variables, and attempts for a step without memory."""

    share: int = 1
    settings: dict[str, str] = field(default_factory=dict)  # "{seed}" is replaced by the seed of the run
    tries: int = 1

    def environment(self, seed: int) -> dict[str, str]:
        """Return the environment variables of a child process, for the seed of the run."""
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
    # Processes of a group, one of which is late or lost.
    "ranks": Mode(2),
    # With probability 0.1, twenty consecutive shortages practically never occur by chance.
    "faults": Mode(1, {"RUSTDEV_FAULTS": f"oom:p={SHORTAGE},seed={{seed}}"}, tries=20),
}
