"""What masked-LM pretraining hides."""

from __future__ import annotations

from dataclasses import dataclass

from albert_rc.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class MaskConfig:
    """What masked-LM pretraining hides (Lan et al. 2020, section 4.1; Devlin et al. 2019)."""

    rate: float = 0.15
    """Share of the tokens to predict."""
    max_ngram: int = 3
    """Longest run of words hidden together; a length n has p(n) proportional to 1/n."""
    masked: float = 0.8
    """Share of them that become [MASK]."""
    random: float = 0.1
    """Share that become a random piece; the rest stays."""

    def __post_init__(self) -> None:
        if not 0 < self.rate < 1:
            raise UsageError(f"--mask-rate {self.rate} must be above 0 and below 1")
        if self.max_ngram < 1:
            raise UsageError(f"--max-ngram {self.max_ngram} must be at least 1")
        if self.masked < 0 or self.random < 0 or self.masked + self.random > 1:
            raise UsageError("shares of masked and of random words must add up to at most 1")
