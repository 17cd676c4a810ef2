"""Dependencies between parts of the crate: the lines under "Who may call whom" in docs/architecture.md allow every path in src/.

A second block there has the order of the parts of src/runtime/.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src"
PAGE = ROOT / "docs/architecture.md"
#: The root of the crate and the list of families belong to no part.
LEFT_OUT = {"src/lib.rs", "src/ops.rs"}


def block_of(page: str, number: int) -> str:
    """Return a block of text under the page's heading, counted from 1."""
    return page.split("## Who may call whom", 1)[1].split("```text\n")[number].split("```", 1)[0]


def chains(page: str) -> list[list[list[str]]]:
    """Return the lines of the page's first block: what stands between arrows, from left to right."""
    block = block_of(page, 1)
    lines = [re.sub(r"\([^)]*\)", "", line) for line in block.splitlines() if line.strip()]
    return [[[name.strip() for name in side.split(",")] for side in line.split("→")] for line in lines]


def allowed(page: str) -> list[tuple[str, str]]:
    """Return who may call whom: in a line, each may call all that follow."""
    found = []
    for sides in chains(page):
        for at, side in enumerate(sides):
            found += [(left, right) for left in side for later in sides[at + 1 :] for right in later]
    return found


RULES = allowed(PAGE.read_text())


#: The heads of families of operators. They hold no code; who names one means its kernels.
HEADS = {f"src/ops/{path.name}.rs" for path in (SRC / "ops").iterdir() if path.is_dir()}


def within_family(file: str) -> str:
    """Return a file by its name, or the kernels of the family whose head it is."""
    return file.replace(".rs", "/kernel.rs") if file in HEADS else file


def belongs(file: str, part: str) -> bool:
    """Whether a file is of a part: of a directory with the file of its name, or of a file with the directory of its name."""
    stem = re.escape(part.removesuffix("/").removesuffix(".rs")).replace(r"\*", "[^/]+")
    return re.match(rf"{stem}(?:\.rs$|/)", within_family(file)) is not None


def part_of(file: str) -> str:
    """Return the part of src/ that a file belongs to: a directory, or the kernels, operators or tests of all families."""
    parts = within_family(file).removesuffix(".rs").split("/")[1:]
    if parts[0] != "ops":
        return parts[0]
    return parts[2] if len(parts) > 2 and parts[2] in ("kernel", "operator", "tests") else parts[1]


def without_comments(text: str) -> str:
    """Return the text with as many characters, where comments and the paths of visibility are blank."""
    return re.sub(r"//[^\n]*|pub\(in [\w:]+\)", lambda match: " " * len(match.group()), text)


def leaves(tree: str, at: int, prefix: list[str]) -> Iterator[tuple[list[str], int]]:
    """Yield each path of a `use` tree with the offset where it ends."""
    depth, begin = 0, 0
    for index, character in enumerate(f"{tree},"):
        depth += (character == "{") - (character == "}")
        if character == "," and depth == 0:
            entry = tree[begin:index]
            head, brace, rest = entry.partition("{")
            names = [name for name in re.findall(r"\w+", head.split(" as ")[0]) if name != "self"]
            if brace:
                inner = rest.rsplit("}", 1)[0]
                yield from leaves(inner, at + begin + len(head) + 1, prefix + names)
            elif entry.strip():
                yield prefix + names, at + begin + len(entry) - len(entry.lstrip())
            begin = index + 1


def paths(text: str) -> Iterator[tuple[list[str], int]]:
    """Yield the paths that begin with `crate` or `super`, each with its offset."""
    text = without_comments(text)
    uses = list(re.finditer(r"\buse ((?:crate|super)::[^;]*);", text))
    for use in uses:
        yield from leaves(use.group(1), use.start(1), [])
    spans = [use.span() for use in uses]
    for match in re.finditer(r"\b(?:crate|super)(?:::\w+)+", text):
        if not any(begin <= match.start() < end for begin, end in spans):
            yield match.group().split("::"), match.start()


def module_at(file: str, text: str, offset: int) -> list[str]:
    """Return the module in which an offset lies, by the names from the root of the crate on."""
    module = file.removeprefix("src/").removesuffix(".rs").split("/")
    inline = re.compile(r"^( *)(?:pub(?:\([\w ]+\))? )?mod (\w+) \{$", re.MULTILINE)
    for match in inline.finditer(text):
        end = re.compile(rf"^{match.group(1)}\}}", re.MULTILINE).search(text, match.end())
        if match.start() <= offset and (end is None or offset < end.start()):
            module.append(match.group(2))
    return module


