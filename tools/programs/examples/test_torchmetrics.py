"""torchmetrics: metrics over several batches, their functions, and a collection."""

from typing import Any

import pytest
import torch
import torchmetrics
import torchmetrics.functional as functional
from programs.beside import agree, agrees, moved
from torch import Tensor

CLASSES = torch.randint(0, 5, (3, 64))
SCORES = torch.randn(3, 64, 5).softmax(-1)
NUMBERS, MEASURED = torch.randn(3, 64), torch.randn(3, 64)
BITS = torch.randint(0, 2, (3, 64))
IMAGES = torch.rand(3, 2, 3, 48, 48)
# The similarity of images that have nothing in common is a sum that cancels.
COPIES = (IMAGES + 0.1 * torch.randn(IMAGES.shape)).clamp(0, 1)
MANY = {"task": "multiclass", "num_classes": 5}
#: The options, predictions and targets of each metric.
METRICS: dict[str, tuple[dict[str, Any], Tensor, Tensor]] = {
    "F1Score": (MANY | {"average": "macro"}, SCORES, CLASSES),
    "Precision": (MANY | {"average": "weighted"}, SCORES, CLASSES),
    "ConfusionMatrix": (MANY | {"normalize": "true"}, SCORES, CLASSES),
    "AveragePrecision": (MANY | {"thresholds": 20}, SCORES, CLASSES),
    "CalibrationError": (MANY | {"n_bins": 5}, SCORES, CLASSES),
}
OF_CLASSES = (
    "Accuracy", "Recall", "Specificity", "CohenKappa", "MatthewsCorrCoef", "JaccardIndex", "AUROC", "HingeLoss", "StatScores",
)  # fmt: skip
OF_NUMBERS = (
    "MeanSquaredError", "MeanAbsoluteError", "R2Score", "ExplainedVariance", "PearsonCorrCoef", "SpearmanCorrCoef",
    "KendallRankCorrCoef", "ConcordanceCorrCoef", "LogCoshError", "SignalNoiseRatio", "ScaleInvariantSignalDistortionRatio",
)  # fmt: skip
for names, metric in (
    (OF_CLASSES, (MANY, SCORES, CLASSES)),
    (OF_NUMBERS, ({}, NUMBERS, MEASURED)),
    (("PrecisionRecallCurve", "ROC"), ({"task": "binary"}, SCORES[..., 0], BITS)),
    (("CosineSimilarity", "KLDivergence"), ({}, SCORES, SCORES.flip(0))),
    (("PeakSignalNoiseRatio", "StructuralSimilarityIndexMeasure"), ({"data_range": 1.0}, IMAGES, COPIES)),
    (("UniversalImageQualityIndex", "SpectralAngleMapper"), ({}, IMAGES, COPIES)),
    (("RetrievalMAP", "RetrievalNormalizedDCG"), ({}, NUMBERS.sigmoid(), BITS)),
):
    METRICS |= dict.fromkeys(names, metric)


def found(name: str) -> Any:
    """Return a metric's class, which is at the top or in one of the domains."""
    domains = [torchmetrics, torchmetrics.image, torchmetrics.audio, torchmetrics.retrieval]
    return next((getattr(domain, name) for domain in domains if hasattr(domain, name)), None)


@pytest.mark.parametrize("name", [name for name in METRICS if found(name)])
@agrees()
def test_metrics(device: str, name: str) -> list[Any]:
    options, predictions, targets = METRICS[name]
    metric = found(name)(**options).to(device)
    values = []
    for prediction, target in zip(moved(predictions, device), moved(targets, device), strict=True):
        more = {"indexes": torch.arange(64, device=device) // 16} if name.startswith("Retrieval") else {}
        values.append(metric(prediction, target, **more))
    return [*values, metric.compute()]


@agrees()
def test_a_collection(device: str) -> Any:
    named = {name: found(name)(**MANY) for name in ("Accuracy", "F1Score", "ConfusionMatrix", "AUROC")}
    metrics = torchmetrics.MetricCollection(named).to(device)
    for prediction, target in zip(moved(SCORES, device), moved(CLASSES, device), strict=True):
        metrics.update(prediction, target)
    return metrics.compute()


@agrees()
def test_aggregation_and_windows(device: str) -> list[Any]:
    made = [torchmetrics.MeanMetric(), torchmetrics.MaxMetric(), torchmetrics.CatMetric(), torchmetrics.RunningMean(window=2)]
    for metric in made:
        metric.to(device)
        for batch in moved(NUMBERS, device):
            metric.update(batch)
    return [metric.compute() for metric in made]


def test_functions_of_pairs() -> None:
    functions = [
        getattr(functional, f"pairwise_{kind}") for kind in ("cosine_similarity", "euclidean_distance", "manhattan_distance")
    ]
    agree(lambda device: [function(SCORES[0].to(device), SCORES[1].to(device)) for function in functions])


def test_boxes() -> None:
    from torchmetrics.functional.detection import complete_intersection_over_union, intersection_over_union

    first = torch.tensor([[0.0, 0.0, 10.0, 10.0], [5.0, 5.0, 20.0, 25.0]])
    second = torch.tensor([[1.0, 2.0, 9.0, 12.0], [4.0, 6.0, 18.0, 30.0]])
    functions = (complete_intersection_over_union, intersection_over_union)
    agree(lambda device: [function(first.to(device), second.to(device)) for function in functions])
