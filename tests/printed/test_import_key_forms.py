"""Keys of Chinese exams and of solutions: their forms, and numbers that begin again."""

import pytest
from exam import LISTS, QUESTIONS, RACE, STORY, TEXT, answers_of, bring

WHOLE = f"Cloze\n{STORY}\n{LISTS}\nReading\n{TEXT}\n{QUESTIONS}\n"
FORMS = {
    "letters in brackets": "Keys:\n36. (D) 37. (D) 38. (A) 39. (B) 40. (A)",
    "letters in square brackets": "Keys:\n36. [D] 37. [D]\n38. [A] 39. [B] 40. [A]",
    "brackets behind, as in CET": "Keys\n36. D) 37. D) 38. A) 39. B) 40. A)",
    "full stops, one per line": "Keys:\n36. D.\n37. D.\n38. A.\n39. B.\n40. A.",
    "semicolons": "36. D; 37. D; 38. A; 39. B; 40. A.",
    "with Q": "Answers: Q36 D, Q37 (d), Q38 a, Q39 B, Q40 (a)",
    "with a word": "Keys\nQuestion 36. D Question 37. D\nQuestion 38. A\nQ. 39. B Q. 40. A",
    "with a sign": "Answers: #36 d #37 d #38 a #39 b #40 a",
    "with the words": "Keys\n36. D (found) 37. D (own) 38. A (worried) 39. B 40. A",
    "behind its heading": "参考答案：36-38 DDA\n39-40 BA",
    "behind two headings": "【答案】36. D  37. D  38. A\n【答案】39. B  40. A",
    "with a Chinese word": "36—38小题：DDA\n39—40小题答案为BA",
    "after a sheet": (
        "答题卡\n36. [A] [B] [C] [D]   37. [A] [B] [C] [D]\n38 [A] [B] [C] [D]\n"
        "参考答案\n36-38 DDA 39-40 BA"
    ),
    "explained in the key": (
        "参考答案与解析\n"
        "36. 考查动词词义辨析。A. made制作；B. lost丢失；C. sold卖；D. found发现。故选D。\n"
        "37. D。考查动词。A. hear听见；B. cook做饭；C. hate恨；D. own拥有。\n38. A 考查形容词。\n"
        "39. B 根据 A simple test shows that 可知。\n40. 细节题。故选A。"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_forms_of_keys(tmp_path, name):
    papers, refused, _ = bring(tmp_path, WHOLE + FORMS[name])
    assert (answers_of(papers), refused) == (["DDA", "BA"], [])


def test_a_key_of_letters_beyond_g(tmp_path):
    words = [f"{letter}) word{letter.lower()}" for letter in "ABCDEFGHIJKLMNO"]
    bank = f"{STORY}\n" + "".join(f"{'   '.join(words[at : at + 5])}\n" for at in (0, 5, 10))
    for key in ("Keys:\n36. I) wordi\n37. O) wordo\n38. B) wordb", "Keys\n36-38\nIOB"):
        papers, refused, _ = bring(tmp_path, f"{bank}{key}\n")
        assert (answers_of(papers), refused) == (["IOB"], [])


def test_explanations_below_each_passage_are_no_text(tmp_path):
    """As in China's exams with solutions; the next passage begins after them."""
    solved = (
        "【答案】36. D    37. D    38. A\n【解析】\n【导语】本文是一篇记叙文。讲述了一个故事。\n"
        "【36题详解】\n考查动词词义辨析。句意：他发现了一个包。A. made制作；B. lost丢失；"
        "C. sold卖；D. found发现。故选D。\n【37题详解】\n考查动词。故选D项。\n"
        "根据“Nobody around him seemed to own it.”可知，故选D。\n"
    )
    text = f"一、完形填空\n{STORY}\n{LISTS}{solved}二、阅读理解\nA\n{TEXT}\n{QUESTIONS}"
    papers, refused, imports = bring(tmp_path, f"{text}【答案】39. B    40. A\n【分析】略。\n")
    assert (answers_of(papers), refused) == (["DDA", "BA"], [])
    assert papers[1]["article"] == RACE["article"]
    assert "explanation" in {line.why for found in imports for line in found.left_out}


@pytest.mark.parametrize("key", ["Cloze: DDA\nReading: BA", "Cloze 1-3 DDA\nReading 1-2 BA"])
def test_a_key_that_restarts_is_not_taken_for_agreeing_numbers(tmp_path, key):
    """1 and 2 are D in both parts of the first key, so nothing contradicts the paper's numbers."""
    text = WHOLE
    for old, new in ((36, 1), (37, 2), (38, 3), (39, 4), (40, 5)):
        text = text.replace(f"{old}.", f"{new}.").replace(f"__{old}__", f"__{new}__")
    for answers in (key, key.replace("BA", "DD")):
        papers, refused, _ = bring(tmp_path, f"{text}Keys:\n{answers}\n")
        assert refused == []
        assert answers_of(papers) == ["DDA", answers[-2:]]


def test_a_part_with_another_passages_label_is_refused(tmp_path):
    text = WHOLE
    for old, new in ((36, 1), (37, 2), (38, 3), (39, 4), (40, 5)):
        text = text.replace(f"{old}.", f"{new}.").replace(f"__{old}__", f"__{new}__")
    for key in ("Reading Comprehension\n1. A 2. B", "Reading\n1-2 AB"):
        inside = bring(tmp_path, f"{text}Keys:\n{key}\n")
        beside = bring(tmp_path, text, key=key)
        for papers, refused, imports in (inside, beside):
            assert refused == [1, 2, 3]
            assert answers_of(papers) == [""]
            said = [str(trouble) for found in imports for trouble in found.all_troubles()]
            assert any(
                "is labelled Reading" in line and "passage with 4-5" in line for line in said
            )


def test_letters_in_square_brackets_before_numbers(tmp_path):
    lists = LISTS
    for number, letter in ((36, "D"), (37, "D"), (38, "A")):
        lists = lists.replace(f"{number}.", f"【{letter}】{number}.")
    papers, refused, _ = bring(tmp_path, f"{STORY}\n{lists}\n")
    assert (answers_of(papers), refused) == (["DDA"], [])


def test_a_key_that_is_only_announced(tmp_path):
    _, _, imports = bring(tmp_path, f"{WHOLE}Keys:\nCloze: ABC\n")
    said = [str(trouble) for found in imports for trouble in found.all_troubles()]
    assert any("'Keys:' announces a key, but the lines below it cannot be read" in x for x in said)
