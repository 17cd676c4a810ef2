"""The runner of `make nightly`: it continues an interrupted run, has time limits, and writes a report."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))


def test_every_target_is_one_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()
    source = (ROOT / "tools/nightly.py").read_text()
    targets = re.findall(r'^    "([a-z0-9-]+)[^"]*": \d+,$', source, re.MULTILINE)
    assert len(targets) > 10
    assert [target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)] == []
