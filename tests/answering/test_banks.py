"""Papers with one list of options for all blanks, of which each is used at most once."""

import json
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
import torch

from albert_rc import answer
from albert_rc.answering.banks import banks, best_options, solve
from albert_rc.answering.lookup import Recalled
from albert_rc.answering.quality import quality
from albert_rc.answering.score import answers_of, describe, score_lines
from albert_rc.errors import DataError
from albert_rc.io.json import json_lines
from albert_rc.papers.formats import read_good
from albert_rc.scoring.calibration import calibrate
from albert_rc.scoring.each_once import assigned, each_once, with_likeliest
from albert_rc.scoring.ensemble.mix import Pool, fit
from albert_rc.scoring.score_file import read_scores
from albert_rc.stores.store import make_store

WORDS = ["house", "river", "bread", "winter", "friend", "summer"]


def paper(blanks=4, words=WORDS):
    return {
        "article": "He saw the _ again . " * blanks,
        "options": [list(words)] * blanks,
        "answers": list("ABCDEF"[:blanks]),
    }


def exact(chance_BK):
    """Each blank's probabilities, by all choices of different options."""
    blanks, options = chance_BK.shape
    found = np.zeros_like(chance_BK)
    for chosen in permutations(range(options), blanks):
        found[range(blanks), chosen] += chance_BK[range(blanks), chosen].prod()
    return found / found.sum(1, keepdims=True)


@pytest.mark.parametrize(("blanks", "options"), [(3, 5), (5, 5), (4, 7), (3, 16)])
def test_probabilities_are_those_of_all_choices(blanks, options):
    draw = np.random.default_rng(blanks)
    for _ in range(5):
        chance_BK = draw.dirichlet(np.full(options, 0.5), blanks)
        np.testing.assert_allclose(each_once(chance_BK), exact(chance_BK), atol=1e-9)


def test_probabilities_of_long_lists_are_nearly_those(monkeypatch):
    draw = np.random.default_rng(0)
    chances = [draw.dirichlet(np.full(9, 0.5), 6) for _ in range(20)]
    truths = [each_once(chance_BK) for chance_BK in chances]
    monkeypatch.setattr("albert_rc.scoring.each_once.EXACT", 0)
    found = [each_once(chance_BK) for chance_BK in chances]
    assert all(one.sum(1) == pytest.approx(1) for one in found)
    off = abs(np.array(found) - truths).mean()
    assert off < abs(np.array(chances) - truths).mean() / 4


def test_an_option_that_surely_belongs_to_one_blank_belongs_to_no_other():
    chance_BK = np.array([[1, 0, 0, 0, 0], [0.6, 0.4, 0, 0, 0], [0.2] * 5])
    found_BK = each_once(chance_BK)
    assert found_BK[1] == pytest.approx([0, 1, 0, 0, 0], abs=1e-3)
    assert found_BK[2] == pytest.approx([0, 0, 1 / 3, 1 / 3, 1 / 3], abs=1e-3)
    assert assigned(found_BK)[:2].tolist() == [0, 1]


def test_impossible_scores_still_give_every_blank_an_option_of_its_own():
    chance_BK = np.zeros((5, 5))
    chance_BK[:, 0] = 1
    answer_B = assigned(each_once(chance_BK))
    assert sorted(answer_B.tolist()) == [0, 1, 2, 3, 4]
    shown_BK = with_likeliest(each_once(chance_BK), answer_B)
    assert shown_BK.argmax(1).tolist() == answer_B.tolist()
    assert np.isfinite(np.log(shown_BK)).all()


@pytest.fixture
def store(tokenizer, tmp_path):
    def make(*papers):
        folder = tmp_path / "papers"
        folder.mkdir(exist_ok=True)
        for number, content in enumerate(papers, 1):
            (folder / f"{number}.json").write_text(json.dumps(content))
        return make_store(read_good(folder), tokenizer, 512)

    return make


def test_which_papers_are_answered_as_a_whole(store):
    mixed = paper()
    mixed["options"] = [*mixed["options"][:3], [*WORDS[:5], "autumn"]]
    turned = paper()
    turned["options"] = [*turned["options"][:3], WORDS[::-1]]
    made = store(
        paper(),
        mixed,  # another option in one list
        paper(blanks=2),  # too few blanks
        paper(words=WORDS[:4]),  # too few options
        turned,
        paper(blanks=6),
        paper(blanks=6, words=WORDS[:5]) | {"answers": list("ABCDEA")},  # more blanks than options
    )
    assert [blank_B.tolist() for blank_B in banks(made)] == [[0, 1, 2, 3], [18, 19, 20, 21, 22, 23]]


