"""Exported folders opened by transformers alone and by onnxruntime: their answers are ours."""

import contextlib
import io
import json
import re
import shutil

import pytest
import torch
import transformers
from conftest import SAMPLE

from albert_rc.answering.temperature import kept_temperature
from albert_rc.checkpoints.hub import SHIPPED
from albert_rc.checkpoints.load import load_model, save_model
from albert_rc.errors import CheckpointError, UsageError
from albert_rc.export import graph, others, run, vocabulary
from albert_rc.export.card import PIPELINES
from albert_rc.export.others import running_text, split_alike
from albert_rc.export.records import read_records
from albert_rc.export.run import export
from albert_rc.io.atomic import atomic_folder
from albert_rc.io.files import file_sha256
from albert_rc.io.json import read_json, write_json
from albert_rc.model.config import EncoderConfig
from albert_rc.model.heads import ReadingModel
from albert_rc.model.pretraining_head import PretrainingModel
from albert_rc.model.span_head import SpanModel
from albert_rc.papers.formats import read_split
from albert_rc.text.tokenizer import load_tokenizer
from albert_rc.training.runs.mean_weights import source_of

onnxruntime = pytest.importorskip("onnxruntime")

SHAPE = {
    "hidden_size": 32,
    "num_layers": 3,
    "num_heads": 4,
    "ffn_size": 48,
    "max_positions": 160,
    "init_range": 0.2,
}
FAMILIES = {
    "albert": {"embedding_size": 16},
    "albert-groups": {
        "embedding_size": 32, "num_layers": 4, "num_groups": 2, "inner_layers": 2,
        "activation": "gelu",
    },
    "bert": {"family": "bert", "embedding_size": 32, "num_groups": 3, "activation": "gelu"},
    "albert-silu": {"embedding_size": 16, "activation": "silu"},
    "albert-shared": {"embedding_size": 16, "num_groups": 3, "common": "attention"},
    "roberta": {
        "family": "roberta", "embedding_size": 32, "num_groups": 3, "activation": "gelu",
        "pad_id": 1, "position_offset": 2, "max_positions": 162, "num_segments": 1,
    },
}  # fmt: skip
FAMILIES["roberta-relu"] = FAMILIES["roberta"] | {"activation": "relu"}
FAMILIES["mpnet"] = FAMILIES["roberta"] | {"family": "mpnet", "relative_buckets": 32}
FAMILIES["reversible"] = FAMILIES["albert"] | {"residual": "reversible"}


@pytest.fixture(scope="module")
def vocabularies(tmp_path_factory):
    """A folder with a vocabulary by family, trained on the sample."""
    from tokenizers import BertWordPieceTokenizer, ByteLevelBPETokenizer

    root = tmp_path_factory.mktemp("vocabularies")
    texts = [p.filled() for p in read_split(SAMPLE / "cloze" / "train").passages]
    pieces = BertWordPieceTokenizer(lowercase=True)
    pieces.train_from_iterator(texts, vocab_size=900)
    (root / "bert").mkdir()
    pieces.save_model(str(root / "bert"))
    pairs = ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    pairs.train_from_iterator(texts, vocab_size=900, special_tokens=special)
    (root / "roberta").mkdir()
    pairs.save_model(str(root / "roberta"))
    shutil.copytree(root / "roberta", root / "mpnet")
    shutil.copytree(SAMPLE / "vocabulary", root / "albert")
    return root


def made(vocabularies, family, task, folder, **how):
    """A model of random weights as a run leaves it; norms and biases too, or they hide faults."""
    shape = SHAPE | FAMILIES[family]
    tokenizer = load_tokenizer(vocabularies / shape.get("family", "albert"))
    config = EncoderConfig(**shape, vocab_size=tokenizer.size)
    torch.manual_seed(3)
    if task == "span":
        model = SpanModel(config, 0.5)
    elif task == "pretraining":
        model = PretrainingModel(config)
    else:
        labels = ("no", "yes", "maybe") if task == "label" else ()
        model = ReadingModel(config, task, how.get("option_score", "mean"), labels)
    for name, parameter in model.named_parameters():
        if name.endswith(("bias", "salience")) or "norm" in name:
            torch.nn.init.normal_(parameter, std=0.3)
    save_model(model, tokenizer, folder)
    return folder


def example_of(folder):
    """The code in a card, and what it says that it prints."""
    card = (folder / "README.md").read_text()
    code = re.search(r"```python\n(.*?)```", card, re.DOTALL)[1]
    printed = re.search(r"It prints `(.*?)`", card)
    return code, printed and printed[1]


