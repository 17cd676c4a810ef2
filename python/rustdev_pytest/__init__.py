"""pytest plugin: runs tests written for "cuda" on rustdev, and has fixtures for tests written for rustdev.

This is a separate package: importing ``rustdev`` initializes the devices, and their number is an option of the plugin. docs/ci.md
describes its use.
"""

import os
import sys
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING

import pytest
import rustdev_autoload

if TYPE_CHECKING:
    import torch
    from rustdev._cuda_scope import as_cuda

__all__: list[str] = []

#: The active ``as_cuda`` scope, in which "cuda" means the device.
_SCOPE: pytest.StashKey["as_cuda"] = pytest.StashKey()
_MARKER = "rustdev_devices(count): skip the test where there are fewer devices"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("rustdev", "rustdev, a PyTorch accelerator that runs on any CPU")
    group.addoption("--rustdev-as-cuda", action="store_true", help='let "cuda" mean rustdev')
    group.addoption("--rustdev-profile", metavar="NAME", help="imitate this GPU, as in a100-80g (RUSTDEV_PROFILE)")
    group.addoption("--rustdev-devices", metavar="N", type=int, help="how many devices there are (RUSTDEV_DEVICE_COUNT)")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Initialize the devices before conftest files import torch."""
    options = early_config.known_args_namespace
    _start(early_config, options.rustdev_devices, options.rustdev_as_cuda, options.rustdev_profile)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and initialize the devices if the plugin was loaded by a conftest file."""
    config.addinivalue_line("markers", _MARKER)
    if _SCOPE not in config.stash:
        _start(config, config.option.rustdev_devices, config.option.rustdev_as_cuda, config.option.rustdev_profile)


def _start(config: pytest.Config, devices: int | None, is_cuda: bool, profile: str | None) -> None:
    """Set the number of devices, and enter an ``as_cuda`` scope that ends with the session.

    Raises:
        pytest.UsageError: If the options contradict each other or the state of the initialized devices.
    """
    if devices is not None:
        if "rustdev" not in sys.modules:
            os.environ[_variable("DEVICE_COUNT")] = str(devices)
        elif sys.modules["rustdev"].device_count() != devices:
            raise pytest.UsageError("--rustdev-devices comes too late: torch is loaded, and the number of devices is fixed by then")
    if profile is not None and not is_cuda:
        _imitate(profile)
    if not is_cuda:
        return
    from rustdev import as_cuda

    try:
        scope = as_cuda(profile=profile)
        scope.__enter__()
    except (RuntimeError, ValueError) as error:
        raise pytest.UsageError(f"--rustdev-as-cuda: {error}") from None
    config.stash[_SCOPE] = scope
    config.add_cleanup(lambda: scope.__exit__(None, None, None))


def _variable(setting: str) -> str:
    return f"{rustdev_autoload.name().upper()}_{setting}"


def _imitate(profile: str) -> None:
    """Make the devices imitate a GPU.

    Raises:
        pytest.UsageError: If there is no such profile, or the devices are already initialized.
    """
    variable = _variable("PROFILE")
    if os.environ.get(variable) == profile:
        return
    if "rustdev" in sys.modules:
        raise pytest.UsageError(f"--rustdev-profile comes too late: torch is loaded, and has read {variable} by then")
    os.environ[variable] = profile
    try:
        import rustdev  # noqa: F401
    except ValueError as error:
        raise pytest.UsageError(f"--rustdev-profile: {error}") from None


def pytest_report_header(config: pytest.Config) -> str | None:
    """Return a line about the devices for pytest's header if "cuda" means the device."""
    if _SCOPE not in config.stash:
        return None
    import rustdev
    import torch

    return f"rustdev {rustdev.__version__} as cuda: {torch.cuda.device_count()} x {torch.cuda.get_device_name()}"


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests that need more devices than there are."""
    for marker in item.iter_markers("rustdev_devices"):
        (needed,) = marker.args
        if _count() < needed:
            pytest.skip(f"takes {needed} devices, as with --rustdev-devices={needed}")


def _put_back(item: pytest.Item) -> None:
    scope = item.config.stash.get(_SCOPE, None)
    if scope is not None:
        scope._restore()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Restore the scope before each test: the previous test may have changed PyTorch's stack of function modes.

    End the session after a test that has left a device failed for good.
    """
    _put_back(item)
    result = yield
    if os.environ.get(_variable("ERRORS")) == "sticky":
        for index in range(_count()):
            failure = _failure(index)
            if failure is not None:
                device, variable = f"{rustdev_autoload.name()}:{index}", _variable("ERRORS")
                item.session.shouldfail = f"device {device} stays failed after {item.name} ({variable}=sticky): {failure}"
    return result


def _failure(index: int) -> str | None:
    """Return the error of a device that has failed."""
    import rustdev
    import torch

    try:
        rustdev.synchronize(index)
    except torch.AcceleratorError as error:
        return str(error)
    return None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Wait for the devices at the end of each test, so that a failing task fails the test that submitted it."""
    _put_back(item)
    yield
    if _SCOPE in item.config.stash:
        import rustdev

        for index in range(rustdev.device_count()):
            rustdev.synchronize(index)


def _count() -> int:
    import rustdev

    return rustdev.device_count()


@pytest.fixture
def rustdev_device(pytestconfig: pytest.Config) -> "torch.device":
    """The device: ``torch.device("rustdev")``, or ``torch.device("cuda")`` with ``--rustdev-as-cuda``."""
    import rustdev  # noqa: F401
    import torch

    return torch.device("cuda" if _SCOPE in pytestconfig.stash else "rustdev")


@pytest.fixture
def device(rustdev_device: "torch.device") -> "torch.device":
    """Alias of ``rustdev_device``. A project's own fixture or parameter of this name takes precedence."""
    return rustdev_device


@pytest.fixture
def fake_gpus(rustdev_device: "torch.device") -> Callable[[int], "list[torch.device]"]:
    """A function that returns the first ``count`` devices.

    It raises RuntimeError if there are fewer: their number is fixed when torch is loaded.
    """
    import torch

    def devices(count: int) -> "list[torch.device]":
        if _count() < count:
            raise RuntimeError(
                f"there are {_count()} devices, and their number is fixed now: start pytest with --rustdev-devices={count}"
            )
        return [torch.device(rustdev_device.type, index) for index in range(count)]

    return devices
