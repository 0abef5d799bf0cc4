"""Two recognisers of text on the same photographs: RapidOCR, as `import` uses it, and Tesseract.

    python -m experiments.printed.recognition_engines ELE/dev OUT.json --papers 10

Words of the passage and its options that each finds, and words that it makes up; with white space
and blanks apart, since only one of them goes through our own code for these. Needs `tesseract`.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from albert_rc.io.json import write_json
from albert_rc.papers.formats import read_split
from albert_rc.papers.schema import Passage
from albert_rc.printed.scan.read import read_scan
from experiments.printed.photographs import LEVELS, photograph
from experiments.shared.scripts import parser_of


def rapidocr(folder: Path) -> str:
    """The text of a folder's pictures by our own way."""
    return "\n".join(line.text for line in read_scan(folder).lines)


def tesseract(folder: Path) -> str:
    """The same by Tesseract's command, in English."""
    pages = sorted(folder.iterdir())
    command = ["tesseract", "-", "-", "-l", "eng"]
    return "\n".join(
        subprocess.run(command, input=page.read_bytes(), capture_output=True, check=True)
        .stdout.decode()
        for page in pages
    )  # fmt: skip


def words(text: str) -> Counter[str]:
    """Words, small."""
    return Counter(re.findall(r"[a-z]+(?:'[a-z]+)?", text.lower().replace("’", "'")))


def expected(passage: Passage) -> Counter[str]:
    """The words that stand on the pages, but for the heading and instruction."""
    options = [option for question in passage.questions for option in question.options]
    return words(" ".join([passage.text, *options]))


def main() -> None:
    """Read the same photographs with both."""
    parser = parser_of(__doc__)
    parser.add_argument("split", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--papers", type=int, default=10)
    given = parser.parse_args()
    papers = read_split(given.split)
    step = max(1, len(papers.passages) // given.papers)
    frame = words("Cloze Read the passage and choose the best answer for each blank") + Counter(
        dict.fromkeys("abcdefg", 10**6)
    )
    result: dict[str, Any] = {}
    for name, level in LEVELS.items():
        sums: dict[str, Counter[str]] = {"rapidocr": Counter(), "tesseract": Counter()}
        with tempfile.TemporaryDirectory() as temporary:
            for number, passage in enumerate(papers.passages[::step][: given.papers]):
                one = replace(papers, passages=[passage])
                folder = photograph(one, number, level, Path(temporary) / str(number))
                for engine, read in (("rapidocr", rapidocr), ("tesseract", tesseract)):
                    begun = time.perf_counter()
                    found, wanted = words(read(folder)), expected(passage)
                    sums[engine]["milliseconds"] += round(1000 * (time.perf_counter() - begun))
                    sums[engine]["words"] += wanted.total()
                    sums[engine]["missing"] += (wanted - found).total()
                    sums[engine]["made up"] += (found - wanted - frame).total()
        result[name] = {engine: dict(sum_) for engine, sum_ in sums.items()}
        print(name, result[name], flush=True)
        write_json(given.out, result)


if __name__ == "__main__":
    main()