def run_example(folder, monkeypatch):
    """Run a card's code as it stands there, beside the folder; what it prints."""
    code, expected = example_of(folder)
    assert "albert_rc." not in code.replace("config.albert_rc", "")
    monkeypatch.chdir(folder.parent)
    with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(said):
        exec(compile(code, "README.md", "exec"), {})
    return said.getvalue().strip().splitlines()[-1], expected


CASES = [("mpnet", "cloze")]
MORE = [
    ("albert", "span"),
    ("albert", "choice"), ("albert", "pretraining"), ("albert", "cloze"), ("albert", "label"),
    ("albert-groups", "cloze"),
    ("albert-shared", "cloze"), ("albert-silu", "cloze"), ("bert", "cloze"), ("bert", "choice"),
    ("bert", "label"), ("bert", "span"), ("roberta", "cloze"), ("roberta", "choice"),
    ("roberta", "label"), ("roberta", "span"), ("mpnet", "choice"), ("mpnet", "label"),
    ("mpnet", "span"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("family", "task"), CASES + [pytest.param(*case, marks=pytest.mark.slow) for case in MORE]
)
def test_others_answer_as_we_do(vocabularies, tmp_path, monkeypatch, family, task):
    source = made(vocabularies, family, task, tmp_path / "source")
    done = export(source, tmp_path / "out", onnx=True)
    assert done.transformers.questions == done.onnx.questions > 10
    assert done.transformers.longest > 100
    assert done.transformers.shortest < done.transformers.longest
    assert not done.split.others
    assert done.sizes["onnx/model.onnx"] < 1.2 * done.sizes["model.safetensors"] + 40_000
    printed, expected = run_example(tmp_path / "out", monkeypatch)
    if task in ("cloze", "pretraining"):
        assert printed == expected
    # Ours opens it too.
    if task == "cloze":
        assert not load_model(tmp_path / "out", "cloze").report.new


@pytest.mark.slow
@pytest.mark.parametrize("score", ["first", "salience"])
def test_an_option_of_several_pieces_in_the_example(vocabularies, tmp_path, monkeypatch, score):
    source = made(vocabularies, "albert", "cloze", tmp_path / "source", option_score=score)
    done = export(source, tmp_path / "out", onnx=True)
    printed, expected = run_example(tmp_path / "out", monkeypatch)
    assert printed == expected
    session = onnxruntime.InferenceSession(tmp_path / "out" / "onnx/model.onnx")
    names = [output.name for output in session.get_outputs()]
    assert names == ["logits", *(["piece_weight"] if score == "salience" else [])]
    assert done.as_json()["onnx"]["tolerance"] == 1e-4


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    """The shipped model, exported."""
    out = tmp_path_factory.mktemp("export") / "albert-rc-tiny"
    return out, export("albert-rc-tiny", out, licence="mit")


def test_the_shipped_model_with_transformers_alone(shipped, monkeypatch):
    out, done = shipped
    assert done.precision == "bf16"
    assert done.sizes["model.safetensors"] < 7.2e6
    assert run_example(out, monkeypatch) == ("umbrella 0.7594", "umbrella 0.7594")


def test_transformers_gives_the_same_ids(shipped):
    theirs = transformers.AutoTokenizer.from_pretrained(shipped[0])
    ours = load_tokenizer(shipped[0])
    passages = read_split(SAMPLE / "cloze" / "test").passages
    assert split_alike(shipped[0], ours, passages).others == 0
    for text in ["He said “naïve” 10.5%  …\u00a0twice", "(a) ﬁne-tuned\tÉmile's £5 ☃☃ ok", "no"]:
        assert theirs(text, add_special_tokens=False).input_ids == ours.encode([text])[0]
    pair = theirs("first text", "second text")
    assert sum(pair.token_type_ids) == len(ours.encode(["second text"])[0]) + 1
    text = running_text(passages[0], ours)
    assert text.count("[MASK]") == len(passages[0].questions)
    assert theirs(text).input_ids.count(ours.mask_id) == len(passages[0].questions)


def test_the_card_has_what_the_hub_reads(shipped):
    from huggingface_hub import ModelCard

    data = ModelCard((shipped[0] / "README.md").read_text()).data
    assert data.license == "mit"
    assert data.pipeline_tag == "fill-mask"
    assert data.library_name == "transformers"
    assert data.base_model is None
    assert data.datasets is None
    text = (shipped[0] / "README.md").read_text()
    assert "43.10%" in text  # of its own card
    assert "`albert-rc-tiny`, which comes with albert-rc, unchanged." in text
    assert "unchanged" not in read_records(SHIPPED / "albert-rc-tiny", unchanged=False).started_from
    assert str(SAMPLE.parent) not in text


def test_a_runs_records_are_in_its_card(trainer, stores, tmp_path, monkeypatch):
    folder, data = tmp_path / "run1", tmp_path / "stores"
    made_by = trainer(folder, max_steps=3, eval_steps=2)
    made_by.run()
    data.mkdir()
    for split in ("train", "dev"):
        stores["cloze", split].save(data / f"{split}.pt")
    settings = {"model": "albert/albert-base-v2", "scratch": None, "data": str(data)}
    write_json(folder / "train.json", settings | {"batch_size": 6, "learning_rate": 1e-3})
    kept = {"temperature": 1.7, "weights_sha256": file_sha256(folder / "model.safetensors")}
    write_json(folder / "calibration.json", kept | {"before": {"ece": 0.12}, "after": {}})
    export(folder, tmp_path / "out", papers=read_split(SAMPLE / "cloze" / "dev"), title="A | run")
    text = (tmp_path / "out" / "README.md").read_text()
    assert 'base_model: "albert/albert-base-v2"' in text
    assert "license" not in text
    assert "Not stated" in text
    assert stores["cloze", "train"].meta["source_hash"] in text
    assert "28 papers" in text
    assert "| learning rate | 0.001 |" in text
    assert re.search(r"accuracy, 95% interval over papers \| [\d.]+% \[[\d.]+%, [\d.]+%\]", text)
    assert "dev store, accuracy" in text
    assert "divide the logits by the temperature 1.7000" in text
    assert kept_temperature(tmp_path / "out") == (1.7, True)
    assert str(tmp_path) not in text
    # One that was fitted to other scores does not hold for the exported model.
    hashed = {"task": "cloze", "attention": "lsh"}
    write_json(folder / "calibration.json", kept | {"reading": hashed})
    export(folder, tmp_path / "dense")
    assert "divide the logits" not in (tmp_path / "dense" / "README.md").read_text()
    assert kept_temperature(tmp_path / "dense") == (1.0, False)
    # A store that was made anew is not the one of the run.
    stores["cloze", "dev"].save(data / "train.pt")
    assert "papers," not in str(dict(read_records(folder).data)["train"])


def test_the_card_names_the_learning_rate_after_restarts(tmp_path):
    write_json(tmp_path / "train.json", {"model": "x", "learning_rate": 3.0})
    lines = [
        {"kind": "dev", "step": 4, "accuracy": 0.3, "best": True},
        {"kind": "dev", "step": 4, "attempt": 2, "accuracy": 0.5, "best": True},
        {"kind": "dev", "step": 8, "attempt": 3, "accuracy": 0.4, "best": False},
    ]
    for count, said in ((1, "3.0"), (3, "0.75 (3.0 before 2 restarts after a collapse)")):
        text = "".join(f"{json.dumps(line)}\n" for line in lines[:count])
        (tmp_path / "metrics.jsonl").write_text(text)
        assert ("learning rate", said) in read_records(tmp_path).recipe


def test_the_card_of_a_mean_has_the_records_of_its_run(trainer, tmp_path):
    made_by = trainer(tmp_path / "run1", max_steps=4, save_steps=2, eval_steps=2, keep=2)
    made_by.run()
    settings = {"model": "albert/albert-base-v2", "batch_size": 6, "data": "store"}
    write_json(tmp_path / "run1" / "train.json", settings)
    with source_of([str(tmp_path / "run1")], 2, tmp_path / "mean", list) as (source, mean):
        export(source, tmp_path / "mean", mean_of=mean.made_of, run=mean.run)
    text = (tmp_path / "mean" / "README.md").read_text()
    assert 'base_model: "albert/albert-base-v2"' in text
    assert "| batch size | 6 |" in text
    assert re.search(r"are the mean of 2 checkpoints, `resume-\d+\.pt` and `resume-\d+", text)
    assert "step of these weights" not in text


def test_the_threshold_of_a_mean_is_said_to_be_another_models(vocabularies, tmp_path):
    for name in ("one", "two"):
        made(vocabularies, "albert", "span", tmp_path / name)
    said = []
    folders = [str(tmp_path / "one"), str(tmp_path / "two")]
    with source_of(folders, None, tmp_path / "mean", list) as (source, mean):
        export(source, tmp_path / "mean", mean_of=mean.made_of, run=mean.run, say=said.append)
    text = (tmp_path / "mean" / "README.md").read_text()
    assert "was tuned for one of them, not for their mean" in text
    assert any("--null-threshold" in line for line in said)


@pytest.mark.slow
def test_the_card_of_a_model_that_reads_twice(vocabularies, tmp_path):
    """Its figures are those of `predict`, and what others compute is there as well."""
    source = made(vocabularies, "albert", "cloze", tmp_path / "source")
    config = read_json(source / "config.json")
    config["albert_rc"]["read_again"] = "masks"
    write_json(source / "config.json", config)
    paper = {"article": "He _ it .", "options": [["gave up", "was", "did"]], "answers": ["A"]}
    write_json(tmp_path / "papers" / "1.json", paper)
    papers = read_split(tmp_path / "papers")
    out = tmp_path / "my model `x`"
    done = export(source, out, papers=papers)
    names = [name for name, _ in done.measured]
    assert names[:2] == [
        "accuracy, 95% interval over papers", "accuracy if all questions are read once"
    ]  # fmt: skip
    assert "loss without a temperature, nats" in names
    text = (out / "README.md").read_text()
    assert "reads blanks that have options of several words a second time" in text
    assert "--model 'my model `x`' --out" in text
    assert 'folder = "my model `x`"' in text


def test_the_card_of_a_span_model_has_its_own_facts(vocabularies, tmp_path):
    source = made(vocabularies, "albert", "span", tmp_path / "source")
    settings = {"model": "albert-rc-tiny", "task": "span", "mask_rate": 0.0, "option_score": "mean"}
    write_json(source / "train.json", settings | {"batch_size": 6})
    asked = {"id": "q", "question": "Who?", "answers": [{"text": "He", "answer_start": 0}]}
    paragraph = {"context": "He ran home.", "qas": [asked]}
    paragraphs = [paragraph | {"qas": [asked | {"id": f"q{n}"}]} for n in range(3)]
    squad = {"version": "1.1", "data": [{"title": "t", "paragraphs": paragraphs}]}
    write_json(tmp_path / "dev.json", squad)
    done = export(source, tmp_path / "out", papers=read_split(tmp_path / "dev.json"))
    names = [name for name, _ in done.measured]
    assert names == [f"{n}, 95% interval over passages" for n in ("exact match", "F1")] + [
        "questions"
    ]
    assert dict(done.measured)["questions"] == "3"
    assert re.fullmatch(r"(0|100)\.00% \[\d+\.\d\d%, \d+\.\d\d%\]", done.measured[0][1])
    text = (tmp_path / "out" / "README.md").read_text()
    assert "| batch size | 6 |" in text
    assert "words masked" not in text
    assert "score of an option" not in text


def test_rounding_says_what_it_costs(vocabularies, tmp_path):
    source = made(vocabularies, "albert", "cloze", tmp_path / "source")
    weights = file_sha256(source / "model.safetensors")
    write_json(source / "calibration.json", {"temperature": 1.7, "weights_sha256": weights})
    full = export(source, tmp_path / "full")
    half = export(source, tmp_path / "half", precision="bf16")
    assert (full.precision, half.precision) == ("fp32", "bf16")
    assert half.sizes["model.safetensors"] < 0.6 * full.sizes["model.safetensors"]
    assert re.search(r"rounded to bf16, which changed [\d,]+ of [\d,]+ answers",
                     (tmp_path / "half" / "README.md").read_text())  # fmt: skip
    assert read_json(tmp_path / "half" / "config.json")["dtype"] == "bfloat16"
    assert kept_temperature(tmp_path / "half") == (1.7, True)


def refused(source, tmp_path, error, match, **how):
    """Export must fail, and leave nothing."""
    there = set(tmp_path.iterdir())
    with pytest.raises(error, match=match):
        export(source, tmp_path / "out", **how)
    assert set(tmp_path.iterdir()) == there


def test_a_graph_that_answers_otherwise_is_not_written(vocabularies, tmp_path, monkeypatch):
    source = made(vocabularies, "albert", "cloze", tmp_path / "source")
    opened = graph.open_folder

    def otherwise(folder, task):
        model = opened(folder, task)
        model.predictions.activation = torch.nn.ReLU()
        return model

    monkeypatch.setattr(graph, "open_folder", otherwise)
    refused(source, tmp_path, CheckpointError, "ONNX differs from albert-rc: in a batch", onnx=True)


def test_a_folder_that_others_read_otherwise_is_not_written(vocabularies, tmp_path, monkeypatch):
    source = made(vocabularies, "roberta", "cloze", tmp_path / "source")
    opened = others.open_folder

    def otherwise(folder, task):
        model = opened(folder, task)
        torch.nn.init.zeros_(model.lm_head.dense.bias)
        return model

    monkeypatch.setattr(others, "open_folder", otherwise)
    refused(source, tmp_path, CheckpointError, "transformers differs from albert-rc: in a batch")


def test_the_activation_of_roberta_is_not_that_of_its_head(vocabularies, tmp_path):
    """transformers' RoBERTa takes GELU before the words, whatever its config.json says."""
    source = made(vocabularies, "roberta-relu", "cloze", tmp_path / "source")
    assert export(source, tmp_path / "out").transformers.questions > 10


def test_a_vocabulary_that_splits_otherwise_is_not_written(vocabularies, tmp_path, monkeypatch):
    source = made(vocabularies, "albert", "cloze", tmp_path / "source")
    scores = vocabulary._scores
    monkeypatch.setattr(vocabulary, "_scores", lambda proto: [[p, -1.0] for p, _ in scores(proto)])
    refused(source, tmp_path, CheckpointError, "texts are split differently; nothing was written")


@pytest.mark.parametrize("family", ["albert", "bert", "roberta"])
def test_an_exported_vocabulary_remains_the_same_one(vocabularies, tmp_path, family):
    """Or a teacher, or a store, would be refused for the model's exported folder."""
    given = load_tokenizer(vocabularies / family)
    once, twice = tmp_path / "once", tmp_path / "twice"
    once.mkdir()
    twice.mkdir()
    vocabulary.write_vocabulary(given, once, 160)
    assert load_tokenizer(once).fingerprint == given.fingerprint
    vocabulary.write_vocabulary(load_tokenizer(once), twice, 160)
    assert (twice / "tokenizer.json").read_bytes() == (once / "tokenizer.json").read_bytes()


def test_what_others_cannot_compute_is_refused(vocabularies, tmp_path):
    source = made(vocabularies, "reversible", "cloze", tmp_path / "source")
    refused(source, tmp_path, UsageError, "reversible layers")
    plain = made(vocabularies, "albert", "cloze", tmp_path / "plain")
    config = read_json(plain / "config.json")
    lsh = {"attention": "lsh", "lsh": {"shared": True}}
    write_json(plain / "config.json", config | {"albert_rc": config["albert_rc"] | lsh})
    refused(plain, tmp_path, UsageError, "queries that serve as keys")
    write_json(plain / "config.json", config | {"architectures": ["AlbertModel"]})
    refused(plain, tmp_path, UsageError, "has no head for a task; fine-tune it")


def test_a_missing_extra_is_named_first(tmp_path, monkeypatch):
    monkeypatch.setattr(graph, "find_spec", lambda name: None if name == "onnx" else name)
    refused("no-such-model", tmp_path, UsageError, r"pip install .albert-rc\[onnx\]", onnx=True)


def test_a_folder_with_something_in_it_is_left_alone(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("mine")
    refused("albert-rc-tiny", tmp_path, UsageError, "is not empty; name a new folder")
    out = tmp_path / "new"
    dream = read_split(SAMPLE / "dream" / "dev.json")
    with pytest.raises(
        UsageError, match="these are choice papers, but the model answers cloze papers"
    ):
        export("albert-rc-tiny", out, papers=dream)
    assert not out.exists()
    out = tmp_path / "out"
    assert [path.name for path in out.iterdir()] == ["mine.txt"]


def test_a_folder_appears_whole_or_not_at_all(tmp_path):
    (tmp_path / ".out.dead.tmp").mkdir()  # of a process that was killed
    with pytest.raises(RuntimeError), atomic_folder(tmp_path / "out") as folder:
        (folder / "half").write_text("x")
        assert not (tmp_path / "out").exists()
        raise RuntimeError
    assert not list(tmp_path.iterdir())
    (tmp_path / "out").mkdir()  # an empty one may be there
    with atomic_folder(tmp_path / "out") as folder:
        (folder / "inner").mkdir()
        (folder / "inner" / "whole").write_text("x")
    assert [p.name for p in tmp_path.rglob("*")] == ["out", "inner", "whole"]


@pytest.mark.slow
def test_the_command_writes_everything(cli, tmp_path):
    done = cli(
        "export", "albert-rc-tiny", "--out", tmp_path / "x", "--onnx", "--licence", "mit",
        "--precision", "fp16", "--papers", SAMPLE / "cloze" / "dev", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["onnx"]["questions"] == found["transformers"]["questions"]
    assert found["precision"] == "fp16"
    assert set(found["bytes"]) == {
        "README.md", "calibration.json", "config.json", "model.safetensors", "onnx/model.onnx",
        "spiece.model", "tokenizer.json", "tokenizer_config.json",
    }  # fmt: skip


def test_every_kind_has_a_place_on_the_hub():
    tasks = {task for family in run.FAMILIES.values() for task in family.architectures}
    assert tasks == PIPELINES.keys()
