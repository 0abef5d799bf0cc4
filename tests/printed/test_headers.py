"""Headers and footers of pages: only what is equal, or differs by the page number, is left out."""

import re

import pytest

from albert_rc.printed.read.layout import Word, lines_of

TEXT = "He went there early in the day and came home"


def read(*pages):
    """The lines of pages with the given rows, 20 points apart, and the notes."""
    drawn = [(list(_words(page)), 595.0) for page in pages]
    lines, notes = lines_of(drawn)
    return [" ".join(line.text.split()) for line in lines], notes


def _words(rows):
    for row, line in enumerate(rows):
        left = 50
        for word in line.split():
            yield Word(word, left, left + 6 * len(word), 20 * row, 20 * row + 10)
            left += 6 * len(word) + 4


def with_edges(tops=None, bottoms=None):
    """Pages with a line of text each, and the given headers or footers."""
    count = len(tops or bottoms)
    return [
        [
            *([tops[at]] if tops and tops[at] else []),
            f"{TEXT} {'abcdefgh'[at]}.",
            *([bottoms[at]] if bottoms and bottoms[at] else []),
        ]
        for at in range(count)
    ]


HEADERS = [
    ["Hilltop School"] * 2,
    ["English 2024 Paper 1"] * 3,
    ["English Paper 1", "English Paper 2", "English Paper 3"],
    ["English 1", "School 2", "English 3", "School 4"],
    ["2024 English 9", "2024 English 10"],
    ["Hilltop School 3 / 8", "Hilltop School 4 / 8"],
    ["12 Hilltop School", "13 Hilltop School"],
    ["Grade 7 A"] * 2,
    ["高三英语试题 第 1 页 共 2 页", "高三英语试题 第 2 页 共 2 页"],
]
PAGE_NUMBERS = [
    ["1", "2"],
    ["- 9 -", "- 10 -"],
    ["Page 3", "Page 4"],
    ["3 / 8", "4 / 8"],
    ["Page 1 of 3", "Page 2 of 3", "Page 3 of 3"],
    ["第 1 页", "第 2 页"],
]
CONTENT = [
    ["1. B", "9. B"],
    ["1. B", "2. B"],
    ["1 B", "2 B"],
    ["36-37 AB", "37-38 AB"],
    ["36. A. Yes. B. No.", "37. A. Yes. B. No."],
    ["A. True B. False"] * 2,
    ["B"] * 2,
    ["Answer: B"] * 2,
    ["DDA"] * 2,
    ["Passage 1: BAD"] * 2,
    ["1 2 3 4 5"] * 2,
    ["1. ____", "2. ____"],
    ["1、他是谁？", "2、他是谁？"],
    ["Question 5", "Question 12"],
    ["Question 1", "Question 2"],
    ["Passage 1", "Passage 2"],
    ["第1题", "第2题"],
    ["In 1936 he left", "In 1987 he left"],
    ["1 of 3 men", "2 of 4 men"],
]


@pytest.mark.parametrize("lines", HEADERS)
def test_headers_and_footers_are_left_out_and_noted(lines):
    for pages in (with_edges(tops=lines), with_edges(bottoms=lines)):
        found, notes = read(*pages)
        assert [line[: len(TEXT)] for line in found] == [TEXT] * len(lines)
        several = lines[:2] if "School 2" in lines else lines[:1]
        for line, note in zip(several, notes, strict=True):
            assert re.fullmatch(f"'{line}', at the (top|bottom) of [23] pages, was left out", note)


@pytest.mark.parametrize("lines", PAGE_NUMBERS)
def test_page_numbers_are_left_out(lines):
    for pages in (with_edges(tops=lines), with_edges(bottoms=lines)):
        found, notes = read(*pages)
        assert [line[: len(TEXT)] for line in found] == [TEXT] * len(lines)
        assert notes == []


@pytest.mark.parametrize("lines", CONTENT)
def test_content_at_the_edge_of_pages_is_kept(lines):
    found, notes = read(*with_edges(bottoms=lines))
    assert found[1::2] == lines
    found, more = read(*with_edges(tops=lines))
    assert found[::2] == lines
    assert notes == more == []


def test_headers_of_several_lines():
    header = ["Hilltop School", "English 2024", "Name: ____"]
    pages = [
        [*header, f"{TEXT} {letter}.", f"Page {at}", "Hilltop"] for at, letter in enumerate("ab")
    ]
    found, notes = read(*pages)
    assert [line[: len(TEXT)] for line in found] == [TEXT] * 2
    assert notes == [f"'{line}', at the top of 2 pages, was left out" for line in header] + [
        "'Hilltop', at the bottom of 2 pages, was left out"
    ]


def test_lines_under_a_header_are_kept_unless_they_are_on_all_its_pages():
    rows = ["Reading", "Reading", "Writing"]
    pages = [
        ["Hilltop School", row, f"{TEXT} {letter}."]
        for letter, row in zip("abc", rows, strict=True)
    ]
    found, notes = read(*pages)
    assert found[::2] == rows
    assert notes == ["'Hilltop School', at the top of 3 pages, was left out"]
    pages = [["Hilltop School", f"Question {at}", f"{TEXT} {'ab'[at]}."] for at in range(2)]
    assert read(*pages)[0][::2] == ["Question 0", "Question 1"]


def test_pages_without_text_count():
    first, last = with_edges(bottoms=["English 1", "English 3"])
    assert len(read(first, [], last)[0]) == 2
    first, last = with_edges(bottoms=["English 1", "English 2"])
    assert read(first, [], last)[0][1::2] == ["English 1", "English 2"]


def test_what_is_at_the_top_of_one_page_and_at_the_bottom_of_another_is_kept():
    found, notes = read([TEXT, "He left."], ["He left.", "Nobody saw it."])
    assert found == [TEXT, "He left.", "He left.", "Nobody saw it."]
    assert notes == []
