"""Every target of `make nightly` is one of the Makefile."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_target_is_one_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()
    source = (ROOT / "tools/nightly.py").read_text()
    targets = re.findall(r'^    "([a-z0-9-]+)[^"]*": \d+,$', source, re.MULTILINE)
    assert len(targets) > 10
    assert [target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)] == []
