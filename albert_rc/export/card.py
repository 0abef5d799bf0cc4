"""The model card, rendered from a Jinja template with the known facts only."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from albert_rc import __version__
from albert_rc.export.records import Records, Row
from albert_rc.model.config import EncoderConfig

PIPELINES = {
    "cloze": "fill-mask",
    "pretraining": "fill-mask",
    "choice": "multiple-choice",
    "label": "text-classification",
    "span": "question-answering",
}
"""The hub's pipeline tags by task."""
DOES = {
    "cloze": "fills the blanks of English cloze passages, choosing from the options of each blank",
    "pretraining": "predicts masked words and is meant to be fine-tuned",
    "choice": "answers multiple-choice questions about English passages",
    "label": "classifies or rates English sentences, or pairs of sentences",
    "span": "finds the answer to a question in an English passage",
}


@dataclass(frozen=True, kw_only=True)
class Card:
    """Content of a model card."""

    title: str
    folder: str
    """Name of the folder, quoted for a shell."""
    licence: str | None
    """Licence of the weights; None if not stated."""
    task: str
    """A key of `PIPELINES`."""
    architecture: str
    """The transformers class that opens the folder."""
    config: EncoderConfig
    parameters: int
    precision: str
    megabytes: float
    """Size of the weights."""
    records: Records
    measured: list[Row]
    """Metrics on the papers given to the export; empty for none."""
    measured_on: str
    checks: list[str]
    """Results of the checks before export, as sentences."""
    option_score: str
    read_again: str | None
    """How albert-rc reads some questions again: a key of `config.READ_AGAIN`, or None."""
    null_threshold: float | None
    notes: list[str] = field(default_factory=list)
    """Further notes for users of the folder."""
    example: dict[str, Any] = field(default_factory=dict)
    """For cloze: `text`, `options`, and our `answer` with its `probability`."""
    onnx_megabytes: float | None = None


def render(card: Card) -> bytes:
    """The card as Markdown with its YAML head, in UTF-8."""
    environment = Environment(
        loader=PackageLoader("albert_rc.export"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["quoted"] = shlex.quote
    text = environment.get_template("card.md.j2").render(
        card=card,
        records=card.records,
        pipeline=PIPELINES[card.task],
        does=DOES["pretraining" if card.records.pretrained_only else card.task],
        is_cloze=card.task in ("cloze", "pretraining"),
        version=__version__,
    )
    return text.encode()