def target(module: list[str], path: list[str]) -> str | None:
    """Return the file of the crate that a path leads into, or nothing where it stays at the root."""
    names = [] if path[0] == "crate" else list(module)
    for name in path:
        if name == "super":
            names.pop()
        elif name != "crate":
            names.append(name)
    found = None
    for count in range(1, len(names) + 1):
        stem = "/".join(names[:count])
        if (SRC / f"{stem}.rs").exists():
            found = f"src/{stem}.rs"
        elif not (SRC / stem).is_dir():
            break
    return found


def refused(file: str, text: str) -> list[str]:
    """Return the paths of a file that lead where no rule allows."""
    found = []
    for path, offset in paths(text):
        to = target(module_at(file, text, offset), path)
        if to is None or part_of(to) == part_of(file):
            continue
        if not any(belongs(file, left) and belongs(to, right) for left, right in RULES):
            found.append(f"{file}:{text.count(chr(10), 0, offset) + 1}: {'::'.join(path)}")
    return found


#: The parts of the runtime in the page's second block, each with its line.
LINES = {name.strip(): number for number, line in enumerate(block_of(PAGE.read_text(), 2).splitlines()) for name in line.split(",")}


def runtime_part(file: str) -> str | None:
    """Return the part of the runtime that a file belongs to; its tests and its root belong to none."""
    parts = file.removeprefix("src/").removesuffix(".rs").split("/")
    is_part = parts[0] == "runtime" and len(parts) > 1 and not any(name.endswith("_tests") for name in parts)
    return parts[1] if is_part else None


