"""One small exam as sheets print it and as the JSON that it becomes, and ways to import it."""

import pytest

from albert_rc.printed.run import import_papers

ARTICLE = (
    "Last Friday Tom was on the bus home when he _ a brown bag under his seat. Nobody around him "
    'seemed to _ it.\nHe opened it and saw a purse, some keys and a letter. "The owner must be '
    'very _," he thought.'
)
OPTIONS = [
    ["made", "lost", "sold", "found"],
    ["hear", "cook", "hate", "own"],
    ["worried", "proud", "lazy", "hungry"],
]
CLOZE = {"article": ARTICLE, "options": OPTIONS, "answers": ["D", "D", "A"]}
BREAD = (
    "It is widely believed that bread goes stale because it dries out. A simple test shows that "
    "this cannot be the whole story: a loaf in a bag still turns hard within days."
)
RACE = {
    "answers": ["B", "A"],
    "options": [
        ["bread keeps fresh", "water is not the only cause", "bags are useless", "bread is dry"],
        ["In a freezer.", "In a warm oven.", "In a bag.", "On a table."],
    ],
    "questions": ["The test shows that _.", "Where should a loaf be kept?"],
    "article": BREAD,
}
STORY = """\
    Last Friday Tom was on the bus home when he __36__ a brown bag
under his seat. Nobody around him seemed to __37__ it.
    He opened it and saw a purse, some keys and a letter. "The owner
must be very __38__," he thought.
"""
LISTS = """\
36. A. made     B. lost   C. sold  D. found
37. A. hear     B. cook   C. hate  D. own
38. A. worried  B. proud  C. lazy  D. hungry
"""
QUESTIONS = """\
39. The test shows that ______.
A. bread keeps fresh    B. water is not the only cause
C. bags are useless     D. bread is dry
40. Where should a loaf be kept?
A. In a freezer.
B. In a warm oven.
C. In a bag.
D. On a table.
"""
TEXT = """\
    It is widely believed that bread goes stale because it dries out.
A simple test shows that this cannot be the whole story: a loaf in a
bag still turns hard within days.
"""
KEY = "\nAnswers\n36-38 DDA\n"
CHINESE = (
    "第二节 完形填空（共3小题；每小题1.5分，满分4.5分）\n"
    "阅读下面短文，从短文后各题所给的A、B、C和D四个选项中，选出可以填入空白处的最佳选项。\n\n"
)


def styled(style):
    """The story with its blanks marked in another way."""
    text = STORY
    for number in (36, 37, 38):
        text = text.replace(f"__{number}__", style.format(number))
    return text


def as_word(text, path):
    """A printed paper in a file of text as a document of Word, each line a paragraph."""
    document = pytest.importorskip("docx").Document()
    for line in text.read_text().splitlines():
        document.add_paragraph(line)
    document.save(path)


def bring(folder, text, key=None, name="exam.txt", encoding="utf-8"):
    """Import a text; its papers' JSON without ids, and the numbers that were refused."""
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode(encoding))
    key_path = None
    if key is not None:
        key_path = folder / "key.txt"
        key_path.write_text(key)
    return understood(import_papers([path], key_path))


def answers_of(papers):
    """The letters of each paper's key, without a key an empty text."""
    return ["".join(paper.get("answers", "")) for paper in papers]


def understood(imports):
    """What `bring` gives, of imports already made."""
    papers = []
    for found in imports:
        for paper in found.papers:
            if paper.whole:
                content = paper.content()
                content.pop("id", None)
                papers.append(content)
    troubles = [trouble for found in imports for trouble in found.all_troubles()]
    return papers, sorted({number for trouble in troubles for number in trouble.numbers}), imports
