"""Score files put together: what is read, refused, fitted, kept and written."""

import json
from dataclasses import replace

import numpy as np
import pytest
from drawn_scores import softmax
from typer.testing import CliRunner

from albert_rc.errors import DataError
from albert_rc.papers.formats import read_split
from albert_rc.scoring.align import put_together
from albert_rc.scoring.ensemble.files import check_models, models_of, require_like
from albert_rc.scoring.score_file import read_scores


def line(paper="p", number=1, answer="A", chances=(0.7, 0.3), **others):
    record = {"paper": paper, "number": number, "answer": answer, "probabilities": list(chances)}
    return json.dumps({**record, **others})


GOOD = [line(), line(number=2, answer="B", chances=(0.2, 0.8)), line("q", chances=(0.5, 0.3, 0.2))]


def written(path, lines):
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (line(number=2, chances=(0.5, float("nan"))), "NaN or infinite"),
        (line(number=2).replace("0.3", "null"), "probability 2 is null, as NaN is written"),
        (line(number=2).replace("0.3", '"0.3"'), "probability 2 is '0.3', not a number"),
        (line(number=2, chances=(0.7, 0.2)), "sum to 0.9, not to 1"),
        (line(number=2, chances=(1.2, -0.2)), "probability 1 is 1.2, not between"),
        (line(number=2, chances=(1.0,)), "a list of two or more"),
        (line(number=2, answer="B"), "the answer is 'B', but A is likeliest"),
        (line(number=2, answer="D"), "the answer is 'D', but A is likeliest"),
        (line(number=3), "number 3 where number 2 was expected"),
        (line(number=1), "number 1 where number 2 was expected"),
        (line(number=2, temperature=2), "temperature differs from line 1"),
        (line(number=2, weights="b" * 16), "weights differs from line 1: scores of several models"),
        (line(number=2, id="p#2"), "only one of this line and line 1 has an id"),
        (
            '{"paper": "p", "number": 2, "answer": 3.5}',
            "only one of this line and line 1 has probabilities",
        ),
        ('{"id": "q", "null_odds": 1, "no_answer": 0.5, "best": []}', r"spans \(SQuAD\)"),
        ("[]", "must be an object"),
        ("{", "not JSON"),
    ],
)
def test_lines_that_are_no_scores_are_refused(tmp_path, bad, said):
    path = written(tmp_path / "s.jsonl", [line(weights="a" * 16), bad])
    with pytest.raises(DataError, match=rf"s\.jsonl, line 2: .*{said}"):
        read_scores(path)


