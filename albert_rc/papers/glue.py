"""The nine tasks of GLUE (Wang et al. 2019): their columns, labels and metrics."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from albert_rc.io.messages import counted, quoted
from albert_rc.papers.parse import Problems
from albert_rc.papers.schema import Passage, Question

ENTAILS = ("entailment", "not_entailment")
YES_NO = ("0", "1")
UNKNOWN = ("", "-", "-1")
"""Written instead of a label that is unknown, or on which annotators disagreed."""


@dataclass(frozen=True, kw_only=True)
class GlueTask:
    """Layout of a task's tables. Columns have several names, as its files have used several."""

    first: tuple[str, ...]
    second: tuple[str, ...] = ()
    """None for a task on single sentences."""
    label: tuple[str, ...] = ("label",)
    labels: tuple[str, ...] = YES_NO
    """Empty for regression."""
    metrics: tuple[str, ...] = ("accuracy",)
    """The official metrics; their mean selects the best weights."""
    bare: tuple[int, int] | None = None
    """Indices of the columns of the sentence and the label in files without a header."""


GLUE: dict[str, GlueTask] = {
    "cola": GlueTask(first=("sentence",), metrics=("matthews",), bare=(3, 1)),
    "sst-2": GlueTask(first=("sentence",), bare=(0, 1)),
    "mrpc": GlueTask(
        first=("#1 String", "sentence1"),
        second=("#2 String", "sentence2"),
        label=("Quality", "label"),
        metrics=("accuracy", "f1"),
    ),
    "sts-b": GlueTask(
        first=("sentence1",),
        second=("sentence2",),
        label=("score", "label"),
        labels=(),
        metrics=("pearson", "spearman"),
    ),
    "qqp": GlueTask(
        first=("question1",),
        second=("question2",),
        label=("is_duplicate",),
        metrics=("accuracy", "f1"),
    ),
    "mnli": GlueTask(
        first=("sentence1",),
        second=("sentence2",),
        label=("gold_label", "label"),
        labels=("entailment", "neutral", "contradiction"),
    ),
    "qnli": GlueTask(first=("question",), second=("sentence",), labels=ENTAILS),
    "rte": GlueTask(first=("sentence1",), second=("sentence2",), labels=ENTAILS),
    "wnli": GlueTask(first=("sentence1",), second=("sentence2",)),
}
"""The tasks by name of their format."""


def recognised_tasks(row: Any) -> tuple[str, ...]:
    """The tasks whose columns a table's first row fits.

    There may be several: GLUE's test files have no labels, so those of WNLI, RTE and others look
    alike.

    Args:
        row: column names to texts, or a list of texts if the file has no header.
    """
    if isinstance(row, list):
        # A printed paper may have tabs in its first line, but is unlikely to have a label there.
        name = {2: "sst-2", 4: "cola"}.get(len(row))
        known = row[1].strip() in (*YES_NO, *UNKNOWN) if name else False
        return (name,) if name and known else ()
    return _tasks_with(row) if isinstance(row, Mapping) else ()


def _tasks_with(row: Mapping[str, Any]) -> tuple[str, ...]:
    names = set(row)
    # Most specific columns first, since MNLI also has sentence1 and sentence2.
    telling = {
        "is_duplicate": "qqp", "question1": "qqp", "gold_label": "mnli", "score": "sts-b",
        "#1 String": "mrpc", "question": "qnli", "promptID": "mnli", "old_index": "sts-b",
    }  # fmt: skip
    told = next((task for name, task in telling.items() if name in names), None)
    if told is not None:
        return (told,)
    label = row.get("label")
    if {"sentence1", "sentence2"} <= names:
        if label is None:
            return ("mnli", "rte", "sts-b", "wnli")
        return _pair_tasks(str(label).strip(), "index" in names)
    if "sentence" in names:
        return ("cola", "sst-2") if label is None else ("sst-2",)
    return ()


def _pair_tasks(label: str, is_numbered: bool) -> tuple[str, ...]:
    """The tasks of `sentence1` and `sentence2` that have this label in the column `label`.

    `is_numbered` says whether there is a column `index`, as in WNLI's own table.
    """
    if label in ENTAILS:
        return ("rte",)
    if label in GLUE["mnli"].labels:
        return ("mnli",)
    if re.fullmatch(r"[0-5]\.[0-9]+", label):
        return ("sts-b",)
    alike = ("wnli",) if is_numbered else ("mrpc", "wnli")
    return ("rte", *alike) if label in UNKNOWN else alike


def _column(row: Mapping[str, str], names: Sequence[str]) -> str | None:
    return next((row[name] for name in names if name in row), None)


def parse_glue(
    task: str, raw: Any, paper_id: str, level: str | None, report: Problems
) -> Passage | None:
    """Parse a row of a table: one or two sentences, and a label or a number.

    A label that is missing, `-` (annotators disagreed) or -1 is unknown.
    """
    layout = GLUE[task]
    if isinstance(raw, list) and layout.bare and len(raw) <= max(layout.bare):
        # A lone sentence would be taken for a test row, but test files have a header.
        report.error(
            f"{counted(len(raw), 'column')}, but {task} without a header has "
            f"{max(layout.bare) + 1}; separate them with tabs (- for an unknown label), or add a "
            "header"
        )
        return None
    if isinstance(raw, list) and not layout.bare:
        needed = [names[0] for names in (layout.first, layout.second, layout.label) if names]
        report.error(
            f"{task} needs a header in its first line with {', '.join(needed)} (GLUE's names), "
            "and tabs between the columns"
        )
        return None
    texts, label = _fields(layout, raw)
    for text, names in zip(texts, (layout.first, layout.second), strict=False):
        if text is None or not text.strip():
            report.error(f"column {' or '.join(names)} is missing or empty; a row needs it")
    known = label is not None and label.strip() not in UNKNOWN
    value = _number(label or "", report) if known and not layout.labels else None
    answer = None
    if known and layout.labels:
        if (label or "").strip() in layout.labels:
            answer = layout.labels.index((label or "").strip())
        else:
            report.error(f"the label {quoted(label)} is not one of {', '.join(layout.labels)}")
    if report.failed:
        return None
    first, second, *_ = (*(text or "" for text in texts), "")
    question = Question(layout.labels, answer, second.strip(), value=value)
    return Passage(paper_id, first.strip(), (question,), "label", (), level)


def _fields(layout: GlueTask, raw: Any) -> tuple[list[str | None], str | None]:
    """The sentences, as many as the task has, and the label."""
    if isinstance(raw, list):
        places = layout.bare or (len(raw), len(raw))
        sentence, label = (raw[place] if place < len(raw) else None for place in places)
        return [sentence], label
    texts = [_column(raw, names) for names in (layout.first, layout.second) if names]
    return texts, _column(raw, layout.label)


def _number(text: str, report: Problems) -> float | None:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if 0 <= value <= 5:
        return value
    report.error(f"the score {quoted(text)} must be a number from 0 to 5, or - if it is unknown")
    return None
