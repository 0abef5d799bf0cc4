"""Tokenizers: text to ids, exactly as in the models' pretraining.

ALBERT's text goes through the SentencePiece library; BERT's and RoBERTa's vocabularies, and any
`tokenizer.json`, through the `tokenizers` library. Both take text in *segments*: a segment either
starts a word, or is *glued* to the text before it (as the full stop in `[MASK].`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from albert_rc.errors import AlbertRcError, CheckpointError
from albert_rc.io.files import sha256
from albert_rc.io.json import parse_json, to_json
from albert_rc.io.messages import first_line
from albert_rc.runtime.pool import cores
from albert_rc.text.normalize import Span, clean_aligned, clean_text, fold_aligned, with_marks
from albert_rc.text.tokenizer_json import without_our_steps

VOCABULARY_FILES = (
    "spiece.model",
    "tokenizer.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "tokenizer_config.json",
)
"""All possible vocabulary files of a model folder; saved along with the weights."""


_SENTENCE_ENDS = frozenset(".!?。！？…")


class Tokenizer(ABC):
    """A tokenizer with its vocabulary. Created by `load_tokenizer`."""

    pad_id: int
    unk_id: int
    cls_id: int
    sep_id: int
    mask_id: int
    size: int
    """Number of ids."""
    fingerprint: str
    """SHA-256 of the vocabulary, to check whether a store was made with it."""
    folder: Path
    """Folder of the vocabulary's files."""
    separators_in_pair: int = 1
    """Number of [SEP]s between the two parts of a pair: RoBERTa has two."""
    num_threads: int = 0
    """Threads of SentencePiece's `encode`; 0 for all cores."""

    @abstractmethod
    def encode(self, texts: Sequence[str], glued: bool = False) -> list[list[int]]:
        """Ids of each text, without special tokens, on all cores.

        Args:
            texts: segments of running text.
            glued: the segments continue the text before them, so that their first piece does not
                begin a word.
        """

    @abstractmethod
    def encode_with_offsets(self, texts: Sequence[str]) -> list[tuple[list[int], list[Span]]]:
        """Ids of each text as from `encode`, and the span of each piece in the text.

        Args:
            texts: running text, unnormalised.

        Returns:
            The ids, and for each id the first and past-last character in the original text. The
            spans are in order and have no white space at their ends; that of a piece which is only
            a word-start marker is empty. Pieces of the same character share its span.
        """

    @abstractmethod
    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The pieces of the ids."""

    @cached_property
    def sentence_ends(self) -> list[int]:
        """Ids of the pieces that end a sentence."""
        pieces = self.pieces(range(self.size))
        return [index for index, piece in enumerate(pieces) if piece.strip("▁Ġ") in _SENTENCE_ENDS]

    def to_text(self, ids: Sequence[int]) -> str:
        """Readable text of ids, special tokens included; for tests and experiments."""
        return "".join(self.pieces(ids)).replace("▁", " ").replace("Ġ", " ").strip()


class SentencePieceTokenizer(Tokenizer):
    """ALBERT's tokenizer: lower-cased and without accents, then plain SentencePiece.

    The original code also cuts a comma off a number's piece (`▁2010,`); as in transformers, this is
    not done here.
    """

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        import sentencepiece
        from sentencepiece import sentencepiece_model_pb2

        path = folder / "spiece.model"
        content = path.read_bytes()
        proto = sentencepiece_model_pb2.ModelProto()
        try:
            proto.ParseFromString(content)
            self._word_start = sentencepiece.SentencePieceProcessor(model_proto=content)
        except Exception as error:  # protobuf and SentencePiece have their own exceptions
            raise CheckpointError(
                f"{path}: not a SentencePiece model ({error}); copy or download it again"
            ) from None
        # SentencePiece puts a ▁ before every text; the twin without it continues a word.
        proto.normalizer_spec.add_dummy_prefix = False
        self._glued = sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())
        self._lower = bool(settings.get("do_lower_case", True))
        self._keep_accents = bool(settings.get("keep_accents", False))
        self.settings = {"do_lower_case": self._lower, "keep_accents": self._keep_accents}
        self.folder = folder
        self.size = self._word_start.get_piece_size()
        how = f"lower={self._lower} accents={self._keep_accents}"
        self.fingerprint = sha256(content, how.encode())
        self.pad_id = self._id("<pad>", path)
        self.unk_id = self._word_start.unk_id()
        self.cls_id = self._id("[CLS]", path)
        self.sep_id = self._id("[SEP]", path)
        self.mask_id = self._id("[MASK]", path)

    def _id(self, piece: str, path: Path) -> int:
        index = self._word_start.piece_to_id(piece)
        if index == self._word_start.unk_id():
            raise CheckpointError(f"{path}: the vocabulary lacks {piece}; is it one of ALBERT's?")
        return int(index)

    def normalize(self, text: str) -> str:
        """The text as passed to SentencePiece."""
        return clean_text(text, self._lower, self._keep_accents)

    def encode(self, texts: Sequence[str], glued: bool = False) -> list[list[int]]:
        processor = self._glued if glued else self._word_start
        normalized = [self.normalize(text) for text in texts]
        ids: list[list[int]] = processor.encode(normalized, num_threads=self.num_threads or cores())
        return ids

    def encode_with_offsets(self, texts: Sequence[str]) -> list[tuple[list[int], list[Span]]]:
        result: list[tuple[list[int], list[Span]]] = []
        for text, ids in zip(texts, self.encode(texts), strict=True):
            aligned = clean_aligned(text, self._lower, self._keep_accents)
            spans = [
                aligned.source(first, last, self._is_blank)
                for first, last in self._spans_in_cleaned(aligned.text, ids)
            ]
            result.append((ids, with_marks(text, spans)))
        return result

    def _spans_in_cleaned(self, cleaned: str, ids: list[int]) -> list[Span]:
        # SentencePiece's own spans end too early where a piece ends inside a character that its
        # normalisation expands (the "off" of "oﬃce"); so we walk through its normalised text,
        # for which it reports the source of each character.
        spelt, origins = self._word_start.normalize(cleaned, with_offsets=True)
        ends = origins[1:]
        for i in reversed(range(len(spelt) - 1)):
            if ends[i] == origins[i] and spelt[i] != "▁":
                ends[i] = ends[i + 1]
        spans: list[Span] = []
        start = 0
        for index, piece in zip(ids, self._word_start.encode(cleaned, out_type=str), strict=True):
            size = len(piece)
            if self._word_start.is_byte(index):
                # "<0xE2>": the bytes of an unknown character share its span.
                if 0x80 <= int(piece[3:5], 16) < 0xC0:
                    spans.append(spans[-1])
                    continue
                size = 1
            spans.append((origins[start], ends[start + size - 1]))
            start += size
        return spans

    def _is_blank(self, character: str) -> bool:
        # SentencePiece treats more as blank than Python: U+200B is a space, controls are removed.
        return not character.isalnum() and not self._glued.normalize(character).strip("▁ ")

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [self._word_start.id_to_piece(int(i)) for i in ids]


BERTS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""BERT's special pieces: padding, unknown, first, separator, blank."""
ROBERTAS = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")
"""RoBERTa's, in the same order."""