def test_other_encodings(tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_text("\n".join(GOOD), "utf-8-sig")
    assert len(read_scores(path).keys) == 3
    path.write_text("\n".join(GOOD), "utf-16")
    with pytest.raises(DataError, match="is UTF-16; save it as UTF-8"):
        read_scores(path)


def test_one_model_read_in_two_ways_is_two_models(tmp_path):
    """Exchanged, each would get the other's weight."""
    long, short = (
        read_scores(written(tmp_path / f"{window}.jsonl", [
            line(chances=(chance, 1 - chance), weights="a" * 16, reading={"window": window})
        ]))
        for window, chance in ((512, 0.7), (64, 0.8))
    )  # fmt: skip
    models = models_of([long, short])
    check_models([long, short], models)
    with pytest.raises(DataError, match="is score file number 1 here, but its model was number 2"):
        check_models([short, long], models)
    other = replace(long, sha256="other", reading={"window": 128}, weights=None)
    with pytest.raises(
        DataError, match=r"made with window 128, but .* of the fit, with window 512"
    ):
        check_models([other, short], models)


def test_a_fit_keeps_its_labels(tmp_path):
    gold = tmp_path / "dev.tsv"
    names = ("entailment", "not_entailment")
    rows = [f"One {i}.\tTwo {i}.\t{names[i % 3 > 0]}" for i in range(12)]
    gold.write_text("\n".join(["sentence1\tsentence2\tlabel", *rows, ""]))
    paths = []
    for model in range(2):
        chances_QK = softmax(np.random.default_rng(model).normal(size=(12, 2))).round(6)
        lines = [
            line(f"{row}", answer=names[int(chances.argmax())], chances=chances)
            for row, chances in enumerate(chances_QK, 2)
        ]
        paths.append(written(tmp_path / f"{model}.jsonl", lines))
    fit = tmp_path / "fit.json"
    done = run(*paths, "--gold", gold, "--format", "rte", "--fit", fit, "--method", "weights")
    assert done.exit_code == 0, done.exception
    assert json.loads(fit.read_text())["labels"] == list(names)

    def answered(name, out):
        """Where all answers are the same, nothing else shows the other label's name."""
        first = line("2", answer=name, chances=(0.1, 0.9))
        files = [
            written(tmp_path / f"one{i}.jsonl", [first, line("3", 1, name, (c, 1 - c))])
            for i, c in enumerate((0.3, 0.2))
        ]
        return run(*files, "--use", fit, "--out", tmp_path / out)

    assert answered("not_entailment", "a.json").exit_code == 0
    assert "its labels are not entailment, not" in str(answered("neutral", "b.json").exception)


@pytest.mark.parametrize(
    ("others", "said"),
    [
        (GOOD, r"b\.jsonl: all scores are the same as in .*a\.jsonl"),
        ([*GOOD, ""], r"all scores are the same as in"),
        (
            [GOOD[0], GOOD[1], line("r")],
            r"b\.jsonl, line 3: paper 'r', number 1, is not in .*a\.js",
        ),
        (GOOD[:2], r"a\.jsonl, line 3: paper 'q', number 1, is not in .*b\.jsonl"),
        ([*GOOD[:2], line("q")], r"b\.jsonl, line 3: 2 options, but 3 in .*a\.jsonl, line 3"),
        (['{"paper": "p", "number": 1, "answer": 3.5}'], r"b\.jsonl has numbers, but"),
        (
            [line(chances=(0.6, 0.4), id="p#1")],
            r"b\.jsonl: has ids of questions, unlike .*a\.jsonl",
        ),
    ],
)
def test_files_that_do_not_go_together_are_refused(tmp_path, others, said):
    paths = [written(tmp_path / "a.jsonl", GOOD), written(tmp_path / "b.jsonl", others)]
    with pytest.raises(DataError, match=said):
        put_together([read_scores(path) for path in paths])


def test_another_order_of_the_papers_is_put_right(tmp_path):
    other = [line("q", chances=(0.6, 0.2, 0.2)), line(chances=(0.9, 0.1)), GOOD[1]]
    paths = [written(tmp_path / "a.jsonl", GOOD), written(tmp_path / "b.jsonl", other)]
    first, second = put_together([read_scores(path) for path in paths])
    assert first.keys == second.keys
    assert second.chances_QK[:, 0] == pytest.approx([0.9, 0.2, 0.6])


def test_a_tie_of_rounding_is_the_answers(tmp_path):
    path = written(tmp_path / "a.jsonl", [line(answer="B", chances=(0.5, 0.5))])
    assert read_scores(path).chances_QK.argmax(-1).tolist() == [1]


def test_what_was_rounded_to_zero_stays_the_least(tmp_path):
    """Of other programs' files with six decimals, and of ours with six digits."""
    for least, expected in ((0.5, 5e-7), (1e-9, 1e-9)):
        texts = [line(chances=(1 - least, least)), line("q", chances=(1.0, 0.0))]
        found = read_scores(written(tmp_path / "a.jsonl", texts)).chances_QK
        assert found[1, 1] == pytest.approx(expected, rel=1e-3)


def test_scores_read_in_another_way_do_not_fit(score_files, sample, tmp_path):
    dev, kept = score_files("cloze", "dev"), tmp_path / "fit.json"
    assert run(*dev, "--gold", sample / "cloze" / "dev", "--fit", kept).exit_code == 0
    lines = [json.loads(text) | {"option_score": "pll"} for text in dev[0].read_text().splitlines()]
    dev[0].write_text("".join(json.dumps(x) + "\n" for x in lines))
    refused = run(*dev, "--use", kept, "--out", tmp_path / "a.json")
    assert "made with --option-score pll, but" in str(refused.exception)


def test_scores_of_other_weights_or_questions_do_not_fit(tmp_path):
    dev = [
        read_scores(written(tmp_path / f"{name}.jsonl", [line(weights=name * 16), GOOD[1]]))
        for name in "ab"
    ]
    models = models_of(dev)

    def test_scores(weights, **more):
        lines = [line(number=1, **weights, **more), line(number=2, **more)]
        return read_scores(written(tmp_path / "test.jsonl", lines))

    check_models([test_scores({"weights": "a" * 16}), test_scores({"weights": "b" * 16})], models)
    check_models([test_scores({}), test_scores({})], models)  # their weights are not known
    with pytest.raises(DataError, match=r"made with different weights than .*b\.jsonl, of the fit"):
        check_models([test_scores({}), test_scores({"weights": "c" * 16})], models)
    with pytest.raises(DataError, match=r"a\.jsonl, which has answers to blanks; give"):
        check_models([test_scores({}, id="p#1"), test_scores({})], models)
    # Fits of earlier versions do not say.
    for model in models:
        del model["questions"], model["weights"]
    check_models([test_scores({"weights": "c" * 16}, id="p#1")] * 2, models)


def test_labels_get_their_names_from_lines_without_a_tie(tmp_path):
    tied = line("1", answer="yes", chances=(0.5, 0.5))
    rest = [line("2", answer="no", chances=(0.6, 0.4)), line("3", answer="yes", chances=(0.1, 0.9))]
    found = read_scores(written(tmp_path / "a.jsonl", [tied, *rest]))
    assert found.labels == {0: "no", 1: "yes"}
    assert found.chances_QK.argmax(-1).tolist() == [1, 0, 1]
    two_names = [*rest, line("4", answer="yes", chances=(0.9, 0.1))]
    with pytest.raises(DataError, match=r"line 3: the likeliest label, number 1, is called 'yes'"):
        read_scores(written(tmp_path / "b.jsonl", two_names))


def run(*arguments):
    from albert_rc.cli.app import app

    return CliRunner().invoke(app, ["ensemble", *map(str, arguments)])


@pytest.fixture
def score_files(sample, tmp_path):
    """Writes score files of three models for a split of the sample, with or without ids."""

    def write(name, split, seed=0):
        papers = read_split(sample / name / split)
        paths = []
        for model in range(3):
            rng = np.random.default_rng([seed, model, split == "dev"])
            lines = []
            for passage in papers.passages:
                for number, question in enumerate(passage.questions, 1):
                    logits = rng.normal(size=len(question.options))
                    if question.answer is not None:
                        logits[question.answer] += model + 0.5
                    chances = [round(float(c), 6) for c in softmax(logits)]
                    key = {} if name == "cloze" else {"id": f"{passage.id}#{number}"}
                    answer = "ABCDEFG"[int(np.argmax(chances))]
                    lines.append(line(passage.id, number, answer, chances, **key))
            paths.append(written(tmp_path / f"{name}-{split}-{model}.jsonl", lines))
        return paths

    return write


@pytest.mark.parametrize("name", ["cloze", "race"])
def test_plain_means_need_no_gold(score_files, sample, tmp_path, name):
    paths = score_files(name, "test")
    out, scores = tmp_path / "answer.json", tmp_path / "all.jsonl"
    done = run(*paths, "--out", out, "--scores", scores, "--abstain", 0.5)
    assert done.exit_code == 0, (done.output, done.exception)
    assert "not calibrated" in done.output
    answers = json.loads(out.read_text())
    papers = read_split(sample / name / "test")
    whole = read_scores(scores)
    assert len(whole.keys) == papers.num_questions
    mean = np.mean([read_scores(path).chances_QK for path in paths], 0)
    assert np.abs(mean - whole.chances_QK).max() < 1e-5
    if name == "cloze":
        assert [a for paper in papers.ids for a in answers[paper]] == whole.answers
    else:
        assert list(answers.items()) == list(zip(whole.ids, whole.answers, strict=True))
    listed = (tmp_path / "answer.unsure.jsonl").read_text().splitlines()
    assert len(listed) == (whole.chances_QK.max(-1) < 0.5).sum()
    outdated = f"note: {tmp_path / 'answer.unsure.jsonl'} is about earlier answers"
    assert outdated not in done.output
    assert outdated in run(*paths, "--out", out).output


def test_a_fit_is_kept_and_used(score_files, sample, tmp_path):
    dev, test = score_files("cloze", "dev"), score_files("cloze", "test")
    gold = ("--gold", sample / "cloze" / "dev", "--method", "weights", "--folds", 3)
    at_once, kept, later = (tmp_path / name for name in ("a.json", "fit.json", "b.json"))
    pairs = [part for path in dev for part in ("--dev-scores", path)]
    done = run(*test, *pairs, *gold, "--fit", kept, "--out", at_once, "--json")
    assert done.exit_code == 0, (done.output, done.exception)
    assert run(*dev, *gold).exit_code == 0
    record = json.loads(kept.read_text())
    assert record["method"] == "weights"
    assert sum(model["weight"] for model in record["models"]) == pytest.approx(1)
    done = run(*test, "--use", kept, "--out", later)
    assert done.exit_code == 0, (done.output, done.exception)
    assert at_once.read_bytes() == later.read_bytes()
    done = run(*dev, "--use", kept, "--out", later)
    assert "the fit was made on" in done.output
    refused = run(*test[:2], "--use", kept, "--out", later)
    assert isinstance(refused.exception, DataError)
    assert "2 score files, but the fit is of 3 models" in str(refused.exception)
    kept.write_text("{}")
    assert "not the fit" in str(run(*test, "--use", kept, "--out", later).exception)


def test_swapped_models_are_refused_where_the_files_show_it(score_files, sample, tmp_path):
    dev = score_files("cloze", "dev")
    gold = ("--gold", sample / "cloze" / "dev", "--method", "weights")
    swapped = [part for path in (dev[1], dev[0], dev[2]) for part in ("--dev-scores", path)]
    refused = run(*dev, *swapped, *gold)
    assert isinstance(refused.exception, DataError)
    assert "is score file number 1 here, but its model was number 2 in the fit" in str(
        refused.exception
    )
    kept = tmp_path / "fit.json"
    assert run(*dev, *gold, "--fit", kept).exit_code == 0
    refused = run(*reversed(dev), "--use", kept, "--out", tmp_path / "a.json")
    assert "is score file number 1 here, but its model was number 3" in str(refused.exception)
    pairs = [part for path in dev for part in ("--dev-scores", path)]
    done = run(*dev, *pairs, *gold, "--out", tmp_path / "a.json")
    assert done.output.count("the fit was made on") == 3
    assert (
        run(*dev, "--use", dev[0], "--out", tmp_path / "a.json")
        .exception.args[0]
        .startswith(f"{dev[0]}: not the fit of an ensemble")
    )


def test_models_are_told_by_their_weights(score_files, sample, tmp_path):
    """Of other papers' scores nothing but the weights' name says whose they are."""
    dev, test = score_files("cloze", "dev"), score_files("cloze", "test")
    for paths in (dev, test):
        for path, (weights, way) in zip(
            paths, (("aa", None), ("bb", None), ("bb", "pll")), strict=True
        ):
            texts = [json.loads(text) for text in path.read_text().splitlines()]
            texts = [text | ({"option_score": way} if way else {}) for text in texts]
            texts[0]["weights"] = weights
            path.write_text("".join(json.dumps(text) + "\n" for text in texts))
    kept, out = tmp_path / "fit.json", tmp_path / "a.json"
    assert run(*dev, "--gold", sample / "cloze" / "dev", "--fit", kept).exit_code == 0
    assert run(*test, "--use", kept, "--out", out).exit_code == 0
    refused = run(test[1], test[0], test[2], "--use", kept, "--out", out)
    assert "is score file number 1 here, but its model was number 2" in str(refused.exception)


def test_the_order_of_lines_changes_no_figure(score_files, sample, tmp_path):
    dev = score_files("cloze", "dev")
    lines = dev[0].read_text().splitlines()
    papers = {}
    for text in lines:
        papers.setdefault(json.loads(text)["paper"], []).append(text)
    other = written(tmp_path / "other.jsonl", [t for p in reversed(papers.values()) for t in p])
    gold = ("--gold", sample / "cloze" / "dev", "--method", "best", "--json")
    done = [run(path, *dev[1:], *gold).stdout for path in (dev[0], other)]
    first, second = (
        text.replace(str(path), "") for text, path in zip(done, (dev[0], other), strict=True)
    )
    assert first == second


def test_what_was_recalled_is_carried_on_and_not_fitted(score_files, sample, tmp_path):
    dev = score_files("cloze", "dev")
    for path, reading in zip(dev, "BBC", strict=True):
        first, *rest = map(json.loads, path.read_text().splitlines())
        path.write_text("".join(json.dumps(x) + "\n" for x in ({**first, "read": reading}, *rest)))
    whole = tmp_path / "all.jsonl"
    assert run(*dev, "--out", tmp_path / "a.json", "--scores", whole).exit_code == 0
    read = read_scores(whole).read
    assert (read[0], set(read[1:])) == ("B", {None})
    refused = run(*dev, "--gold", sample / "cloze" / "dev")
    assert "the scores of --gold contain 1 answer recalled" in str(refused.exception)


def test_a_score_file_can_be_evaluated(score_files, sample, tmp_path):
    from albert_rc.scoring.evaluate import read_answers

    for name in ("cloze", "race"):
        papers = read_split(sample / name / "dev").passages
        for path in score_files(name, "dev"):
            assert read_answers(path, papers) == read_scores(path).answers


def test_gold_of_other_papers_is_refused(score_files, sample):
    dev = score_files("cloze", "dev")
    refused = run(*dev, "--gold", sample / "cloze" / "train")
    assert "is not among the papers; give the papers" in str(refused.exception)
    assert "line 1" in str(refused.exception)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--method", "greedy", "--out", "a"], "give --gold"),
        (["--method", "median", "--out", "a"], "--method median: choose from"),
        (["--use", "f", "--method", "ranks", "--out", "a"], "leave out --gold and --method"),
        (["--fit", "f", "--out", "a"], "--fit needs --gold"),
        (["--abstain", "0.5", "--gold", "g"], "--abstain needs --out"),
        ([], "give --out FILE"),
        (["--abstain", "7", "--out", "a"], "must be above 0 and at most 1"),
        (["--out", "a", "--json"], "--json needs --gold"),
        (["--out", "a", "--set", "folds=5"], "--folds needs --gold"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options, said):
    assert said in str(run("a.jsonl", "b.jsonl", *options).exception)
    assert "two score files" in str(run("a.jsonl", "--out", "a").exception)


MRPC = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n" + "".join(
    f"{n % 2}\t{n}\t{n}\tA {n}.\tB {n}.\n" for n in range(6)
)


