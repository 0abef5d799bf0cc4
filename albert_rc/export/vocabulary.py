"""Export of a vocabulary as a `tokenizer.json` that splits text as our tokenizer does.

transformers 5's own conversion of a SentencePiece file starts a word after every user-defined sign
(`wide - ▁open`), and splits some 2% of the pieces differently (docs/export.md).
"""

from __future__ import annotations

import base64
import sys
import unicodedata
from functools import cache
from pathlib import Path
from typing import Any

from albert_rc.errors import CheckpointError
from albert_rc.io.json import parse_json, write_json
from albert_rc.text.tokenizer import HuggingFaceTokenizer, SentencePieceTokenizer, Tokenizer
from albert_rc.text.tokenizer_json import (
    SPACES,
    STRIP_END,
    replace,
    sequence,
    with_our_steps,
    word_start,
)

_NORMAL, _UNKNOWN, _USER_DEFINED = 1, 2, 4  # SentencePiece's types of pieces


def write_vocabulary(tokenizer: Tokenizer, folder: Path, max_length: int) -> None:
    """Write the files that `AutoTokenizer` needs to split text as the tokenizer does.

    ALBERT's own file, which our tokenizer reads, is written next to tokenizer.json.

    Args:
        tokenizer: any of ours.
        folder: the output folder.
        max_length: the model's longest sequence in tokens.

    Raises:
        CheckpointError: a SentencePiece type that the tokenizers library does not support.
    """
    if isinstance(tokenizer, SentencePieceTokenizer):
        content = _of_sentencepiece(tokenizer)
        name = "spiece.model"
        (folder / name).write_bytes((tokenizer.folder / name).read_bytes())
    else:
        assert isinstance(tokenizer, HuggingFaceTokenizer)
        content = _of_hugging_face(tokenizer)
    write_json(folder / "tokenizer.json", content)
    write_json(folder / "tokenizer_config.json", _settings(tokenizer, max_length))


def _special(tokenizer: Tokenizer) -> dict[str, str]:
    """The special tokens by their names in a tokenizer_config.json."""
    names = ("pad", "unk", "cls", "sep", "mask")
    pieces = tokenizer.pieces([getattr(tokenizer, f"{name}_id") for name in names])
    return dict(zip((f"{name}_token" for name in names), pieces, strict=True))


def _settings(tokenizer: Tokenizer, max_length: int) -> dict[str, Any]:
    # The class that uses tokenizer.json unchanged: the families' own would convert it.
    settings: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast"}
    settings |= _special(tokenizer) | {"model_max_length": max_length}
    inputs = ["input_ids", "attention_mask"]
    settings["model_input_names"] = inputs
    if tokenizer.separators_in_pair == 1:  # RoBERTa has no segments
        settings["model_input_names"] = [inputs[0], "token_type_ids", inputs[1]]
    if isinstance(tokenizer, SentencePieceTokenizer):
        settings |= tokenizer.settings
    return settings


def _added(tokenizer: Tokenizer) -> list[dict[str, Any]]:
    """The special tokens in the form of tokenizer.json."""
    special = _special(tokenizer)
    flags = dict.fromkeys(("single_word", "rstrip", "normalized"), False)
    return [
        {
            "id": getattr(tokenizer, f"{name.removesuffix('_token')}_id"),
            "content": piece,
            # A blank absorbs the space before it, which would otherwise become a bare ▁.
            "lstrip": name == "mask_token",
            **flags,
            "special": True,
        }
        for name, piece in special.items()
    ]


def _template(tokenizer: Tokenizer) -> dict[str, Any]:
    """[CLS] first [SEP] second [SEP]; RoBERTa has two separators in the middle, and no segments."""
    cls, sep = tokenizer.pieces([tokenizer.cls_id, tokenizer.sep_id])
    second = 1 if tokenizer.separators_in_pair == 1 else 0

    def special(piece: str, segment: int = 0) -> dict[str, Any]:
        return {"SpecialToken": {"id": piece, "type_id": segment}}

    def text(name: str, segment: int = 0) -> dict[str, Any]:
        return {"Sequence": {"id": name, "type_id": segment}}

    single = [special(cls), text("A"), special(sep)]
    between = [special(sep)] * (tokenizer.separators_in_pair - 1)
    ids = {cls: tokenizer.cls_id, sep: tokenizer.sep_id}
    return {
        "type": "TemplateProcessing",
        "single": single,
        "pair": [*single, *between, text("B", second), special(sep, second)],
        "special_tokens": {
            piece: {"id": piece, "ids": [index], "tokens": [piece]} for piece, index in ids.items()
        },
    }


def _of_sentencepiece(tokenizer: SentencePieceTokenizer) -> dict[str, Any]:
    from sentencepiece import sentencepiece_model_pb2

    path = tokenizer.folder / "spiece.model"
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(path.read_bytes())
    trained, spec = proto.trainer_spec, proto.normalizer_spec
    if trained.model_type != trained.UNIGRAM or trained.treat_whitespace_as_suffix:
        raise CheckpointError(f"{path}: only unigram vocabularies can be exported")
    normalizers = [replace(SPACES, " ")]
    if not tokenizer.settings["keep_accents"]:
        normalizers += [{"type": "NFKD"}, replace({"Regex": _marks()}, "")]
    if tokenizer.settings["do_lower_case"]:
        normalizers.append({"type": "Lowercase"})
    if spec.precompiled_charsmap:
        charsmap = base64.b64encode(spec.precompiled_charsmap).decode()
        normalizers.append({"type": "Precompiled", "precompiled_charsmap": charsmap})
    normalizers += [replace({"Regex": " {2,}"}, " "), STRIP_END]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _added(tokenizer),
        "normalizer": sequence(*normalizers),
        "pre_tokenizer": word_start("▁"),
        "post_processor": _template(tokenizer),
        "decoder": word_start("▁"),
        "model": {
            "type": "Unigram",
            "unk_id": tokenizer.unk_id,
            "vocab": _scores(proto),
            "byte_fallback": trained.byte_fallback,
        },
    }


def _scores(proto: Any) -> list[list[Any]]:
    """Pieces with their log-probabilities; user-defined ones with a score that makes them win.

    SentencePiece scores the latter by their length times the best score of a normal piece, less a
    little (`unigram_model.cc`); the tokenizers library has one score for all.
    """
    best = max(piece.score for piece in proto.pieces if piece.type == _NORMAL)
    return [
        [
            piece.piece,
            len(piece.piece.encode()) * best - 0.1 if piece.type == _USER_DEFINED else piece.score,
        ]
        for piece in proto.pieces
    ]


@cache
def _marks() -> str:
    """A regular expression for the combining marks that `normalize.clean_text` drops."""
    ranges: list[list[int]] = []
    for code in range(sys.maxunicode + 1):
        if not unicodedata.combining(chr(code)):
            continue
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "[" + "".join(rf"\x{{{first:x}}}-\x{{{last:x}}}" for first, last in ranges) + "]"


def _of_hugging_face(tokenizer: HuggingFaceTokenizer) -> dict[str, Any]:
    """The tokenizer.json of our tokenizer, with the leading space added automatically."""
    content = with_our_steps(parse_json(tokenizer.as_json()))
    special = _added(tokenizer)
    ours = {token["content"] for token in special}
    others = [t for t in content.get("added_tokens", []) if t["content"] not in ours]
    content["added_tokens"] = sorted([*special, *others], key=lambda token: int(token["id"]))
    content["post_processor"] = _template(tokenizer)
    return content
