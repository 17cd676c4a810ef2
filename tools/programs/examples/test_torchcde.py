"""torchcde: controlled differential equations over irregular series."""

import pytest
import torch
import torchcde
from programs.beside import agree, agrees, trained
from torch import Tensor, nn


class Network(nn.Module):
    """A vector field and what is read from its end."""

    def __init__(self) -> None:
        super().__init__()
        self.start, self.field, self.end = (nn.Linear(3, 8).double(), nn.Linear(8, 24).double(), nn.Linear(8, 2).double())

    def forward(self, coefficients: Tensor, kind: type) -> Tensor:
        path = kind(coefficients)
        first = self.start(path.evaluate(path.interval[0]))
        func = lambda t, z: self.field(z).tanh().view(*z.shape[:-1], 8, 3)  # noqa: E731
        states = torchcde.cdeint(
            X=path, func=func, z0=first, t=path.interval, adjoint=False, method="rk4", options={"step_size": 0.5}
        )
        return self.end(states[:, -1])


@pytest.mark.parametrize("kind", ["CubicSpline", "LinearInterpolation"])
def test_training(kind: str) -> None:
    series = torch.randn(4, 6, 3, dtype=torch.double)
    if kind == "CubicSpline":
        coefficients = torchcde.hermite_cubic_coefficients_with_backward_differences(series)
    else:
        coefficients = torchcde.linear_interpolation_coeffs(series)
    trained(Network, coefficients, getattr(torchcde, kind), tolerance=1e-5)


@agrees(1e-6)
def test_coefficients_of_series_with_gaps(device: str) -> list[Tensor]:
    series = torch.randn(4, 6, 3, dtype=torch.double)
    series[0, 2, 1] = series[3, 0, 0] = float("nan")
    moved = series.to(device)
    return [torchcde.natural_cubic_coeffs(moved), torchcde.linear_interpolation_coeffs(moved),
            torchcde.hermite_cubic_coefficients_with_backward_differences(moved)]  # fmt: skip


def test_logsignature_free_parts() -> None:
    series = torch.randn(2, 7, 3, dtype=torch.double)
    agree(lambda device: torchcde.LinearInterpolation(series.to(device)).derivative(torch.tensor(2.5, device=device)))
