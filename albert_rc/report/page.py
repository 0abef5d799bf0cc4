"""The HTML page of a report: one file without network access."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from markupsafe import Markup

from albert_rc import __version__
from albert_rc.papers.schema import Passage
from albert_rc.report.content import embedded, page_data, slice_names
from albert_rc.report.figures import ENOUGH, SURE, Figures
from albert_rc.report.parts import REPORT, environment, read_part, script_of, source_hash
from albert_rc.scoring.accuracy import Accuracy, Gain

WIDE = 0.25
"""Width above which an interval is ignored for the charts' scale."""
SCRIPTS = ("helpers", "theme", "data", "search", "paper", "details", "list", "page")


@dataclass(frozen=True)
class Scale:
    """Range of the slices' charts: the shares at the left and right end."""

    low: float
    high: float

    def x(self, share: float) -> float:
        """Position of a share between the ends, 0 to 100, clipped."""
        place = 100 * (share - self.low) / (self.high - self.low)
        return round(min(100.0, max(0.0, place)), 2)

    def cuts(self, part: Accuracy) -> bool:
        """Whether an interval goes on beyond the chart."""
        return part.low < self.low or part.high > self.high  # false for NaN


def render(figures: Figures, papers: Sequence[Passage], name: str) -> bytes:
    """The report on the papers of `figures` as a self-contained HTML page, with a name as title.

    Returns:
        HTML in UTF-8. The page's policy allows only its own scripts and styles, by their hashes.
    """
    style = read_part("style.css")
    script = script_of(read_part(f"{part}.js") for part in SCRIPTS)
    scale = _scale(figures)
    templates = environment(REPORT)
    templates.filters |= {
        "percent": _percent, "interval": _interval, "count": _count, "points": _points,
        "span": _span,
    }  # fmt: skip
    page = templates.get_template("page.html.j2").render(
        figures=figures,
        runs=figures.runs,
        first=figures.runs[0],
        name=name,
        noun="blanks" if figures.kind == "cloze" else "questions",
        slices=slice_names(figures),
        scale=scale,
        any_cut=any(map(scale.cuts, _slices(figures))),
        parts_of=partial(_parts_of, figures),
        sure=SURE,
        enough=ENOUGH,
        has_scores=any(each.run.probabilities is not None for each in figures.runs),
        data=Markup(embedded(page_data(figures, papers))),
        style=Markup(style),
        script=Markup(script),
        policy="; ".join(
            (
                "default-src 'none'",
                f"script-src {source_hash(script)}",
                f"style-src {source_hash(style)}",
                "base-uri 'none'",
                "form-action 'none'",
            )
        ),
        version=__version__,
    )
    return page.encode()


def _percent(share: float) -> str:
    return f"{share:.1%}"


def _interval(value: Any) -> str:
    """An interval in percent, or an empty string if there is none."""
    if math.isnan(value.low):
        return ""
    return f"{100 * value.low:.1f} to {100 * value.high:.1f}%"


def _points(share: float) -> str:
    """A difference of two shares in percentage points."""
    return f"{100 * share:+.1f}"


def _span(gain: Gain) -> str:
    """The interval of a difference, or an empty string if there is none."""
    return "" if math.isnan(gain.low) else f"{_points(gain.low)} to {_points(gain.high)}"


def _count(number: int) -> str:
    return f"{number:,}"


def _parts_of(figures: Figures, kind: str, group: str) -> list[Accuracy]:
    """Every run's accuracy on a slice."""
    return [each.evaluation.groups[kind][group] for each in figures.runs if each.evaluation]


def _scale(figures: Figures) -> Scale:
    """From the lowest to the highest accuracy or end of an interval, in whole tenths.

    Wide intervals are ignored: they would compress all others.
    """
    ends = []
    for part in _slices(figures):
        ends.append(part.value)
        if part.high - part.low <= WIDE:  # false for NaN
            ends += [part.low, part.high]
    low = math.floor(10 * min(ends, default=0)) / 10
    high = math.ceil(10 * max(ends, default=1)) / 10
    return Scale(low, high) if high > low else Scale(max(0.0, low - 0.1), min(1.0, low + 0.1))


def _slices(figures: Figures) -> Iterator[Accuracy]:
    """Every run's accuracy on every slice."""
    for each in figures.runs:
        if each.evaluation is not None:
            for groups in each.evaluation.groups.values():
                yield from groups.values()
