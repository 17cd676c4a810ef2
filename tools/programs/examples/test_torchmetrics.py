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
METRICS: dict[str, tuple[dict[str, Any], Tensor, Tensor]] = {
    "Accuracy": (MANY, SCORES, CLASSES),
    "F1Score": (MANY | {"average": "macro"}, SCORES, CLASSES),
    "Precision": (MANY | {"average": "weighted"}, SCORES, CLASSES),
    "Recall": (MANY, SCORES, CLASSES),
    "Specificity": (MANY, SCORES, CLASSES),
    "ConfusionMatrix": (MANY | {"normalize": "true"}, SCORES, CLASSES),
    "CohenKappa": (MANY, SCORES, CLASSES),
    "MatthewsCorrCoef": (MANY, SCORES, CLASSES),
    "JaccardIndex": (MANY, SCORES, CLASSES),
    "AUROC": (MANY, SCORES, CLASSES),
    "AveragePrecision": (MANY | {"thresholds": 20}, SCORES, CLASSES),
    "PrecisionRecallCurve": ({"task": "binary"}, SCORES[..., 0], BITS),
    "ROC": ({"task": "binary"}, SCORES[..., 0], BITS),
    "CalibrationError": (MANY | {"n_bins": 5}, SCORES, CLASSES),
    "HingeLoss": (MANY, SCORES, CLASSES),
    "StatScores": (MANY, SCORES, CLASSES),
    "MeanSquaredError": ({}, NUMBERS, MEASURED),
    "MeanAbsoluteError": ({}, NUMBERS, MEASURED),
    "R2Score": ({}, NUMBERS, MEASURED),
    "ExplainedVariance": ({}, NUMBERS, MEASURED),
    "PearsonCorrCoef": ({}, NUMBERS, MEASURED),
    "SpearmanCorrCoef": ({}, NUMBERS, MEASURED),
    "KendallRankCorrCoef": ({}, NUMBERS, MEASURED),
    "ConcordanceCorrCoef": ({}, NUMBERS, MEASURED),
    "CosineSimilarity": ({}, SCORES, SCORES.flip(0)),
    "KLDivergence": ({}, SCORES, SCORES.flip(0)),
    "LogCoshError": ({}, NUMBERS, MEASURED),
    "SignalNoiseRatio": ({}, NUMBERS, MEASURED),
    "ScaleInvariantSignalDistortionRatio": ({}, NUMBERS, MEASURED),
    "PeakSignalNoiseRatio": ({"data_range": 1.0}, IMAGES, COPIES),
    "StructuralSimilarityIndexMeasure": ({"data_range": 1.0}, IMAGES, COPIES),
    "UniversalImageQualityIndex": ({}, IMAGES, COPIES),
    "SpectralAngleMapper": ({}, IMAGES, COPIES),
    "RetrievalMAP": ({}, NUMBERS.sigmoid(), BITS),
    "RetrievalNormalizedDCG": ({}, NUMBERS.sigmoid(), BITS),
}


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
    functions = (
        functional.pairwise_cosine_similarity,
        functional.pairwise_euclidean_distance,
        functional.pairwise_manhattan_distance,
    )
    agree(lambda device: [function(SCORES[0].to(device), SCORES[1].to(device)) for function in functions])


def test_boxes() -> None:
    from torchmetrics.functional.detection import complete_intersection_over_union, intersection_over_union

    first = torch.tensor([[0.0, 0.0, 10.0, 10.0], [5.0, 5.0, 20.0, 25.0]])
    second = torch.tensor([[1.0, 2.0, 9.0, 12.0], [4.0, 6.0, 18.0, 30.0]])
    functions = (complete_intersection_over_union, intersection_over_union)
    agree(lambda device: [function(first.to(device), second.to(device)) for function in functions])
