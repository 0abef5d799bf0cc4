import base64
import hashlib
import json
import re
from html import unescape

import numpy as np
import pytest
from conftest import SAMPLE
from fabricated import HOSTILE, fabricate, repeated, score_file

from albert_rc.errors import DataError, UsageError
from albert_rc.io.json import write_json
from albert_rc.papers.formats import read_split
from albert_rc.papers.schema import Passage, Question, letter
from albert_rc.report.content import embedded
from albert_rc.report.figures import figures_of, weak_slices
from albert_rc.report.page import render
from albert_rc.report.reliability import loss_of, reliability_of
from albert_rc.report.runs import read_run, run_names
from albert_rc.scoring.accuracy import accuracy, by_group, compare
from albert_rc.scoring.confidence import measure
from albert_rc.scoring.evaluate import Evaluation, evaluate
from albert_rc.scoring.slices import slices_of

DEV = SAMPLE / "cloze" / "dev"


@pytest.fixture(scope="module")
def papers():
    return read_split(DEV).passages


def data_of(page):
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    return json.loads(found)


def page_of(papers, *runs, kind="cloze", train=None, name="dev"):
    return render(figures_of(kind, papers, runs, train), papers, name).decode()


def test_the_figures_are_those_of_evaluate(papers, tmp_path, works):
    for number in (1, 2):
        run = fabricate(papers, number)
        (tmp_path / f"{number}.jsonl").write_bytes(score_file(run, papers))
        places = iter(run.letters)
        answers = {p.id: [next(places) for _ in p.questions] for p in papers}
        write_json(tmp_path / f"{number}.json", answers)
    page = tmp_path / "report.html"
    done = works(
        "report", tmp_path / "1.jsonl", DEV, "--against", tmp_path / "2.jsonl", "--out", page,
        "--json",
    )  # fmt: skip
    shown = json.loads(done.stdout)
    done = works("evaluate", tmp_path / "1.json", DEV, "--against", tmp_path / "2.json", "--json")
    expected = json.loads(done.stdout)
    against = expected.pop("against")
    assert {key: shown[key] for key in expected} == expected
    assert {key: shown["against"][key] for key in against} == against
    assert shown["bytes"] == page.stat().st_size
    text = unescape(page.read_text())
    assert f"{shown['accuracy']:.1%}" in text
    assert f"{100 * shown['low']:.1f} to {100 * shown['high']:.1f}%" in text
    assert f"on {against['only_second_right']}. Gain of the first run" in " ".join(text.split())
    assert f"(p = {against['gain']['permutation_p']:.2g}, permutation test over papers)" in text
    for groups in expected["groups"].values():
        for name, part in groups.items():
            assert len(groups) == 1 or (name in text and f"{part['accuracy']:.1%}" in text)


def test_the_page_holds_every_paper_and_answer(papers):
    first, second = fabricate(papers, 1, "one"), fabricate(papers, 2, "two")
    data = data_of(page_of(papers, first, second))
    assert data["runs"] == ["one", "two"]
    assert [paper[0] for paper in data["papers"]] == [p.id for p in papers]
    place = 0
    for (_, losses, parts, questions), passage in zip(data["papers"], papers, strict=True):
        assert "_".join(parts) == passage.text
        row = []
        for (options, gold, chosen, chances, groups), question in zip(
            questions, passage.questions, strict=True
        ):
            assert (tuple(options), gold) == (question.options, question.answer)
            assert chosen == [first.chosen[place], second.chosen[place]]
            given = first.probabilities[place]
            assert chances[0] == [int(10_000 * p + 1e-6) for p in given]
            assert len(groups) == len(data["slices"])
            row.append(loss_of(given[gold]))
            place += 1
        assert losses[0] == pytest.approx(sum(row) / len(row), abs=6e-4)


