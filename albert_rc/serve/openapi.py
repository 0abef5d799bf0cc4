"""What the API says of itself: an OpenAPI 3.1 document."""

from __future__ import annotations

from typing import Any, get_args

from albert_rc import __version__
from albert_rc.serve.limits import MEGABYTE, Limits
from albert_rc.serve.line import TICKET, Stage
from albert_rc.serve.uploads import JSON, WORD

Schema = dict[str, Any]
EXAMPLE = {
    "article": "He was _ to see us . We _ till noon .",
    "options": [["glad", "sad"], ["stayed", "stay"]],
    "answers": ["A", "A"],
}
PRINTED = "He was __1__ to see us. We __2__ till noon.\n1. A. glad  B. sad\n2. A. stayed  B. stay\n"
_TEXT: Schema = {"type": "string"}
_LETTER: Schema = {"type": "string", "pattern": "^[A-Z]{1,2}$"}


def _list_of(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _object(properties: dict[str, Schema], optional: tuple[str, ...] = (), **more: Any) -> Schema:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, **more}


def _described(schema: Schema, text: str) -> Schema:
    return {**schema, "description": text}


def _of(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _schemas() -> dict[str, Schema]:
    paper = _object(
        {
            "article": _described(_TEXT, "The text; each blank of a cloze paper is one _."),
            "options": _described(_list_of(_list_of(_TEXT)), "For each blank or question."),
            "questions": _described(_list_of(_TEXT), "Of multiple choice."),
            "answers": _described(_list_of(_LETTER), "The key; empty or left out: a test paper."),
            "id": _TEXT,
        },
        optional=("questions", "answers", "id"),
        description="A cloze paper, or one of RACE's form. DREAM's lists, lists of papers and "
        "papers line by line (JSON lines) are read too.",
    )
    question = _object(
        {
            "number": _described(
                {"type": "integer"}, "As it is printed; in papers of JSON from 1."
            ),
            "answer": _described(_LETTER, "The model's."),
            "right": _described(
                {"type": ["string", "null"]}, "The key's; null where the paper has none."
            ),
            "probabilities": _described(
                _list_of({"type": "number", "minimum": 0, "maximum": 1}), "Of each option."
            ),
        }
    )
    answered = _object(
        {
            "id": _TEXT,
            "kind": {"enum": ["cloze", "choice"]},
            "paper": _described(_of("Paper"), "As it was understood."),
            "questions": _described(_list_of(_of("Question")), "Blanks or questions, in order."),
        }
    )
    message = _object(
        {
            "level": _described(
                {"enum": ["refused", "check", "warning", "note", "left out"]},
                "refused: it is not among the answers; check: a word of a picture that may have "
                "been read wrong; left out: a line that belongs to no passage",
            ),
            "paper": _described(_TEXT, "The id of the paper that it is about, or empty."),
            "text": _TEXT,
            "picture": _described(_TEXT, "What it is about: a JPEG in base64."),
        },
        optional=("picture",),
    )
    by_paper = _described(
        {"type": "object", "additionalProperties": _list_of(_LETTER)},
        "answer.json of cloze papers: id to letters.",
    )
    by_question = _described(
        {"type": "object", "additionalProperties": _LETTER},
        "answer.json of multiple choice: question id to letter.",
    )
    answers = _object({"cloze": by_paper, "choice": by_question}, optional=("cloze", "choice"))
    return {
        "Paper": paper,
        "Question": question,
        "AnsweredPaper": answered,
        "Message": message,
        "Answers": _object(
            {
                "model": _TEXT,
                "calibrated": _described(
                    {"type": "boolean"},
                    "Whether probabilities are frequencies (`evaluate --calibrate`).",
                ),
                "complete": _described({"type": "boolean"}, "Whether nothing was refused."),
                "papers": _list_of(_of("AnsweredPaper")),
                "answers": _described(answers, "As `albert-rc predict` writes them, by kind."),
                "messages": _described(
                    _list_of(_of("Message")),
                    "The first of each level; where there were more, its last one counts them.",
                ),
                "text": _described(
                    _TEXT, "What was read of pictures, where some of it must be checked."
                ),
            },
            optional=("text",),
        ),
        "Health": _object(
            {
                "status": {"const": "ok"},
                "version": _TEXT,
                "model": _TEXT,
                "calibrated": {"type": "boolean"},
                "waiting": _described({"type": "integer"}, "Requests at work and in line."),
                "limits": {"type": "object", "additionalProperties": {"type": "number"}},
            }
        ),
        "Progress": _object(
            {
                "stage": _described(
                    {"enum": list(get_args(Stage))},
                    "unknown: the request has not arrived yet, or is answered.",
                ),
                "before": _described({"type": "integer"}, "Requests that come first."),
                "done": _described({"type": "integer"}, "Questions answered."),
                "total": _described({"type": "integer"}, "Of these; 0 until the paper is read."),
            }
        ),
        "Error": _object({"error": _described(_TEXT, "What is wrong, and the way out.")}),
    }


def document(limits: Limits) -> dict[str, Any]:
    """The document.

    Args:
        limits: of the server, which it names.
    """
    binary: Schema = {"type": "string", "format": "binary"}
    form = _object(
        {
            "paper": _described(
                binary,
                "The file; or its text, as an ordinary field. Several pictures, the pages of one "
                "paper, are several parts of this name.",
            ),
            "key": _described(binary, "The answers to a printed paper, if they are apart."),
        },
        optional=("key",),
    )
    errors = {
        "400": "The form is broken, or the request was broken off.",
        "403": "The Host header names another server, or a page of another site sent the request.",
        "408": "The request did not arrive in time.",
        "413": f"More than {limits.body_bytes / MEGABYTE:g} MB.",
        "415": "Another content type.",
        "422": "No paper that can be answered, or more than is answered at a time.",
        "500": "An error of the server's own.",
        "503": "Busy, or the answers took too long.",
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "albert-rc",
            "version": __version__,
            "description": "Answers to cloze papers and multiple choice, by the model that "
            "`albert-rc serve` was started with. Nothing is kept.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "paths": {
            "/api/answer": {
                "post": {
                    "operationId": "answer",
                    "summary": "Answer a paper",
                    "description": "The body is the paper: JSON, or printed as text, Word, PDF or "
                    "picture; or a form with a part `paper`, and optionally one `key`. Its kind is "
                    "recognised by its content. Of a printed paper, what could not be placed is "
                    "refused, by number, among the messages.",
                    "parameters": [
                        {
                            "name": "name",
                            "in": "query",
                            "schema": _TEXT,
                            "description": "What the file is called: a cloze paper's id. "
                            "(In a form, the part's filename.)",
                            "example": "test0001.json",
                        },
                        _ticket("To ask /api/progress by: drawn at random, by the client."),
                    ],
                    "requestBody": {
                        "required": True,
                        "content": {
                            JSON: {"schema": _of("Paper"), "example": EXAMPLE},
                            "application/jsonl": {"schema": _TEXT},
                            "text/plain": {"schema": _TEXT, "example": PRINTED},
                            "application/pdf": {"schema": binary},
                            WORD: {"schema": binary},
                            "image/jpeg": {"schema": binary},
                            "image/png": {"schema": binary},
                            "application/octet-stream": {"schema": binary},
                            "multipart/form-data": {"schema": form},
                        },
                    },
                    "responses": {
                        "200": _response("The answers.", "Answers"),
                        **{code: _response(text, "Error") for code, text in errors.items()},
                    },
                }
            },
            "/api/progress": {
                "get": {
                    "operationId": "progress",
                    "summary": "How far a request has come that is not answered yet",
                    "parameters": [{**_ticket("Of that request."), "required": True}],
                    "responses": {"200": _response("How far it has come.", "Progress")},
                }
            },
            "/api/health": {
                "get": {
                    "operationId": "health",
                    "summary": "The model, the limits, and how many wait",
                    "responses": {"200": _response("It runs.", "Health")},
                }
            },
        },
        "components": {"schemas": _schemas()},
    }


def _ticket(text: str) -> dict[str, Any]:
    schema = {**_TEXT, "pattern": f"^{TICKET}$"}
    return {"name": "ticket", "in": "query", "schema": schema, "description": text}


def _response(text: str, schema: str) -> Schema:
    return {"description": text, "content": {JSON: {"schema": _of(schema)}}}
