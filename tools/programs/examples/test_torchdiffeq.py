"""torchdiffeq: solvers of ordinary differential equations, with gradients through the steps and by the adjoint."""

import pytest
import torch
from programs.beside import agrees, trained
from torch import Tensor, nn
from torchdiffeq import odeint, odeint_adjoint, odeint_event

STARTS, TIMES = torch.tensor([[2.0, 0.5], [1.0, -1.0]], dtype=torch.double), torch.linspace(0.0, 1.0, 6, dtype=torch.double)
SOLVERS = (
    "dopri5", "dopri8", "bosh3", "fehlberg2", "adaptive_heun", "euler", "midpoint", "rk4", "explicit_adams", "implicit_adams",
)  # fmt: skip


class Field(nn.Module):
    """A neural vector field."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2)).double()

    def forward(self, t: Tensor, y: Tensor) -> Tensor:
        return self.layers(y**3) * torch.cos(t)


@pytest.mark.parametrize("method", SOLVERS)
def test_solvers(method: str) -> None:
    trained(Field, STARTS, TIMES, call=lambda field, y, t: odeint(field, y, t, method=method), tolerance=1e-5)


def test_the_adjoint() -> None:
    trained(Field, STARTS[:1], TIMES, call=lambda field, y, t: odeint_adjoint(field, y, t), tolerance=1e-5)


@agrees(1e-6)
def test_an_event(device: str) -> tuple[Tensor, Tensor]:
    start = torch.tensor([1.0, 0.0], dtype=torch.double, device=device)
    begins = torch.tensor(0.0, dtype=torch.double, device=device)
    fall = lambda t, y: torch.stack([y[1], torch.full_like(y[1], -9.8)])  # noqa: E731
    return odeint_event(fall, start, begins, event_fn=lambda t, y: y[0], odeint_interface=odeint)
