"""Weights and configurations as other programs write them."""

import json

import pytest
import torch
from conftest import SAMPLE, SHAPE
from safetensors.torch import load_file, save_file

from albert_rc.checkpoints.load import load_model, save_model
from albert_rc.errors import CheckpointError, UsageError
from albert_rc.export.run import _stored_precision
from albert_rc.export.samples import sample_papers, sample_stores

VOCABULARY = SAMPLE / "vocabulary"


def made(tmp_path, task="cloze", **how):
    loaded = load_model(VOCABULARY, task, scratch="tiny", shape=SHAPE, **how)
    save_model(loaded.model, loaded.tokenizer, tmp_path / "model")
    return loaded.model, tmp_path / "model"


def change(folder, **fields):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | fields))


def rewrite(folder, change):
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors")


def test_the_bias_of_the_output_may_have_the_name_of_its_copy(tmp_path):
    _, folder = made(tmp_path)
    bias = torch.arange(load_model(folder, "cloze").tokenizer.size) / 100

    def rename(weights):
        weights["predictions.decoder.bias"] = torch.zeros_like(weights.pop("predictions.bias"))
        weights["predictions.decoder.bias"][: len(bias)] = bias

    rewrite(folder, rename)
    loaded = load_model(folder, "cloze")
    assert not loaded.report.new
    assert torch.equal(loaded.model.head.bias[: len(bias)], bias)
    rewrite(folder, lambda weights: weights.update({"predictions.bias": -bias.clone()}))
    with pytest.raises(CheckpointError, match=r"decoder\.bias differs from predictions\.bias"):
        load_model(folder, "cloze")


def test_the_salience_in_a_config_is_taken_where_the_weights_lack_it(tmp_path):
    """Other programs drop its tensor, but keep what `export` wrote into config.json."""
    _, folder = made(tmp_path, option_score="salience")
    rewrite(folder, lambda weights: weights.pop("albert_rc.salience"))
    without = load_model(folder, "cloze")
    assert without.report.new
    assert not without.report.untrained
    ours = json.loads((folder / "config.json").read_bytes())["albert_rc"]
    vector = [number / 7 for number in range(SHAPE["embedding_size"])]
    change(folder, albert_rc=ours | {"salience": vector})
    loaded = load_model(folder, "cloze")
    assert not loaded.report.new
    assert torch.equal(loaded.model.head.salience, torch.tensor(vector))
    change(folder, albert_rc=ours | {"salience": vector[1:]})
    with pytest.raises(CheckpointError, match="salience in albert_rc has 15 numbers, expected 16"):
        load_model(folder, "cloze")
    change(folder, albert_rc=ours | {"salience": ["a"]})
    with pytest.raises(CheckpointError, match="salience in albert_rc is"):
        load_model(folder, "cloze")


def test_one_unnamed_label_is_regression(tmp_path):
    model, folder = made(tmp_path, "label", labels=())
    path = folder / "config.json"
    raw = json.loads(path.read_bytes())
    del raw["problem_type"]
    path.write_text(json.dumps(raw | {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}))
    for labels in (None, ()):
        loaded = load_model(folder, "label", labels=labels)
        assert not loaded.report.new
        assert loaded.model.labels == ()
        assert torch.equal(loaded.model.head.label.weight, model.head.label.weight)


def test_whole_numbers_beside_weights_do_not_decide_their_precision(tmp_path):
    loaded, folder = made(tmp_path)
    save_model(loaded, load_model(folder, "cloze").tokenizer, folder, "bf16")
    rewrite(folder, lambda weights: weights.update({"position_ids": torch.arange(512)}))
    assert _stored_precision(folder, "albert") == "bf16"
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(weights, folder / "pytorch_model.bin")
    assert _stored_precision(folder, "albert") == "bf16"


@pytest.mark.parametrize("prefix", ["module.", "model.", "_orig_mod.module."])
def test_names_that_trainers_put_before_weights(tmp_path, prefix):
    model, folder = made(tmp_path)
    weights = load_file(folder / "model.safetensors")
    save_file({f"{prefix}{key}": value for key, value in weights.items()}, folder / "w")
    (folder / "w").rename(folder / "model.safetensors")
    loaded = load_model(folder, "cloze")
    assert loaded.report.new + loaded.report.unused == []
    for one, other in zip(model.parameters(), loaded.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_weights_of_another_kind_say_what_is_there(tmp_path):
    _, folder = made(tmp_path)
    weights = load_file(folder / "model.safetensors")
    save_file({f"decoder.{key}": value for key, value in weights.items()}, folder / "w")
    (folder / "w").rename(folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"the file begins with decoder\."):
        load_model(folder, "cloze")


def test_buffers_have_no_mean(tmp_path, cli):
    """Files of older programs hold the numbers of positions."""
    for name in ("one", "two"):
        _, folder = made(tmp_path / name)
        ids = {"albert.embeddings.position_ids": torch.arange(512)}
        rewrite(folder, lambda weights, ids=ids: weights.update(ids))
    folders = [tmp_path / name / "model" for name in ("one", "two")]
    done = cli("export", *folders, "--out", tmp_path / "mean")
    assert done.returncode == 0, done.stderr
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_values_beyond_fp16_are_not_written(tmp_path):
    model, _ = made(tmp_path)
    with torch.no_grad():
        model.head.bias[0] = 1e5
    tokenizer = load_model(VOCABULARY, "cloze", scratch="tiny", shape=SHAPE).tokenizer
    with pytest.raises(CheckpointError, match=r"predictions\.bias: .* too large for fp16"):
        save_model(model, tokenizer, tmp_path / "half", "fp16")
    assert not (tmp_path / "half" / "model.safetensors").exists()


def test_split_pickles_are_named(tmp_path):
    _, folder = made(tmp_path)
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin.index.json").write_text("{}")
    with pytest.raises(CheckpointError, match="split into several files"):
        load_model(folder, "cloze")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"attention_probs_dropout_prob": 1.0}, "it must be at least 0 and below 1"),
        ({"num_attention_heads": 5}, r"hidden_size 32 must be divisible by num_attention_heads 5"),
        (
            {"model_type": "roberta", "pad_token_id": 600},
            "max_position_embeddings 512 leaves no position for text",
        ),
    ],
)
def test_errors_have_the_names_of_the_file(tmp_path, fields, said):
    _, folder = made(tmp_path)
    change(folder, **fields)
    with pytest.raises(CheckpointError, match=said) as caught:
        load_model(folder, "cloze")
    assert "--" not in str(caught.value)


def test_samples_that_do_not_fit_are_left_out(tokenizer):
    papers = sample_papers("choice")
    whole = sum(len(passage.questions) for passage in papers.passages)
    counts = [store.num_questions for store in sample_stores(papers, tokenizer, 30)]
    assert all(0 < count < whole for count in counts), counts


def test_a_run_without_weights_yet_is_said_to_be_one(tmp_path):
    (tmp_path / "resume-00000004.pt").touch()
    with pytest.raises(UsageError, match="has saved no weights yet, only its state; continue it"):
        load_model(tmp_path, "cloze")
