"""Word's automatic numbers, as Word prints them."""

import pytest

from albert_rc.printed.read.numbering import WORD, Numbering

etree = pytest.importorskip("lxml.etree")


def tag(name, value):
    return f'<w:{name} w:val="{value}"/>'


def level(number, text, form="decimal", start=1, more=""):
    inner = tag("start", start) + tag("numFmt", form) + tag("lvlText", text) + more
    return f'<w:lvl w:ilvl="{number}">{inner}</w:lvl>'


def base(name, *levels):
    return f'<w:abstractNum w:abstractNumId="{name}">{"".join(levels)}</w:abstractNum>'


def a_list(name, of, starts=(), more=""):
    changed = "".join(
        f'<w:lvlOverride w:ilvl="{at}">{tag("startOverride", start)}</w:lvlOverride>'
        for at, start in starts
    )
    return f'<w:num w:numId="{name}">{tag("abstractNumId", of)}{changed}{more}</w:num>'


def root(*parts):
    return etree.fromstring(f'<w:r xmlns:w="{WORD[1:-1]}">{"".join(parts)}</w:r>')


def in_list(name, level=0):
    return f"<w:p><w:pPr><w:numPr>{tag('ilvl', level)}{tag('numId', name)}</w:numPr></w:pPr></w:p>"


def numbers(lists, *paragraphs, styles=None):
    numbering = Numbering(lists, styles)
    return [numbering.number(paragraph).rstrip() for paragraph in root(*paragraphs)]


TWO = (level(0, "%1."), level(1, "%1.%2"))
STEPS = [in_list(1), in_list(1, 1), in_list(1, 1), in_list(1), in_list(1, 1)]


def test_a_number_may_have_those_of_the_levels_above():
    lists = root(base(0, *TWO), a_list(1, 0))
    assert numbers(lists, *STEPS) == ["1.", "1.1", "1.2", "2.", "2.1"]
    lists = root(base(0, level(0, "%1.", start=3), TWO[1]), a_list(1, 0))
    assert numbers(lists, in_list(1, 1)) == ["3.1"]


@pytest.mark.parametrize(
    ("form", "text", "said"),
    [
        ("upperRoman", "%1.%2", ["II.1", "II.2"]),
        ("lowerLetter", "(%1)(%2)", ["(b)(1)", "(b)(2)"]),
        ("bullet", "%1%2)", ["1)", "2)"]),
        ("chineseCounting", "%1.%2", ["二.1", "二.2"]),
        ("hindiCounting", "%1.%2", ["2.1", "2.2"]),
        ("decimal", "%4%2", ["1", "2"]),
    ],
)
def test_each_level_has_its_own_format(form, text, said):
    lists = root(base(0, level(0, "%1.", form, 2), level(1, text)), a_list(1, 0))
    assert numbers(lists, in_list(1), in_list(1, 1), in_list(1, 1))[1:] == said


@pytest.mark.parametrize(
    ("form", "start", "said"),
    [
        ("upperRoman", 4, "IV."),
        ("lowerRoman", 1988, "mcmlxxxviii."),
        ("upperRoman", 999999999, "?."),
        ("decimalZero", 7, "07."),
        ("decimalEnclosedCircle", 3, "③."),
        ("upperLetter", 26, "Z."),
        ("bullet", 1, ""),
        ("chineseCounting", 1, "一."),
        ("japaneseCounting", 10, "十."),
        ("chineseCountingThousand", 12, "十二."),
        ("taiwaneseCounting", 30, "三十."),
        ("chineseCounting", 47, "四十七."),
        ("chineseCounting", 105, "一〇五."),
        ("ideographDigital", 12, "一二."),
        ("hindiCounting", 1, ""),
    ],
)
def test_formats(form, start, said):
    assert numbers(root(base(0, level(0, "%1.", form, start)), a_list(1, 0)), in_list(1)) == [said]


def test_legal_numbers_are_decimal():
    legal = level(1, "%1.%2", more="<w:isLgl/>")
    lists = root(base(0, level(0, "%1.", "upperRoman"), legal), a_list(1, 0))
    assert numbers(lists, in_list(1), in_list(1, 1)) == ["I.", "1.1"]


def test_a_level_may_go_on_under_the_next_of_the_level_above():
    never = level(1, "%2.", more=tag("lvlRestart", 0))
    lists = root(base(0, level(0, "Part %1"), never), a_list(1, 0))
    assert numbers(lists, *STEPS) == ["Part 1", "1.", "2.", "Part 2", "3."]


def test_lists_of_one_base_continue_each_other_unless_they_restart():
    lists = root(
        base(0, *TWO), base(1, *TWO), a_list(1, 0), a_list(2, 0), a_list(3, 0, [(0, 5)]),
        a_list(4, 1), a_list(5, 0, [(0, "x")]),
    )  # fmt: skip
    order = [1, 1, 2, 4, 3, 3, 2, 3, 1, 5, 5]
    said = ["1.", "2.", "3.", "1.", "5.", "6.", "7.", "8.", "9.", "1.", "2."]
    assert numbers(lists, *map(in_list, order)) == said


def test_a_list_may_have_its_own_form_of_a_level():
    own = f'<w:lvlOverride w:ilvl="0">{level(0, "Q%1")}</w:lvlOverride>'
    lists = root(base(0, *TWO), a_list(1, 0), a_list(2, 0, more=own))
    assert numbers(lists, in_list(1), in_list(2)) == ["1.", "Q2"]


def test_a_base_may_be_that_of_a_style():
    lists = root(
        base(0, tag("numStyleLink", "Mine")), base(1, tag("styleLink", "Mine"), *TWO), a_list(1, 0)
    )
    assert numbers(lists, in_list(1)) == ["1."]


def style(name, of="", of_list=None):
    number = f"<w:pPr><w:numPr>{tag('numId', of_list)}</w:numPr></w:pPr>" if of_list else ""
    return f'<w:style w:type="paragraph" w:styleId="{name}">{tag("basedOn", of)}{number}</w:style>'


def test_styles_have_the_lists_of_those_they_are_based_on():
    styles = root(
        style("C", "B"), style("B", "A"), style("A", of_list=1), style("D", "A", 9),
        style("X", "Y"), style("Y", "X"), style("Z", "none"),
    )  # fmt: skip
    paragraphs = [f"<w:p><w:pPr>{tag('pStyle', name)}</w:pPr></w:p>" for name in "ABCDXYZ"]
    lists = root(base(0, *TWO), a_list(1, 0))
    assert numbers(lists, *paragraphs, styles=styles) == ["1.", "2.", "3.", "", "", "", ""]
