"""What of a fine-tuned model is kept where it is fine-tuned for another task."""

import json

import pytest
import torch

from albert_rc.checkpoints.hub import READY, usual_model
from albert_rc.checkpoints.load import load_model, save_model
from albert_rc.errors import CheckpointError

NLI = ("entailment", "neutral", "contradiction")


@pytest.fixture
def tuned(sample, tmp_path):
    made = load_model(sample / "vocabulary", "label", scratch="tiny", labels=NLI)
    save_model(made.model, made.tokenizer, tmp_path / "nli")
    return made.model, tmp_path / "nli"


def fresh(report):
    return {name.rpartition(".")[0] for name in report.new}


@pytest.mark.parametrize(
    ("task", "labels"), [("choice", None), ("label", ("no", "yes")), ("label", ())]
)
def test_another_task_has_a_classifier_of_its_own(tuned, task, labels):
    model, folder = tuned
    loaded = load_model(folder, task, labels=labels)
    assert fresh(loaded.report) == {"classifier"}
    pooler = loaded.model.head.pooler if task == "choice" else loaded.model.head.pool
    assert torch.equal(pooler.weight, model.head.pool.weight)
    for name, value in model.encoder.named_parameters():
        assert torch.equal(value, loaded.model.encoder.get_parameter(name))


def test_a_classifier_of_an_unknown_class_is_not_taken(tuned):
    """A token classifier may have as many labels."""
    _, folder = tuned
    config = json.loads((folder / "config.json").read_text())
    for name, kept in (("AlbertForTokenClassification", False), ("AlbertModel", True)):
        config["architectures"] = [name]
        (folder / "config.json").write_text(json.dumps(config))
        loaded = load_model(folder, "label", labels=NLI)
        assert (not fresh(loaded.report)) == kept, name


def test_decoders_are_refused(tuned):
    _, folder = tuned
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"is_decoder": True}))
    with pytest.raises(CheckpointError, match="is_decoder is true, but only encoders"):
        load_model(folder, "label", labels=NLI)


def test_a_classifier_of_the_same_size_but_another_task_is_not_taken(sample, tmp_path):
    made = load_model(sample / "vocabulary", "label", scratch="tiny", labels=())
    save_model(made.model, made.tokenizer, tmp_path / "similarity")
    loaded = load_model(tmp_path / "similarity", "choice")
    assert fresh(loaded.report) == {"classifier"}
    assert not torch.equal(loaded.model.head.classifier.weight, made.model.head.label.weight)


@pytest.mark.parametrize("names", ["labels", "LABEL_0", None])
def test_the_same_labels_keep_their_classifier(tuned, names):
    model, folder = tuned
    raw = json.loads((folder / "config.json").read_text())
    if names == "LABEL_0":
        raw["id2label"] = {str(number): f"LABEL_{number}" for number in range(3)}
    if names is None:  # a bare class name says nothing of a task
        raw["architectures"] = ["AlbertModel"]
    (folder / "config.json").write_text(json.dumps(raw))
    loaded = load_model(folder, "label", labels=NLI)
    assert not loaded.report.new
    assert torch.equal(loaded.model.head.label.weight, model.head.label.weight)


def test_transformers_default_of_two_unnamed_labels_is_kept(sample, tmp_path):
    made = load_model(sample / "vocabulary", "label", scratch="tiny", labels=("no", "yes"))
    save_model(made.model, made.tokenizer, tmp_path)
    raw = json.loads((tmp_path / "config.json").read_text())
    for key in ("id2label", "label2id", "problem_type"):
        del raw[key]
    (tmp_path / "config.json").write_text(json.dumps(raw))
    assert not load_model(tmp_path, "label", labels=("negative", "positive")).report.new


def test_the_run_in_models_is_used_for_its_own_papers_only(tuned, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tuned[1].rename("models")
    assert usual_model("label") == "models"
    for kind, name in READY.items():
        assert usual_model(kind) == name
    raw = json.loads((tmp_path / "models/config.json").read_text())
    raw["architectures"] = ["AlbertForPreTraining"]
    (tmp_path / "models/config.json").write_text(json.dumps(raw))
    assert usual_model("cloze") == "models"
    # What is damaged is for whoever opens it to report.
    for damaged in ("{", "[]", '{"model_type": [], "architectures": {"a": 1}}'):
        (tmp_path / "models/config.json").write_text(damaged)
        assert usual_model("choice") == "models"
