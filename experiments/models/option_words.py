"""Make the words that are options in training papers pieces of a model's vocabulary.

    python -m experiments.models.option_words PAPERS MODEL OUT [--least 2]

PAPERS are the training papers of ELE; MODEL is an ALBERT for blanks with a WordPiece vocabulary.
Words of at least two pieces that are options at least so often are added, each with the mean of its
pieces' embeddings and biases, so that an option has the score that it had in MODEL (which scores
one of several pieces by their mean). Read as a single token, though, such a word is new to the
model, which has to be trained on.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from albert_rc.checkpoints.load import load_model, save_model
from albert_rc.io.atomic import write_bytes
from albert_rc.papers.formats import read_split
from albert_rc.text.tokenizer import Tokenizer, load_tokenizer
from experiments.models.conversion import with_more_pieces
from experiments.shared.scripts import parser_of


def option_words(papers: Path, tokenizer: Tokenizer, least: int) -> dict[str, list[int]]:
    """The options of several pieces that are one word, the most frequent first, with their pieces.

    Args:
        papers: the training papers.
        tokenizer: splits words into pieces.
        least: number of times that a word must be an option.
    """
    counts: Counter[str] = Counter()
    for passage in read_split(papers).passages:
        for question in passage.questions:
            counts.update(option.strip().lower() for option in question.options)
    common = [
        word
        for word, times in counts.most_common()
        if times >= least and word.isalpha() and word.isascii()
    ]
    found = zip(common, tokenizer.encode(common), strict=True)
    return {word: list(pieces) for word, pieces in found if len(pieces) > 1}


def main() -> None:
    """Write the larger model."""
    parser = parser_of(__doc__)
    parser.add_argument("papers", type=Path)
    parser.add_argument("model")
    parser.add_argument("out", type=Path)
    parser.add_argument("--least", type=int, default=2)
    arguments = parser.parse_args()
    loaded = load_model(arguments.model, "pretraining", with_pairs=False)
    tokenizer, model = loaded.tokenizer, loaded.model
    new = option_words(arguments.papers, tokenizer, arguments.least)
    pieces = tokenizer.pieces(range(tokenizer.size))
    vocabulary = "".join(f"{piece}\n" for piece in [*pieces, *new])
    write_bytes(arguments.out / "vocab.txt", vocabulary.encode())
    how = (tokenizer.folder / "tokenizer_config.json").read_bytes()
    write_bytes(arguments.out / "tokenizer_config.json", how)
    larger = with_more_pieces(model, list(new.values()))
    save_model(larger, load_tokenizer(arguments.out), arguments.out)
    print(f"{len(new):,} words added to {tokenizer.size:,} pieces")


if __name__ == "__main__":
    main()
