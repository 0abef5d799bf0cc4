"""Papers that are printed by `render` and read back by `import`: how many come back as they were.

    python -m experiments.printed.render_round_trip ELE OUT.json [--kind pdf] [--splits dev]
        [--papers 400]

Each paper is a file of its own, with its key where the paper has answers. Texts and options are
compared with white space as one space, which print cannot keep; answers exactly.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from albert_rc.io.json import write_json
from albert_rc.papers.formats import read_split
from albert_rc.papers.schema import PaperSet, letter
from albert_rc.printed.render.docx import docx_bytes
from albert_rc.printed.render.pdf import pdf_bytes
from albert_rc.printed.render.sheet import make_sheet
from albert_rc.printed.run import import_papers
from experiments.shared.scripts import parser_of

PRINT = {"docx": docx_bytes, "pdf": pdf_bytes}


def difference(one: PaperSet, path: Path, kind: str) -> str | None:
    """Print a paper and read it back; what is not as it was."""
    (passage,) = one.passages
    known = all(question.answer is not None for question in passage.questions)
    path.write_bytes(PRINT[kind](make_sheet(one, key=known)))
    (found,) = import_papers([path])
    if found.all_troubles() or len(found.papers) != 1:
        return "; ".join(map(str, found.all_troubles())) or f"{len(found.papers)} papers"
    content = found.papers[0].content()
    was, now = _plain(passage.text), _plain(content["article"])
    if was != now:
        at = next((i for i, (a, b) in enumerate(zip(was, now, strict=False)) if a != b), len(now))
        return f"text: {was[max(0, at - 20) : at + 20]!r} became {now[max(0, at - 20) : at + 20]!r}"
    options = [list(map(_plain, question.options)) for question in passage.questions]
    if [list(map(_plain, each)) for each in content["options"]] != options:
        return "options"
    answers = [letter(q.answer) for q in passage.questions if q.answer is not None]
    return "answers" if known and content["answers"] != answers else None


def _plain(text: str) -> str:
    return " ".join(text.split())


def main() -> None:
    """Try all papers of the splits."""
    parser = parser_of(__doc__)
    parser.add_argument("collection", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--kind", choices=PRINT, default="docx")
    parser.add_argument("--splits", nargs="+", default=["train", "dev", "test"])
    parser.add_argument("--papers", type=int, default=10**6)
    given = parser.parse_args()
    result: dict[str, Any] = {"kind": given.kind, "papers": 0, "exact": 0, "others": {}}
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"exam.{given.kind}"
        for split in given.splits:
            papers = read_split(given.collection / split)
            for passage in papers.passages[: given.papers]:
                what = difference(replace(papers, passages=[passage]), path, given.kind)
                result["papers"] += 1
                result["exact"] += what is None
                if what is not None:
                    result["others"][passage.id] = what
    result["seconds"] = round(time.perf_counter() - begun, 1)
    write_json(given.out, result)
    print(f"{result['exact']:,} of {result['papers']:,} came back as they were")


if __name__ == "__main__":
    main()
