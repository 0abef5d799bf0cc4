"""Prints papers as schools do, in layouts drawn at random, so that `import` can read them back."""

import random
import re
import textwrap
from dataclasses import dataclass, field

WIDE = str.maketrans(
    "0123456789ABCDEFGabcdefg.()", "０１２３４５６７８９ＡＢＣＤＥＦＧａｂｃｄｅｆｇ．（）"
)
BLANKS = (
    "__{}__", "____{}____", "({})", "{}", "{}.____", "___({})___", "[{}]", "_{}_", "____{}",
    "（{}）", "__ {} __", "( {} )",
)  # fmt: skip
MARKS = ("{}.", "{})", "({})", "[{}]", "{}、", "{}．")
NUMBERS = ("{}.", "{})", "({})", "{}．", "{}、", "{}")
HEADS = {
    "cloze": (
        "完形填空（共{n}小题；每小题1.5分）\n"
        "阅读下面短文，从短文后各题所给的A、B、C和D四个选项中，选出最佳选项。",
        "Part II Cloze\nDirections: Read the passage below and choose the best answer for each "
        "blank from the options A, B, C and D.",
        "Section A\nFor questions {a}-{b}, read the text and decide which answer (A, B, C or D) "
        "best fits each gap.",
        "Lisez le texte suivant et choisissez la bonne réponse (A, B, C ou D).",
        "二、完形填空",
        "",
    ),
    "choice": (
        "阅读理解（共{n}小题）\n阅读下列短文，从每题所给的A、B、C和D四个选项中，选出最佳选项。",
        "Passage 1\nDirections: Read the passage and answer the questions below it.",
        "A",
        "Lesen Sie den Text und kreuzen Sie die richtige Antwort an (A, B, C oder D).",
        "",
    ),
}
KEYS = ("参考答案", "Answer Key", "Answers", "Keys:", "答案：", "Lösungen", "KEY TO THE TEST")
TITLES = (
    "",
    "2024 Senior High School English Examination (Paper 2)",
    "英语试卷    姓名____ 班级____",
)


@dataclass
class Layout:
    """How a paper is printed."""

    blank: str
    mark: str
    number: str
    columns: int
    key: str
    key_heading: str
    width: int
    paragraph: str
    wide: bool
    small: bool
    stray: bool
    answers: bool
    title: str
    pages: bool
    head: dict = field(default_factory=dict)


def draw(rng: random.Random) -> Layout:
    pick = rng.choice
    return Layout(
        blank=pick(BLANKS),
        mark=pick(MARKS),
        number=pick(NUMBERS),
        columns=pick((1, 2, 4, 0)),
        key=pick(("range", "tilde", "single", "table", "spaced", "dash")),
        key_heading=pick(KEYS),
        width=pick((0, 62, 76, 90)),
        paragraph=pick(("indent", "gap", "wide indent")),
        wide=rng.random() < 0.2,
        small=rng.random() < 0.1,
        stray=rng.random() < 0.3,
        answers=rng.random() < 0.9,
        title=pick(TITLES),
        pages=rng.random() < 0.3,
        head={kind: pick(heads) for kind, heads in HEADS.items()},
    )


def flat(text: str) -> str:
    """Text with its spaces as `import` writes them."""
    return "\n".join(" ".join(line.split()) for line in text.splitlines() if line.strip())


def print_paragraphs(text: str, layout: Layout) -> str:
    lead = {"indent": "    ", "gap": "", "wide indent": "\u3000\u3000"}[layout.paragraph]
    parts = []
    for paragraph in flat(text).split("\n"):
        if layout.width:
            lines = textwrap.wrap(
                paragraph, layout.width, initial_indent=lead,
                break_long_words=False, break_on_hyphens=False,
            )  # fmt: skip
            parts.append("\n".join(lines))
        else:
            parts.append(lead + paragraph)
    return ("\n\n" if layout.paragraph == "gap" else "\n").join(parts).replace("\0", " ")


def number_blanks(article: str, start: int, layout: Layout) -> str:
    counter = iter(range(start, start + 10_000))

    def mark(_):
        number = str(next(counter))
        number = number.translate(WIDE) if layout.wide else number
        return layout.blank.format(number).replace(" ", "\0")  # no line ends in it

    return re.sub("_", mark, article)


