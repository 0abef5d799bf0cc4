"""Reliability of probabilities: a diagram with an interval for each bin."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from albert_rc.scoring.accuracy import Accuracy, accuracy, interval_over_papers
from albert_rc.scoring.confidence import LEAST, bin_places, calibration_error, reliability

NUM_BINS = 10  # of the chart: fewer than for the error, since it shows intervals


@dataclass(frozen=True)
class Bar:
    """The questions whose chosen option has a probability in (low, high]."""

    low: float
    high: float
    confidence: float
    """Mean probability of the chosen option."""
    accuracy: Accuracy


@dataclass(frozen=True)
class Reliability:
    """Reliability table, calibration error and loss."""

    bins: list[Bar]
    """Non-empty bins, in order of confidence."""
    error: float
    """Expected calibration error (Guo et al. 2017, section 2), 0 to 1; in the bins of `evaluate`,
    which are finer than `bins`."""
    loss: float
    """Mean of -ln(probability of the right option), in nats."""
    low: float
    high: float
    """Upper end of the loss's 95% interval, over papers."""

    def as_json(self) -> dict[str, Any]:
        """The value for `--json`."""
        known = not math.isnan(self.low)
        return {
            "loss": round(self.loss, 6),
            "loss_low": round(self.low, 6) if known else None,
            "loss_high": round(self.high, 6) if known else None,
            "calibration_error": round(self.error, 6),
            "bins": [
                {
                    "from": b.low,
                    "to": b.high,
                    "confidence": round(b.confidence, 6),
                    **b.accuracy.as_json(),
                }
                for b in self.bins
            ],
        }


def loss_of(probability: float) -> float:
    """-ln of a right option's probability, in nats."""
    return -math.log(max(probability, LEAST))


def reliability_of(
    confidence: Sequence[float],
    right: Sequence[bool],
    losses: Sequence[float],
    papers: Sequence[Hashable],
) -> Reliability:
    """Compare probabilities with accuracy, in ten bins of the same width for the chart.

    Args:
        confidence: the chosen option's probability, 0 to 1, per question; at least one.
        right: whether it was the right option.
        losses: `loss_of` the right option's probability.
        papers: the paper of each question.
    """
    sure_Q, right_Q = np.asarray(confidence), np.asarray(right, np.bool_)
    members: dict[int, list[int]] = {}
    for i, place in enumerate(bin_places(sure_Q, NUM_BINS).tolist()):
        members.setdefault(place, []).append(i)
    bins = [
        Bar(
            low=place / NUM_BINS,
            high=(place + 1) / NUM_BINS,
            confidence=sum(confidence[i] for i in found) / len(found),
            accuracy=accuracy([right[i] for i in found], [papers[i] for i in found]),
        )
        for place, found in sorted(members.items())
    ]
    error = calibration_error(reliability(sure_Q, right_Q))
    low, high = interval_over_papers(losses, papers, within=(0, math.inf))
    return Reliability(bins, error, sum(losses) / len(losses), low, high)
