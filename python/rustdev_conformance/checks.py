"""Checks and the ways in which they end, the device that they run on, and the list of all checks."""

import contextlib
import fnmatch
import functools
import importlib
import importlib.metadata
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import torch

LEVELS = ("smoke", "core", "full")
#: The groups of checks, the first parts of their names, with the modules that have them. Slow ones come first.
GROUPS = {
    "compile": "compiling", "collectives": "processes", "processes": "processes", "data": "training", "modules": "databases",
    "optimizers": "databases", "device": "basics", "tensors": "basics", "streams": "streams", "events": "streams",
    "graphs": "streams", "profiler": "streams", "memory": "memory", "random": "memory", "serialization": "memory",
    "autograd": "training", "amp": "training", "ops": "operators", "grad": "operators", "layouts": "operators",
    "extremes": "operators", "errors": "operators",
}  # fmt: skip
#: PyTorch's own answers where a device has registered nothing: of the base classes of guards, hooks and allocators, of autocast.
#: A text of the device itself is an error of the device, because what refuses a call may claim the capability.
UNREGISTERED = re.compile(
    r"Backend doesn['`]t support |You should register `PrivateUse1HooksInterface`|backend doesn't support events|"
    r"is not a DeviceAllocator|^Graph is not supported on device type|^Tried to use AMP with the `|"
    r"unsupported autocast device_type|PyTorch is not linked with support for"
)
#: Texts by which devices refuse a dtype or a layout as a whole.
NO_SUCH_DTYPE = re.compile(r"(?is)(?=.*(?:support|convert|implement)).*(?:dtype|layout|fp64|float|double|complex|sparse|quant)")


class Absent(Exception):  # noqa: N818 - no error: the device does not claim to have it
    """The device does not have the capability that a check is about."""


class Skipped(Exception):  # noqa: N818 - no error
    """There is nothing to compare."""


@dataclass(frozen=True)
class Device:
    """The device that is checked.

    Args:
        name: Its type, such as ``mychip``.
        level: How much is checked.
        imports: Modules that register it.
    """

    name: str
    level: str = "core"
    imports: tuple[str, ...] = ()

    @property
    def samples(self) -> int | None:
        """How many samples of an operator are looked at; all if None."""
        return {"smoke": 2, "core": 4}.get(self.level)

    @property
    def is_accelerator(self) -> bool:
        """True if this is the device of ``torch.accelerator``."""
        current = torch.accelerator.current_accelerator()
        return current is not None and current.type == self.name

    def need_accelerator(self) -> None:
        """Leave a check that is about accelerators."""
        if not self.is_accelerator:
            raise Absent(f"{self.name} is not the device of torch.accelerator")

    def offered(self, names: Iterable[str]) -> list[str]:
        """Return those of the names that the module of an extension device has; none of PyTorch's own devices."""
        is_extension = self.name == torch._C._get_privateuse1_backend_name()
        return [name for name in names if is_extension and hasattr(getattr(torch, self.name, None), name)]

    def function(self, name: str) -> Callable[..., Any]:
        """Return a function of the device's module, by a dotted name."""
        value: Any = getattr(torch, self.name, None)
        for part in name.split("."):
            value = getattr(value, part, None)
        if not callable(value):
            raise Absent(f"there is no torch.{self.name}.{name}")
        return cast("Callable[..., Any]", value)

    def synchronize(self) -> None:
        """Wait for the device's work, where the device has a function for it."""
        _waiting(self.name, self.is_accelerator)()

    def load(self) -> None:
        """Import what registers the device; ValueError in one sentence if it is not there afterwards."""
        for module in self.imports:
            importlib.import_module(module)
        entries = sorted(importlib.metadata.entry_points(group="torch.backends"), key=lambda entry: entry.name != self.name)
        failures = []
        for entry in entries if not self._is_known() else []:
            try:
                entry.load()()
            except Exception as error:
                failures.append(f"{entry.name}: {error}")
            if self._is_known():
                break
        try:
            torch.empty(1, device=self.name).fill_(1)
            self.synchronize()
        except Exception as error:
            told = "; ".join([*str(error).splitlines()[:1], *failures] if self._is_known() else failures)
            raise ValueError(
                f"there is no device {self.name!r}; --import MODULE names what registers it" + (f" ({told})" if told else "")
            ) from error

    def _is_known(self) -> bool:
        try:
            kind = torch.device(self.name).type
        except RuntimeError:
            return False
        return kind in ("cpu", "meta") or hasattr(torch, kind)


@functools.cache
def _waiting(name: str, is_accelerator: bool) -> Callable[[], Any]:
    """Return what waits for a device's work."""
    for wait in (
        torch.accelerator.synchronize if is_accelerator else None,
        getattr(getattr(torch, name, None), "synchronize", None),
    ):
        with contextlib.suppress(Exception):
            if callable(wait):
                wait()
                return wait
    return lambda: None


@contextlib.contextmanager
def claimed(what: str, device: Device, *names: str, refusal: str = "") -> Iterator[None]:
    """Leave the check as absent if PyTorch refuses what is inside, because the device has not registered the capability.

    Args:
        what: The capability.
        device: The device.
        names: Names by which a device's module offers the capability. An extension device that has one of them claims it: the
            refusal is a failure.
        refusal: The texts, as a pattern, by which a device or a library refuses the capability as a whole.
    """
    try:
        yield
    except Exception as error:
        text = " ".join(str(error).split())[:200]
        if not (UNREGISTERED.search(str(error)) or (refusal and re.search(refusal, str(error)))):
            raise
        if offered := device.offered(names):
            raise AssertionError(f"torch.{device.name} has {', '.join(offered)}, and PyTorch refuses {what}: {text}") from error
        raise Absent(f"{what}: {text}") from error


@dataclass(frozen=True)
class Check:
    """A check: its name, ``group/what`` or ``group/operator/dtype``, what it runs, and the first level that has it.

    It passes if it returns; what it returns is noted. It fails by an exception.
    """

    name: str
    run: Callable[[Device], str | None]
    level: str = "smoke"

    @property
    def group(self) -> str:
        """The first part of the name."""
        return self.name.partition("/")[0]


REGISTRY: dict[str, Check] = {}


def add(checks: Iterable[Check]) -> None:
    """Add checks to the list."""
    REGISTRY.update((check.name, check) for check in checks)


def check(name: str, level: str = "smoke") -> Callable[[Callable[[Device], str | None]], Callable[[Device], str | None]]:
    """Return a decorator that adds a function as a check."""

    def decorate(run: Callable[[Device], str | None]) -> Callable[[Device], str | None]:
        add([Check(name, run, level)])
        return run

    return decorate


def chosen(level: str, patterns: list[str]) -> list[str]:
    """Return the names of the checks of a level, or of all that match one of the patterns, in the order of the groups."""
    wanted = {pattern.partition("/")[0] for pattern in patterns} or {"*"}
    for module in dict.fromkeys(module for group, module in GROUPS.items() if any(fnmatch.fnmatchcase(group, it) for it in wanted)):
        importlib.import_module(f"rustdev_conformance.{module}")
    order = list(GROUPS)
    found = [
        check
        for check in REGISTRY.values()
        if (
            any(fnmatch.fnmatchcase(check.name, it) or check.name.startswith(it.rstrip("/") + "/") for it in patterns)
            if patterns
            else LEVELS.index(check.level) <= LEVELS.index(level)
        )
    ]
    return [check.name for check in sorted(found, key=lambda it: order.index(it.group) if it.group in order else -1)]