def test_papers_cannot_speak_to_the_browser(papers):
    papers = [HOSTILE, *papers]
    run = fabricate(papers, 1, '"><script>hacked=1</script>')
    page = page_of(papers, run, name="<b>name</b>")
    assert re.findall(r"<script[^>]*>", page) == [
        '<script type="application/json" id="data">', "<script>",
    ]  # fmt: skip
    assert page.count("</script") == 2
    assert page.count("<style") == page.count("</style") == 1
    assert "<!--" not in page
    assert "<b>" not in page
    paper = data_of(page)["papers"][0]
    assert paper[0] == HOSTILE.id
    assert "_".join(paper[2]) == HOSTILE.text
    assert [tuple(q[0]) for q in paper[3]] == [q.options for q in HOSTILE.questions]


def test_nothing_comes_from_elsewhere(papers):
    page = page_of(papers, fabricate(papers))
    policy = unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1])
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for name, tag in (("script", "script"), ("style", "style")):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.S)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in policy
    assert re.findall(r'(?:src|href|action)="([^"]*)"', page) == ["#papers"]
    assert not re.search(r"https?:|@import|url\(|style=\"", page)
    assert page == page_of(papers, fabricate(papers))


def test_without_gold_nothing_is_right_or_wrong():
    papers = read_split(SAMPLE / "cloze" / "test").passages
    page = page_of(papers, fabricate(papers), fabricate(papers, 1))
    assert "No key" in page
    assert "unsure only" in page
    assert "wrong only" not in page
    assert "What differs" in page
    assert {q[1] for paper in data_of(page)["papers"] for q in paper[3]} == {-1}
    figures = figures_of("cloze", papers, [fabricate(papers)])
    assert "accuracy" not in figures.as_json()


def test_answers_alone_will_do(papers, tmp_path):
    write_json(tmp_path / "answer.json", {p.id: ["A"] * len(p.questions) for p in papers})
    run = read_run(tmp_path / "answer.json", papers, "answer.json")
    assert run.probabilities is None
    page = page_of(papers, run)
    assert "wrong only" in page
    assert "unsure only" not in page
    assert "Are the probabilities" not in page
    assert {chance for p in data_of(page)["papers"] for q in p[3] for chance in q[3]} == {0}
    assert "Are the probabilities" in page_of(papers, run, fabricate(papers))


def test_a_pupil_may_have_left_blanks_empty(papers, tmp_path):
    answers = {p.id: [letter(q.answer) for q in p.questions] for p in papers}
    answers[papers[0].id][1] = "-"
    write_json(tmp_path / "answer.json", answers)
    run = read_run(tmp_path / "answer.json", papers, "answer.json")
    assert run.chosen[:3] == [papers[0].questions[0].answer, -1, papers[0].questions[2].answer]
    page = page_of(papers, run)
    assert data_of(page)["papers"][0][3][1][2] == [-1]
    assert "blanks without an answer" in page
    evaluation = figures_of("cloze", papers, [run]).runs[0].evaluation
    assert evaluation.total.total - evaluation.total.correct == evaluation.unanswered == 1


@pytest.mark.parametrize("name", ["race", "dream"])
def test_multiple_choice(name):
    gold = SAMPLE / name / ("dev.json" if name == "dream" else "dev")
    papers = read_split(gold).passages
    run = fabricate(papers)
    data = data_of(page_of(papers, run, kind="choice"))
    assert [p[2] for p in data["papers"]] == [[p.text] for p in papers]
    asked = [q[5] for p in data["papers"] for q in p[3]]
    assert asked == [q.text for p in papers for q in p.questions]
    assert "question type" in [kind for kind, _ in data["slices"]]


def test_only_options_can_be_shown(tmp_path, cli):
    (tmp_path / "s.jsonl").write_text("{}")
    (tmp_path / "dev.tsv").write_text("sentence\tlabel\nfine words\t1\n")
    done = cli("report", tmp_path / "s.jsonl", tmp_path / "dev.tsv", "--out", tmp_path / "r.html")
    assert done.returncode == 2
    assert "albert-rc evaluate" in done.stderr
    assert not (tmp_path / "r.html").exists()
    done = cli("report", tmp_path / "s.jsonl", DEV, "--out", tmp_path / "s.jsonl")
    assert done.returncode == 2
    assert "one of the input files" in done.stderr
    with pytest.raises(UsageError, match="options to choose from"):
        figures_of("span", [], [])


