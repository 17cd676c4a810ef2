"""``rustdev.as_cuda``: programs written for "cuda" run on this device.

A function mode maps device arguments in every PyTorch function, per thread (``_cuda_mode``). Functions and classes that bypass
modes, above all those of ``torch.cuda``, are replaced for the whole process (``_cuda_names``). Leaving the last active scope
restores everything. docs/as_cuda.md describes what a program can rely on.
"""

import atexit
import contextlib
import sys
import threading
import warnings
from collections.abc import Iterator
from types import ModuleType, TracebackType
from typing import Any

import torch
from torch.serialization import _package_registry
from typing_extensions import Self

from . import _rustdev, memory
from ._cuda_mode import _CudaMode, _mapped, _modes_of_scope, _put_on_stack, _take_off_stack
from ._cuda_names import _replacements
from ._name import NAME
from ._ops.float8_products import refuse_without_float8
from ._profiles import _profile
from ._utils import _ThreadStack
from .device import device_count, get_device_properties

_MISSING = object()


def _tag(storage: Any) -> str | None:
    """Return the location tag of a storage in files that are saved in the scope: a "cuda" device. None for other devices."""
    return f"cuda:{storage.device.index}" if storage.device.type == NAME else None


def _restore(storage: Any, location: str) -> Any:
    """Move a loaded storage to the device for a "cuda" location, of the file or of ``map_location``. None for other locations."""
    ours = _mapped(location)
    if ours == location:
        return None
    return torch.serialization._deserialize(NAME, storage, ours)


#: Entry of torch.serialization's package registry. Its priority 1 is before CUDA's, 20.
_PACKAGE = (1, _tag, _restore)


def _modules() -> Iterator[ModuleType]:
    """Yield the modules in which references to replaced objects are updated: all but those of this package."""
    for module in list(sys.modules.values()):
        if isinstance(module, ModuleType) and vars(module).get("__name__", "").partition(".")[0] != "rustdev":
            yield module


def _default_device() -> torch.device | None:
    context = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    return None if context is None else context.device


class _Installation:
    """The process-wide changes of ``as_cuda``, with the original values to restore.

    Args:
        profile: Name of the imitated GPU, if any.
    """

    def __init__(self, profile: str | None) -> None:
        self.profile = profile
        self._before: list[tuple[Any, str, Any]] = []
        #: id(replacement) to (replacement, original).
        self._originals: dict[int, tuple[Any, Any]] = {}
        self._fractions: list[float] = []
        self._default_device = _default_device()

    def _set(self, owner: Any, name: str, value: Any) -> None:
        self._before.append((owner, name, vars(owner).get(name, _MISSING)))
        setattr(owner, name, value)

    def install(self) -> None:
        """Make the changes."""
        named = _profile(self.profile) if self.profile else None
        if named and not named.has_float8:
            refuse_without_float8()
        replaced: dict[int, Any] = {}
        # The list is complete before any replacement is set, as some wrap functions that others replace. The table of builtins is
        # made of the functions in PyTorch's modules, so it must be made before they are replaced, too.
        builtins = torch.jit._builtins._get_builtin_table()
        for owner, name, value in list(_replacements(named, self.profile, _enter_in_child)):
            original = vars(owner).get(name, _MISSING)
            self._set(owner, name, value)
            if isinstance(owner, ModuleType) and callable(original) and getattr(value, "__module__", None) != f"torch.{NAME}":
                replaced.setdefault(id(original), value)
                self._originals[id(value)] = (value, original)
                if id(original) in builtins:  # TorchScript calls builtins instead of compiling their bodies
                    builtins[id(value)] = builtins[id(original)]
        # Other modules hold references, as by ``from torch.cuda import synchronize``.
        for module in _modules():
            for name, value in list(vars(module).items()):
                if id(value) in replaced and callable(value):
                    self._set(module, name, replaced[id(value)])
        _package_registry.insert(0, _PACKAGE)
        if named:
            self._fractions = [memory.get_per_process_memory_fraction(index) for index in range(device_count())]
            for index, fraction in enumerate(self._fractions):
                total = get_device_properties(index).total_memory
                memory.set_per_process_memory_fraction(min(fraction, named.memory / total), index)
        _rustdev.cuda_mode_switch(True)

    def _undo_class(self, cls: type) -> None:
        """Restore the originals in a class that was created within the scope."""
        for name, value in list(vars(cls).items()):
            is_static = isinstance(value, staticmethod)
            found = self._originals.get(id(value.__func__ if isinstance(value, staticmethod) else value))
            if found is not None:
                setattr(cls, name, staticmethod(found[1]) if is_static else found[1])

    def undo(self) -> None:
        """Restore everything, including references in modules that were loaded within the scope."""
        _rustdev.cuda_mode_switch(False)
        for key in self._originals:
            torch.jit._builtins._get_builtin_table().pop(key, None)
        _package_registry[:] = [entry for entry in _package_registry if entry is not _PACKAGE]
        for index, fraction in enumerate(self._fractions):
            memory.set_per_process_memory_fraction(fraction, index)
        for owner, name, value in reversed(self._before):
            if value is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
        for module in _modules():
            for name, value in list(vars(module).items()):
                if id(value) in self._originals:
                    vars(module)[name] = self._originals[id(value)][1]
                elif issubclass(type(value), type) and value.__module__ == module.__name__:
                    self._undo_class(value)
        if _default_device() != self._default_device:
            torch.set_default_device(self._default_device)


