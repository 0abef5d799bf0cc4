"""Training of a SentencePiece vocabulary with ALBERT's ids and text normalisation."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from albert_rc.errors import DataError, UsageError
from albert_rc.io.atomic import write_files
from albert_rc.io.json import to_json
from albert_rc.io.messages import first_line
from albert_rc.text.normalize import clean_text
from albert_rc.text.tokenizer import Tokenizer, load_tokenizer

SIGNS = ("(", ")", '"', "-", ".", "–", "£", "€")
"""Characters that are separate pieces in ALBERT's vocabulary, never part of another piece."""
SPECIALS = ("[CLS]", "[SEP]", "[MASK]")
MAX_SENTENCES = 10_000_000
LONGEST = 16384
"""Maximum length of a sentence for SentencePiece, in bytes."""
COVERAGE = (0.98, 1.0)
"""Range that SentencePiece accepts."""


def make_vocabulary(
    texts: Iterable[str],
    size: int,
    folder: Path,
    *,
    lower: bool = True,
    keep_accents: bool = False,
    coverage: float = 0.99995,
) -> Tokenizer:
    """Train a unigram vocabulary (Kudo 2018) and write `spiece.model` into `folder`.

    The ids are ALBERT's: <pad> 0, <unk> 1, [CLS] 2, [SEP] 3, [MASK] 4. The result depends only on
    the texts and the settings.

    Args:
        texts: paragraphs or sentences of running text, read once. Of more than ten million, a
            random sample of that number is used.
        size: number of pieces, special ones included.
        folder: created if missing.
        lower: convert to lower case.
        keep_accents: keep combining marks; ALBERT drops them.
        coverage: share of all characters that get pieces, from 0.98 to 1; the rest is <unk>.

    Raises:
        UsageError: the text does not allow this number of pieces, or another setting is invalid.
        DataError: no text. Errors from reading `texts` are passed on unchanged.
    """
    import sentencepiece

    check_settings(size, coverage)
    raised: list[BaseException] = []
    cleaned = (clean_text(text, lower, keep_accents) for text in _noted(texts, raised))
    # Written to memory: a file name would be stored in the model.
    content = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(part for text in cleaned for part in _parts(text)),
            model_writer=content,
            vocab_size=size,
            model_type="unigram",
            pad_id=0,
            unk_id=1,
            bos_id=-1,
            eos_id=-1,
            control_symbols=list(SPECIALS),
            user_defined_symbols=list(SIGNS),
            character_coverage=coverage,
            input_sentence_size=MAX_SENTENCES,
            shuffle_input_sentence=True,
            max_sentence_length=LONGEST,
            normalization_rule_name="nmt_nfkc",
            minloglevel=2,
        )
    except (RuntimeError, OSError) as error:
        if raised:
            raise raised[0] from None
        if "sentences_.empty" in str(error):
            raise DataError("the sources contain no text to train on; give other files") from None
        raise UsageError(f"--size {size}: {_reason(str(error))}") from None
    folder.mkdir(parents=True, exist_ok=True)
    settings = {"do_lower_case": lower, "keep_accents": keep_accents}
    write_files(
        {
            folder / "tokenizer_config.json": to_json(settings),
            folder / "spiece.model": content.getvalue(),
        }
    )
    return load_tokenizer(folder)


def _parts(text: str) -> Iterator[str]:
    """A text in parts of at most `LONGEST` bytes: SentencePiece ignores longer ones silently."""
    rest = text.encode()
    while len(rest) > LONGEST:
        # At a space, or else between two characters.
        end = rest.rfind(b" ", 1, LONGEST)
        if end < 0:
            end = len(rest[:LONGEST].decode(errors="ignore").encode())
        yield rest[:end].decode()
        rest = rest[end:].lstrip(b" ")
    if rest:
        yield rest.decode()


def check_settings(size: int, coverage: float) -> None:
    """Check the settings of `make_vocabulary` that do not depend on the text.

    Raises:
        UsageError: one is out of range.
    """
    least, most = COVERAGE
    if not least <= coverage <= most:
        raise UsageError(f"--coverage {coverage}: give a share from {least} to {most:g}")
    fewest = len(SPECIALS) + len(SIGNS) + 2
    if size < fewest:
        raise UsageError(
            f"--size {size}: must be at least {fewest}; 8000 pieces are suitable for a hundred "
            "megabytes of text"
        )


def _noted(texts: Iterable[str], raised: list[BaseException]) -> Iterator[str]:
    """The texts; errors from reading are recorded, since SentencePiece replaces them."""
    try:
        yield from texts
    except GeneratorExit:
        raise
    except BaseException as error:
        raised.append(error)
        raise


def _reason(said: str) -> str:
    if found := re.search(r"size too high .*<= (\d+)", said):
        return f"the text allows {found[1]} pieces at most; give that or less, or more text"
    if found := re.search(r"smaller than required_chars\. \d+ vs (\d+)", said):
        return (
            f"the characters of the text alone need {found[1]} pieces; give more, or a lower "
            "--coverage"
        )
    return first_line(said) or "the trainer gave no reason"
