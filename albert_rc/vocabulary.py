"""Makes a SentencePiece vocabulary as ALBERT's: its ids, its clean-up of text."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from albert_rc.atomic import write_bytes
from albert_rc.cleaning import clean_text
from albert_rc.errors import UsageError
from albert_rc.files import write_json
from albert_rc.tokenizer import Tokenizer, load_tokenizer

SIGNS = ("(", ")", '"', "-", ".", "–", "£", "€")
"""Pieces of their own in ALBERT's vocabulary, never part of another."""
SPECIALS = ("[CLS]", "[SEP]", "[MASK]")
MAX_SENTENCES = 10_000_000


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

    The ids are ALBERT's: <pad> 0, <unk> 1, [CLS] 2, [SEP] 3, [MASK] 4. The result depends on
    nothing but the texts and the settings.

    Args:
        texts: paragraphs or sentences of running text, read once. Of more than ten million, a
            random choice of so many counts.
        size: number of pieces, special ones included.
        folder: made if it is not there.
        lower: fold upper and lower case.
        keep_accents: keep combining marks; ALBERT drops them.
        coverage: share of all characters that get pieces; the rest is <unk>.

    Raises:
        UsageError: no text, or too little of it for so many pieces.
    """
    import sentencepiece

    if size < len(SPECIALS) + len(SIGNS) + 2:
        raise UsageError(f"--size {size}: too few pieces; 8000 suit a hundred megabytes of text")
    cleaned = (clean_text(text, lower, keep_accents) for text in texts)
    with tempfile.TemporaryDirectory() as name:
        prefix = f"{name}/spiece"
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=(text for text in cleaned if text),
                model_prefix=prefix,
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
                max_sentence_length=16384,
                normalization_rule_name="nmt_nfkc",
                minloglevel=2,
            )
        except (RuntimeError, OSError) as error:
            raise UsageError(f"--size {size}: {_reason(error)}") from None
        content = Path(f"{prefix}.model").read_bytes()
    folder.mkdir(parents=True, exist_ok=True)
    write_bytes(folder / "spiece.model", content)
    write_json(
        folder / "tokenizer_config.json", {"do_lower_case": lower, "keep_accents": keep_accents}
    )
    return load_tokenizer(folder)


def _reason(error: Exception) -> str:
    said = str(error)
    if "Vocabulary size too high" in said or "Vocabulary size is smaller" in said:
        return f"the text does not suit that number of pieces ({said.rpartition(':')[2].strip()})"
    if "sentences_.empty" in said or not said:
        return "there is no text to learn from"
    return said.partition("\n")[0][:160]