ASKED = [Passage("a", "_ _", (Question(("x", "y"), 0),) * 2, "cloze", ((0, 1), (2, 3)))]
GOOD = [
    {"paper": "a", "number": 1, "answer": "A", "probabilities": [0.9, 0.1]},
    {"paper": "a", "number": 2, "answer": "B", "probabilities": [0.4, 0.6]},
]


def scores(tmp_path, lines):
    path = tmp_path / "scores.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def test_scores_in_another_order_of_papers(tmp_path):
    papers = [*ASKED, Passage("b", "_", (Question(("x", "y"), 0),), "cloze", ((0, 1),))]
    last = {"paper": "b", "number": 1, "answer": "A", "probabilities": [0.7, 0.3]}
    for lines in ([*GOOD, last], [last, *GOOD]):
        run = read_run(scores(tmp_path, lines), papers, "run")
        assert (run.letters, run.chosen) == (["A", "B", "A"], [0, 1, 0])
        assert run.confidence == pytest.approx([0.9, 0.6, 0.7])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"paper": "b", "number": 1}, "line 2: paper 'b', number 1, is not among the papers"),
        ({"number": 3}, "line 2: paper 'a' has number 3 where number 2"),
        ({"answer": "C"}, "line 2: the answer is 'C', but B is likeliest"),
        ({"probabilities": [0.2, 0.5, 0.3]}, "line 2: 3 options, but the paper has 2"),
        ({"probabilities": [0.5, 0.2]}, "line 2: the probabilities sum to 0.7"),
    ],
)
def test_scores_that_do_not_fit_are_refused(tmp_path, change, said):
    """What is checked of a line alone is tested with `score_files`."""
    path = scores(tmp_path, [GOOD[0], GOOD[1] | change])
    with pytest.raises(DataError, match=said):
        read_run(path, ASKED, "run")


def test_scores_must_be_whole(tmp_path):
    with pytest.raises(DataError, match=r"1 of 2 questions have no line.*\n  a, number 2"):
        read_run(scores(tmp_path, GOOD[:1]), ASKED, "run")


def test_runs_called_alike_are_told_apart(tmp_path):
    assert run_names([tmp_path / "a.jsonl", tmp_path / "b.jsonl"]) == ["a.jsonl", "b.jsonl"]
    assert run_names([tmp_path / "a" / "s", tmp_path / "b" / "s"]) == ["a/s", "b/s"]
    deep = [tmp_path / name / "dev" / "s" for name in "ab"]
    assert run_names(deep) == ["a/dev/s", "b/dev/s"]
    with pytest.raises(UsageError, match="is the same file"):
        run_names([tmp_path / "a", tmp_path / "b" / ".." / "a"])


def test_a_score_file_where_papers_or_answers_are_wanted(tmp_path):
    path = scores(tmp_path, GOOD)
    with pytest.raises(DataError, match="give the raw papers instead"):
        read_split(path)
    other = path.rename(tmp_path / "scores.txt")
    with pytest.raises(DataError, match=r"whose name must end in \.jsonl"):
        read_run(other, ASKED, "run")


def test_a_probability_below_a_threshold_stays_below(papers):
    """0.899996 is no 90%; 0.57 is not below 57%, though 10,000 times it is 5699.99..."""
    run = fabricate(papers)
    run.probabilities[0] = [0.899996, 0.57, *[0.0] * (len(run.probabilities[0]) - 2)]
    data = data_of(page_of(papers, run))
    assert data["papers"][0][3][0][3][0][:2] == [8999, 5700]


def test_gains_have_intervals(papers):
    papers = repeated(papers, 40)
    first, second = fabricate(papers, 1), fabricate(papers, 2)
    figures = figures_of("cloze", papers, [first, second])
    values = [each.evaluation.total.value for each in figures.runs]
    assert figures.gain.value == pytest.approx(values[0] - values[1])
    assert figures.gain.low < figures.gain.value < figures.gain.high
    for kind, groups in figures.gains.items():
        for name, gain in groups.items():
            parts = [each.evaluation.groups[kind][name].value for each in figures.runs]
            assert gain.value == pytest.approx(parts[0] - parts[1])
    said = figures.as_json()["against"]
    assert said["gain"]["low"] == pytest.approx(figures.gain.low, abs=1e-6)
    assert said["gains"].keys() == figures.gains.keys()


