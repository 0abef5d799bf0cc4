"""Model folders of others: no code of theirs runs, and no number of theirs decides."""

import json
import math
import pickle
import resource
import struct
import time
import zipfile

import pytest
import torch
from commands import run_cli
from conftest import SAMPLE, SHAPE
from evil import Evil
from safetensors.torch import save_file

from albert_rc.checkpoints import weights as weightfile
from albert_rc.checkpoints.hf_names import FAMILIES
from albert_rc.checkpoints.load import load_model, save_model
from albert_rc.errors import CheckpointError, UsageError
from albert_rc.text.tokenizer import load_tokenizer
from albert_rc.training.checkpoint import state_path

VOCABULARY = SAMPLE / "vocabulary"


@pytest.fixture(scope="module")
def made():
    return load_model(VOCABULARY, "cloze", scratch="tiny", shape=SHAPE)


@pytest.fixture
def folder(made, tmp_path):
    """A tiny model's folder, to be damaged."""
    save_model(made.model, made.tokenizer, tmp_path / "model")
    return tmp_path / "model"


def change(folder, **fields):
    path = folder / "config.json"
    raw = json.loads(path.read_bytes())
    path.write_text(json.dumps(raw | fields))


def refusal(folder, error=CheckpointError):
    """What loading says, after it took neither time nor memory to say it."""
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with pytest.raises(error) as caught:
        load_model(folder, "cloze")
    assert time.process_time() - start < 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024  # KiB
    said = str(caught.value)
    assert "\n" not in said
    return said


def test_the_exit_code_of_a_bad_model_is_4(folder, tmp_path):
    mark = tmp_path / "code was run"
    (folder / "model.safetensors").unlink()
    torch.save({"albert": Evil(mark)}, folder / "pytorch_model.bin")
    papers, out = SAMPLE / "cloze" / "test", tmp_path / "answer.json"
    done = run_cli("predict", "--data", papers, "--model", folder, "--out", out)
    assert done.returncode == CheckpointError.exit_code == 4, done.stderr
    assert "contains more than tensors" in done.stderr
    assert "Traceback" not in done.stderr
    assert not mark.exists()
    assert not out.exists()


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_bare_pickle_is_not_run(folder, tmp_path, protocol):
    mark = tmp_path / "code was run"
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({"a": Evil(mark)}, protocol))
    said = refusal(folder)
    assert "pytorch_model.bin" in said
    assert not mark.exists()


def test_an_evil_state_is_not_resumed(trainer, tmp_path):
    mark = tmp_path / "code was run"
    trainer(tmp_path / "run", max_steps=1).run()
    torch.save({"model": Evil(mark), "settings": {}}, state_path(tmp_path / "run", 2))
    said = []
    trainer(tmp_path / "run", max_steps=1).run(resume=True, on_event=said.append)
    assert "resume-00000002.pt is skipped: not a state" in said[0]
    state_path(tmp_path / "run", 1).unlink()
    torch.save({"model": Evil(mark), "settings": {}}, state_path(tmp_path / "run", 2))
    with pytest.raises(CheckpointError, match="are truncated, damaged or invalid"):
        trainer(tmp_path / "run", max_steps=1).run(resume=True)
    assert not mark.exists()