def print_options(lead: str, options: list[str], layout: Layout) -> str:
    names = "abcdefghij" if layout.small else "ABCDEFGHIJ"
    cells = []
    for name, option in zip(names, options, strict=False):
        mark = layout.mark.format(name)
        mark = mark.translate(WIDE) if layout.wide else mark
        cells.append(f"{mark} {option}" if not layout.stray else f"{mark}  {option} ")
    indent = " " * len(lead)
    if layout.columns == 0:
        return f"{lead} " + "  ".join(cells)
    size = max(map(len, cells)) + 3
    rows = [cells[i : i + layout.columns] for i in range(0, len(cells), layout.columns)]
    lines = ["".join(cell.ljust(size) for cell in row).rstrip() for row in rows]
    return "\n".join(f"{lead if not i else indent} {line}" for i, line in enumerate(lines))


def print_lead(number: int, layout: Layout) -> str:
    lead = layout.number.format(number)
    return lead.translate(WIDE) if layout.wide else lead


def print_key(first: int, letters: list[str], layout: Layout) -> str:
    numbered = list(enumerate(letters, first))
    if layout.key == "single":
        return "  ".join(f"{number}. {name}" for number, name in numbered)
    if layout.key == "table":
        rows = [numbered[i : i + 10] for i in range(0, len(numbered), 10)]
        rows = [row for row in rows if len(row) > 1] or rows
        if sum(map(len, rows)) == len(numbered):
            return "\n".join(
                "\t".join(str(n) for n, _ in row) + "\n" + "\t".join(c for _, c in row)
                for row in rows
            )
    sign = {"tilde": "~", "dash": "—"}.get(layout.key, "-")
    glue = " " if layout.key == "spaced" else ""
    parts = []
    for i in range(0, len(numbered), 5):
        row = numbered[i : i + 5]
        said = glue.join(name for _, name in row)
        colon = ":" if layout.key == "tilde" else ""
        parts.append(
            f"{row[0][0]}. {said}"
            if len(row) == 1
            else f"{row[0][0]}{sign}{row[-1][0]}{colon} {said}"
        )
    return "   ".join(parts)


def print_papers(papers: list[dict], layout: Layout, rng: random.Random) -> tuple[str, str]:
    """Text of several papers (in cloze's or RACE's form) on one sheet, and of their key."""
    start = rng.choice((1, 16, 21, 36, 41))
    sheet, key = [layout.title] if layout.title else [], [layout.key_heading]
    for paper in papers:
        kind = "choice" if "questions" in paper else "cloze"
        count = len(paper["options"])
        head = layout.head[kind].format(n=count, a=start, b=start + count - 1)
        part = [head] if head else []
        if kind == "cloze":
            part.append(print_paragraphs(number_blanks(paper["article"], start, layout), layout))
            part += [
                print_options(print_lead(n, layout), options, layout)
                for n, options in enumerate(paper["options"], start)
            ]
        else:
            part.append(print_paragraphs(paper["article"], layout))
            lead = layout.number if layout.number != "{}" else "{}."
            for n, (question, options) in enumerate(
                zip(paper["questions"], paper["options"], strict=True), start
            ):
                asked = question.replace("_", "_____")
                number = lead.format(n).translate(WIDE) if layout.wide else lead.format(n)
                part.append(f"{number} {asked}\n" + print_options("", options, layout))
        sheet.append("\n".join(part))
        if paper.get("answers"):
            key.append(print_key(start, paper["answers"], layout))
        start += count
    between = f"\n\n{' ' * 20}- 3 -\n\n" if layout.pages else "\n\n"
    return between.join(sheet), "\n".join(key)


def expected(paper: dict, answers: bool) -> dict:
    """What `import` should write of a paper, its name and spaces apart."""
    wanted = {
        "article": flat(paper["article"]),
        "options": [[" ".join(o.split()) for o in options] for options in paper["options"]],
        "answers": (paper.get("answers") or []) if answers else [],
    }
    if "questions" in paper:
        wanted["questions"] = [" ".join(q.split()) for q in paper["questions"]]
    return wanted