def test_labels_of_papers_with_fewer_of_them_are_refused(tmp_path):
    file = read_scores(written(tmp_path / "a.jsonl", [line("x", answer="b", chances=(0.2, 0.8))]))
    for labels in ((), ("a",)):
        with pytest.raises(DataError, match="its labels are not"):
            require_like(file, file, labels)


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        ([line("x", answer="yes", chances=(0.2, 0.8)), line("y", answer="no")],
         "its labels are not 0, 1, in that order"),
        ([line("x", answer="b", chances=(0.2, 0.7, 0.1))], "it has 3 labels, not 2"),
        ([line("x", answer="B", chances=(0.2, 0.8))], "holds letters, but the fit"),
    ],
)  # fmt: skip
def test_a_fit_answers_only_scores_of_its_own_task(tmp_path, scores, said):
    (tmp_path / "dev.tsv").write_text(MRPC)
    dev = [line(str(n + 1), answer=str(n % 2), chances=((0.8, 0.2), (0.1, 0.9))[n % 2])
           for n in range(6)]  # fmt: skip
    both = []
    for lines in (dev, scores):
        also = [x.replace("0.2", "0.25").replace("0.8", "0.75").replace("0.1]", "0.05]")
                for x in lines]  # fmt: skip
        both.append([written(tmp_path / f"{len(both)}{n}.jsonl", x)
                     for n, x in enumerate((lines, also))])  # fmt: skip
    files, others = both
    fit, out = tmp_path / "fit.json", tmp_path / "a.json"
    refused = run(*others, "--gold", tmp_path / "dev.tsv", "--dev-scores", files[0],
                  "--dev-scores", files[1], "--out", out, "--fit", fit)  # fmt: skip
    assert said in str(refused.exception)
    assert not fit.exists()
    assert not out.exists()


