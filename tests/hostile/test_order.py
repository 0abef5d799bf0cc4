"""Whose answers they are, and that nothing but the papers decides them."""

import gc
import json
import random
import shutil
import signal
from pathlib import Path

import pytest
import torch
from commands import start_cli
from conftest import SAMPLE, SHAPE, torchrun
from hostile_papers import Author

from albert_rc.answering.score import answers_of, score
from albert_rc.answering.spans import find_spans
from albert_rc.checkpoints.load import load_model, save_model
from albert_rc.cli.app import app
from albert_rc.io.json import to_json
from albert_rc.papers.formats import read_split
from albert_rc.runtime.devices import Processes
from albert_rc.stores.store import make_store

VOCABULARY = SAMPLE / "vocabulary"
PROCESSES = Processes(torch.device("cpu"))
FORMS = ("cloze", "race", "dream", "rte", "squad")


def papers_of(form, folder):
    """A split of each kind: the sample's, or some that are made up."""
    if form in ("cloze", "race", "dream"):
        shown = SAMPLE / form / ("test.json" if form == "dream" else "test")
        return read_split(shown, "test")
    author = Author(random.Random(1), ["the boat was late", "she sold the farm", "nobody came"])
    if form == "squad":
        path = folder / "test.json"
        articles = [author.squad(f"q{number}") for number in range(12)]
        path.write_bytes(to_json({"data": articles}))
    else:
        path = folder / "test.tsv"
        words = "the old farmer walked home and she was glad to see him again today".split()
        said = [" ".join(author.rng.choices(words, k=n % 9 + 1)) for n in range(80)]
        rows = [f"{one}\t{two}\t-" for one, two in zip(said[::2], said[1::2], strict=True)]
        path.write_text("\n".join(["sentence1\tsentence2\tlabel", *rows]))
    return read_split(path, "test", form)


@pytest.mark.parametrize("form", FORMS)
def test_the_size_of_batches_changes_no_answer(form, tokenizer, tmp_path):
    papers = papers_of(form, tmp_path)
    how = {"scratch": "tiny", "shape": SHAPE}
    if form == "squad":
        model = load_model(VOCABULARY, "span", **how).model
    else:
        labels = papers.labels if form == "rte" else None
        model = load_model(VOCABULARY, papers.kind, labels=labels, **how).model
    for parameter in model.head.parameters():
        parameter.data.normal_(generator=torch.Generator().manual_seed(1))
    store = make_store(papers, tokenizer, 256)
    given = []
    for budget in (1, 64, 512, 4096):
        ask = {"token_budget": budget}
        if form == "squad":
            found = find_spans(model, tokenizer, store, PROCESSES, **ask)
            given.append(to_json({question.key: question.answer(0.0) for question in found}))
        else:
            scored = score(model, tokenizer, store, PROCESSES, **ask)
            given.append(to_json(answers_of(store, scored)))
    assert given[0] == given[1] == given[2] == given[3]
    assert len(set(json.loads(given[0]).values() if form == "rte" else [*given[0]])) > 1


def copied(folder, name, order):
    """The sample's papers, made on the disk in this order."""
    found = sorted((SAMPLE / "cloze" / "train").iterdir())
    order(found)
    target = folder / name / "train"
    target.mkdir(parents=True)
    for file in found:
        shutil.copy(file, target / file.name)
    return target


def test_the_order_on_the_disk_changes_no_store(tokenizer, tmp_path):
    written = []
    shuffle = random.Random(3).shuffle
    for name, order in (("a", list.sort), ("b", list.reverse), ("c", shuffle)):
        papers = read_split(copied(tmp_path, name, order))
        make_store(papers, tokenizer, 512).save(tmp_path / f"{name}.pt")
        written.append((tmp_path / f"{name}.pt").read_bytes())
    assert written[0] == written[1] == written[2]


def test_the_order_of_lines_changes_no_tensor(tokenizer, tmp_path):
    found = sorted((SAMPLE / "cloze" / "train").iterdir())
    lines = [json.dumps(json.loads(file.read_bytes()) | {"id": file.name}) for file in found]
    stores = []
    for seed in range(3):
        random.Random(seed).shuffle(lines)
        (tmp_path / "train.jsonl").write_text("\n".join(lines))
        stores.append(make_store(read_split(tmp_path / "train.jsonl"), tokenizer, 512))
    for other in stores[1:]:
        assert other.meta["ids"] == stores[0].meta["ids"]
        for name, value in stores[0].tensors.items():
            assert torch.equal(value, other.tensors[name]), name


@pytest.mark.slow
@pytest.mark.parametrize("form", ["cloze", "race", "squad"])
def test_one_two_or_three_processes_answer_alike(form, stores, tokenizer, tmp_path):
    """Byte for byte, in fp32; the probabilities to the last digits."""
    papers = papers_of(form, tmp_path)
    how = {"scratch": "tiny", "shape": SHAPE}
    made = load_model(VOCABULARY, "span", **how) if form == "squad" else load_model(
        VOCABULARY, papers.kind, **how
    )  # fmt: skip
    save_model(made.model, made.tokenizer, tmp_path / "model")
    make_store(papers, tokenizer, 256).save(tmp_path / "test.pt")
    ask = ["predict", "--data", tmp_path / "test.pt", "--model", tmp_path / "model",
           "--device", "cpu", "--precision", "fp32", "--token-budget", 700]  # fmt: skip
    assert start_cli(*ask, "--out", tmp_path / "1.json").returncode == 0
    for count in (2, 3):
        torchrun(count, "-m", "albert_rc", *ask, "--out", tmp_path / f"{count}.json")
    first, *others = [(tmp_path / f"{count}.json").read_bytes() for count in (1, 2, 3)]
    assert all(other == first for other in others)