def close_race(store):
    """Scores by which the same word is best for two blanks, surely for the second one."""
    made = store(paper(blanks=3))
    chance_QK = torch.full((3, 6), 0.02)
    chance_QK[0, 0], chance_QK[0, 1] = 0.52, 0.40
    chance_QK[1, 0] = 0.90
    chance_QK[2, 2] = 0.90
    return made, chance_QK.log()


def test_the_accuracy_in_training_is_that_of_the_answers(store):
    made, scored_QK = close_race(store)
    made.tensors["answer"] = torch.tensor([1, 0, 2])
    assert quality(made, scored_QK).score == 1
    assert quality(made, scored_QK, reuse=True).score == pytest.approx(2 / 3)


def test_solving_banks_reports_each_so_that_it_can_be_stopped(store):
    made = store(paper(blanks=3), paper(blanks=4))
    scored_QK = close_race(store)[1][:1].repeat(7, 1)
    done = []
    solved = solve(made, scored_QK, progress=done.append)
    assert done == [3, 4]
    assert [bank.blank_B.tolist() for bank in solved] == [[0, 1, 2], [3, 4, 5, 6]]
    assert solve(made, scored_QK, reuse=True) == []


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_each_option_is_used_once(store, temperature):
    made, scored_QK = close_race(store)
    assert answers_of(made, scored_QK) == {"1.json": ["B", "A", "C"]}
    lines = score_lines(made, scored_QK, temperature)
    assert [line["answer"] for line in lines] == ["B", "A", "C"]
    for line in lines:
        assert line["each_once"] is True
        assert sum(line["probabilities"]) == pytest.approx(1, abs=1e-5)
        assert max(line["probabilities"]) == line["probabilities"]["ABCDEF".index(line["answer"])]
        assert "temperature" not in line
    assert lines[0]["probabilities"][1] > 0.75


def test_the_temperature_is_that_of_blanks_with_options_of_their_own(store, tmp_path):
    other = paper(blanks=3) | {"options": [WORDS, WORDS, WORDS[::-1]]}
    made = store(paper(blanks=3), other)
    scored_QK = close_race(store)[1].repeat(2, 1)
    cold, warm = (score_lines(made, scored_QK, temperature) for temperature in (1.0, 3.0))
    for line, before in zip(warm[:3], cold[:3], strict=True):
        assert line["probabilities"] == pytest.approx(before["probabilities"], abs=2e-6)
    for line, before in zip(warm[3:], cold[3:], strict=True):
        assert line["temperature"] == 3
        assert max(line["probabilities"]) < max(before["probabilities"])
    path = tmp_path / "scores.jsonl"
    path.write_bytes(json_lines(warm))
    assert read_scores(path).temperature == 3
    assert score_lines(made, scored_QK, 3.0, reuse=True)[0]["temperature"] == 3
    warm[4]["temperature"] = 2
    path.write_bytes(json_lines(warm))
    with pytest.raises(DataError, match="line 5: temperature differs from line 4"):
        read_scores(path)


def test_an_ensembles_temperature_is_fitted_and_applied_without_banks():
    draw = np.random.default_rng(0)
    chances_MQK = draw.dirichlet(np.full(5, 0.3), (2, 40))
    pool = Pool(
        chances_MQK=chances_MQK,
        present_QK=np.ones((40, 5), bool),
        gold_Q=chances_MQK[0].argmax(-1),
        papers=[f"{number // 5}" for number in range(40)],
        once_Q=np.arange(40) < 20,
    )
    fitted, alone = fit("logits", pool), fit("logits", pool.part(np.arange(20, 40)))
    assert fitted.temperature == alone.temperature != 1
    plain = replace(fitted, temperature=1.0)
    assert (fitted(pool)[:20] == plain(pool)[:20]).all()
    assert (fitted(pool)[20:] != plain(pool)[20:]).any()
    assert fit("logits", pool.part(np.arange(20))).temperature == 1


def test_options_may_be_used_again_if_asked_for(store):
    made, scored_QK = close_race(store)
    assert best_options(made, scored_QK, reuse=True).tolist() == [0, 0, 2]
    lines = score_lines(made, scored_QK, reuse=True)
    assert [line["answer"] for line in lines] == ["A", "A", "C"]
    assert lines[0]["probabilities"] == pytest.approx(scored_QK[0].exp().tolist(), abs=1e-6)
    assert "each_once" not in lines[0]


