"""Other implementations that open an exported folder: transformers, tokenizers, onnxruntime."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from albert_rc.errors import CheckpointError
from albert_rc.export.compare import Runner
from albert_rc.papers.schema import Passage
from albert_rc.stores.encode import encode_segments, question_with_option, split_at_blanks
from albert_rc.text.tokenizer import Tokenizer

CLASSES = {
    "cloze": "AutoModelForMaskedLM",
    "choice": "AutoModelForMultipleChoice",
    "label": "AutoModelForSequenceClassification",
    "span": "AutoModelForQuestionAnswering",
    "pretraining": "AutoModelForMaskedLM",
}
"""Classes of transformers by task."""


def open_folder(folder: Path, task: str) -> Any:
    """Open an exported folder with transformers, in fp32 on the CPU; `task` is a key of `CLASSES`.

    Raises:
        CheckpointError: weights that its class needs are missing.
    """
    import transformers

    cls = getattr(transformers, CLASSES[task])
    with _quiet(transformers):
        model, found = cls.from_pretrained(
            folder, dtype=torch.float32, local_files_only=True, output_loading_info=True,
            attn_implementation="eager",
        )  # fmt: skip
    if missing := sorted(found["missing_keys"]):
        raise CheckpointError(f"transformers does not find weights: {', '.join(missing[:20])}")
    return model.eval()


def transformers_runner(folder: Path, task: str) -> Runner:
    """A runner of the transformers model of a folder; see `open_folder`."""
    model = open_folder(folder, task)

    def run(given: Mapping[str, Tensor]) -> dict[str, Tensor]:
        with torch.inference_mode():
            answered = model(**given)
        names = ("logits", "prediction_logits", "start_logits", "end_logits")
        return {name: answered[name] for name in names if name in answered}

    return run


@contextlib.contextmanager
def _quiet(transformers: Any) -> Any:
    """Suppress progress bars, and warnings about weights that are ours alone."""
    log = transformers.utils.logging
    before, bar = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        log.set_verbosity(before)
        if bar:
            log.enable_progress_bar()


def onnx_runner(content: bytes) -> Runner:
    """A runner of an ONNX file's content in onnxruntime, on the CPU.

    Raises:
        CheckpointError: onnxruntime cannot open the file.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has its own exceptions
        raise CheckpointError(f"onnxruntime cannot open the ONNX file ({error})") from None
    names = [output.name for output in session.get_outputs()]

    def run(given: Mapping[str, Tensor]) -> dict[str, Tensor]:
        values = session.run(names, {name: value.numpy() for name, value in given.items()})
        return {name: torch.from_numpy(value) for name, value in zip(names, values, strict=True)}

    return run


@dataclass(frozen=True)
class SplitAlike:
    """Number of texts that the exported tokenizer splits in the same way as ours."""

    texts: int
    others: int
    """Number of texts split differently."""

    def as_json(self) -> dict[str, int]:
        """The value for `--json`."""
        return {"texts": self.texts, "others": self.others}

    def __str__(self) -> str:
        said = f"{self.texts:,} texts are split identically"
        if self.others:
            said = f"{self.others:,} of {self.texts:,} texts are split differently"
        return said


def running_text(passage: Passage, tokenizer: Tokenizer) -> str:
    """A passage as text for transformers: [MASK] in its blanks, glued where ours are."""
    (mask,) = tokenizer.pieces([tokenizer.mask_id])
    (head, _), *rest = split_at_blanks(passage)
    return head + "".join(f" {mask}{'' if glued else ' '}{text}" for text, glued in rest)


def split_alike(folder: Path, tokenizer: Tokenizer, passages: Sequence[Passage]) -> SplitAlike:
    """Compare how a folder's tokenizer.json splits passages, questions and options with ours."""
    from tokenizers import Tokenizer as Backend

    backend = Backend.from_file(str(folder / "tokenizer.json"))
    texts, ours = [], []
    for passage in passages:
        parts = split_at_blanks(passage)
        first, *rest = encode_segments(parts, tokenizer)
        body = [*first, *(index for ids in rest for index in (tokenizer.mask_id, *ids))]
        texts.append(running_text(passage, tokenizer))
        ours.append([tokenizer.cls_id, *body, tokenizer.sep_id])
    others = [
        question_with_option(question.text, option).strip()
        for passage in passages
        for question in passage.questions
        for option in question.options or ("",)
    ]
    others = list(dict.fromkeys(text for text in others if text))
    texts += others
    ours += [[tokenizer.cls_id, *ids, tokenizer.sep_id] for ids in tokenizer.encode(others)]
    theirs = [encoding.ids for encoding in backend.encode_batch(texts)]
    wrong = sum(a != b for a, b in zip(ours, theirs, strict=True))
    return SplitAlike(len(texts), wrong)
