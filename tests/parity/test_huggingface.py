"""Our encoder and heads against transformers', on random weights: forward, gradients, files."""

# B sequences, L tokens, D hidden

import pytest
import torch
import transformers
from conftest import SAMPLE
from safetensors.torch import load_file, save_file

from albert_rc.batch import Batch
from albert_rc.checkpoints.hf_names import hub_config, hub_key
from albert_rc.checkpoints.load import hub_weights, load_model, save_model
from albert_rc.errors import CheckpointError
from albert_rc.model.config import size_config
from albert_rc.model.heads import ReadingModel

TOLERANCE = 1e-5
SHAPE = {
    "vocab_size": 1600,
    "hidden_size": 48,
    "num_attention_heads": 4,
    "intermediate_size": 96,
    "max_position_embeddings": 130,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "initializer_range": 0.2,
}
FAMILIES = {
    "albert": ("Albert", {"num_hidden_layers": 3, "embedding_size": 16}),
    "albert-groups": (
        "Albert",
        {
            "num_hidden_layers": 4,
            "num_hidden_groups": 2,
            "inner_group_num": 2,
            "embedding_size": 48,
        },
    ),
    "albert-v1": ("Albert", {"num_hidden_layers": 2, "embedding_size": 16, "hidden_act": "gelu"}),
    "bert": ("Bert", {"num_hidden_layers": 3}),
    "roberta": ("Roberta", {"num_hidden_layers": 3, "type_vocab_size": 1, "pad_token_id": 1}),
    "mpnet": ("MPNet", {"num_hidden_layers": 3, "pad_token_id": 1}),
}
WITHOUT_SEGMENTS = {"roberta", "mpnet"}


def reference(family, head):
    prefix, extra = FAMILIES[family]
    config = getattr(transformers, f"{prefix}Config")(**SHAPE, **extra, classifier_dropout_prob=0.0)
    config.classifier_dropout = 0.0
    torch.manual_seed(1)
    model = getattr(transformers, f"{prefix}For{head}")(config)
    for name, parameter in model.named_parameters():  # biases and norms too, or they hide faults
        if name.endswith("bias") or "norm" in name.lower():
            torch.nn.init.normal_(parameter, std=0.3)
    return model.eval()


def saved(model, folder):
    model.save_pretrained(folder)
    (folder / "spiece.model").write_bytes((SAMPLE / "vocabulary/spiece.model").read_bytes())
    return folder


def padded_batch(pad_id):
    generator = torch.Generator().manual_seed(0)
    token_BL = torch.randint(5, 1600, (3, 60), generator=generator)
    length_B = torch.tensor([60, 41, 7])
    mask_BL = torch.arange(60) < length_B[:, None]
    segment_BL = ((torch.arange(60) >= 20) & mask_BL).long()
    return token_BL.where(mask_BL, torch.tensor(pad_id)), length_B, mask_BL, segment_BL


@pytest.mark.parametrize("family", FAMILIES)
def test_masked_lm_forward_and_gradients(family, tmp_path):
    theirs = reference(family, "MaskedLM")
    ours = load_model(saved(theirs, tmp_path), "cloze").model.eval()
    token_BL, length_B, mask_BL, segment_BL = padded_batch(ours.config.pad_id)
    segments = {} if family == "mpnet" else {"token_type_ids": segment_BL}
    if family in WITHOUT_SEGMENTS:
        segment_BL.zero_()
    expected = theirs(
        input_ids=token_BL, attention_mask=mask_BL.long(), output_hidden_states=True, **segments
    )
    place_BL = torch.arange(60).expand(3, 60)
    hidden_TD = ours.encoder(
        token_BL[mask_BL], place_BL[mask_BL], tuple(length_B.tolist()), segment_BL[mask_BL]
    )
    torch.testing.assert_close(
        hidden_TD, expected.hidden_states[-1][mask_BL], atol=TOLERANCE, rtol=0
    )
    head = ours.head
    logits = head.transform(hidden_TD) @ ours.encoder.embeddings.word.weight.T + head.bias
    torch.testing.assert_close(logits, expected.logits[mask_BL], atol=TOLERANCE, rtol=0)

    weight = torch.randn(int(mask_BL.sum()), 1600, generator=torch.Generator().manual_seed(2)) / 1e4
    (expected.logits[mask_BL] * weight).sum().backward()
    (logits * weight).sum().backward()
    theirs_by_name = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        other = theirs_by_name[hub_key(name, ours.config)]
        torch.testing.assert_close(parameter.grad, other.grad, atol=TOLERANCE, rtol=0, msg=name)


