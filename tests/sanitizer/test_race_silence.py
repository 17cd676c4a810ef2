"""The race detector reports nothing for correctly synchronized programs, with any kind of synchronization."""

import pytest
import torch
from ordered_programs import ORDERED, Program


@pytest.mark.parametrize("program", ORDERED, ids=[program.__name__ for program in ORDERED])
def test_an_ordered_program_is_silent(program: Program) -> None:
    with torch.rustdev.sanitizer(mode="error"):
        program()
        torch.rustdev.synchronize()
        torch.rustdev.synchronize(1)
    assert [report.text for report in torch.rustdev.sanitizer_reports()] == []
