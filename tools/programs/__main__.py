"""Run public programs on the device, and compare them with PyTorch's CPU device.

    python -m programs [--page PATH] [NAME ...]

Named programs always run. Without names, programs run that have no result of this selection and release yet. Tests are downloaded
from the package index and kept in target/programs with the results. The exit status is 1 if an unlisted test fails, or passes
without the device but is skipped or absent with it; if a listed failure did not happen; or if a program is unavailable.
"""

import argparse
import json
import platform
import signal
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pages

from . import fetch, listed, page, run

ROOT = Path(__file__).parents[2]


def show(name: str, verdict: page.Verdict, seconds: float) -> None:
    """Print a summary line of a program, and its deviations from the list."""
    numbers = f"{verdict.passed} passed ({verdict.used} used the device), {verdict.skipped} skipped"
    numbers += f", {len(verdict.without)} fail without it too, {sum(count for _, count in verdict.listed)} listed"
    print(f"{name}: {numbers}, {len(verdict.unlisted)} not listed; {seconds} s")
    for test, text in verdict.unlisted.items():
        print(f"    {test}: {pages.cell(text)[:200]}")
    for failure in verdict.gone:
        print(f"    listed, and did not happen: {' '.join(failure.tests)}")
    sys.stdout.flush()


def main() -> int:
    """Run the requested programs, print the results and write the page."""
    parser = argparse.ArgumentParser(prog="programs", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="programs of the list (default: all)")
    parser.add_argument("--list", type=Path, default=listed.HERE / "programs.toml", help="the list")
    parser.add_argument("--releases", type=Path, default=listed.REQUIREMENTS, help="the releases")
    parser.add_argument("--output", type=Path, default=ROOT / "target" / "programs", help="where everything is kept")
    parser.add_argument("--page", type=Path, help="the page to write, of all programs with a result")
    options = parser.parse_args()
    # An exit by an exception also ends the child process.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    programs, releases = listed.programs(options.list), listed.releases(options.releases)
    unknown = set(options.names) - programs.keys()
    if unknown:
        parser.error(f"the list has no {', '.join(sorted(unknown))}")
    root = options.output.resolve()
    verdicts = {}
    for name, program in programs.items():
        path, digest = root / "results" / f"{name}.json", program.digest(releases)
        result: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        is_kept = result.get("digest") == digest  # of the same selection and releases
        runs = name in options.names if options.names else not is_kept
        if runs:
            try:
                result = run.run(program, releases, root) | {"digest": digest}
            except fetch.UnavailableError as error:
                print(f"{name}: {error}", flush=True)
                continue
            path.write_text(json.dumps(result, indent=1))
        if runs or is_kept:
            verdicts[name] = (program, page.judge(program, result))
        if runs:
            show(name, verdicts[name][1], result["seconds"])
    missing = [name for name in programs if name not in verdicts]
    if options.page:
        machine = f"torch {version('torch')}, Python {platform.python_version()}"
        options.page.write_text(pages.fill(options.page, page.page(verdicts, releases, machine, missing)))
    if missing:
        print(f"no result yet: {', '.join(missing)}")
    chosen = [verdict for name, (_, verdict) in verdicts.items() if not options.names or name in options.names]
    bad = sum(verdict.bad for verdict in chosen)
    print(f"{len(chosen)} programs, {bad} of them not as listed")
    return int(bad > 0 or (not options.names and bool(missing)))


if __name__ == "__main__":
    sys.exit(main())