def test_labels_and_numbers(tmp_path):
    out = tmp_path / "answer.json"
    one = [line("1", answer="no", chances=(0.4, 0.6)), line("2", answer="yes", chances=(0.9, 0.1))]
    two = [line("1", answer="yes", chances=(0.8, 0.2)), line("2", answer="no", chances=(0.3, 0.7))]
    paths = [written(tmp_path / f"{i}.jsonl", lines) for i, lines in enumerate((one, two))]
    assert run(*paths, "--out", out).exit_code == 0
    assert json.loads(out.read_text()) == {"1": "yes", "2": "yes"}
    swapped = [
        line("1", answer="no", chances=(0.8, 0.2)),
        line("2", answer="no", chances=(0.9, 0.1)),
    ]
    paths = [paths[0], written(tmp_path / "swapped.jsonl", swapped)]
    assert "must be of the same task" in str(run(*paths, "--out", out).exception)
    never = [written(tmp_path / f"never{i}.jsonl", [o[1 - i]]) for i, o in enumerate((one, two))]
    never[0].write_text(line("1", answer="yes", chances=(0.9, 0.1)) + "\n")
    never[1].write_text(line("1", answer="yes", chances=(0.8, 0.2)) + "\n")
    assert "label 2 of 2 is never an answer" in str(run(*never, "--out", out).exception)
    numbers = [
        written(tmp_path / f"n{i}.jsonl", [json.dumps({"paper": "1", "number": 1, "answer": v})])
        for i, v in enumerate((2.5, 4.0))
    ]
    assert run(*numbers, "--out", out).exit_code == 0
    assert json.loads(out.read_text()) == {"1": 3.25}
    assert "can only be averaged" in str(run(*numbers, "--gold", "g").exception)