class HuggingFaceTokenizer(Tokenizer):
    """The tokenizer of BERT, RoBERTa, MPNet, or any `tokenizer.json`."""

    def __init__(self, folder: Path, backend: Any) -> None:
        self._backend = backend
        backend.no_padding()
        backend.no_truncation()
        self.folder = folder
        vocabulary = backend.get_vocab()
        # Not their number: ids in a file may have gaps.
        self.size = max(vocabulary.values(), default=-1) + 1
        content = parse_json(backend.to_str().encode())
        how = {name: content.get(name) for name in ("normalizer", "pre_tokenizer")}
        merges = content.get("model", {}).get("merges")
        ordered = sorted(vocabulary, key=vocabulary.__getitem__)
        self.fingerprint = sha256(to_json([ordered, merges, how]))
        # MPNet's vocabulary holds BERT's special pieces too, but uses its own.
        names = [ROBERTAS, BERTS] if "<mask>" in vocabulary else [BERTS, ROBERTAS]
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = (
            self._id(*alike) for alike in zip(*names, strict=True)
        )
        unknown = content.get("model", {}).get("unk_token")
        if isinstance(unknown, str) and unknown in vocabulary:
            self.unk_id = vocabulary[unknown]
        if names[0] is ROBERTAS:
            self.separators_in_pair = 2
        self._special = [piece for piece in (*BERTS, *ROBERTAS) if piece in vocabulary]

    def _id(self, *names: str) -> int:
        for name in names:
            index = self._backend.token_to_id(name)
            if index is not None:
                return int(index)
        raise CheckpointError(
            f"{self.folder}: the vocabulary lacks {' or '.join(names)}; use a vocabulary that has "
            "it"
        )

    def as_json(self) -> bytes:
        """The content of a tokenizer.json."""
        content: str = self._backend.to_str()
        return content.encode()

    def encode(self, texts: Sequence[str], glued: bool = False) -> list[list[int]]:
        safe = [self._defuse(" ".join(text.split()), glued) for text in texts]
        encoded = self._split(self._backend.encode_batch_fast, safe)
        return [encoding.ids for encoding in encoded]

    def encode_with_offsets(self, texts: Sequence[str]) -> list[tuple[list[int], list[Span]]]:
        folded = [fold_aligned(text) for text in texts]
        safe = [aligned.spaced(self._defuse(aligned.text)) for aligned in folded]
        encoded = self._split(self._backend.encode_batch, [aligned.text for aligned in safe])
        result: list[tuple[list[int], list[Span]]] = []
        for text, aligned, encoding in zip(texts, safe, encoded, strict=True):
            spans = [aligned.source(first, last) for first, last in encoding.offsets]
            result.append((encoding.ids, with_marks(text, spans)))
        return result

    def _split(self, batch: Callable[..., list[Any]], texts: list[str]) -> list[Any]:
        try:
            return batch(texts, add_special_tokens=False)
        except BaseException as error:
            # A tokenizer.json may load and yet lack something required, such as its unknown piece.
            if not _is_theirs(error):
                raise
            raise CheckpointError(
                f"{self.folder}: the vocabulary cannot split a text ({first_line(error)})"
            ) from None

    def _defuse(self, text: str, glued: bool = False) -> str:
        # A word that starts after another word begins with its space in byte-level vocabularies.
        if text and not glued:
            text = f" {text}"
        # "[MASK]" written in a paper is text; as a special token it would be an extra blank.
        for special in self._special:
            if special in text:
                text = text.replace(special, f"{special[0]} {special[1:]}")
        return text

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [self._backend.id_to_token(int(i)) or "" for i in ids]