def _renew_cache_key() -> None:
    """Have Inductor compute the key of its caches anew, which it keeps: the key says what the presented GPU has."""
    codecache = sys.modules.get("torch._inductor.codecache")
    if codecache is not None:
        codecache.CacheBase.get_system.cache_clear()


_lock = threading.Lock()
_installation: _Installation | None = None
_count = 0


class as_cuda(contextlib.ContextDecorator):  # noqa: N801 - reads as what it does
    """Context manager and decorator in which "cuda" means this device, as if the machine had GPUs.

    ``torch.cuda`` and other names of CUDA are replaced for the whole process. Device arguments are mapped in the entering thread,
    and in threads and processes that ``threading`` or ``multiprocessing`` start within the scope. Scopes may be nested. Leaving the
    last active scope restores everything, also after an exception.

    Args:
        profile: Name of a GPU to imitate, such as ``"a100-80g"``: the device has its name, its compute capability and at most its
            memory. Optional in nested scopes.
        force: Whether to enter the scope even if PyTorch has a CUDA GPU. "cuda" does not mean that GPU in the scope.

    Raises:
        ValueError: If there is no such profile.
        RuntimeError: On entry, if PyTorch has a CUDA GPU and ``force`` is False, or an enclosing scope has another profile.
    """

    def __init__(self, *, profile: str | None = None, force: bool = False) -> None:
        if profile is not None:
            _profile(profile)
        self.profile, self.force = profile, force
        #: Whether this entry pushed the mode onto the stack of the entering thread.
        self._entered: _ThreadStack[bool] = _ThreadStack()

    def __enter__(self) -> Self:
        global _installation, _count
        with _lock:
            if _installation is None:
                if torch.cuda.is_available() and not self.force:
                    raise RuntimeError('"cuda" is a GPU on this machine: as_cuda(force=True) makes it mean rustdev all the same')
                installation = _Installation(self.profile)
                try:
                    installation.install()
                except BaseException:
                    installation.undo()
                    raise
                _installation = installation
                if self.profile:
                    _renew_cache_key()
            elif self.profile not in (None, _installation.profile):
                raise RuntimeError(f"the device is presented as {_installation.profile}, and cannot be {self.profile} at once")
            _count += 1
        has_none = not _modes_of_scope()
        self._entered.push(has_none)
        if has_none:
            torch._C._push_on_torch_function_stack(_CudaMode())
        return self

    def _restore(self) -> None:
        """Re-enable torch functions and put the mode back on this thread's stack, if a program has changed either."""
        states = torch._C._TorchFunctionState
        if torch._C._get_torch_function_state() == states.ALL_DISABLED:
            torch._C._set_torch_function_state(states.ENABLED)
        if not _modes_of_scope():
            _put_on_stack()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        global _installation, _count
        with _lock:
            _count -= 1
            if _count == 0 and _installation is not None:
                installation, _installation = _installation, None
                installation.undo()
                if installation.profile:
                    _renew_cache_key()
        if self._entered.pop() and not _take_off_stack():
            warnings.warn(
                "a program took the mode of rustdev.as_cuda off PyTorch's stack of function modes:"
                ' from there on, "cuda" did not mean rustdev in this thread',
                RuntimeWarning,
                stacklevel=2,
            )


def _enter_until_exit(profile: str | None, force: bool = False) -> None:
    """Enter a scope that ends at exit, after the program's threads."""
    scope = as_cuda(profile=profile, force=force)
    scope.__enter__()
    atexit.register(scope.__exit__, None, None, None)


def _enter_in_child(profile: str | None) -> None:
    """Enter such a scope in a child process of ``multiprocessing``."""
    _enter_until_exit(profile, force=True)
