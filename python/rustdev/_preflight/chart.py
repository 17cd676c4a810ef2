"""The memory of a device over a run as a picture: an SVG of stacked areas, one for each category."""

import html
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from rustdev.memory import _size_text

from .examine import CATEGORIES
from .report import spoken, where

COLOURS = {
    "parameters": "#4c78a8",
    "gradients": "#f58518",
    "optimizer_states": "#54a24b",
    "activations": "#e45756",
    "communication": "#72b7b2",
    "temporaries": "#bab0ac",
}
_PHASES = {"forward": "#dbe7f3", "backward": "#f3dbe7", "optimizer": "#e0f0db"}
_WIDTH, _HEIGHT = 1000, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 985, 66, 372
_UNITS = [step << shift for shift in range(10, 50, 10) for step in (1, 2, 5, 10, 20, 50, 100, 200, 500)]


class _Scale:
    """Positions in the picture.

    Args:
        count: Number of points.
        highest: Bytes at the upper edge.
    """

    def __init__(self, count: int, highest: int) -> None:
        self._count, self.highest = max(count - 1, 1), max(highest, 1)

    def x(self, index: float) -> float:
        """Return the position of a point."""
        return round(_LEFT + index / self._count * (_RIGHT - _LEFT), 1)

    def y(self, size: float) -> float:
        """Return the position of a number of bytes."""
        return round(_BOTTOM - size / self.highest * (_BOTTOM - _TOP), 1)


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{html.escape(text)}</text>'


def _rectangle(x: float, y: float, width: float, height: float, colour: str) -> str:
    return f'<rect x="{x}" y="{y}" width="{width:.1f}" height="{height:.1f}" fill="{colour}"/>'


def _legend(categories: Sequence[str]) -> Iterator[str]:
    x = float(_LEFT)
    for category in categories:
        yield _rectangle(x, 8, 12, 12, COLOURS[category])
        yield _text(x + 17, 18, spoken(category))
        x += 34 + 7 * len(category)
    yield f'<path d="M{x} 14h18" stroke="#222" fill="none"/>'
    yield _text(x + 24, 18, "reserved")


def _phases(points: Sequence[dict[str, Any]], scale: _Scale) -> Iterator[str]:
    """Yield a strip with the phases of the run, and the names of those that have room for one."""
    index = 0
    for (step, phase), group in groupby(points, key=lambda point: (point["step"], point["phase"])):
        count = len(list(group))
        left, right = scale.x(index), scale.x(min(index + count, len(points) - 1))
        yield _rectangle(left, _TOP - 20, right - left, 18, _PHASES[phase])
        name = f"{phase} {step}" if step else phase
        if right - left > 7 * len(name):
            yield _text(left + 3, _TOP - 7, name)
        index += count


def _areas(points: Sequence[dict[str, Any]], categories: Sequence[str], scale: _Scale) -> Iterator[str]:
    lower = [0] * len(points)
    for category in categories:
        upper = [size + point["parts"][category] for size, point in zip(lower, points, strict=True)]
        edge = [(scale.x(index), scale.y(size)) for index, size in enumerate(upper)]
        edge += [(scale.x(index), scale.y(size)) for index, size in reversed(list(enumerate(lower)))]
        corners = " ".join(f"{x},{y}" for x, y in edge)
        yield f'<polygon points="{corners}" fill="{COLOURS[category]}"><title>{spoken(category)}</title></polygon>'
        lower = upper
    corners = " ".join(f"{scale.x(index)},{scale.y(point['reserved'])}" for index, point in enumerate(points))
    yield f'<polyline points="{corners}" fill="none" stroke="#222"/>'


def _axis(scale: _Scale) -> Iterator[str]:
    unit = next((unit for unit in _UNITS if scale.highest / unit <= 6), _UNITS[-1])
    for size in range(0, scale.highest + 1, unit):
        y = scale.y(size)
        yield f'<path d="M{_LEFT} {y}H{_RIGHT}" stroke="#ddd"/>'
        yield _text(_LEFT - 6, y + 4, _size_text(size), "end")
    yield _text((_LEFT + _RIGHT) / 2, _HEIGHT - 8, "allocations and frees, in their order", "middle")


def _peak(device: dict[str, Any], scale: _Scale) -> Iterator[str]:
    points = device["timeline"]
    index = max(range(len(points)), key=lambda index: sum(points[index]["parts"].values()))
    x, y, above = scale.x(index), scale.y(device["peak_allocated"]), scale.y(points[index]["reserved"]) - 8
    anchor, side = ("start", 8) if x < (_LEFT + _RIGHT) / 2 else ("end", -8)
    yield f'<circle cx="{x}" cy="{y}" r="4" fill="#222"/>'
    yield _text(
        x + side, max(above, _TOP + 12), f"peak {_size_text(device['peak_allocated'])}: {where(device['peak']['at'])}", anchor
    )


def chart(device: dict[str, Any]) -> str:
    """Return the memory of a device over the run as an SVG.

    Args:
        device: The part of a report on a device.
    """
    points = device["timeline"]
    total, reserved = device["total"], device["peak_reserved"]
    has_total = total <= 2 * reserved
    scale = _Scale(len(points), int(1.08 * (max(total, reserved) if has_total else reserved)))
    categories = [name for name in CATEGORIES if any(point["parts"][name] for point in points)]
    shapes = [_rectangle(0, 0, _WIDTH, _HEIGHT, "#fff"), *_legend(categories), *_phases(points, scale), *_axis(scale)]
    shapes += _areas(points, categories, scale)
    if has_total:
        y = scale.y(total)
        shapes.append(f'<path d="M{_LEFT} {y}H{_RIGHT}" stroke="#d62728" stroke-dasharray="6 4"/>')
        shapes.append(_text(_RIGHT, y - 4, f"memory of the device: {_size_text(total)}", "end"))
    shapes += _peak(device, scale)
    size = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="system-ui, sans-serif" font-size="12"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">\n' + "\n".join(shapes) + "\n</svg>\n"
