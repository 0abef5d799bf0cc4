"""What models are made of, against Hugging Face's; what layers do, against it done by hand."""

import json
from dataclasses import replace

import pytest
import torch
import transformers

from albert_rc.checkpoints.hf_names import hub_config
from albert_rc.checkpoints.inspect import PUBLISHED, layer_distances, made_of, parameter_table
from albert_rc.checkpoints.load import load_model, save_model
from albert_rc.errors import DataError
from albert_rc.model.config import EncoderConfig, size_config
from albert_rc.model.encoder import Encoder, initialise

CLASSES = {"albert": "AlbertModel", "bert": "BertModel"}


@pytest.mark.parametrize("size", PUBLISHED)
def test_parameters_are_exactly_hugging_faces(size):
    config = size_config(size)
    prefix = config.family.capitalize()
    with torch.device("meta"):
        theirs = getattr(transformers, f"{prefix}Model")(
            getattr(transformers, f"{prefix}Config")(**hub_config(config, "cloze"))
        )
    assert made_of(size, config).total == sum(p.numel() for p in theirs.parameters())


def test_the_papers_figures_are_met_but_for_one():
    """Lan et al. give xxlarge 235 million; their own published weights have 223."""
    for row in parameter_table():
        assert row.published is not None
        if row.name == "albert-xxlarge":
            assert row.total / 1e6 == pytest.approx(222.6, abs=0.1)
        else:
            assert row.total / 1e6 == pytest.approx(row.published, rel=0.03)


def test_a_checkpoint_stands_in_the_table(sample, tmp_path, cli):
    made = load_model(
        sample / "vocabulary",
        "pretraining",
        scratch="tiny",
        shape={"num_layers": 4, "sharing": "attention"},
    )
    save_model(made.model, made.tokenizer, tmp_path)
    row = parameter_table([str(tmp_path)])[-1]
    counted = sum(p.numel() for p in made.model.encoder.parameters())
    assert row.embeddings + row.layers == counted
    done = cli("inspect", "parameters", tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[-1]["total"] == row.total
    assert "bert-xlarge" in cli("inspect", "parameters").stdout


@pytest.mark.parametrize("groups", [1, 3])
def test_distances_are_those_of_the_hidden_states(tokenizer, groups):
    config = EncoderConfig(
        vocab_size=tokenizer.size, embedding_size=16, hidden_size=32, num_layers=3, num_heads=2,
        ffn_size=64, num_groups=groups,
    )  # fmt: skip
    encoder = Encoder(config)
    initialise(encoder, 0.2)
    texts = ["The dog ran home.", "", "It was late, and nobody was there to see it."]
    found = layer_distances(encoder, tokenizer, texts)
    states = []
    for text in texts:
        ids = tokenizer.encode([text])[0]
        if ids:
            token_T = torch.tensor([tokenizer.cls_id, *ids, tokenizer.sep_id])
            given = token_T, torch.arange(len(token_T)), (len(token_T),)
            with torch.no_grad():
                # The output of the first n layers is that of an encoder with n layers.
                states.append([_cut(encoder, n)(*given) for n in (1, 2, 3)])
    for one, two, row in zip((0, 1), (1, 2), found[1:], strict=True):
        before = torch.cat([layers[one] for layers in states])
        after = torch.cat([layers[two] for layers in states])
        assert row.distance == pytest.approx(float((after - before).norm(dim=-1).mean()), rel=1e-4)
        angle = torch.nn.functional.cosine_similarity(before, after, -1).acos().rad2deg()
        assert row.degrees == pytest.approx(float(angle.mean()), rel=1e-3)
    assert [row.layer for row in found] == [1, 2, 3]
    with pytest.raises(DataError, match="no text"):
        layer_distances(encoder, tokenizer, [" "])


def test_every_inner_layer_has_a_row(tokenizer):
    """Six layers in groups of two are those of an encoder that has six in their order."""
    shape = {
        "vocab_size": tokenizer.size, "embedding_size": 16, "hidden_size": 32, "num_heads": 2,
        "ffn_size": 64,
    }  # fmt: skip
    nested = Encoder(EncoderConfig(num_layers=3, num_groups=1, inner_layers=2, **shape))
    initialise(nested, 0.2)
    flat = Encoder(EncoderConfig(num_layers=6, num_groups=6, **shape))
    flat.load_state_dict(
        {name: value for name, value in nested.state_dict().items() if "layers" not in name},
        strict=False,
    )
    for number, layer in enumerate(flat.layers):
        layer.load_state_dict(nested.layers[number % 2].state_dict())
    texts = ["The dog ran home.", "It was late."]
    for one, two in zip(
        *(layer_distances(e, tokenizer, texts) for e in (nested, flat)), strict=True
    ):
        assert (one.layer, one.distance) == (two.layer, pytest.approx(two.distance, rel=1e-5))


def _cut(encoder, layers):
    """The same weights, applied so many times."""
    groups = encoder.config.num_groups if encoder.config.num_groups == 1 else layers
    shorter = Encoder(replace(encoder.config, num_layers=layers, num_groups=groups))
    weights = encoder.state_dict()
    shorter.load_state_dict({name: weights[name] for name in shorter.state_dict()})
    return shorter


def test_the_figure_and_its_numbers_are_written(sample, tmp_path, cli):
    pytest.importorskip("matplotlib")
    for name, sharing in (("shared", "all"), ("unshared", "none")):
        made = load_model(
            sample / "vocabulary",
            "pretraining",
            scratch="tiny",
            shape={"num_layers": 2, "sharing": sharing, "hidden_size": 32, "num_heads": 2},
        )
        save_model(made.model, made.tokenizer, tmp_path / name)
    done = cli(
        "inspect", "layers", tmp_path / "shared", tmp_path / "unshared", "--text",
        sample / "cloze" / "dev", "--out", tmp_path / "figure",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "figure.svg").read_text()
    found = json.loads((tmp_path / "figure.json").read_text())
    assert [row["layer"] for row in found["shared"]] == [1, 2]
    assert found.keys() == {"shared", "unshared"}
