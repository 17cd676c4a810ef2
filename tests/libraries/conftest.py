"""Settings of the tests with other libraries, which `make test-libraries` installs and runs."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

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


class Programs:
    """Runs Python programs in processes of their own, two devices each, where nothing has been enabled."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        #: Time limit of a process in seconds, and variables beside those of this process.
        self.timeout = 300
        self.environment = {"RUSTDEV_DEVICE_COUNT": "2", "OMP_NUM_THREADS": "2"}

    def run(self, *arguments: str, check: bool = True) -> str:
        """Run Python with arguments and return what it printed to both streams."""
        environment = os.environ | self.environment
        environment.pop("ACCELERATE_TORCH_DEVICE", None)
        result = subprocess.run(
            [sys.executable, *arguments], cwd=self.directory, env=environment, text=True, timeout=self.timeout, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert not check or result.returncode == 0, result.stdout
        return result.stdout

    def example(self, name: str, *arguments: str) -> str:
        """Run an example, which fails if it does not learn what it should."""
        return self.run(str(ROOT / "examples" / name), *arguments)

    def script(self, code: str, *launcher: str) -> str:
        """Run code, by a module such as torch.distributed.run if one is given with its arguments."""
        file = self.directory / "script.py"
        file.write_text(code)
        return self.run(*launcher, str(file))


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    return Programs(tmp_path)