@pytest.mark.parametrize("family", FAMILIES)
def test_multiple_choice_forward_and_gradients(family, tmp_path):
    theirs = reference(family, "MultipleChoice")
    ours = load_model(saved(theirs, tmp_path), "choice").model.eval()
    token_BL, length_B, mask_BL, segment_BL = padded_batch(ours.config.pad_id)
    segments = {} if family == "mpnet" else {"token_type_ids": segment_BL[None]}
    if family in WITHOUT_SEGMENTS:
        segment_BL.zero_()
    expected = theirs(
        input_ids=token_BL[None], attention_mask=mask_BL[None].long(), labels=torch.tensor([1]),
        **segments,
    )  # fmt: skip
    batch = Batch(
        token_T=token_BL[mask_BL],
        place_T=torch.arange(60).expand(3, 60)[mask_BL],
        lengths=tuple(length_B.tolist()),
        read_S=length_B.cumsum(0) - length_B,
        reads=(1, 1, 1),
        segment_T=segment_BL[mask_BL],
        question_Q=torch.tensor([0]),
        answer_Q=torch.tensor([1]),
        option_slot_O=torch.arange(3),
        num_options=3,
    )
    output = ours(batch)
    torch.testing.assert_close(output.logits_QK, expected.logits, atol=TOLERANCE, rtol=0)
    torch.testing.assert_close(output.loss_sum, expected.loss, atol=TOLERANCE, rtol=0)
    expected.loss.backward()
    output.loss_sum.backward()
    theirs_by_name = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        other = theirs_by_name[hub_key(name, ours.config)]
        torch.testing.assert_close(parameter.grad, other.grad, atol=TOLERANCE, rtol=0, msg=name)


@pytest.mark.parametrize(("task", "head"), [("cloze", "MaskedLM"), ("choice", "MultipleChoice")])
@pytest.mark.parametrize("family", FAMILIES)
def test_what_we_save_opens_there_key_for_key(family, task, head, tmp_path):
    theirs = reference(family, head)
    loaded = load_model(saved(theirs, tmp_path / "theirs"), task)
    assert not loaded.report.new
    save_model(loaded.model, loaded.tokenizer, tmp_path / "ours")
    again = getattr(transformers, f"AutoModelFor{head}").from_pretrained(tmp_path / "ours")
    assert type(again) is type(theirs)
    for (name, a), b in zip(theirs.state_dict().items(), again.state_dict().values(), strict=True):
        assert torch.equal(a, b), name
    there = load_file(tmp_path / "theirs" / "model.safetensors")
    here = load_file(tmp_path / "ours" / "model.safetensors")
    carried = {k for k in there if k.endswith(("decoder.bias", "decoder.weight", "position_ids"))}
    assert here.keys() == there.keys() - carried
    assert (tmp_path / "ours" / "spiece.model").is_file()


def test_missing_encoder_weights_are_listed(tmp_path):
    folder = saved(reference("albert", "MaskedLM"), tmp_path)
    weights = load_file(folder / "model.safetensors")
    gone = [k for k in weights if "ffn_output" in k or "position" in k]
    save_file({k: v for k, v in weights.items() if k not in gone}, folder / "model.safetensors")
    with pytest.raises(CheckpointError) as caught:
        load_model(folder, "cloze")
    assert "missing weights (3)" in str(caught.value)
    assert all(name in str(caught.value) for name in gone)


def test_a_new_head_is_said_aloud(tmp_path):
    loaded = load_model(saved(reference("albert", "MaskedLM"), tmp_path), "choice")
    said = " ".join(loaded.report.lines())
    assert "new and untrained" in said
    assert "classifier.weight" in said
    assert "predictions.dense.weight" in said  # not used for this task


def test_weights_of_another_shape_are_named(tmp_path):
    folder = saved(reference("albert", "MaskedLM"), tmp_path)
    weights = load_file(folder / "model.safetensors")
    weights["predictions.dense.weight"] = torch.zeros(3, 3)
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"predictions\.dense\.weight is \[3, 3\], expected"):
        load_model(folder, "cloze")


def test_old_bin_files_open_with_weights_only(tmp_path):
    theirs = reference("bert", "MaskedLM")
    folder = saved(theirs, tmp_path)
    weights = load_file(folder / "model.safetensors")
    renamed = {
        k.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): v
        for k, v in weights.items()
    }
    (folder / "model.safetensors").unlink()
    torch.save(renamed, folder / "pytorch_model.bin")
    loaded = load_model(folder, "cloze")
    mine = hub_weights(loaded.model)
    assert all(torch.equal(mine[k], v) for k, v in weights.items() if k in mine)


class Evil:
    def __reduce__(self):
        return print, ("code was run",)


def test_a_malicious_bin_is_not_run(tmp_path, capsys):
    folder = saved(reference("albert", "MaskedLM"), tmp_path)
    (folder / "model.safetensors").unlink()
    torch.save({"albert": Evil()}, folder / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="convert it to safetensors"):
        load_model(folder, "cloze")
    assert "code was run" not in capsys.readouterr().out


def test_a_torn_file_is_named(tmp_path):
    folder = saved(reference("albert", "MaskedLM"), tmp_path)
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(CheckpointError, match=r"model\.safetensors: incomplete"):
        load_model(folder, "cloze")


def test_a_bare_encoder_loads(tmp_path):
    theirs = reference("albert", "MaskedLM")
    theirs.albert.save_pretrained(tmp_path)
    (tmp_path / "spiece.model").write_bytes((SAMPLE / "vocabulary/spiece.model").read_bytes())
    loaded = load_model(tmp_path, "cloze")
    assert {name.split(".")[0] for name in loaded.report.new} == {"predictions"}


@pytest.mark.parametrize("size", ["base", "large", "xlarge", "xxlarge"])
def test_published_sizes_have_exactly_their_parameters(size):
    config = size_config(size)
    with torch.device("meta"):
        ours = ReadingModel(config, "choice")
        theirs = transformers.AlbertForMultipleChoice(
            transformers.AlbertConfig(**hub_config(config, "choice"))
        )
    expected = {name: value.shape for name, value in theirs.named_parameters()}
    assert {hub_key(n, config): v.shape for n, v in ours.named_parameters()} == expected
