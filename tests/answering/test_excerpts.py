"""Questions read again with an excerpt of their passage."""

import json

import pytest
import torch
from conftest import SAMPLE, SHAPE

from albert_rc.answering.again import second_reading, way_of
from albert_rc.answering.api import answer
from albert_rc.answering.excerpts import EXCERPT, with_excerpts
from albert_rc.answering.score import score
from albert_rc.checkpoints.load import load_model, save_model
from albert_rc.cli.predict import predict
from albert_rc.errors import CheckpointError, UsageError
from albert_rc.io.files import file_sha256
from albert_rc.io.json import read_json, write_json
from albert_rc.papers.schema import PaperSet, Passage, Question
from albert_rc.runtime.devices import Processes
from albert_rc.stores.store import make_store

ALONE = Processes(torch.device("cpu"))
FILLER = "It was a fine day and they went on . "
LONG = 18 * FILLER + "The farmer sold the brown horse to a teacher . " + 18 * FILLER
ASKED = Question(("the farmer", "the teacher", "a brown dog"), 0, text="Who sold the horse ?")
WORDY = Question((60 * "very ", "the teacher", "a dog"), 0, text="How was the day ?")


@pytest.fixture(scope="module")
def model():
    return load_model(SAMPLE / "vocabulary", "choice", scratch="tiny", shape=SHAPE, seed=1)


def stored(tokenizer, *passages):
    made = [
        Passage(f"{n}.json", text, questions, "choice")
        for n, (text, questions) in enumerate(passages)
    ]
    return make_store(PaperSet("dev", "choice", "race", made), tokenizer, 512)


def test_scores_are_the_mean_of_both_readings(model, tokenizer):
    store = stored(tokenizer, (LONG, (ASKED, WORDY)), (FILLER, (ASKED,)), (LONG, (ASKED,)))
    excerpts, again_Q = with_excerpts(store, tokenizer)
    assert again_Q.tolist() == [0, 3]  # a long option leaves no room; a short passage is whole
    assert torch.equal(excerpts.lengths[again_Q], torch.tensor([EXCERPT, EXCERPT]))
    start, kept = (int(excerpts.tensors[name][0]) for name in ("start", "kept"))
    part = store.tensors["token"][start : start + kept].tolist()
    assert "farmer" in tokenizer.to_text(part)

    scored_QK = score(model.model, tokenizer, store, ALONE)
    second = second_reading(model.model, tokenizer, store, "excerpt")
    assert second.count == 2
    seen = []
    found_QK = second.rescore(scored_QK, ALONE, token_budget=500, progress=seen.append)
    assert sum(seen) == 2

    # The same excerpt as a passage of its own.
    alone = stored(tokenizer, (tokenizer.to_text(part), (ASKED,)))
    assert alone.tensors["token"].tolist() == part
    part_QK = score(model.model, tokenizer, alone, ALONE)
    assert not torch.allclose(part_QK[0], scored_QK[0], atol=1e-4)
    expected_K = ((scored_QK[0] + part_QK[0]) / 2).log_softmax(-1)
    for question in (0, 3):
        torch.testing.assert_close(found_QK[question], expected_K, atol=1e-5, rtol=0)
    assert torch.equal(found_QK[1:3], scored_QK[1:3])


def test_a_store_without_long_passages_is_left_alone(model, tokenizer):
    store = stored(tokenizer, (FILLER, (ASKED,)))
    scored_QK = score(model.model, tokenizer, store, ALONE)
    second = second_reading(model.model, tokenizer, store, "excerpt")
    assert second.count == 0
    assert torch.equal(second.rescore(scored_QK, ALONE, token_budget=500), scored_QK)


def test_a_models_config_says_how_it_reads(model, tmp_path):
    """Its own way is used unless another one is given, and kept when it is saved again."""
    folder, paper = tmp_path / "model", {
        "article": LONG, "questions": [ASKED.text], "options": [list(ASKED.options)],
    }  # fmt: skip
    save_model(model.model, model.tokenizer, folder)
    config = read_json(folder / "config.json")
    assert "read_again" not in config["albert_rc"]
    config["albert_rc"]["read_again"] = "excerpt"
    write_json(folder / "config.json", config)
    loaded = load_model(folder, "choice")
    assert way_of(loaded.model, None) == way_of(loaded.model, "excerpt") == "excerpt"
    assert way_of(loaded.model, "once") is None
    save_model(loaded.model, loaded.tokenizer, tmp_path / "again")
    assert read_json(tmp_path / "again" / "config.json")["albert_rc"]["read_again"] == "excerpt"

    own, given, once = (
        answer(paper, source, option_score=way)[0].answers
        for source, way in ((loaded, None), (model, "excerpt"), (loaded, "once"))
    )
    assert own == given
    assert own != once
    write_json(tmp_path / "paper.json", paper)
    scores = tmp_path / "scores.jsonl"
    predict(data=tmp_path / "paper.json", model=str(folder), scores=scores,
            out=tmp_path / "answer.json")  # fmt: skip
    (line,) = map(json.loads, scores.read_text().splitlines())
    assert line["option_score"] == "excerpt"
    assert line["probabilities"] == list(own[0].probabilities.values())

    # For blanks it means nothing; and an unknown way is refused.
    assert load_model(folder, "cloze").model.read_again is None
    config["albert_rc"]["read_again"] = "twice"
    write_json(folder / "config.json", config)
    with pytest.raises(CheckpointError, match="read_again 'twice' is unknown"):
        load_model(folder, "choice")


def test_a_temperature_for_another_way_is_named_and_not_used(model, tmp_path, capsys):
    folder, paper = tmp_path / "model", tmp_path / "paper.json"
    save_model(model.model, model.tokenizer, folder)
    weights = file_sha256(folder / "model.safetensors")
    write_json(folder / "calibration.json", {"temperature": 2, "weights_sha256": weights})
    asked = {"article": LONG, "questions": [ASKED.text], "options": [list(ASKED.options)]}
    write_json(paper, asked)
    for way, used in (("once", True), ("excerpt", False)):
        scores = tmp_path / f"{way}.jsonl"
        predict(data=paper, model=str(folder), scores=scores, out=tmp_path / f"{way}.json",
                option_score=way)  # fmt: skip
        said = " ".join(capsys.readouterr().err.split())
        assert ("calibration.json is for another --option-score" in said) != used
        assert ("temperature" in json.loads(scores.read_text())) == used


def test_each_way_is_for_its_papers(model):
    paper = {"article": "It _ .", "options": [["is", "was"]]}
    cloze = load_model(SAMPLE / "vocabulary", "cloze", scratch="tiny", shape=SHAPE)
    with pytest.raises(UsageError, match="--option-score excerpt is for questions with options"):
        answer(paper, cloze, option_score="excerpt")
    asked = {"article": LONG, "questions": ["Who ?"], "options": [["he", "she"]]}
    with pytest.raises(UsageError, match="--option-score masks is for cloze papers"):
        answer(asked, model, option_score="masks")