def test_calibration_by_hand():
    found = reliability_of(
        [0.95, 0.95, 0.6, 0.6], [True, True, True, False], [0.1] * 4, list("abcd")
    )
    assert [(b.low, b.high, b.accuracy.total) for b in found.bins] == [(0.5, 0.6, 2), (0.9, 1.0, 2)]
    assert found.error == pytest.approx(0.5 * 0.1 + 0.5 * 0.05)
    assert found.loss == pytest.approx(0.1)
    assert found.as_json()["loss_low"] is None  # of four papers
    sure = reliability_of([1.0, 0.0], [True, False], [0, 0], ["a", "b"])
    assert (sure.error, [b.low for b in sure.bins]) == (0, [0.0, 0.9])
    assert loss_of(0) > loss_of(1e-9) > loss_of(0.5)


def test_the_calibration_error_is_that_of_evaluate():
    draw = np.random.default_rng(0)
    chances_QK = draw.dirichlet(np.ones(4), 200)
    gold_Q = draw.integers(4, size=200)
    chosen_Q = chances_QK.argmax(1)
    found = reliability_of(
        chances_QK.max(1).tolist(), (chosen_Q == gold_Q).tolist(), [1.0] * 200, ["a"] * 200
    )
    assert found.error == pytest.approx(measure(chances_QK, gold_Q).ece)


def test_what_stands_out(papers):
    """A slice is pointed at only if all of its interval is below the whole."""
    papers = repeated(papers, 40)
    run = fabricate(papers)
    for i, passage in enumerate(p for p in papers for _ in p.questions):
        if passage.level == "high":
            run.letters[i] = "D"
    found = evaluate(run.letters, papers)
    weak = figures_of("cloze", papers, [run]).weak
    assert (weak[0].kind, weak[0].name) == ("level", "high")
    assert all(found.groups[w.kind][w.name].high < found.total.value for w in weak)


def test_slices_that_differ_by_chance_hardly_stand_out():
    """In 80 such reports, 5% name one, and 42% would if the interval only had to exclude it."""
    draw, named = np.random.default_rng(1), 0
    for _ in range(40):
        right = (draw.random(2400) < 0.6).tolist()
        papers = np.repeat(np.arange(120), 20).tolist()
        groups = by_group(right, papers, [str(x) for x in draw.integers(20, size=2400)])
        named += bool(
            weak_slices(
                Evaluation(
                    total=accuracy(right, papers),
                    groups={"x": groups},
                    chance=0.25,
                    no_reading=None,
                    unanswered_gold=0,
                    unanswered=0,
                )
            )
        )
    assert named <= 6  # about 2; 17 if an interval only had to exclude the whole


def test_question_types_and_options():
    def asked(*texts):
        questions = tuple(Question(("a b", "c"), 0, text) for text in texts)
        return Passage("p", "text", questions, "choice")

    found = slices_of(
        [asked("In what year did it end?", "To whom was it sold?", "It is _ .", "Is it?")]
    )
    assert found["question type"] == ["what", "who", "to be completed", "other"]
    assert "options" not in found
    assert slices_of(ASKED)["options"] == ["of one word each"] * 2


def test_four_hundred_papers_are_small(real_data):
    papers = read_split(real_data / "ele" / "dev").passages
    runs = [fabricate(papers, seed, f"run {seed}") for seed in (1, 2)]
    page = page_of(papers, *runs)
    assert len(papers) == 400
    assert len(page.encode()) < 3_000_000
    letters = [run.letters for run in runs]
    assert compare(*letters, letters[0]).agreement < 1


def test_embedded_json_is_the_same_json():
    value = {"</script>": ["<!--", "\u2028", "&<>\"'"]}
    assert "<" not in embedded(value)
    assert json.loads(embedded(value)) == value