def test_remote_code_is_never_run(made, folder, tmp_path):
    mark = tmp_path / "code was run"
    code = f"open({str(mark)!r}, 'w')\nclass Evil: pass\n"
    for name in (
        "modeling_evil.py",
        "tokenization_evil.py",
        "configuration_evil.py",
        "__init__.py",
    ):
        (folder / name).write_text(code)
    evil = {"AutoConfig": "configuration_evil.Evil", "AutoModel": "modeling_evil.Evil"}
    change(folder, auto_map=evil, trust_remote_code=True, custom_pipelines={"x": {"impl": "evil"}})
    settings = {"auto_map": {"AutoTokenizer": ["tokenization_evil.Evil", None]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    loaded = load_model(folder, "cloze")
    assert torch.equal(loaded.model.words, made.model.words)
    assert not mark.exists()


SIZES = (
    "vocab_size", "embedding_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
    "intermediate_size", "max_position_embeddings", "type_vocab_size", "num_hidden_groups",
    "inner_group_num",
)  # fmt: skip


@pytest.mark.parametrize("name", SIZES)
def test_sizes_are_held_against_the_weights(folder, name):
    original = json.loads((folder / "config.json").read_bytes())[name]
    for value in (
        10**12,
        10**6,
        10**30,
        0,
        -1,
        2.5,
        float(original),
        str(original),
        None,
        [],
        True,
    ):
        change(folder, **{name: value})
        said = refusal(folder)
        assert str(folder) in said
        assert name in said or "--" in said or "does not fit" in said or "too few" in said, said


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model_type", []), ("model_type", {"a": 1}), ("model_type", "gpt2"), ("hidden_act", []),
        ("hidden_act", "evil"), ("layer_norm_eps", "0"), ("layer_norm_eps", -1),
        ("initializer_range", None), ("hidden_dropout_prob", 2), ("hidden_dropout_prob", []),
        ("hidden_dropout_prob", None), ("attention_probs_dropout_prob", None),
        ("pad_token_id", -1), ("pad_token_id", 10**9), ("pad_token_id", "0"),
        ("id2label", {"x": 1}),
        ("id2label", []), ("albert_rc", 5), ("albert_rc", {"option_score": []}),
        ("albert_rc", {"option_score": "evil"}), ("albert_rc", {"attention": {}}),
        ("albert_rc", {"attention": "evil"}), ("albert_rc", {"attention": "lsh", "lsh": 5}),
        ("albert_rc", {"attention": "lsh", "lsh": {"rounds": 10**12}}),
        ("albert_rc", {"attention": "lsh", "lsh": {"chunk": "64"}}),
        ("albert_rc", {"attention": "lsh", "lsh": {"landmarks": 5}}),
        ("albert_rc", {"attention": "lsh", "lsh": {"landmarks": ["x"]}}),
        ("albert_rc", {"common": []}), ("albert_rc", {"residual": 7}),
        ("albert_rc", {"null_threshold": "x"}), ("position_embedding_type", "relative_key"),
    ],
)  # fmt: skip
def test_fields_of_a_config_are_checked(folder, field, value):
    change(folder, **{field: value})
    said = refusal(folder)
    assert str(folder / "config.json") in said
    if field == "hidden_act":
        assert "hidden_act" in said


@pytest.mark.parametrize(
    ("setting", "value", "must_be"),
    [
        ("chunk", "64", "is '64'; it must be a whole number"),
        ("chunk", True, "is true; it must be a whole number"),
        ("rounds", 0, "is 0; it must be from 1 to 1,000"),
        ("hash", "evil", "is 'evil'; it must be one of rotations, projections"),
        ("hash", 3, "is 3; it must be text"),
        ("shared", 1, "is 1; it must be true or false"),
        ("landmarks", 5, "is 5; it must be a list of token ids"),
        ("landmarks", [1, -1], "it must be a list of token ids"),
        ("buckets", "x", "is 'x'; it must be a whole number up to 65,536, or null"),
        ("colour", "blue", "is unknown; the settings there are shared, chunk"),
    ],
)
def test_settings_of_hashed_attention_are_named_with_their_file(folder, setting, value, must_be):
    change(folder, albert_rc={"attention": "lsh", "lsh": {setting: value}})
    said = refusal(folder)
    assert said.startswith(f"{folder / 'config.json'}: {setting} in albert_rc.lsh ")
    assert must_be in said


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b"\xff\xfe{}", b'{"hidden_size": NaN}', b"[" * 10**5]
)
def test_a_config_that_is_none_is_refused(folder, content):
    (folder / "config.json").write_bytes(content)
    assert "config.json" in refusal(folder)


def header_of(path):
    content = path.read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + size]), content[8 + size :]


def rewrite(path, header, data, size=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if size is None else size) + text + data)


def damages(header, data):
    """Headers that lie, with the weights that go with them."""
    name = "albert.embeddings.word_embeddings.weight"
    word, other = header[name], header["albert.embeddings.LayerNorm.weight"]
    lies = {
        "larger than the file": word | {"shape": [10**6, 10**6], "data_offsets": [0, 4 * 10**12]},
        "shape and offsets differ": word | {"shape": [10**6, 16]},
        "overlap": word | {"data_offsets": other["data_offsets"]},
        "backwards": word | {"data_offsets": word["data_offsets"][::-1]},
        "negative": word | {"shape": [-1, 16]},
        "overflow": word | {"shape": [2**63, 2**63]},
        "no numbers": word | {"shape": ["a"]},
        "of another type": word | {"dtype": "Q7"},
        "integers": word | {"dtype": "I32"},
        "missing": None,
    }
    for what, lie in lies.items():
        yield what, {**header, name: lie}, data, None
    yield "cut", header, data[:100], None
    yield "no json", b"{" * 1000, data, None
    yield "absurd length", header, data, 2**63
    yield "length beyond the file", header, data, 10**9
    yield "empty", b"", b"", None
    yield "deep", b'{"a":' + b"[" * 10**5, b"", None


