"""Every question answered exactly once, however the work is cut."""

import shutil

import pytest
import torch

from albert_rc.answering import score as scoring
from albert_rc.answering.score import answers_of, score, score_lines
from albert_rc.checkpoints.load import load_model
from albert_rc.errors import CheckpointError
from albert_rc.model.config import Compute
from albert_rc.papers.formats import read_split
from albert_rc.runtime.devices import Processes
from albert_rc.stores.store import make_store

ALONE = Processes(torch.device("cpu"))


@pytest.fixture(scope="module")
def models(sample):
    return {
        task: load_model(sample / "vocabulary", task, scratch="tiny", seed=1).model
        for task in ("cloze", "choice")
    }


@pytest.mark.parametrize("name", ["cloze", "race", "dream"])
def test_batches_do_not_change_the_scores(models, stores, tokenizer, name):
    store = stores[name, "train"]
    model = models[store.kind]
    found = [score(model, tokenizer, store, ALONE, token_budget=b) for b in (1, 700, 50_000)]
    for other in found[1:]:
        torch.testing.assert_close(found[0], other, atol=1e-4, rtol=0)
    assert found[0].exp().sum(-1).sub(1).abs().max() < 1e-5


def test_windows_of_a_long_paper_answer_in_order(models, sample, tokenizer):
    """The same paper, whole and in windows: same blanks, same order, the same number of answers."""
    papers = read_split(sample / "cloze" / "train")
    store = make_store(papers, tokenizer, 40)
    assert store.num_items > 3 * len(papers.passages)
    scored = score(models["cloze"], tokenizer, store, ALONE)
    answers = answers_of(store, scored)
    assert list(answers) == [p.id for p in papers.passages]
    for passage in papers.passages:
        assert len(answers[passage.id]) == len(passage.questions)
    lines = score_lines(store, scored)
    assert [(x["paper"], x["number"]) for x in lines] == [
        (p.id, n + 1) for p in papers.passages for n in range(len(p.questions))
    ]
    for line, passage_answer in zip(lines, (a for v in answers.values() for a in v), strict=True):
        assert line["answer"] == passage_answer
        best = max(line["probabilities"])
        assert line["probabilities"]["ABCDE".index(line["answer"])] == best


@pytest.mark.parametrize(
    "change", [lambda batches: batches[1:], lambda batches: batches + batches[:1]]
)
def test_a_question_that_is_left_out_or_read_twice_is_noticed(
    models, stores, tokenizer, monkeypatch, change
):
    """Before anything is written: `predict` promises an answer to every question, exactly once."""
    made = scoring.batches_by_length
    monkeypatch.setattr(scoring, "batches_by_length", lambda *how: change(list(made(*how))))
    with pytest.raises(RuntimeError, match="questions were not scored exactly once"):
        score(models["cloze"], tokenizer, stores["cloze", "train"], ALONE, token_budget=700)


def test_numbers_without_bounds_are_noticed():
    assert not scoring.are_numbers(torch.tensor([1.0, float("inf")]))
    assert not scoring.are_numbers(torch.tensor([float("nan"), 1.0]))
    assert scoring.are_numbers(torch.tensor([1.0, float("-inf")]))  # of an option that is not there


def test_all_papers_are_answered_or_none(sample, tmp_path, cli):
    shutil.copytree(sample / "cloze" / "dev", tmp_path / "dev")
    (tmp_path / "dev" / "bad.json").write_text('{"article": "No blank.", "options": []}')
    done = cli("predict", "--data", tmp_path / "dev", "--model", "albert-rc-tiny", "--out",
               tmp_path / "a.json", "--scores", tmp_path / "a.jsonl")  # fmt: skip
    assert (done.returncode, "dev/bad.json" in done.stderr) == (3, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dev"]


def test_papers_may_be_given_without_an_option(sample, tmp_path, cli, works):
    papers, out = sample / "cloze" / "dev", tmp_path / "answer.json"
    how = ["--model", "albert-rc-tiny", "--out", out]
    works("predict", papers, *how)
    found = out.read_bytes()
    works("predict", "--data", papers, *how)
    assert out.read_bytes() == found
    done = cli("predict", papers, "--data", "data/dev.pt", *how)
    assert (done.returncode, "give the papers once" in done.stderr) == (2, True)


def test_damaged_weights_are_noticed(sample, stores, tokenizer):
    model = load_model(sample / "vocabulary", "cloze", scratch="tiny").model
    torch.nn.init.constant_(model.head.bias, float("nan"))
    with pytest.raises(CheckpointError, match="scores are NaN or infinite"):
        score(model, tokenizer, stores["cloze", "dev"], ALONE)


def test_bf16_answers_nearly_as_fp32(models, stores, tokenizer):
    store = stores["cloze", "train"]
    exact = score(models["cloze"], tokenizer, store, ALONE)
    try:
        models["cloze"].encoder.compute = Compute(precision="bf16")
        quick = score(models["cloze"], tokenizer, store, ALONE)
    finally:
        models["cloze"].encoder.compute = Compute()
    finite = exact.isfinite()
    assert (exact - quick)[finite].abs().max() < 0.05
