"""Settings of masking in pretraining."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from albert_rc.errors import UsageError
from albert_rc.fields import Setting, check


@dataclass(frozen=True, kw_only=True)
class MaskConfig:
    """Masking in masked-LM pretraining (Lan et al. 2020, section 4.1; Devlin et al. 2019)."""

    rate: Annotated[
        float,
        Setting(
            "Share of the tokens that are masked and predicted (default: 0.15).",
            low=0, above=True, high=1, below=True, flag="--mask-rate",
        ),
    ] = 0.15  # fmt: skip
    max_ngram: Annotated[
        int,
        Setting(
            "Maximum number of consecutive words masked together (default: 3).", low=1, high=100
        ),
    ] = 3
    """Maximum n-gram length; length n has p(n) proportional to 1/n."""
    masked: float = 0.8
    """Share of the chosen tokens that become [MASK]."""
    random: float = 0.1
    """Share of the chosen tokens that become a random piece; the rest stays."""

    def __post_init__(self) -> None:
        check(self)
        # An unmasked word stays between any two n-grams, of which N lengths of p(n) = 1 / n / H.
        mean = self.max_ngram / sum(1 / n for n in range(1, self.max_ngram + 1))
        if self.rate > mean / (mean + 1):
            raise UsageError(
                f"--mask-rate {self.rate:g}: at most {mean / (mean + 1):.2f} of the words can be "
                f"masked in n-grams of up to {self.max_ngram}, because a word stays between any "
                "two; lower it, or raise --max-ngram"
            )
        if self.masked < 0 or self.random < 0 or self.masked + self.random > 1:
            raise UsageError("the shares of masked and random words must add up to at most 1")
