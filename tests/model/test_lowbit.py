"""8-bit products, how far they are off, and the gate that models must pass before."""

import json

import pytest
import torch
from torch import nn

from albert_rc.answering.int8_check import (
    MOST,
    Cost,
    Trial,
    identity,
    measure_cost,
    remember_cost,
    remembered_cost,
)
from albert_rc.checkpoints.hub import shipped_models
from albert_rc.checkpoints.load import load_model, save_model
from albert_rc.errors import CheckpointError
from albert_rc.model.config import Compute
from albert_rc.model.int8 import Int8Matrix, has_int8
from albert_rc.model.linear import PreparedLinear
from albert_rc.papers.formats import read_split
from albert_rc.papers.schema import PaperSet, Passage, Question
from albert_rc.runtime.devices import Processes
from albert_rc.stores.store import make_store

CPU = torch.device("cpu")
ALONE = Processes(CPU)
pytestmark = pytest.mark.skipif(not has_int8(CPU), reason="no 8-bit products here")


def test_products_are_those_of_the_quantised_numbers():
    """Against plain fp32 arithmetic on the same integers and scales."""
    torch.manual_seed(0)
    weight_OI, bias_O = torch.randn(48, 96), torch.randn(48)
    matrix = Int8Matrix(weight_OI, bias_O)
    x_TI = torch.randn(7, 96) * torch.logspace(-3, 3, 7)[:, None]
    step_TI, scale_T1 = matrix.quantise(x_TI)
    integer_TI = step_TI.float() - 128
    integer_OI = (weight_OI / matrix.scale_O[:, None]).round()
    expected = integer_TI @ integer_OI.T * matrix.scale_O * scale_T1 + bias_O
    torch.testing.assert_close(matrix.product(x_TI), expected, rtol=1e-5, atol=1e-5)
    assert integer_TI.abs().max() <= 127


def test_nothing_wraps_around_in_bf16():
    """A scale that was rounded down would make 128 of the largest number, and so -128."""
    torch.manual_seed(0)
    x_TI = torch.randn(400, 96).bfloat16()
    step_TI, _ = Int8Matrix(torch.randn(48, 96).bfloat16(), torch.zeros(48)).quantise(x_TI)
    integer_TI = step_TI.float() - 128
    assert integer_TI.abs().max() <= 127
    assert (integer_TI.sign() * x_TI.float().sign() >= 0).all()


def test_quantisation_is_per_token_and_per_channel():
    """A loud token or channel must not drown the quiet ones."""
    torch.manual_seed(0)
    weight_OI = torch.randn(64, 256) * torch.logspace(-3, 3, 64)[:, None]
    x_TI = torch.randn(32, 256) * torch.logspace(-3, 3, 32)[:, None]
    error_TO = Int8Matrix(weight_OI, torch.zeros(64)).product(x_TI) - x_TI @ weight_OI.T
    size_TO = x_TI.norm(dim=1)[:, None] * weight_OI.norm(dim=1)
    assert (error_TO / size_TO).abs().max() < 0.005


@pytest.mark.parametrize("tokens", [1, 17])
def test_zeros_and_single_tokens(tokens):
    linear = nn.Linear(32, 16)
    prepared = PreparedLinear([linear], "int8", learning=False)
    out = prepared.product(torch.zeros(tokens, 32, dtype=torch.bfloat16))
    torch.testing.assert_close(out, linear.bias.detach().bfloat16().expand(tokens, 16))


def test_the_gate_compares_and_remembers(sample, stores, tokenizer, tmp_path):
    store = stores["cloze", "dev"]
    loaded = load_model(sample / "vocabulary", "cloze", scratch="tiny")
    save_model(loaded.model, tokenizer, tmp_path)
    path = tmp_path / "dev.pt"
    store.save(path)
    trial, model = Trial(precision="fp32"), loaded.model
    cost = measure_cost(model, tokenizer, store, ALONE, trial)
    assert model.encoder.compute == Compute(precision="int8")
    assert cost.questions == store.num_questions
    assert 0 <= cost.changed < cost.questions / 2
    of = identity(model, tmp_path, path, trial)
    assert remembered_cost(tmp_path, of) is None
    remember_cost(tmp_path, of, cost)
    assert remembered_cost(tmp_path, identity(model, tmp_path, path, trial)) == cost
    stores["cloze", "test"].save(path)
    assert remembered_cost(tmp_path, identity(model, tmp_path, path, trial)) is None


def test_a_verdict_is_of_what_was_measured(sample, stores, tokenizer, tmp_path):
    """Whatever changes an answer makes it another measurement: none lets another through."""
    loaded = load_model(sample / "vocabulary", "cloze", scratch="tiny")
    save_model(loaded.model, tokenizer, tmp_path)
    path = tmp_path / "dev.pt"
    stores["cloze", "dev"].save(path)
    lsh = {"chunk": 16, "rounds": 1}
    plain = Trial(precision="fp32")

    def found(trial=plain, **how):
        return identity(load_model(tmp_path, "cloze", **how).model, tmp_path, path, trial)

    kinds = [
        found(),
        found(attention="lsh", lsh=lsh),
        found(attention="lsh", lsh=lsh | {"rounds": 2}),
        found(option_score="first"),
        found(max_length=600),
        found(Trial(precision="bf16")),
        found(Trial(precision="fp32", way="masks")),
        found(Trial(precision="fp32", null_threshold=1.0)),
        found(Trial(precision="fp32", reuse=True)),
    ]
    for number, of in enumerate(kinds):
        remember_cost(tmp_path, of, Cost(10, number, None, None))
        known = [remembered_cost(tmp_path, other) for other in kinds]
        assert [cost.changed if cost else None for cost in known] == [
            place if number - MOST < place <= number else None for place in range(len(kinds))
        ]