def _from_tokenizer_json(folder: Path, settings: dict[str, Any]) -> Tokenizer:
    from tokenizers import Tokenizer as Backend

    # So that an exported vocabulary is still the one that it was made from.
    content = without_our_steps(parse_json((folder / "tokenizer.json").read_bytes()))
    # Our segments have their own leading space, or none where they are glued: Metaspace must not
    # add one, and white space must not be split off before it becomes word-start markers.
    parts = content.get("pre_tokenizer") or {}
    steps = parts.get("pretokenizers", [parts])
    for step in steps:
        if step.get("type") == "ByteLevel":
            step["add_prefix_space"] = False
    if any(step.get("type") == "Metaspace" for step in steps):
        steps[:] = [step for step in steps if step.get("type") != "WhitespaceSplit"]
        for step in steps:
            if step.get("type") == "Metaspace":
                step["prepend_scheme"] = "never"
    return HuggingFaceTokenizer(folder, Backend.from_str(to_json(content).decode()))


def _from_wordpiece(folder: Path, settings: dict[str, Any]) -> Tokenizer:
    from tokenizers import BertWordPieceTokenizer

    lower = bool(settings.get("do_lower_case", True))
    backend = BertWordPieceTokenizer(
        str(folder / "vocab.txt"),
        lowercase=lower,
        strip_accents=settings.get("strip_accents"),
        handle_chinese_chars=bool(settings.get("tokenize_chinese_chars", True)),
    )
    return HuggingFaceTokenizer(folder, backend._tokenizer)


def _from_byte_level(folder: Path, settings: dict[str, Any]) -> Tokenizer:
    from tokenizers import ByteLevelBPETokenizer

    if not (folder / "merges.txt").is_file():
        raise CheckpointError(f"{folder}: vocab.json needs its merges.txt next to it")
    backend = ByteLevelBPETokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"))
    return HuggingFaceTokenizer(folder, backend._tokenizer)


# SentencePiece's own file comes first: transformers 5's conversion splits differently.
KINDS: dict[str, Callable[[Path, dict[str, Any]], Tokenizer]] = {
    "spiece.model": SentencePieceTokenizer,
    "tokenizer.json": _from_tokenizer_json,
    "vocab.txt": _from_wordpiece,
    "vocab.json": _from_byte_level,
}


def load_tokenizer(folder: Path, num_threads: int = 0) -> Tokenizer:
    """The vocabulary in a folder.

    Args:
        folder: holds spiece.model, tokenizer.json, vocab.txt, or vocab.json with merges.txt.
        num_threads: threads of SentencePiece; 0 for all cores.

    Raises:
        CheckpointError: no vocabulary there, or it cannot be read, or lacks a special token.
    """
    settings: dict[str, Any] = {}
    try:
        if (folder / "tokenizer_config.json").is_file():
            settings = parse_json((folder / "tokenizer_config.json").read_bytes())
        for name, load in KINDS.items():
            if (folder / name).is_file():
                tokenizer = load(folder, settings)
                tokenizer.num_threads = num_threads
                return tokenizer
    except AlbertRcError:
        raise
    except BaseException as error:
        if not _is_theirs(error):
            raise
        raise CheckpointError(
            f"{folder}: the vocabulary cannot be read ({first_line(error)}); copy or download it "
            "again"
        ) from None
    raise CheckpointError(f"{folder}: no vocabulary there; one of {', '.join(KINDS)} is needed")


def _is_theirs(error: BaseException) -> bool:
    """Whether an error is from the tokenizers library, which raises bare Exceptions, and panics."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"