def test_weights_that_lie_are_refused(folder):
    path = folder / "model.safetensors"
    header, data = header_of(path)
    for what, lying, content, size in damages(header, data):
        rewrite(path, lying, content, size)
        said = refusal(folder)
        assert "model.safetensors" in said, what


@pytest.mark.parametrize("shape", [[], [2**62, 0], [0, 2**62], [3]])
def test_norms_of_another_shape_are_refused(folder, shape):
    path = folder / "model.safetensors"
    header, data = header_of(path)
    count = 1 if not shape else min(shape) if 0 in shape else shape[0]
    # Its bytes stay where they were, under another name: the library refuses holes.
    header["unused"] = header["albert.embeddings.LayerNorm.bias"]
    header["albert.embeddings.LayerNorm.bias"] = {
        "dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * count],
    }  # fmt: skip
    rewrite(path, header, data + bytes(4 * count))
    assert "LayerNorm.bias" in refusal(folder)


@pytest.mark.parametrize("pickled", [False, True])
@pytest.mark.parametrize("value", [math.nan, -math.inf])
def test_weights_that_are_no_numbers_are_refused(made, folder, value, pickled):
    """One word's row would spoil the passages with that word, and no others."""
    tensors = tensors_of(made)
    key = "albert.embeddings.word_embeddings.weight"
    tensors[key] = tensors[key].clone()
    tensors[key][-1, 3] = value
    if pickled:
        (folder / "model.safetensors").unlink()
        torch.save(tensors, folder / "pytorch_model.bin")
    else:
        save_file(tensors, folder / "model.safetensors")
    assert f"{key} holds NaN or infinite values" in refusal(folder)


def test_weights_that_change_while_they_are_read_are_refused(made, folder, monkeypatch):
    path = folder / "model.safetensors"
    monkeypatch.setattr(weightfile, "PIECE", 64)
    weights = weightfile.open_weights(folder, FAMILIES["albert"])
    key = weights.keys["albert.embeddings.word_embeddings.weight"]
    expected = dict(made.model.named_parameters())["encoder.embeddings.word.weight"]
    assert torch.equal(weightfile.read_weight(weights, key), expected)
    path.write_bytes(path.read_bytes())
    with pytest.raises(CheckpointError, match="was replaced while it was read"):
        weightfile.read_weight(weights, key)


def test_a_link_that_leads_to_itself_is_refused(folder):
    for name in ("config.json", "model.safetensors"):
        path = folder / name
        kept = path.read_bytes()
        path.unlink()
        path.symlink_to(path)
        assert name in refusal(folder)
        path.unlink()
        path.write_bytes(kept)
    (folder / "loop").symlink_to(folder / "loop")
    with pytest.raises(UsageError, match="no such folder"):
        load_model(folder / "loop", "cloze")


def tensors_of(made):
    from albert_rc.checkpoints.load import hub_weights

    return hub_weights(made.model)


@pytest.mark.parametrize("how", ["repeats itself", "lies nowhere", "sparse", "packed", "a list"])
def test_tensors_that_pose_are_refused(made, folder, how):
    """A few bytes in a pickle, or in an archive, must not become gigabytes."""
    (folder / "model.safetensors").unlink()
    path = folder / "pytorch_model.bin"
    tensors = tensors_of(made)
    name = "albert.embeddings.word_embeddings.weight"
    posing = {
        "repeats itself": torch.zeros(1).expand(tensors[name].shape),
        "lies nowhere": torch.zeros(tensors[name].shape, device="meta"),
        "sparse": torch.zeros(tensors[name].shape).to_sparse(),
        "packed": tensors[name],
        "a list": [1, 2],
    }
    torch.save(tensors | {name: posing[how]}, path)
    if how == "packed":
        with zipfile.ZipFile(path) as archive:
            entries = {entry.filename: archive.read(entry) for entry in archive.infolist()}
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for entry, content in entries.items():
                archive.writestr(entry, content)
    assert "convert it to safetensors" in refusal(folder)


