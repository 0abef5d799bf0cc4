"""SQuAD's paragraphs, 1.1 and 2.0 (Rajpurkar et al. 2016, 2018)."""

from __future__ import annotations

from typing import Any

from albert_rc.io.messages import quoted, shortened
from albert_rc.papers.parse import Problems
from albert_rc.papers.schema import Passage, Question


def parse_squad(raw: Any, paper_id: str, level: str | None, report: Problems) -> Passage | None:
    """`{"context", "qas": [{"id", "question", "answers": [{"text", "answer_start"}]}]}`.

    Without the field `answers` a question is a test question; an empty list means that the passage
    does not answer it. `is_impossible` together with answers is an error.
    """
    if isinstance(raw, tuple):  # a message about an item that is not a paragraph
        report.error(raw[0])
        return None
    if not isinstance(raw, dict) or "number" not in raw:
        report.error('no articles with paragraphs; SQuAD\'s files must hold {"data": [...]}')
        return None
    context, asked = raw.get("context"), raw.get("qas")
    if not isinstance(context, str) or not context.strip():
        report.error('"context" is missing, empty or not text; add the passage')
    if not isinstance(asked, list) or not asked:
        report.error('"qas" is missing, empty or not a list; a paragraph needs a question')
    if report.failed or not isinstance(context, str) or not isinstance(asked, list):
        return None
    questions = []
    for number, item in enumerate(asked, 1):
        question = _question(item, f"question {number}", context, report)
        if question is not None:
            questions.append(question)
    return None if report.failed else Passage(paper_id, context, tuple(questions), "span")


def _question(item: Any, where: str, context: str, report: Problems) -> Question | None:
    if not isinstance(item, dict):
        report.error(f"{where} must be a JSON object")
        return None
    key, text, given = item.get("id"), item.get("question"), item.get("answers")
    if not isinstance(key, str) or not key:
        report.error(f'{where}: "id" is missing or not text; add one')
        return None
    if not isinstance(text, str) or not text.strip():
        report.error(
            f'{where} ({shortened(key)}): "question" is missing, empty or not text; add it'
        )
        return None
    if trouble := _trouble(item):
        report.error(f"{where} ({shortened(key)}): {trouble}")
        return None
    spans: dict[tuple[int, int], None] = {}
    for answer in given or []:
        span = _span(answer, context)
        if span is None:
            said = quoted(answer.get("text") if isinstance(answer, dict) else answer)
            report.error(
                f"{where} ({shortened(key)}): the answer {said} is not at its "
                '"answer_start"; count characters from 0'
            )
            return None
        spans[span] = None
    known = given is not None
    impossible = known and not spans
    return Question(
        options=(),
        answer=(0 if impossible else 1) if known else None,
        text=text.strip(),
        id=key,
        spans=() if impossible else tuple(spans),
    )


def _trouble(item: dict[str, Any]) -> str | None:
    """A problem with the answers as a whole, or None."""
    given = item.get("answers")
    if given is not None and not isinstance(given, list):
        return '"answers" must be a list'
    if given and item.get("is_impossible"):
        return (
            '"is_impossible" is set, but there are "answers"; empty the list, or remove the field'
        )
    return None


def _span(answer: Any, context: str) -> tuple[int, int] | None:
    if not isinstance(answer, dict):
        return None
    text, start = answer.get("text"), answer.get("answer_start")
    if not isinstance(text, str) or not text or type(start) is not int or start < 0:
        return None
    end = start + len(text)
    return (start, end) if context[start:end] == text else None
