"""Papers printed in several fonts, photographed, and read by `import`: what comes back?

    python -m experiments.printed.photographs OUT.json ELE/dev DREAM/dev.json --papers 50
        [--level phone]

Pages are drawn and then spoiled as scanners and phones spoil them: turned, seen from the side,
curled, blurred, shaded, noisy, compressed. A paper comes back exact, or is refused with the place
named, or comes back wrong and nobody says so; the last must not happen. `--keep FOLDER` keeps the
pictures to be looked at.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import cv2
import matplotlib
import numpy as np
import pypdfium2

from albert_rc.io.json import write_json
from albert_rc.papers.formats import read_split
from albert_rc.papers.schema import PaperSet
from albert_rc.printed.render.pdf import pdf_bytes
from albert_rc.printed.render.sheet import make_sheet
from albert_rc.printed.run import import_papers
from experiments.shared.scripts import parser_of

FONTS = (None, "STIXGeneral.ttf", "DejaVuSans.ttf", "DejaVuSerif.ttf")
"""None is Times; the others lie in matplotlib's package."""
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Level:
    """How a page is spoiled; lengths are shares of the page's width."""

    dots: int
    turn: float
    """Degrees, at most."""
    lean: float = 0.0
    """How far corners move."""
    curl: float = 0.0
    blur: float = 0.0
    """Standard deviation, in pixels."""
    shade: float = 0.0
    """How dark the darkest place is."""
    noise: float = 0.0
    quality: int = 95


LEVELS = {
    "clean": Level(300, 0.0),
    "scan": Level(200, 1.0, blur=0.5, noise=4, quality=75),
    "phone": Level(220, 3.0, lean=0.04, curl=0.004, blur=1.0, shade=0.45, noise=6, quality=60),
}


def spoiled(page_HW3: Array, level: Level, seed: int) -> Array:
    """A page as a device would see it, on a desk if it is leaning."""
    rng = np.random.default_rng(seed)
    height, width = page_HW3.shape[:2]
    if level.curl:
        x_HW, y_HW = np.meshgrid(
            np.arange(width, dtype=np.float32), np.arange(height, dtype=np.float32)
        )
        wave_HW = np.sin((x_HW / width * rng.uniform(0.6, 1.2) + rng.uniform(0, 1)) * np.pi)
        y_HW += wave_HW * np.float32(level.curl * width * rng.uniform(0.3, 1))
        page_HW3 = cv2.remap(page_HW3, x_HW, y_HW, cv2.INTER_CUBIC, borderValue=(255, 255, 255))
    if level.turn or level.lean:
        corner_42 = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
        angle = np.radians(rng.uniform(-level.turn, level.turn))
        turn_22 = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        seen_42 = (corner_42 - corner_42.mean(0)) @ turn_22.T
        seen_42 += rng.uniform(-level.lean, level.lean, (4, 2)) * width
        edge = 0.03 * width if level.lean else 0
        seen_42 -= seen_42.min(0) - edge
        size = tuple(int(v + edge) + 1 for v in seen_42.max(0))
        desk = tuple(int(v) for v in rng.integers(40, 140, 3)) if level.lean else (255,) * 3
        view_33 = cv2.getPerspectiveTransform(corner_42, seen_42.astype(np.float32))
        page_HW3 = cv2.warpPerspective(
            page_HW3, view_33, size, flags=cv2.INTER_AREA, borderValue=desk
        )
    height, width = page_HW3.shape[:2]
    page_HW3 = page_HW3.astype(np.float32)
    if level.shade:
        x_HW, y_HW = np.meshgrid(np.linspace(-1, 1, width), np.linspace(-1, 1, height))
        angle = rng.uniform(0, 2 * np.pi)
        along_HW = x_HW * np.cos(angle) + y_HW * np.sin(angle)
        soft_HW = 1 / (1 + np.exp(-(along_HW - rng.uniform(-0.5, 0.5)) * rng.uniform(3, 25)))
        light_HW = 1 - level.shade * rng.uniform(0.4, 1) * soft_HW - 0.1 * (x_HW**2 + y_HW**2)
        page_HW3 *= np.asarray(light_HW, np.float32)[..., None]
    if level.blur:
        page_HW3 = cv2.GaussianBlur(page_HW3, (0, 0), level.blur * rng.uniform(0.6, 1.2))
    if level.noise:
        page_HW3 += np.asarray(rng.normal(0, level.noise, page_HW3.shape), np.float32)
    return page_HW3.clip(0, 255).astype(np.uint8)


