"""The settings of `albert-rc predict`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from albert_rc.fields import MOST, Setting, check
from albert_rc.model.config import LONGEST

TOKEN_BUDGET = 4096
"""Tokens of a batch."""
LOWEST, HIGHEST = 4e-4, 2500.0
"""Bounds of a requested temperature: on a log scale twice as wide as those of the fit, for scores
that were made with another temperature."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """Settings of `predict`; those that depend on the papers are checked later."""

    data: Annotated[
        Path, Setting("A .pt store, or raw papers: a folder or a file (default: data/test.pt).")
    ]
    out: Annotated[
        Path, Setting("File that the answers are written to (default: predictions/answer.json).")
    ]
    model: Annotated[
        str | None,
        Setting(
            "A run's folder, a hub id, or a model of the package (default: the run in models; if "
            "there is none for such papers, albert-rc-small or albert-rc-small-choice)."
        ),
    ] = None
    scores: Annotated[
        Path | None, Setting("Also write each question's probabilities here (JSON lines).")
    ] = None
    abstain: Annotated[
        float | None,
        Setting(
            "Also write a list of the answers that are less probable than this, such as 0.6, for "
            "a teacher to check; its file is next to --out.", low=0, above=True, high=1,
        ),
    ] = None  # fmt: skip
    recall: Annotated[
        Path | None,
        Setting(
            "Cloze: training papers with answers (a .pt store, or raw). Where they contain the "
            "words around a blank exactly, the word between them is evidence."
        ),
    ] = None
    format_: Annotated[
        str | None,
        Setting(
            "Format of the papers: cloze, race, dream, squad, or a task of GLUE (cola, sst-2, "
            "mrpc, sts-b, qqp, mnli, qnli, rte, wnli) (default: recognised).", flag="--format",
        ),
    ] = None  # fmt: skip
    strict: Annotated[
        bool,
        Setting(
            "Refuse papers that need a guess, such as blanks glued to a word, in place of reading "
            "them with a warning."
        ),
    ] = False
    max_length: Annotated[
        int | None,
        Setting(
            "Window in tokens for raw papers (default: the longest of the model).",
            low=1, high=LONGEST,
        ),
    ] = None  # fmt: skip
    precision: Annotated[
        str | None,
        Setting(
            "Precision of products: fp32, bf16, fp16 or int8 (default: bf16 if the hardware has "
            "it).", choices=("fp32", "bf16", "fp16", "int8"),
        ),
    ] = None  # fmt: skip
    attention: Annotated[
        str | None,
        Setting(
            "dense or lsh (hashing); the checkpoint's own by default.", choices=("dense", "lsh")
        ),
    ] = None
    temperature: Annotated[
        float | None,
        Setting(
            "Divide the logits by this before they become probabilities; no answer of the model "
            "changes (default: what `evaluate --calibrate` saved with the model, else 1).",
            low=LOWEST, high=HIGHEST,
        ),
    ] = None  # fmt: skip
    option_score: Annotated[
        str | None,
        Setting(
            "Cloze: with masks, blanks with options of several words are read again, with a [MASK] "
            "for each piece; more accurate, in about twice the time (default: as trained).",
            choices=("masks",),
        ),
    ] = None
    gate: Annotated[
        Path | None,
        Setting("With int8: dev store that it is tested on (default: dev.pt next to DATA)."),
    ] = None
    tolerance: Annotated[
        float,
        Setting("With int8: percentage points of accuracy that may be lost on --gate.", low=0),
    ] = 0.5
    token_budget: Annotated[int, Setting("Tokens per batch.", low=1, high=MOST)] = TOKEN_BUDGET
    null_threshold: Annotated[
        float | None,
        Setting(
            "SQuAD 2.0: give no answer if that scores better than the best answer by more than "
            "this (default: as tuned in training)."
        ),
    ] = None
    ffn_chunk: Annotated[
        int | None,
        Setting(
            "Tokens per feed-forward product; fewer need less memory, with the same result "
            "(default: all).", low=1, high=LONGEST,
        ),
    ] = None  # fmt: skip
    lsh: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `LshConfig` that were set."""

    def __post_init__(self) -> None:
        check(self)
