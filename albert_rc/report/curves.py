"""Training curves from a run's metrics.jsonl: a figure, and sparklines for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from albert_rc.errors import UsageError
from albert_rc.io.json import read_json_lines
from albert_rc.report.plots import lines, require_matplotlib, save

BLOCKS = "▁▂▃▄▅▆▇█"
LEAST = 3
"""Minimum number of points of a curve."""
_NAMES = {"train": "training", "dev": "dev"}
_NO_CURVES = {"kind", "step", "attempt", "epoch", "learning_rate", "questions", "best"}

Curves = dict[str, dict[str, tuple[list[float], list[float]]]]
"""Metric -> name of the line -> steps and values."""


def read_curves(folder: Path) -> Curves:
    """The metrics of a run by step; each attempt after a collapse is a separate line.

    If the last steps of training are few, their mean is joined with the point before.
    """
    found: Curves = {}
    for record in read_json_lines(folder / "metrics.jsonl"):
        if record["kind"] not in _NAMES:
            continue
        attempt = record.get("attempt", 0)
        name = _NAMES[record["kind"]] + (f", attempt {attempt + 1}" if attempt else "")
        for figure, value in record.items():
            numeric = isinstance(value, (int, float)) and not isinstance(value, bool)
            if figure in _NO_CURVES or figure.endswith("_per_second") or not numeric:
                continue
            steps, values = found.setdefault(figure, {}).setdefault(name, ([], []))
            steps.append(record["step"])
            values.append(value)
    for by_name in found.values():
        for name, line in by_name.items():
            if name.startswith(_NAMES["train"]):
                _join_last(*line)
    return found


def _join_last(steps: list[float], values: list[float]) -> None:
    """Replace the last two points by their mean over steps, if the last has less than half of them.

    A mean over a step or two is mostly noise, and would be seen as a jump at the end.
    """
    if len(steps) <= LEAST:
        return
    before, last = steps[-2] - steps[-3], steps[-1] - steps[-2]
    if 2 * last < before:
        values[-2:] = [(values[-2] * before + values[-1] * last) / (before + last)]
        del steps[-2]


def sparkline(values: Sequence[float], width: int = 24) -> str:
    """Values as a row of block characters, scaled from lowest to highest; at most `width`."""
    if len(values) > width:
        values = [values[round(i * (len(values) - 1) / (width - 1))] for i in range(width)]
    low, high = min(values), max(values)
    reach = (high - low) or 1.0
    top = len(BLOCKS) - 1
    return "".join(BLOCKS[round((value - low) / reach * top)] for value in values)


def spark_lines(curves: Curves) -> list[str]:
    """The losses and dev metrics of a run, a line each."""
    said = []
    for figure, by_name in curves.items():
        for name, (_, values) in by_name.items():
            if len(values) >= LEAST and (figure == "loss" or name.startswith("dev")):
                shown = "{:.2%}" if figure.endswith(("accuracy", "f1", "exact")) else "{:.4g}"
                ends = f"{shown.format(values[0])} to {shown.format(values[-1])}"
                said.append(f"{name} {figure} {sparkline(values)} {ends}")
    return said


def draw_curves(folder: Path, curves: Curves) -> list[Path]:
    """Write curves.png and curves.svg into a run's folder, a panel per metric.

    Returns:
        The files; none with too few points, or without matplotlib.
    """
    if not any(len(x) >= LEAST for by_name in curves.values() for x, _ in by_name.values()):
        return []
    try:
        require_matplotlib()
    except UsageError:  # a run must not fail for lack of a figure
        return []
    panels = {figure.replace("_", " "): by_name for figure, by_name in curves.items()}
    return save(lines(panels, "step", folder.resolve().name), folder / "curves")