def test_models_that_are_shared_are_not_written_to(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    snapshot = tmp_path / "hub" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    for folder in (shipped_models()["albert-rc-tiny"], snapshot):
        remember_cost(folder, {"weights": "1"}, Cost(10, 3, None, None))
        assert not (folder / "int8.json").exists()
        assert remembered_cost(folder, {"weights": "1"}) == Cost(10, 3, None, None)
    assert len(list((tmp_path / "cache" / "albert-rc").iterdir())) == 2


def test_the_gate_tries_what_predict_will_do(sample, tokenizer):
    """Options of several words are read again, if they will be in the answers."""
    phrases = ("gave up the old house", "went", "was in the", "his own dog")
    starts = ("She", "A man", "The old king", "My dog", "Nobody")
    papers = []
    for number in range(30):
        text = f"{starts[number % 5]} _ it , and then they went home ."
        place = text.index("_")
        # Most of the answers that differ between the readings are right in one of them.
        question = Question(phrases, 2)
        blanks = ((place, place + 1),)
        papers.append(Passage(f"{number}.json", text, (question,), "cloze", blanks))
    store = make_store(PaperSet("dev", "cloze", "cloze", papers), tokenizer, 64)
    costs = []
    for way in (None, "masks"):
        loaded = load_model(sample / "vocabulary", "cloze", scratch="tiny")
        trial = Trial(precision="fp32", way=way)
        costs.append(measure_cost(loaded.model, tokenizer, store, ALONE, trial))
    assert costs[0].before != costs[1].before


@pytest.mark.parametrize(
    ("cost", "points"),
    [
        (Cost(200, 10, 0.80, 0.78), 2.0),
        (Cost(200, 10, 0.78, 0.80), -2.0),
        (Cost(200, 10, None, None), 5.0),
    ],
)
def test_what_is_lost_beyond_the_tolerance_is_refused(cost, points):
    assert cost.points == pytest.approx(points)
    cost.require(points + 0.01)
    with pytest.raises(CheckpointError, match="more than --tolerance"):
        cost.require(points - 0.01)


def test_predict_passes_the_gate_or_refuses(sample, stores, tmp_path, cli):
    loaded = load_model(sample / "vocabulary", "cloze", scratch="tiny")
    save_model(loaded.model, loaded.tokenizer, tmp_path / "run")
    for split in ("dev", "test"):
        stores["cloze", split].save(tmp_path / f"{split}.pt")
    given = ["--data", tmp_path / "test.pt", "--model", tmp_path / "run", "--precision", "int8"]
    out = tmp_path / "answer.json"
    done = cli("predict", *given, "--out", out, "--tolerance", 100)
    assert done.returncode == 0, done.stderr
    assert "dev answers" in done.stderr
    assert len(json.loads(out.read_bytes())) == len(stores["cloze", "test"].meta["ids"])
    attending = ("--attention", "lsh", "--lsh-chunk", 16, "--lsh-rounds", 1)
    record = tmp_path / "run" / "int8.json"
    for more, name in ((attending, "lsh"), ((), "dense")):
        done = cli("predict", *given, "--out", out, "--tolerance", 100, *more)
        assert done.returncode == 0, done.stderr
        known = [each["of"]["attention"] for each in json.loads(record.read_bytes())]
        assert known[0] == "lsh", f"{name} not measured, or measured anew"
        assert sorted(known) == ["dense", "lsh"]
    (tmp_path / "dev.pt").unlink()
    done = cli("predict", *given, "--out", tmp_path / "other.json")
    assert done.returncode == 2
    assert "--gate" in done.stderr
    assert not (tmp_path / "other.json").exists()


def test_dev_papers_need_the_labels_that_the_model_knows(sample, tmp_path, cli):
    """Others would be taken for those, and what int8 costs would be an accident."""
    loaded = load_model(
        sample / "vocabulary", "label", scratch="tiny", labels=("0", "1"), format_name="sst-2"
    )
    save_model(loaded.model, loaded.tokenizer, tmp_path / "run")
    other = ("not_entailment", "entailment")
    tables = {
        "test": ["sentence\tlabel", *(f"a film number {i}\t{i % 2}" for i in range(12))],
        "dev": [
            "index\tsentence1\tsentence2\tlabel",
            *(f"{i}\tA film.\tFilm {i}.\t{other[i % 2]}" for i in range(12)),
        ],
    }
    for name, rows in tables.items():
        table = tmp_path / f"{name}.tsv"
        table.write_text("\n".join([*rows, ""]))
        make_store(read_split(table), loaded.tokenizer, 32).save(tmp_path / f"{name}.pt")
    done = cli("predict", "--data", tmp_path / "test.pt", "--model", tmp_path / "run",
               "--precision", "int8", "--out", tmp_path / "answer.json")  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert (
        "dev.pt: its labels are entailment, not_entailment, but the model knows 0, 1" in done.stderr
    )
