"""Some training steps of each network, and its output afterwards, compared with the CPU."""

import copy

import pytest
import torch
from compared_models import FAMILIES, SMOOTH, check_float32, check_float64, host, moved, start, trained
from training_loop import Family

each_family = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES.keys())


@pytest.mark.slow
@each_family
@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
def test_steps_in_float64_are_the_cpus(family: Family) -> None:
    check_float64(family)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
def test_steps_in_float32_are_as_near_as_the_cpus(name: str) -> None:
    check_float32(FAMILIES[name], name in SMOOTH)


@each_family
@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
def test_evaluation_is_the_cpus(family: Family) -> None:
    mine = copy.deepcopy(trained(family, "rustdev").network).eval()
    same = copy.deepcopy(mine).to("cpu")
    *given, _ = start(family)[1][0]
    before = {name: host(value) for name, value in mine.named_buffers()}
    with torch.inference_mode():
        found, wanted = mine(*moved(given, "rustdev", torch.float32)), same(*given)
    assert found.device.type == "rustdev"
    torch.testing.assert_close(found.cpu(), wanted, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close({name: host(value) for name, value in mine.named_buffers()}, before, rtol=0, atol=0)
