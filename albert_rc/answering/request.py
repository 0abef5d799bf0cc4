"""The settings of `albert-rc predict`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from albert_rc.fields import MOST, Setting, check
from albert_rc.model.config import FFN_CHUNK, LONGEST, READ_AGAIN, READ_ONCE

TOKEN_BUDGET = 4096
"""Tokens of a batch."""
LOWEST, HIGHEST = 4e-4, 2500.0
"""Bounds of a requested temperature: on a log scale twice as wide as those of the fit, for scores
that were made with another temperature."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """Settings of `predict`; those that depend on the papers are checked later."""

    data: Annotated[
        Path,
        Setting(
            "Papers to answer: a .pt store, or raw papers as a folder or file (default: "
            "data/test.pt)."
        ),
    ]
    out: Annotated[
        Path, Setting("File to write the answers to (default: predictions/answer.json).")
    ]
    model: Annotated[
        str | None,
        Setting(
            "Model: a run's folder, a hub id, or a model of the package (default: the folder "
            "models if it is itself a run for such papers; if not, albert-rc-small or "
            "albert-rc-small-choice)."
        ),
    ] = None
    scores: Annotated[
        Path | None,
        Setting("Also write the probabilities of each question to this file (JSON lines)."),
    ] = None
    abstain: Annotated[
        float | None,
        Setting(
            "Also list answers with a probability below this, such as 0.6, for review, in a file "
            "next to --out.", low=0, above=True, high=1,
        ),
    ] = None  # fmt: skip
    recall: Annotated[
        Path | None,
        Setting(
            "Cloze: training papers with answers (a .pt store, or raw papers). If they contain "
            "exactly the words around a blank, the word found there is used as evidence."
        ),
    ] = None
    format_: Annotated[
        str | None,
        Setting(
            "Format of the papers: cloze, race, dream, squad, or a task of GLUE (cola, sst-2, "
            "mrpc, sts-b, qqp, mnli, qnli, rte, wnli) (default: detected).", flag="--format",
        ),
    ] = None  # fmt: skip
    strict: Annotated[
        bool,
        Setting(
            "Refuse papers that can only be read by guessing, for example with blanks attached to "
            "a word, instead of warning about them."
        ),
    ] = False
    max_length: Annotated[
        int | None,
        Setting(
            "Window in tokens for raw papers (default: the model's maximum).",
            low=1, high=LONGEST,
        ),
    ] = None  # fmt: skip
    precision: Annotated[
        str | None,
        Setting(
            "Precision of matrix products: fp32, bf16, fp16 or int8 (default: bf16 if the "
            "hardware supports it).", choices=("fp32", "bf16", "fp16", "int8"),
        ),
    ] = None  # fmt: skip
    attention: Annotated[
        str | None,
        Setting(
            "Attention: dense, or lsh (hashing) (default: as in the checkpoint).",
            choices=("dense", "lsh"),
        ),
    ] = None
    temperature: Annotated[
        float | None,
        Setting(
            "Temperature: divisor of the logits before the softmax; it does not change the "
            "model's answers, and does not apply to papers with one list of options for all "
            "blanks (default: the value saved by `evaluate --calibrate`, else 1).",
            low=LOWEST, high=HIGHEST,
        ),
    ] = None  # fmt: skip
    option_score: Annotated[
        str | None,
        Setting(
            "How to read some questions a second time, for more accurate answers. Cloze, masks: "
            "blanks with options of several words, with a [MASK] per piece. Multiple choice, "
            "excerpt: questions about long passages, with the part that shares most words with "
            "them. once: not at all (default: as in the model's config.json, else once).",
            choices=(READ_ONCE, *READ_AGAIN),
        ),
    ] = None
    reuse: Annotated[
        bool,
        Setting(
            "Cloze: where all blanks of a passage have one list of options, allow an option for "
            "several blanks (default: each is used at most once)."
        ),
    ] = False
    gate: Annotated[
        Path | None,
        Setting(
            "With int8: dev store for testing the quantised model (default: dev.pt next to DATA)."
        ),
    ] = None
    tolerance: Annotated[
        float,
        Setting(
            "With int8: maximum loss of the task's score on --gate, in percentage points (without "
            "right answers there: maximum share of changed answers).",
            low=0,
        ),
    ] = 0.5
    token_budget: Annotated[
        int, Setting("Maximum number of tokens per batch.", low=1, high=MOST)
    ] = TOKEN_BUDGET
    null_threshold: Annotated[
        float | None,
        Setting(
            "SQuAD 2.0: give no answer if the score of no answer exceeds the best answer's by "
            "more than this (default: as tuned in training)."
        ),
    ] = None
    ffn_chunk: Annotated[int | None, FFN_CHUNK] = None
    lsh: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `LshConfig` that were set."""

    def __post_init__(self) -> None:
        check(self)
