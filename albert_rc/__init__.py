"""albert-rc: reading comprehension of exam papers with ALBERT.

From Python: `from albert_rc import answer, load_model`. They import torch, so
they are loaded only on first use.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from albert_rc.answering.api import Answer, AnsweredPaper, answer
    from albert_rc.checkpoints.load import load_model

__version__ = "0.1.0"
__all__ = ["Answer", "AnsweredPaper", "__version__", "answer", "load_model"]

_HOMES = {
    "Answer": "albert_rc.answering.api",
    "AnsweredPaper": "albert_rc.answering.api",
    "answer": "albert_rc.answering.api",
    "load_model": "albert_rc.checkpoints.load",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