IDS = (
    "../../x", "/etc/x", "a/../../b", "..", ".", "~", "C:\\x", "..\\..\\x", "a\nb", "a\x00b",
    "\x1b[2J", "\u202egnp.x", "$(touch x)", "x" * 5000, "con", "-rf", "a#1", "💣", " ",
)  # fmt: skip


def run_here(*arguments):
    """A command in this process, which spares it the start of another."""
    handlers = [(number, signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        app([str(argument) for argument in arguments], standalone_mode=False)
    finally:
        gc.enable()  # `preprocess` leaves both as it needs them
        for number, handler in handlers:
            signal.signal(number, handler)


def everything(folder):
    return {path.relative_to(folder).as_posix() for path in Path(folder).rglob("*")}


def test_no_id_leads_out_of_a_folder(tmp_path):
    """Ids are keys of answers and nothing else: wherever they point, nothing is written there."""
    inside = tmp_path / "deep" / "inside"
    papers = inside / "papers" / "test"
    papers.mkdir(parents=True)
    paper = {"article": "He was _ to see us .", "options": [["glad", "sad"]]}
    bad = [{"article": "He was", "options": [], "id": f"{paper_id}!"} for paper_id in IDS]
    lines = [paper | {"id": paper_id} for paper_id in IDS] + bad
    (papers / "l.jsonl").write_bytes(b"\n".join(to_json(x, indent=False).strip() for x in lines))
    for name in ("a\nb.json", "..json", "-rf.json", "$(x).json", "\u202e.json", "\x1b[2J.json"):
        (papers / name).write_text(json.dumps(paper))
    made = load_model(VOCABULARY, "cloze", scratch="tiny", shape=SHAPE)
    save_model(made.model, made.tokenizer, inside / "model")
    before = everything(tmp_path)
    options = ("--model", inside / "model", "--out")
    run_here("preprocess", inside / "papers", *options, inside / "data", "--on-error", "skip")
    asked = ("--data", inside / "data" / "test.pt", "--scores", inside / "scores.jsonl")
    done = start_cli("predict", *asked, *options, inside / "answer.json")
    assert done.returncode == 0, done.stderr
    here = "deep/inside/"
    made_files = {"data", "data/test.pt", "data/rejects.jsonl", "answer.json", "scores.jsonl"}
    assert everything(tmp_path) - before == {here + name for name in made_files}
    answers = json.loads((inside / "answer.json").read_bytes())
    # A file that begins with a dot is hidden, and an id of white space is an id.
    assert {*IDS, "a\nb.json", "-rf.json", "\x1b[2J.json"} < answers.keys()
    assert all(given in (["A"], ["B"]) for given in answers.values())
    refused = [
        json.loads(line) for line in (inside / "data/rejects.jsonl").read_bytes().splitlines()
    ]
    assert {line["file"] for line in refused} == {
        f"test/l.jsonl:{number}" for number in range(len(IDS) + 1, 2 * len(IDS) + 1)
    }
    assert all(line["problem"].isprintable() for line in refused)


def test_what_is_shown_obeys_no_terminal(tmp_path):
    """Escape sequences, and signs that turn the writing round, are spelt out."""
    papers = tmp_path / "papers"
    papers.mkdir()
    hostile = "\x1b[2J\x1b]0;evil\x07\u202e\x9b31m :smile: [red]x[/red]"
    paper = {"article": f"It _ {hostile} un_ .", "options": [[hostile, hostile], [hostile]]}
    (papers / f"{hostile.replace('/', '')}.json").write_text(json.dumps(paper))
    (papers / "a.json").write_text(json.dumps({"article": "It _ .", "options": [[hostile] * 2]}))
    ask = (papers, "--model", VOCABULARY)
    for arguments in (("doctor", *ask), ("preprocess", *ask, "--out", tmp_path / "data")):
        done = start_cli(*arguments, env={"PYTHONIOENCODING": "ascii"})
        assert done.returncode == 3, done.stderr
        shown = done.stdout + done.stderr
        assert "Traceback" not in shown
        assert ":smile:" in shown
        assert all(c.isprintable() or c == "\n" for c in shown), ascii(shown)


def test_what_import_shows_obeys_no_terminal(tmp_path):
    hostile = "\x1b[2J\x1b]0;evil\x07\u202e\x9b31m :smile: [red]x[/red]"
    exam = tmp_path / f"{hostile.replace('/', '')}.txt"
    exam.write_text(
        f"{hostile}\n\n{hostile} Tom went to the __1__ to buy bread for 36 {hostile}.\n\n"
        f"1. A. {hostile} B. sea C. moon D. tree\n\nEnd {hostile}\n3. A. {hostile} B. b\n"
    )
    done = start_cli("import", exam, "--out", tmp_path / "out", env={"PYTHONIOENCODING": "ascii"})
    shown = done.stdout + done.stderr
    assert "Traceback" not in shown
    assert ":smile:" in shown
    assert "begins:" in shown
    assert all(c.isprintable() or c == "\n" for c in shown), ascii(shown)