def test_pickled_weights_without_tricks_are_read(made, folder):
    (folder / "model.safetensors").unlink()
    torch.save(tensors_of(made), folder / "pytorch_model.bin")
    assert torch.equal(load_model(folder, "cloze").model.words, made.model.words)


FAR = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 2**32 - 1}
MODELS = (
    {"type": "BPE", "vocab": {}, "merges": [["a", "b"]]},
    {"type": "WordLevel", "vocab": FAR, "unk_token": "[UNK]"},
    {"type": "Unigram", "unk_id": 9, "vocab": [["a", 0]]},
    {"type": "evil"},
)
JUNK = [
    ("spiece.model", b""), ("spiece.model", b"\x00" * 1000),
    ("spiece.model", b"\x0a\xff\xff\xff\xff\x0f"),
    ("tokenizer.json", b"{}"), ("tokenizer.json", b"[" * 10**5), ("tokenizer.json", b"\xff"),
    *(("tokenizer.json", json.dumps({"version": "1.0", "model": m}).encode()) for m in MODELS),
    ("vocab.txt", b"\xff\xfe"), ("vocab.txt", b""), ("vocab.json", b"{}"), ("vocab.json", b"[]"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content"), JUNK)
def test_a_vocabulary_that_is_none_is_refused(folder, name, content):
    (folder / "spiece.model").unlink()
    (folder / name).write_bytes(content)
    (folder / "merges.txt").write_bytes(b"\x00")
    assert refusal(folder)


def test_a_vocabulary_that_breaks_in_use_is_refused(folder):
    """It loads, but names an unknown piece that it does not have."""
    (folder / "spiece.model").unlink()
    names = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    model = {"type": "WordPiece", "vocab": {name: i for i, name in enumerate(names)},
             "unk_token": "evil", "continuing_subword_prefix": "##",
             "max_input_chars_per_word": 100}  # fmt: skip
    (folder / "tokenizer.json").write_text(json.dumps({"version": "1.0", "model": model}))
    tokenizer = load_tokenizer(folder)
    for split in (tokenizer.encode, tokenizer.encode_with_offsets):
        with pytest.raises(CheckpointError, match="cannot split a text"):
            split(["It was late."])


def test_settings_of_a_vocabulary_that_are_none_are_refused(folder):
    (folder / "tokenizer_config.json").write_bytes(b"[]")
    assert "vocabulary" in refusal(folder)


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ({"num_layers": 10**9}, "--num-layers"),
        ({"num_layers": 0}, "--num-layers 0 must be from 1"),
        ({"num_layers": -2}, "--num-layers -2"),
        ({"hidden_size": 10**6}, "--hidden-size"),
        ({"embedding_size": 10**9}, "--embedding-size"),
        ({"hidden_size": 2**17, "num_layers": 5000, "num_groups": 5000}, "are free"),
    ],
)
def test_a_shape_from_scratch_is_checked_before_it_takes_memory(shape, said):
    start = time.process_time()
    with pytest.raises(UsageError, match=said):
        load_model(VOCABULARY, "cloze", scratch="tiny", shape=shape)
    assert time.process_time() - start < 2


def test_more_places_than_memory_are_refused():
    for places in (10**12, 2**24):
        with pytest.raises(UsageError, match=r"--max-length|are free"):
            load_model(VOCABULARY, "cloze", scratch="xxlarge", max_length=places * 8)


def test_an_output_matrix_of_its_own_is_not_passed_over(made, folder):
    """A copy of the embeddings may lie there; another matrix would change every answer."""
    from safetensors.torch import load_file

    path = folder / "model.safetensors"
    weights = load_file(path)
    words = weights["albert.embeddings.word_embeddings.weight"]
    for matrix, fits in ((words.clone(), True), (words + 0.01, False)):
        save_file(weights | {"predictions.decoder.weight": matrix}, path)
        if fits:
            load_model(folder, "cloze")
            continue
        with pytest.raises(CheckpointError, match="differs from the word embeddings"):
            load_model(folder, "cloze")
        load_model(folder, "choice")  # which has no such output
