"""Plots in a common style. Needs matplotlib: `pip install 'albert-rc[plots]'`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from albert_rc.errors import UsageError
from albert_rc.io.atomic import write_together

# Okabe and Ito's colours for colour-blind readers; markers for black-and-white print.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "osD^vPX"
PANEL = (4.8, 3.6)
"""Size of a panel in inches."""
LEGEND_MARK, LEGEND_LETTER = 0.65, 0.075
"""Width in inches of a legend entry's line, and of each of its letters, so that none is cut off."""


def require_matplotlib() -> None:
    """Refuse a figure before any work is done.

    Raises:
        UsageError: matplotlib is not installed.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UsageError("figures need matplotlib: pip install 'albert-rc[plots]'") from None


def lines(
    panels: Mapping[str, Mapping[str, tuple[Sequence[float], Sequence[float]]]],
    x_label: str | Sequence[str],
    title: str,
    log: bool = False,
) -> Any:
    """Make a figure with a panel per quantity and a line per system.

    Args:
        panels: label of the y axis -> name of a line -> its x and y.
        x_label: label of the x axis, or of each panel's.
        title: title above all panels.
        log: both axes logarithmic, so that powers are straight lines; points with y = 0 are
            dropped.

    Raises:
        UsageError: matplotlib is not installed.
    """
    require_matplotlib()
    # The object interface: pyplot would pick a backend and keep every figure in memory.
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator

    figure = Figure(figsize=(PANEL[0] * len(panels), PANEL[1]), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    names = list(dict.fromkeys(name for found in panels.values() for name in found))
    x_labels = [x_label] * len(panels) if isinstance(x_label, str) else x_label
    for axis, below, (y_label, found) in zip(axes, x_labels, panels.items(), strict=True):
        for name, (x, y) in found.items():
            number = names.index(name)
            # Zero has no position on a logarithmic axis; the line starts after it.
            shown = [(a, b) for a, b in zip(x, y, strict=True) if b > 0 or not log]
            axis.plot(
                [a for a, _ in shown],
                [b for _, b in shown],
                label=name,
                color=COLOURS[number % len(COLOURS)],
                marker=MARKERS[number % len(MARKERS)],
                markersize=4,
                markevery=max(1, len(shown) // 20),
                linewidth=1.5,
            )
        axis.set_xlabel(below)
        axis.set_ylabel(y_label)
        axis.grid(alpha=0.3, linewidth=0.6)
        axis.spines[["top", "right"]].set_visible(False)
        if log:
            axis.set_xscale("log", base=2)
            axis.set_yscale("log")
            # A range of less than a power of ten would have one label or none.
            axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.xaxis.set_major_formatter("{x:,.0f}")
            axis.yaxis.set_major_formatter("{x:g}")
            axis.yaxis.set_minor_formatter("")
        else:
            axis.xaxis.get_major_locator().set_params(integer=True)
    named = {str(line.get_label()): line for axis in axes for line in axis.get_lines()}
    widest = LEGEND_MARK + LEGEND_LETTER * max(map(len, named), default=0)
    figure.legend(
        named.values(),
        named.keys(),
        loc="outside lower center",
        ncols=max(1, min(len(named), int(PANEL[0] * len(panels) / widest))),
        frameon=False,
        fontsize="small",
    )
    figure.suptitle(title, fontsize="medium")
    return figure


def figure_paths(out: Path) -> list[Path]:
    """The files that `save` writes."""
    stem = out.with_suffix("") if out.suffix in (".png", ".svg") else out
    return [stem.with_name(stem.name + suffix) for suffix in (".png", ".svg")]


def save(figure: Any, out: Path) -> list[Path]:
    """Write a figure as PNG and as SVG, both or neither."""
    paths = figure_paths(out)
    writers: dict[Path, Callable[[Path], None]] = {
        path: partial(_write, figure, path.suffix[1:]) for path in paths
    }
    write_together(writers)
    return paths


def _write(figure: Any, kind: str, path: Path) -> None:
    # Without a date the same figure gives the same file.
    metadata = {"Date": None} if kind == "svg" else {}
    figure.savefig(path, format=kind, dpi=160, metadata=metadata)
