"""pytorch-metric-learning: losses with their miners, and the accuracy of neighbours."""

from typing import Any

import pytest
import torch
from programs.beside import agree, agrees, trained
from pytorch_metric_learning import distances, losses, miners
from torch import nn

LABELS = torch.arange(24) % 4
FEATURES = torch.randn(24, 8)
CLASSES = {"num_classes": 4, "embedding_size": 8}
CLASSIFIERS = (
    "ArcFaceLoss", "CosFaceLoss", "LargeMarginSoftmaxLoss", "NormalizedSoftmaxLoss", "ProxyAnchorLoss", "ProxyNCALoss",
    "SoftTripleLoss", "SphereFaceLoss", "SubCenterArcFaceLoss",
)  # fmt: skip
PAIRS = (
    "AngularLoss", "CircleLoss", "ContrastiveLoss", "FastAPLoss", "GeneralizedLiftedStructureLoss", "InstanceLoss",
    "IntraPairVarianceLoss", "LiftedStructureLoss", "MarginLoss", "MultiSimilarityLoss", "NCALoss", "NPairsLoss", "NTXentLoss",
    "PNPLoss", "SignalToNoiseRatioContrastiveLoss", "SmoothAPLoss", "SupConLoss", "TripletMarginLoss", "TupletMarginLoss",
)  # fmt: skip
LOSSES: dict[str, dict[str, Any]] = dict.fromkeys(CLASSIFIERS, CLASSES) | {name: {} for name in PAIRS}
LOSSES |= {"HistogramLoss": {"n_bins": 10}, "RankedListLoss": {"margin": 0.4, "Tn": 10}}


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name: str) -> None:
    make = lambda: nn.ModuleList([nn.Linear(8, 8), getattr(losses, name)(**LOSSES[name])])  # noqa: E731
    trained(make, FEATURES, LABELS, call=lambda model, x, labels: model[1](model[0](x), labels), tolerance=5e-3)


@pytest.mark.parametrize(
    "name", ["MultiSimilarityMiner", "BatchHardMiner", "TripletMarginMiner", "PairMarginMiner", "BatchEasyHardMiner", "HDCMiner"]
)
@agrees()
def test_miners(device: str, name: str) -> list[torch.Tensor]:
    indices = getattr(miners, name)()(FEATURES.to(device), LABELS.to(device))
    # The distance is one of two equal elements: a pair may come before the one that it mirrors.
    parts = [indices] if len(indices) == 3 else [indices[:2], indices[2:]]
    return [torch.stack(part).unique(dim=1) for part in parts]


@pytest.mark.parametrize("name", ["CosineSimilarity", "DotProductSimilarity", "LpDistance", "SNRDistance"])
def test_distances(name: str) -> None:
    agree(lambda device: getattr(distances, name)()(FEATURES.to(device)))


@agrees()
def test_a_memory_of_earlier_batches(device: str) -> list[torch.Tensor]:
    loss = losses.CrossBatchMemory(losses.ContrastiveLoss(), embedding_size=8, memory_size=40).to(device)
    return [loss(FEATURES.to(device), LABELS.to(device)) for _ in range(3)]
