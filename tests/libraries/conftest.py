"""Settings of the tests with other libraries, which `make test-libraries` installs and runs."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Nothing here needs the network, and what would ask for it fails at once.
os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import rustdev.integrations

ROOT = Path(__file__).parents[2]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the libraries warn of what they deprecate, but not rustdev."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.filterwarnings("default"))
            item.add_marker(pytest.mark.filterwarnings("error:rustdev knows"))


@pytest.fixture(autouse=True, scope="session")
def _enabled() -> Iterator[None]:
    rustdev.integrations.enable()
    yield
    os.environ.pop("ACCELERATE_TORCH_DEVICE", None)


@pytest.fixture(autouse=True)
def _fresh_accelerate() -> Iterator[None]:
    """Let no test take the device that accelerate has chosen in another."""
    yield
    if "accelerate.state" in sys.modules:
        forget_devices()


def forget_devices() -> None:
    """Have accelerate choose its device anew."""
    from accelerate.state import AcceleratorState

    AcceleratorState._reset_state(reset_partial_state=True)


def losses_of(trainer: Any, name: str = "loss") -> list[float]:
    """Return the losses, or other numbers, that a trainer of transformers has noted."""
    return [entry[name] for entry in trainer.state.log_history if name in entry]


class Programs:
    """Runs Python programs in processes of their own, two devices each, where nothing has been enabled."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        #: Time limit of a process in seconds, and variables beside those of this process.
        self.timeout = 300
        self.environment = {"RUSTDEV_DEVICE_COUNT": "2", "OMP_NUM_THREADS": "2"}

    def run(self, *arguments: str, check: bool = True) -> str:
        """Run Python with arguments and return what it printed to both streams."""
        kept = {name: value for name, value in os.environ.items() if name != "ACCELERATE_TORCH_DEVICE"}
        options = {"cwd": self.directory, "env": kept | self.environment, "text": True, "timeout": self.timeout}
        result = subprocess.run(
            [sys.executable, *arguments], **options, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        assert not check or result.returncode == 0, result.stdout
        return result.stdout

    def example(self, name: str, *arguments: str) -> str:
        """Run an example, which fails if it does not learn what it should."""
        return self.run(str(ROOT / "examples" / name), *arguments)

    def script(self, code: str, *launcher: str, check: bool = True) -> str:
        """Run code, by a module such as torch.distributed.run if one is given with its arguments."""
        file = self.directory / "script.py"
        file.write_text(code)
        return self.run(*launcher, str(file), check=check)


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    return Programs(tmp_path)
