"""Models that come with the package are opened by name."""

from pathlib import Path

import pytest
import torch
from conftest import SAMPLE
from safetensors import safe_open
from transformers import AlbertForMaskedLM, AlbertForMultipleChoice, AutoTokenizer

from albert_rc import answer
from albert_rc.answering.temperature import require_own
from albert_rc.checkpoints import hub
from albert_rc.checkpoints.hf_config import read_config
from albert_rc.checkpoints.hf_names import FAMILIES
from albert_rc.checkpoints.hub import READY, resolve_source, shipped_models, usual_model
from albert_rc.checkpoints.load import load_model, save_model
from albert_rc.checkpoints.weights import open_weights
from albert_rc.errors import UsageError
from albert_rc.text.tokenizer import load_tokenizer


@pytest.fixture
def shelf(sample, tmp_path, monkeypatch):
    monkeypatch.setattr(hub, "SHIPPED", tmp_path / "pretrained")
    made = load_model(sample / "vocabulary", "cloze", scratch="tiny", option_score="salience")
    folder = tmp_path / "pretrained" / "some-model"
    save_model(made.model, made.tokenizer, folder, precision="bf16")
    return made.model, folder


def test_a_name_leads_to_the_package(shelf, tmp_path, monkeypatch):
    assert shipped_models() == {"some-model": shelf[1]}
    assert resolve_source("some-model") == shelf[1]
    with pytest.raises(UsageError, match=r"another: no such folder, .*some-model.*, nor a hub id"):
        resolve_source("another")
    # What the user has by that name comes first.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "some-model").mkdir()
    assert resolve_source("some-model").resolve() == tmp_path / "some-model"


@pytest.mark.parametrize("name", sorted(shipped_models()))
def test_weights_name_the_vocabulary_that_lies_beside_them(name):
    """Also by the key that some of them were written with."""
    folder = resolve_source(name)
    weights = open_weights(folder, FAMILIES[read_config(folder)[0].family])
    assert weights.vocabulary == load_tokenizer(folder).fingerprint


def test_the_key_of_the_vocabulary_stays(shelf):
    """Weights that others have saved would not be checked any more."""
    with safe_open(shelf[1] / "model.safetensors", "pt") as file:
        found = file.metadata()
    assert found["albert_rc.vocabulary"] == load_tokenizer(shelf[1]).fingerprint


def test_half_the_size_and_rounded_once(shelf):
    model, folder = shelf
    loaded = load_model("some-model", "cloze")
    assert loaded.model.option_score == "salience"
    for name, value in loaded.model.named_parameters():
        assert value.dtype == torch.float32
        assert torch.equal(value, model.get_parameter(name).bfloat16().float())
    parameters = sum(p.numel() for p in model.parameters())
    assert (folder / "model.safetensors").stat().st_size < 2.01 * parameters + 10_000


def test_the_models_for_each_kind_of_papers_are_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for kind, name in READY.items():
        folder = shipped_models()[name]
        assert usual_model(kind) == name
        assert sum(path.stat().st_size for path in folder.iterdir()) < 32e6
        assert {"README.md", "LICENSE", "calibration.json"} <= {p.name for p in folder.iterdir()}
    assert usual_model("cloze") == READY["cloze"]
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "config.json").write_text("{}")
    assert usual_model("cloze") == "models"


def test_runs_that_are_not_used_are_named(tmp_path, monkeypatch, cli):
    monkeypatch.chdir(tmp_path)
    for name in ("run1", "run2"):
        (tmp_path / "models" / name).mkdir(parents=True)
        (tmp_path / "models" / name / "config.json").write_text("{}")
    given = ("predict", "--data", SAMPLE / "cloze" / "test", "--out", tmp_path / "answer.json")
    assert "these runs were not used: models/run1, models/run2" in cli(*given).stderr
    named = cli(*given, "--model", "albert-rc-tiny")
    assert named.returncode == 0
    assert "not used" not in named.stderr


def test_a_model_that_is_named_is_the_one_that_is_loaded():
    """Also for papers that another of the package is for: its head is untrained then."""
    for kind, other in (("cloze", "choice"), ("choice", "cloze")):
        loaded = load_model(READY[other], kind)
        assert loaded.tokenizer.folder == shipped_models()[READY[other]]
        assert loaded.report.new


@pytest.mark.parametrize("kind", READY)
def test_transformers_alone_gives_the_same_answers(kind, sample, tmp_path):
    folder = shipped_models()[READY[kind]]
    loaded = load_model(folder, kind)
    theirs = {"cloze": AlbertForMaskedLM, "choice": AlbertForMultipleChoice}[kind]
    other, tokenizer = (
        theirs.from_pretrained(folder).float().eval(),
        AutoTokenizer.from_pretrained(folder),
    )
    if kind == "cloze":
        text, options = (
            "It was raining hard, so she took an [MASK] with her.",
            ["umbrella", "apple"],
        )
        logits = other(**tokenizer(text, return_tensors="pt")).logits[0]
        place = tokenizer(text)["input_ids"].index(tokenizer.mask_token_id)
        chances = logits[place, tokenizer.convert_tokens_to_ids(options)].softmax(-1)
        found = answer(
            {"article": text.replace("[MASK]", "_"), "options": [options]},
            loaded,
            precision="fp32",
            temperature=1.0,
        )
        assert found[0].letters == ["A"]
    else:
        text, ask = "Tom went to school by bus. His sister walked.", "How did Tom get to school?"
        options = ["By bus.", "On foot.", "By car."]
        given = tokenizer(
            [text] * 3, [f"{ask} {option}" for option in options], return_tensors="pt", padding=True
        )
        chances = (
            other(**{name: value[None] for name, value in given.items()}).logits[0].softmax(-1)
        )
        found = answer(
            {"article": text, "questions": [ask], "options": [options]},
            loaded,
            precision="fp32",
            temperature=1.0,
        )
    ours = list(found[0].answers[0].probabilities.values())
    assert ours == pytest.approx(chances.tolist(), abs=1e-4)


def test_a_model_of_the_package_cannot_be_given_another_temperature():
    for name, folder in shipped_models().items():
        for given in (Path(name), folder, folder / ".." / name):
            with pytest.raises(UsageError, match="models of the package cannot be changed; copy"):
                require_own(given)
