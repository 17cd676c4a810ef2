"""The command: ``python -m upstream DIR`` with ``tools`` on the path, or ``make upstream DIR=...``.

It finds the device-generic files and runs each in shards, with a process for each file and shard; see ``recorded``.
"""

import argparse
import json
import os
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pages
from recorded import BAD, SESSION, Lines, Options, read, run, write

OUTCOMES = ("passed", "failed", "crashed", "skipped", "xfailed")


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="upstream", description=__doc__)
    parser.add_argument(
        "directory", type=Path, help="a checkout of PyTorch, or a directory of tests written as PyTorch writes them"
    )
    parser.add_argument("files", nargs="*", help="run these files alone, named as seen from the tests' directory")
    parser.add_argument("--shards", type=int, default=1, help="processes that the tests of a file are split over")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--output", type=Path, default=Path("target/upstream"), help="directory for results and logs")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="keep results that are newer than this file, and run the rest")
    parser.add_argument("-k", dest="pattern", help="as pytest's -k")
    return parser.parse_args(arguments)


def generic_files(directory: Path, names: list[str]) -> list[str]:
    """Return the files with device-generic tests, relative to the directory: those in ``names``, or all if it is empty."""
    files = {path.relative_to(directory).as_posix(): path for path in sorted(directory.rglob("test_*.py"))}
    return [
        name
        for name, path in files.items()
        if (not names or name in names) and "instantiate_device_type_tests(" in path.read_text(errors="replace")
    ]


def run_shard(options: argparse.Namespace, directory: Path, file: str, shard: int) -> Lines:
    """Run one shard of a file and return the last line of each test."""
    results = options.output.resolve() / f"{file.replace('/', '.').removesuffix('.py')}-{shard}.jsonl"
    is_kept = options.resume and results.exists() and results.stat().st_mtime > options.resume.stat().st_mtime
    finished = [line for line in read(results).values() if line["outcome"] not in ("started", SESSION)] if is_kept else []
    results.unlink(missing_ok=True)
    for line in finished:
        write(results, **line)
    path = [str(directory), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {"RUSTDEV_DEVICE_COUNT": "2", **os.environ, "PYTHONPATH": os.pathsep.join(path)}
    environment["TORCH_TEST_DEVICES"] = str(Path(__file__).with_name("device.py"))
    arguments = ["--noconftest", *(["-k", options.pattern] if options.pattern else []), file]
    lines = run(arguments, Options(str(results), shard, options.shards), directory, environment)
    lines.pop(SESSION, None)
    return lines


def summary(results: Lines) -> list[str]:
    """Return a table of the counts of outcomes by file, and a line for each test that failed or crashed."""
    counts: dict[str, Counter[str]] = {}
    for test, line in results.items():
        counts.setdefault(test.partition("::")[0], Counter())[line["outcome"]] += 1
    rows = [*sorted(counts.items()), ("**all**", sum(counts.values(), Counter()))]
    head = f"file | {' | '.join(f'{outcome}:' for outcome in OUTCOMES)}"
    lines = pages.table(head, ([file, *(count[outcome] for outcome in OUTCOMES)] for file, count in rows))
    wrong = [(test, line) for test, line in sorted(results.items()) if line["outcome"] in BAD]
    return lines + [f"- `{test}` {line['outcome']}: {line.get('text', '')}" for test, line in wrong]


def main(arguments: list[str] | None = None) -> int:
    """Run the tests, print and write the summary. Return 1 if a test failed or crashed, 2 if there are no tests."""
    options = parse(arguments)
    checkout = options.directory.resolve()
    directory = checkout / "test" if (checkout / "test").is_dir() else checkout
    files = generic_files(directory, options.files)
    if not files:
        print(f"upstream: no device-generic test files in {directory}", file=sys.stderr)
        return 2
    options.output.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    units = [(file, shard) for file in files for shard in range(options.shards)]
    with ThreadPoolExecutor(options.jobs) as pool:
        parts = pool.map(lambda unit: run_shard(options, directory, *unit), units)
        results = {test: line for part in parts for test, line in part.items()}
    text = "\n".join([*summary(results), f"{len(results)} tests of {len(files)} files in {time.monotonic() - start:.0f} s"])
    print(text)
    (options.output / "summary.md").write_text(text + "\n")
    (options.output / "results.json").write_text(json.dumps(results, indent=1))
    return int(any(line["outcome"] in BAD for line in results.values()))


if __name__ == "__main__":
    sys.exit(main())
