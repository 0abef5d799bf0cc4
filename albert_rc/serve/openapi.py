"""The description of the HTTP API: an OpenAPI 3.1 document."""

from __future__ import annotations

from typing import Any, get_args

from albert_rc import __version__
from albert_rc.serve.limits import MEGABYTE, Limits
from albert_rc.serve.line import TICKET, Stage
from albert_rc.serve.uploads import JSON, TYPES

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
            "article": _described(_TEXT, "The text; in a cloze paper, each blank is one _."),
            "options": _described(
                _list_of(_list_of(_TEXT)), "The options of each blank or question."
            ),
            "questions": _described(_list_of(_TEXT), "The questions; only in multiple choice."),
            "answers": _described(
                _list_of(_LETTER), "The answer key; empty or omitted in a test paper."
            ),
            "id": _TEXT,
        },
        optional=("questions", "answers", "id"),
        description="A cloze paper, or a multiple-choice paper in RACE's format. DREAM's lists, "
        "lists of papers and JSON lines (one paper per line) are accepted too.",
    )
    question = _object(
        {
            "number": _described(
                {"type": "integer"}, "Number as printed; in JSON papers, counted from 1."
            ),
            "answer": _described(_LETTER, "The model's answer."),
            "right": _described(
                {"type": ["string", "null"]}, "The right answer from the key; null if unknown."
            ),
            "probabilities": _described(
                _list_of({"type": "number", "minimum": 0, "maximum": 1}),
                "Probability of each option.",
            ),
        }
    )
    answered = _object(
        {
            "id": _TEXT,
            "kind": {"enum": ["cloze", "choice"]},
            "paper": _described(_of("Paper"), "The paper as it was read."),
            "questions": _described(
                _list_of(_of("Question")), "The blanks or questions, in order."
            ),
        }
    )
    message = _object(
        {
            "level": _described(
                {"enum": ["refused", "check", "warning", "note", "left out"]},
                "refused: not answered; check: a word of a picture that may have been misread; "
                "left out: a line that does not belong to any passage",
            ),
            "paper": _described(_TEXT, "Id of the paper concerned, or empty."),
            "text": _TEXT,
            "picture": _described(_TEXT, "Picture of the line concerned: a JPEG in base64."),
        },
        optional=("picture",),
    )
    by_paper = _described(
        {"type": "object", "additionalProperties": _list_of(_LETTER)},
        "Content of answer.json for cloze papers: paper id to letters.",
    )
    by_question = _described(
        {"type": "object", "additionalProperties": _LETTER},
        "Content of answer.json for multiple choice: question id to letter.",
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
                    "Whether the probabilities are calibrated (`evaluate --calibrate`).",
                ),
                "complete": _described({"type": "boolean"}, "Whether nothing was refused."),
                "papers": _list_of(_of("AnsweredPaper")),
                "answers": _described(
                    answers, "The answers by kind of paper, as `albert-rc predict` writes them."
                ),
                "messages": _described(
                    _list_of(_of("Message")),
                    "The first messages of each level; if there are more, the last one gives their "
                    "number.",
                ),
                "text": _described(
                    _TEXT, "Text read from pictures, if some of it must be checked."
                ),
            },
            optional=("text",),
        ),
        "Health": _object(
            {
                "status": {"const": "ok"},
                "version": _TEXT,
                "model": _TEXT,
                "calibrated": _described(
                    {"type": "boolean"},
                    "Whether all models that are loaded so far have a saved temperature.",
                ),
                "waiting": _described(
                    {"type": "integer"}, "Number of requests being answered or waiting."
                ),
                "limits": {"type": "object", "additionalProperties": {"type": "number"}},
            }
        ),
        "Progress": _object(
            {
                "stage": _described(
                    {"enum": list(get_args(Stage))},
                    "loading: the model is loaded; again: some questions are read a second time; "
                    "unknown: the request has not arrived yet, or has been answered.",
                ),
                "before": _described(
                    {"type": "integer"}, "Number of earlier requests in the queue."
                ),
                "done": _described({"type": "integer"}, "Number of questions answered."),
                "total": _described(
                    {"type": "integer"}, "Number of all questions; 0 until the paper is read."
                ),
            }
        ),
        "Error": _object({"error": _described(_TEXT, "The problem, and what to do about it.")}),
    }


def document(limits: Limits) -> dict[str, Any]:
    """Build the OpenAPI document, which states the limits."""
    binary: Schema = {"type": "string", "format": "binary"}
    form = _object(
        {
            "paper": _described(
                binary,
                "The file, or its text as an ordinary field. Pictures of the pages of one paper "
                "are sent as several parts with this name.",
            ),
            "key": _described(binary, "Answer key of a printed paper, if it is separate."),
        },
        optional=("key",),
    )
    errors = {
        "400": "The form is malformed, or the request was interrupted.",
        "403": "The Host header names another server, or another site's page sent the request.",
        "408": "The request did not arrive in time.",
        "413": f"The request is larger than {limits.body_bytes / MEGABYTE:g} MB.",
        "415": "Unsupported content type, or a compressed body.",
        "422": "No paper can be answered, there are more than the limits allow, answering took too "
        "long, or the ticket is invalid.",
        "500": "Internal server error.",
        "503": "The server is busy; try again later.",
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "albert-rc",
            "version": __version__,
            "description": "Answers cloze and multiple-choice papers with the model that "
            "`albert-rc serve` was started with. Nothing is stored.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "paths": {
            "/api/answer": {
                "post": {
                    "operationId": "answer",
                    "summary": "Answer a paper",
                    "description": "The body is the paper: JSON, or a printed paper as text, Word, "
                    "PDF or picture; or a form with a part `paper` and optionally a part `key`. "
                    "The type is detected from the content. Questions of a printed paper whose "
                    "place is unclear are not answered; messages list their numbers.",
                    "parameters": [
                        {
                            "name": "name",
                            "in": "query",
                            "schema": _TEXT,
                            "description": "File name, used as the id of a cloze paper. "
                            "(In a form, use the part's filename.)",
                            "example": "test0001.json",
                        },
                        _ticket("Random string chosen by the client, for /api/progress."),
                    ],
                    "requestBody": {
                        "required": True,
                        "content": {
                            JSON: {"schema": _of("Paper"), "example": EXAMPLE},
                            **{name: {"schema": binary} for name in TYPES if name != JSON},
                            **{
                                name: {"schema": _TEXT}
                                for name, kind in TYPES.items()
                                if kind == "lines"
                            },
                            "text/plain": {"schema": _TEXT, "example": PRINTED},
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
                    "summary": "Progress of a request that has not been answered yet",
                    "parameters": [{**_ticket("Ticket of the request."), "required": True}],
                    "responses": {"200": _response("The progress.", "Progress")},
                }
            },
            "/api/health": {
                "get": {
                    "operationId": "health",
                    "summary": "The model, the limits, and the number of waiting requests",
                    "responses": {"200": _response("The server is running.", "Health")},
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
