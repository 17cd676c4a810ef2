"""The runner of `make nightly`: it continues an interrupted run, has time limits, and writes a report."""

import re
import subprocess
import sys
import time
from pathlib import Path

import nightly
import pytest

ROOT = Path(__file__).parents[2]
MAKEFILE = """\
good:
\t@echo a >> ran; echo '===== 3 passed in 1.00s ====='
bad:
\t@echo b >> ran; echo 'it is broken'; exit 3
endless:
\t@sleep 60 & echo $$! > child; wait
"""


@pytest.fixture(autouse=True)
def _tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have it work on a repository with a few targets."""
    (tmp_path / "Makefile").write_text(MAKEFILE)
    (tmp_path / ".gitignore").write_text("/target/\n/ran\n/child\n")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "all"]):
        subprocess.run([*git, *command], check=True)
    directory = tmp_path / "target/nightly"
    paths = {"ROOT": tmp_path, "DIRECTORY": directory, "STATE": directory / "state.json", "REPORT": directory / "report.md"}
    for name, value in (paths | {"TARGETS": {"good": 1, "bad": 1, "endless": 0.02}}).items():
        monkeypatch.setattr(nightly, name, value)


def nightly_of(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Return the exit status of a run."""
    monkeypatch.setattr(sys, "argv", ["nightly.py", *arguments])
    return nightly.main()


def test_every_target_is_one_of_the_makefile() -> None:
    makefile, source = ((ROOT / name).read_text() for name in ("Makefile", "tools/nightly.py"))
    targets = re.findall(r'^    "([a-z0-9-]+)[^"]*": \d+,$', source, re.MULTILINE)
    assert len(targets) > 10
    assert [target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)] == []


def test_the_page_has_what_came_of_each_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert nightly_of(monkeypatch, "--only", "good", "bad") == 1
    page = nightly.REPORT.read_text()
    assert re.search(r"\| `make good` \| passed \| [0-9a-f]{10} \| 0 s \| 3 passed in 1.00s \|", page)
    assert re.search(r"\| `make bad` \| failed \(2\) \| [0-9a-f]{10} \| 0 s \| it is broken \|", page)
    assert "- `make bad`; the log is `target/nightly/logs/bad.log`" in page
    assert (tmp_path / "ran").read_text() == "a\nb\n"


def test_a_run_goes_on_for_the_same_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert nightly_of(monkeypatch, "--only", "good") == 0
    assert nightly_of(monkeypatch, "--only", "good", "bad") == 1
    assert (tmp_path / "ran").read_text() == "a\nb\n"
    nightly_of(monkeypatch, "--only", "good", "bad", "--again")
    assert (tmp_path / "ran").read_text() == "a\nb\nb\n"
    (tmp_path / "Makefile").write_text(MAKEFILE + "# another\n")
    nightly_of(monkeypatch, "--only", "good")
    assert (tmp_path / "ran").read_text() == "a\nb\nb\na\n"


def test_results_of_other_commits_count_where_that_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert nightly_of(monkeypatch, "--only", "good") == 0
    (tmp_path / "Makefile").write_text(MAKEFILE + "# another\n")
    nightly_of(monkeypatch, "--only", "good", "bad", "--older")
    assert (tmp_path / "ran").read_text() == "a\nb\n"
    page = nightly.REPORT.read_text()
    assert re.search(r"`make good` \| passed \| [0-9a-f]{10} \|", page)
    assert re.search(r"`make bad` \| failed \(2\) \| [0-9a-f]{10}\+ \|", page)
    nightly_of(monkeypatch, "--only", "good")
    assert (tmp_path / "ran").read_text() == "a\nb\na\n"


def test_a_target_is_ended_with_all_that_it_has_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert nightly_of(monkeypatch, "--only", "endless") == 1
    assert "| no end within 0.02 minutes |" in nightly.REPORT.read_text()
    child, ends = Path("/proc", (tmp_path / "child").read_text().strip()), time.monotonic() + 60
    while child.exists() and "Z" not in (child / "stat").read_text().split(")")[1] and time.monotonic() < ends:
        time.sleep(0.01)
    assert time.monotonic() < ends


def test_an_interruption_loses_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = nightly.run

    def interrupted(of: str, target: str, minutes: float) -> nightly.Result:
        if target == "bad":
            raise KeyboardInterrupt
        return run(of, target, minutes)

    monkeypatch.setattr(nightly, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        nightly_of(monkeypatch, "--only", "good", "bad")
    assert "| `make bad` | not run |" in nightly.REPORT.read_text()
    monkeypatch.setattr(nightly, "run", run)
    nightly_of(monkeypatch, "--only", "good", "bad")
    assert (tmp_path / "ran").read_text() == "a\nb\n"
