"""The command: ``python -m upstream DIR`` with ``tools`` on the path, or ``make upstream DIR=...``."""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .exclusions import DEFAULT, Exclusions
from .run import Plan, generic_files, run, test_directory

OUTCOMES = ("passed", "failed", "crashed", "skipped", "xfailed", "excluded")
BAD = ("failed", "crashed")


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="upstream", description=__doc__)
    parser.add_argument(
        "directory", type=Path, help="a checkout of PyTorch, or a directory of tests written as PyTorch writes them"
    )
    parser.add_argument("files", nargs="*", help="run these files alone, named as seen from the tests' directory")
    parser.add_argument("--shards", type=int, default=1, help="processes that the tests of a file are split over")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--timeout", type=float, default=3600, help="seconds for a process")
    parser.add_argument("--exclusions", type=Path, default=DEFAULT, help="the tests not to run, with reasons")
    parser.add_argument("--output", type=Path, default=Path("target/upstream"), help="directory for results and logs")
    parser.add_argument("--resume", action="store_true", help="keep the results of an earlier run, and run what it has not run")
    parser.add_argument("-k", dest="pattern", help="as pytest's -k")
    return parser.parse_args(arguments)


def table(results: dict[str, dict[str, Any]]) -> str:
    """Return a Markdown table of the counts of outcomes by file, with a total."""
    counts: dict[str, Counter[str]] = {}
    for test, line in results.items():
        counts.setdefault(test.partition("::")[0], Counter())[line["outcome"]] += 1
    rows = [(file, counts[file]) for file in sorted(counts)]
    rows.append(("**all**", sum(counts.values(), Counter())))
    head = f"| file | {' | '.join(OUTCOMES)} |\n|---|{'---:|' * len(OUTCOMES)}\n"
    return head + "".join(f"| {file} | {' | '.join(str(count[outcome]) for outcome in OUTCOMES)} |\n" for file, count in rows)


def failures(results: dict[str, dict[str, Any]]) -> Iterable[str]:
    """Yield a line for each test that failed or crashed."""
    for test, line in sorted(results.items()):
        if line["outcome"] in BAD:
            yield f"- `{test}` {line['outcome']}: {line.get('text', '')}"


def main(arguments: list[str] | None = None) -> int:
    """Run the tests, print and write the summary. Return 1 if a test failed or crashed, 2 if there are no tests."""
    options = parse(arguments)
    directory = test_directory(options.directory.resolve())
    files = generic_files(directory, options.files)
    if not files:
        print(f"upstream: no device-generic test files in {directory}", file=sys.stderr)
        return 2
    exclusions = Exclusions(options.exclusions)
    more = ["-k", options.pattern] if options.pattern else []
    plan = Plan(
        directory, options.output.resolve(), options.exclusions, options.shards, options.jobs, options.timeout, options.resume, more
    )
    start = time.monotonic()
    results = run(plan, files)

    parts = [table(results), *failures(results)]
    if not options.files and not options.pattern:
        used = {line.get("entry") for line in results.values()}
        parts += [f"- the exclusion `{entry}` names no test" for entry in exclusions.entries() if entry not in used]
    parts.append(f"{len(results)} tests of {len(files)} files in {time.monotonic() - start:.0f} s")
    summary = "\n".join(parts)
    print(summary)
    (plan.output / "summary.md").write_text(summary + "\n")
    (plan.output / "results.json").write_text(json.dumps(results, indent=1))
    return int(any(line["outcome"] in BAD for line in results.values()))


if __name__ == "__main__":
    sys.exit(main())