def named_parts(file: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield the other parts of the runtime that a file of it names, each with the line and the path, its tests left out."""
    for path, offset in paths(text):
        module = module_at(file, text, offset)
        to = None if "tests" in module else target(module, path)
        other = runtime_part(to) if to else None
        if other and other != runtime_part(file):
            yield other, f"{file}:{text.count(chr(10), 0, offset) + 1}: {'::'.join(path)}"


def against_order(file: str, text: str) -> list[str]:
    """Return the paths of a file of the runtime that lead to a part of its own or an earlier line."""
    part = runtime_part(file)
    if part is None:
        return []
    return [path for other, path in named_parts(file, text) if LINES[other] <= LINES[part]]


def runtime_files() -> Iterator[tuple[str, str]]:
    """Yield the files of the runtime with their text."""
    for file in sorted((SRC / "runtime").rglob("*.rs")):
        yield file.relative_to(ROOT).as_posix(), file.read_text()


def test_the_order_names_each_part_of_the_runtime_once() -> None:
    assert sorted(LINES) == sorted({part for name, _ in runtime_files() if (part := runtime_part(name))})


def test_the_runtime_keeps_to_its_order() -> None:
    assert [path for name, text in runtime_files() for path in against_order(name, text)] == []


def test_the_page_names_what_is_there() -> None:
    names = {name for rule in RULES for name in rule}
    assert [name for name in sorted(names) if not any(ROOT.glob(f"{name.removesuffix('/')}*"))] == []
    files = {file.relative_to(ROOT).as_posix() for file in SRC.rglob("*.rs")} - LEFT_OUT
    assert sorted(file for file in files if not any(belongs(file, name) for name in names)) == []


def test_kernels_name_no_operator() -> None:
    for file in sorted((SRC / "ops").rglob("*.rs")):
        name = file.relative_to(ROOT).as_posix()
        if part_of(name) in ("kernel", "table", "tests", "check") and name not in HEADS:
            assert not re.search(r"\boperator::", without_comments(file.read_text())), name


def test_every_path_is_allowed() -> None:
    found = []
    for file in sorted(SRC.rglob("*.rs")):
        name = file.relative_to(ROOT).as_posix()
        if name not in LEFT_OUT:
            found += refused(name, file.read_text())
    assert found == []


def test_every_rule_is_needed() -> None:
    used = set()
    for file in SRC.rglob("*.rs"):
        name, text = file.relative_to(ROOT).as_posix(), file.read_text()
        ends = [target(module_at(name, text, offset), path) for path, offset in paths(text)]
        used |= {(left, right) for left, right in RULES for to in ends if to and belongs(name, left) and belongs(to, right)}
    # What a line names next to each other has to be so; what is further apart only may be.
    pairs = [pair for sides in chains(PAGE.read_text()) for pair in pairwise(sides)]
    steps = {(left, right) for one, other in pairs for left in one for right in other}
    assert sorted(step for step in steps - used if not step[0].startswith("shim/")) == []


def test_a_path_that_is_not_allowed_is_found() -> None:
    stream = "src/ops/copy/kernel.rs:{}: crate::runtime::stream::Stream"
    assert refused("src/ops/copy/kernel.rs", "use crate::runtime::stream::Stream;") == [stream.format(1)]
    grouped = "//! crate::abi\nuse crate::{\n    simd::Leaf,\n    runtime::{stream::{self, Stream}, sync::Mutex},\n};\n"
    assert refused("src/ops/copy/kernel.rs", grouped) == ["src/ops/copy/kernel.rs:4: crate::runtime::stream", stream.format(4)]
    assert refused("src/ops/copy/kernel.rs", "fn body() {\n    crate::abi::shield();\n}") == [
        "src/ops/copy/kernel.rs:2: crate::abi::shield"
    ]
    assert refused("src/ops/copy/kernel.rs", "use super::super::super::runtime::stream;") != []
    assert refused("src/ops/copy/kernel.rs", "mod tests {\n    use super::super::super::super::runtime::stream;\n}\n") != []
    assert refused("src/ops/copy/kernel.rs", "mod tests {\n    use super::super::super::scan;\n}\nuse super::super::scan;") == []
    assert refused("src/runtime/queue.rs", "use crate::tensor::dtype::DType;") != []
    assert refused("src/simd/math.rs", "use crate::tensor::number::Number;") != []
    assert refused("src/tuning.rs", "use crate::simd::Leaf;") != []
    assert refused("src/ops/copy/kernel.rs", "use crate::runtime::rng;") != []
    assert refused("src/ops/random/kernel/discrete.rs", "pub(in crate::abi) use crate::runtime::rng;") == []


def test_a_path_against_the_order_is_found() -> None:
    assert against_order("src/runtime/task.rs", "use super::stream::Stream;") == ["src/runtime/task.rs:1: super::stream::Stream"]
    assert against_order("src/runtime/memory/system.rs", "use crate::runtime::config::config;") != []
    assert against_order("src/runtime/timer.rs", "use super::trace;") != []
    assert against_order("src/runtime/stream/wait.rs", "use crate::runtime::executor;") == []
    assert against_order("src/runtime/task.rs", "mod tests {\n    use super::super::stream::Stream;\n}\n") == []


#: What makes a thread sleep; those of the runtime ask for proof that it does not hold the interpreter's lock.
SLEEPS = {
    ".rs": re.compile(
        r"thread::(?:sleep|park\w*)\b|\bpark(?:_timeout)?\(|\bmpsc\b|\bBarrier\b|\.join\(\)|FUTEX_WAIT\b|\bRawCondvar\b"
    ),
    ".cpp": re.compile(r"condition_variable|this_thread::|std::j?thread\b|std::(?:async|future|promise)\b|\bu?sleep\("),
}
SLEEPS[".h"] = SLEEPS[".cpp"]


def sleeps(file: str, text: str) -> list[str]:
    """Return the lines of a file where a thread may sleep, its tests left out."""
    text = without_comments(text)
    found = [match for match in SLEEPS[Path(file).suffix].finditer(text) if "tests" not in module_at(file, text, match.start())]
    return [f"{file}: {match.group()}" for match in found]


def test_threads_sleep_only_without_the_interpreters_lock() -> None:
    found = []
    for path in sorted([*SRC.rglob("*.rs"), *(ROOT / "shim").rglob("*.cpp"), *(ROOT / "shim").rglob("*.h")]):
        name = path.relative_to(ROOT).as_posix()
        if not (name.startswith("src/runtime/sync") or "_tests" in name):
            found += sleeps(name, path.read_text())
    assert found == ["src/runtime/shared/file.rs: FUTEX_WAIT"], "a function of src/runtime/sync.rs, or one that asks for Unlocked"
    page = (SRC / "runtime/shared/file.rs").read_text()
    assert re.search(r"fn sleep_while\([^)]*: &Unlocked\)", page)


def test_every_sleep_of_the_locks_asks_for_proof() -> None:
    text = (SRC / "runtime/sync.rs").read_text()
    bodies = re.split(r"\n(?=pub fn |    pub fn )", text)
    asks = [body for body in bodies if re.search(r"\.0\.wait|thread::(?:sleep|park)", body)]
    assert len(asks) == 4
    assert [body for body in asks if "_: &" not in body.split("{", 1)[0]] == []


def test_a_sleep_is_found() -> None:
    assert sleeps("src/runtime/timer.rs", "fn serve() {\n    std::thread::sleep(time);\n}") != []
    assert sleeps("shim/ops/copy.cpp", "std::condition_variable ready;") != []
    assert sleeps("src/runtime/timer.rs", "// thread::sleep\n") == []