def photograph(one: PaperSet, number: int, level: Level, folder: Path) -> Path:
    """Print a paper and leave its pages as pictures; one file, or a folder."""
    font = FONTS[number % len(FONTS)]
    fonts = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    document = pypdfium2.PdfDocument(pdf_bytes(make_sheet(one), fonts / font if font else None))
    folder.mkdir(parents=True)
    for index, page in enumerate(document):
        drawn = np.asarray(page.render(scale=level.dots / 72).to_pil().convert("RGB"))
        seen = spoiled(drawn, level, 1000 * number + index)
        path = folder / f"page{index + 1}.jpg"
        cv2.imwrite(str(path), seen[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, level.quality])
    return folder


def outcome(one: PaperSet, path: Path) -> tuple[str, str]:
    """What comes back of a paper: a kind, and what is said of it."""
    (passage,) = one.passages
    (found,) = import_papers([path])
    papers = found.papers
    named = "; ".join(map(str, found.all_troubles()))
    wrong = ["another number of papers"]
    if len(papers) == 1:
        wrong = _differences(_tokens(passage.text), _tokens(papers[0].article))
        asked = [(question.text, question.options) for question in passage.questions]
        got = list(zip(papers[0].questions, papers[0].options, strict=True))
        if len(asked) != len(got):
            wrong.append(f"{len(asked)} questions became {len(got)}")
        for (text, options), (its, own) in zip(asked, got, strict=False):
            wrong += _differences(_tokens(text or ""), _tokens(its))
            wrong += _differences(_tokens(" | ".join(options)), _tokens(" | ".join(own)))
    if not wrong:
        return ("exact", "") if not named else ("exact, but refused", named)
    kind = "one word wrong" if len(wrong) == 1 else "wrong"
    return f"{kind}, {'refused' if named else 'SILENTLY'}", f"{wrong[:5]}; {named[:300]}"


def _tokens(text: str) -> list[str]:
    """Words and signs: white space is not compared, but where it parts words."""
    text = text.replace("’", "'").replace("‘", "'").replace("“", '"').replace("”", '"')
    return re.findall(r"\w+(?:['-]\w+)*|[^\w\s]", re.sub("_+", " _ ", text))


def _differences(was: list[str], now: list[str]) -> list[str]:
    """Words that are not as they were."""
    return [
        f"{' '.join(was[a:b])!r} became {' '.join(now[c:d])!r}"
        for kind, a, b, c, d in SequenceMatcher(None, was, now, autojunk=False).get_opcodes()
        if kind != "equal"
    ]


def main() -> None:
    """Photograph and read papers at each level."""
    parser = parser_of(__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("splits", nargs="+", type=Path)
    parser.add_argument("--papers", type=int, default=50, help="of each split")
    parser.add_argument("--level", choices=LEVELS, action="append")
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    result: dict[str, Any] = {}
    for name in given.level or LEVELS:
        kinds: Counter[str] = Counter()
        others, pages, begun = {}, 0, time.perf_counter()
        with tempfile.TemporaryDirectory() as temporary:
            for split in given.splits:
                papers = read_split(split)
                step = max(1, len(papers.passages) // given.papers)
                for number, passage in enumerate(papers.passages[::step][: given.papers]):
                    one = replace(papers, passages=[passage])
                    folder = (given.keep or Path(temporary)) / name / Path(passage.id).stem
                    path = photograph(one, number, LEVELS[name], folder)
                    pages += len(list(path.iterdir()))
                    kind, said = outcome(one, path)
                    kinds[kind] += 1
                    if said:
                        others[passage.id] = f"{kind}: {said}"
                        print(name, passage.id, others[passage.id], flush=True)
        seconds = time.perf_counter() - begun
        result[name] = {
            "papers": kinds.total(), **dict(kinds.most_common()), "pages": pages,
            "seconds": round(seconds, 1), "others": others,
        }  # fmt: skip
        print(name, dict(kinds), f"{pages} pages, {seconds / max(1, pages):.1f} s each", flush=True)
        write_json(given.out, result)


if __name__ == "__main__":
    main()
