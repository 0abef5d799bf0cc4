"""Models that come with the package are opened by name."""

import pytest
import torch

from albert_rc.checkpoints import hub
from albert_rc.checkpoints.hub import resolve_source, shipped_models
from albert_rc.checkpoints.load import load_model, save_model
from albert_rc.errors import UsageError


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


def test_half_the_size_and_rounded_once(shelf):
    model, folder = shelf
    loaded = load_model("some-model", "cloze")
    assert loaded.model.option_score == "salience"
    for name, value in loaded.model.named_parameters():
        assert value.dtype == torch.float32
        assert torch.equal(value, model.get_parameter(name).bfloat16().float())
    parameters = sum(p.numel() for p in model.parameters())
    assert (folder / "model.safetensors").stat().st_size < 2.01 * parameters + 10_000
