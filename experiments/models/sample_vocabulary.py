"""Train the small vocabulary of `data/sample` on the sample's own text.

    python -m experiments.models.sample_vocabulary

The result is deterministic; it is committed, so nobody needs to run this.
"""

from collections.abc import Iterator
from pathlib import Path

from albert_rc.papers.formats import read_collection
from albert_rc.text.make_vocabulary import make_vocabulary

SAMPLE = Path(__file__).parents[2] / "data" / "sample"
SIZE = 1600
COVERAGE = 0.9995  # of so little text, characters that occur once are none to learn


def texts() -> Iterator[str]:
    """Every passage (blanks filled where the answer is known), question and option."""
    for format_name in ("cloze", "race", "dream"):
        for split in read_collection(SAMPLE / format_name):
            for passage in split.passages:
                yield from passage.filled().replace(" _ ", " ").splitlines()
                for question in passage.questions:
                    yield from (question.text, *question.options)


if __name__ == "__main__":
    folder = SAMPLE / "vocabulary"
    made = make_vocabulary(texts(), SIZE, folder, coverage=COVERAGE)
    print(f"{folder / 'spiece.model'}: {made.size} pieces")
