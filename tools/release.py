"""Checks and SBOM of a release, for `make release` and `make wheel`.

    release.py check            fail if versions, the changelog and git's tags do not agree
    release.py sbom FILE        write the bill of materials of a wheel, as CycloneDX
    release.py validate FILE    validate such a file by CycloneDX's schema; needs requirements/release.txt
    release.py notes            print the changelog of the version

The components are those of this machine's build: crates whose code is in the module, Rust's standard library, and torch, which the
environment provides. Build tools are left out.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import tomllib

ROOT = Path(__file__).parents[1]


def toml(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file."""
    return tomllib.loads(path.read_text())


def output(*command: str) -> str:
    """Return the output of a command."""
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


# ---- versions ------------------------------------------------------------------------------------------------------------------


def sections(changelog: str) -> dict[str, str]:
    """Return the text of the changelog by version, newest first, with `Unreleased` for the unreleased changes."""
    parts = re.split(r"^## \[([^\]]+)\].*$", changelog, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def disagreements(root: Path, tags: list[str], tags_here: list[str]) -> list[str]:
    """Return a line for each disagreement of versions, changelog, and tags such as v0.1.0, of which some name this commit."""
    version = toml(root / "Cargo.toml")["package"]["version"]
    module = toml(root / "shim/Cargo.toml")
    locked = {package["name"]: package["version"] for package in toml(root / "Cargo.lock")["package"]}
    changes = sections((root / "CHANGELOG.md").read_text())
    released = [name for name in changes if name != "Unreleased"]
    others = {
        "pyproject.toml": toml(root / "pyproject.toml")["project"]["version"],
        "shim/Cargo.toml": module["package"]["version"],
        "shim/Cargo.toml's dependency": module["dependencies"]["rustdev"]["version"],
        "Cargo.lock": locked["rustdev"],
        "CHANGELOG.md's newest heading": released[0] if released else "none",
    }
    found = [f"{place} says {other}, Cargo.toml {version}" for place, other in others.items() if other != version]
    found += [f"tag {tag} has no heading in CHANGELOG.md" for tag in tags if tag.removeprefix("v") not in released]
    found += [f"tag {tag} names this commit, Cargo.toml says {version}" for tag in tags_here if tag != f"v{version}"]
    if tags_here and re.search(r"^- ", changes.get("Unreleased", ""), re.MULTILINE):
        found.append("CHANGELOG.md has unreleased changes, and this commit has a release's tag")
    return found


def check() -> None:
    """Exit with an error if versions, the changelog and git's tags do not agree."""
    tags, tags_here = (output("git", "tag", which, "v*").split() for which in ("--list", "--points-at=HEAD"))
    if found := disagreements(ROOT, tags, tags_here):
        sys.exit("\n".join(["release: versions do not agree", *found]))
    print(f"release: version {toml(ROOT / 'Cargo.toml')['package']['version']} everywhere")


# ---- the bill of materials -----------------------------------------------------------------------------------------------------


class Crate(NamedTuple):
    """A crate, from cargo's tree and the lock file."""

    name: str
    version: str
    license: str

    @property
    def purl(self) -> str:
        """Package URL of the crate."""
        return f"pkg:cargo/{self.name}@{self.version}"


def dependencies(tree: str) -> dict[Crate, set[Crate]]:
    """Return the crates of a tree, cargo's lines with depth, name, version and license, with their direct dependencies."""
    uses: dict[Crate, set[Crate]] = {}
    above: list[Crate] = []
    for line in filter(None, tree.splitlines()):
        match = re.fullmatch(r"(\d+)(\S+) v(\S+).*\|([^|]*?)(?: \(\*\))?", line)
        assert match, line
        crate = Crate(match[2], match[3], match[4].replace("/", " OR "))
        depth = int(match[1])
        if depth:
            uses[above[depth - 1]].add(crate)
        uses.setdefault(crate, set())
        above[depth:] = [crate]
    return uses


def component(name: str, reference: str, terms: str = "", **more: Any) -> dict[str, Any]:
    """Return a component of the bill, with those of the further entries that are not empty."""
    more["licenses"] = [{"expression": terms}] if terms else []
    return {"type": "library", "bom-ref": reference, "name": name} | {key: value for key, value in more.items() if value}


def bill(
    uses: dict[Crate, set[Crate]], checksums: dict[tuple[str, str], str], rust: str, project: dict[str, Any]
) -> dict[str, Any]:
    """Return the bill of materials of a wheel.

    Args:
        uses: Crates of the extension module with their dependencies; the module's own crate is the first.
        checksums: Of the crates' archives, by name and version.
        rust: Version of the compiler.
        project: Table of pyproject.toml.
    """
    module, *crates = uses
    purl = f"pkg:pypi/{project['name']}@{project['version']}"
    wheel = component(project["name"], purl, project["license"], version=project["version"], purl=purl)
    parts = []
    for crate in sorted(crates):
        checksum = checksums.get((crate.name, crate.version))
        hashes = [{"alg": "SHA-256", "content": checksum}] if checksum else []
        about: dict[str, Any] = {"scope": "required", "version": crate.version, "purl": crate.purl, "hashes": hashes}
        parts.append(component(crate.name, crate.purl, crate.license, **about))
    about = {"scope": "required", "version": rust, "description": "Rust's standard library"}
    std = component("std", "rust-std", "MIT OR Apache-2.0", **about)
    packages = []
    for requirement in project["dependencies"]:
        name = re.match(r"[\w.-]+", requirement)[0]  # type: ignore[index]
        about = {"scope": "required", "description": f"Not in the wheel: the environment brings {requirement}"}
        packages.append(component(name, f"pkg:pypi/{name}", purl=f"pkg:pypi/{name}", **about))
    graph = [{"ref": crate.purl, "dependsOn": sorted(used.purl for used in uses[crate])} for crate in sorted(crates)]
    direct = [*(used.purl for used in uses[module]), std["bom-ref"], *(package["bom-ref"] for package in packages)]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": wheel},
        "components": [*parts, std, *packages],
        "dependencies": [{"ref": wheel["bom-ref"], "dependsOn": sorted(direct)}, *graph],
    }


def write_bill(file: Path) -> None:
    """Write the bill of this machine's build."""
    rust = dict(re.findall(r"^(\w+): (.*)$", output("rustc", "-vV"), re.MULTILINE))
    command = ["cargo", "tree", "--locked", "-p", "rustdev-module", "-e", "normal,no-proc-macro", "--target", rust["host"]]
    uses = dependencies(output(*command, "--prefix", "depth", "--format", "{p}|{l}"))
    locked = toml(ROOT / "Cargo.lock")["package"]
    checksums = {(package["name"], package["version"]): package["checksum"] for package in locked if "checksum" in package}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(bill(uses, checksums, rust["release"], toml(ROOT / "pyproject.toml")["project"]), indent=1) + "\n")


def validate(file: Path) -> None:
    """Exit with an error if a bill does not conform to CycloneDX's schema."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    text = file.read_text()
    found = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if found is not None:
        sys.exit(f"release: {file} is not CycloneDX 1.6: {found}")
    print(f"release: {len(json.loads(text)['components'])} parts in {file.name}")


def main(command: str, *arguments: str) -> None:
    """Run a command of the command line."""
    match (command, *arguments):
        case ("check",):
            check()
        case ("sbom", file):
            write_bill(Path(file))
        case ("validate", file):
            validate(Path(file))
        case ("notes",):
            version = toml(ROOT / "Cargo.toml")["package"]["version"]
            print(sections((ROOT / "CHANGELOG.md").read_text())[version].strip())
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(*sys.argv[1:] or ["help"])