def test_files_of_scores_keep_it(store, tmp_path, cli):
    made, scored_QK = close_race(store)
    path, again = tmp_path / "scores.jsonl", tmp_path / "again.jsonl"
    path.write_bytes(json_lines(score_lines(made, scored_QK)))
    assert read_scores(path).each_once == [True] * 3
    other = scored_QK.clone()
    other[0] = other[0].flip(0)
    again.write_bytes(json_lines(score_lines(made, other)))
    out, joined = tmp_path / "answer.json", tmp_path / "joined.jsonl"
    done = cli("ensemble", path, again, "--out", out, "--scores", joined)
    assert done.returncode == 0, done.stderr
    letters = json.loads(out.read_bytes())["1.json"]
    assert len(set(letters)) == 3
    assert letters[1:] == ["A", "C"]
    assert read_scores(joined).each_once == [True] * 3
    # With a file in which options were used again.
    again.write_bytes(json_lines(score_lines(made, other, reuse=True)))
    folder = tmp_path / "papers"
    done = cli("ensemble", path, again, "--out", out, "--scores", joined, "--gold", folder)
    assert done.returncode == 3  # one paper has no folds
    done = cli("ensemble", path, again, "--out", out, "--scores", joined)
    assert done.returncode == 0, done.stderr
    assert len(set(json.loads(out.read_bytes())["1.json"])) == 3
    assert read_scores(joined).each_once == [True] * 3
    with pytest.raises(DataError, match="its paper was answered as a whole; make the"):
        calibrate(read_scores(path), read_good(tmp_path / "papers"))
    path.write_text(path.read_text().replace("true", '"yes"', 1))
    with pytest.raises(DataError, match='line 1: "each_once" must be true or false'):
        read_scores(path)


def test_predict_and_answer(store, tmp_path, cli):
    store(paper(blanks=6))
    out = tmp_path / "answer.json"
    given = ["predict", "--data", tmp_path / "papers", "--model", "albert-rc-tiny", "--out", out]
    done = cli(*given)
    assert done.returncode == 0, done.stderr
    said = "1 paper with one list of options for all blanks: each option is used at most once"
    assert said in " ".join((done.stdout + done.stderr).split())
    letters = json.loads(out.read_bytes())["1.json"]
    assert sorted(letters) == list("ABCDEF")
    content = {name: value for name, value in paper(blanks=6).items() if name != "answers"}
    assert answer(content, "albert-rc-tiny")[0].letters == letters
    done = cli(*given, "--set", "reuse=true")
    assert done.returncode == 0, done.stderr
    assert said not in " ".join((done.stdout + done.stderr).split())
    again = json.loads(out.read_bytes())["1.json"]
    assert answer(content, "albert-rc-tiny", reuse=True)[0].letters == again
    assert len(set(again)) < 6  # the sentences are alike


def test_other_papers_have_no_such_setting(sample, tmp_path, cli):
    done = cli(
        "predict", "--data", sample / "race" / "dev", "--model", "albert-rc-small-choice",
        "--out", tmp_path / "answer.json", "--set", "reuse=true",
    )  # fmt: skip
    assert done.returncode == 2
    assert "--set reuse is for cloze papers" in " ".join((done.stdout + done.stderr).split())


def test_an_ensemble_is_evaluated_with_the_answers_that_it_writes(store, tmp_path, cli):
    draw = torch.Generator().manual_seed(0)
    made = store(*(paper(blanks=5) for _ in range(8)))
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for path in files:
        scored_QK = torch.randn(40, 6, generator=draw).log_softmax(-1)
        path.write_bytes(json_lines(score_lines(made, scored_QK)))
    out, folder = tmp_path / "answer.json", tmp_path / "papers"
    done = cli("ensemble", *files, "--gold", folder, "--out", out, "--method", "probabilities",
               "--json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    methods = {row["name"]: row for row in json.loads(done.stdout)["methods"].values()}
    found = json.loads(cli("evaluate", out, folder, "--json").stdout)
    assert methods["probabilities"]["accuracy"] == found["accuracy"]
    assert all(len(set(letters)) == 5 for letters in json.loads(out.read_bytes()).values())


def test_recall_of_other_blanks_does_not_count_as_recalled_answers(store):
    made, scored_QK = close_race(store)
    recalled = Recalled(torch.tensor([1, -1, -1]), torch.tensor([9, 0, 0]))
    lines = score_lines(made, scored_QK, recalled=recalled)
    assert [line["answer"] for line in lines] == ["B", "A", "C"]
    assert lines[0]["read"] == "B"
    assert describe(made, recalled, scored_QK).endswith("0 answers changed")


def test_lists_of_words_that_the_tokenizer_does_not_know_are_no_bank(store):
    lists = [list("\u4e00\u4e01\u4e02\u4e03\u4e04"), list("\u4e05\u4e06\u4e07\u4e08\u4e09")]
    made = store(paper(blanks=3) | {"options": [lists[0], lists[1], lists[0]]})
    assert list(banks(made)) == []
