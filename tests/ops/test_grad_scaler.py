"""torch.amp.GradScaler on the device: its operators against the CPU, and training with scaled gradients and overflows."""

import pytest
import torch
from comparison import FLOATS, TOLERANCE, compare


def unscale(grads: list[torch.Tensor], found: float, factor: float) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Unscale gradients in place; return them and what was found."""
    found_inf = torch.tensor(found, device=grads[0].device)
    torch._amp_foreach_non_finite_check_and_unscale_(grads, found_inf, torch.tensor(factor, device=grads[0].device))
    return grads, found_inf


@pytest.mark.parametrize("bad", [None, torch.inf, -torch.inf, torch.nan])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_unscale(dtype: torch.dtype, bad: float | None) -> None:
    for shape in ((), (100,), (300, 200)):
        for factor in (1.0, 0.3):
            host = [
                torch.randn(shape).to(dtype),
                torch.randn(7, 9).to(dtype).t(),
                torch.randn(12).to(dtype)[::2],
                torch.ones(0, dtype=dtype),
            ]
            if bad is not None:
                host[0].view(-1)[-1] = bad
            compare(unscale, host, 0.0, factor, rtol=TOLERANCE)


def test_what_was_found_before_stays() -> None:
    assert unscale([torch.ones(3, device="rustdev")], 1.0, 0.5)[1].item() == 1.0


@pytest.mark.parametrize("found", [0.0, 1.0])
@pytest.mark.parametrize("steps", [0, 2])
@pytest.mark.parametrize("scale", [8.0, 3e38])
def test_update_scale(scale: float, steps: int, found: float) -> None:
    numbers = torch.tensor(scale), torch.tensor(steps, dtype=torch.int32), torch.tensor(found)
    compare(torch._amp_update_scale_, *numbers, 2.0, 0.5, 3)


def test_wrong_numbers_are_refused() -> None:
    one = torch.ones((), device="rustdev")
    with pytest.raises(RuntimeError, match="found_inf must be a 1-element tensor"):
        torch._amp_foreach_non_finite_check_and_unscale_([one], torch.ones(2, device="rustdev"), one)
    with pytest.raises(RuntimeError, match="inv_scale must be a float tensor"):
        torch._amp_foreach_non_finite_check_and_unscale_([one], one, one.double())
    with pytest.raises(RuntimeError, match="found_inf must be a rustdev tensor"):
        torch._amp_foreach_non_finite_check_and_unscale_([one], torch.ones(()), one)
    with pytest.raises(RuntimeError, match="growth_tracker must be an int tensor"):
        torch._amp_update_scale_(one, one, one, 2.0, 0.5, 1)


def test_a_scaled_fused_step_waits_for_nothing() -> None:
    weight = torch.ones(64, device="rustdev", requires_grad=True)
    instance = torch.optim.AdamW([weight], fused=True)
    scaler = torch.amp.GradScaler("rustdev")

    def step() -> None:
        scaler.scale((weight * weight).sum()).backward()
        scaler.step(instance)
        scaler.update()

    step()
    torch.rustdev.synchronize()
    torch.rustdev._sleep(500_000_000)
    step()
    assert not torch.rustdev.current_stream().query()
    torch.rustdev.synchronize()


@pytest.mark.parametrize("bad", [1.0, torch.inf])
def test_unscale_of_several_dtypes(bad: float) -> None:
    plain = torch.rand(4, 6)
    grads = [plain.clone(), plain.half(), plain.clone()[:, ::2], plain.double(), plain.clone().t(), plain.half()[0, ::2]]
    grads[3][1, 2] = bad
    compare(unscale, grads, 0.0, 0.5, rtol=TOLERANCE)
