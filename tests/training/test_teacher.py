"""Learning from a teacher: its probabilities beside the answers, from a file or a model."""

import json

import pytest
import torch
from commands import run_cli
from safetensors.torch import load_file

from albert_rc import answer
from albert_rc.answering.score import score, score_lines
from albert_rc.answering.temperature import weights_id
from albert_rc.checkpoints.load import load_model, save_model
from albert_rc.errors import DataError, UsageError
from albert_rc.papers.formats import read_split
from albert_rc.runtime.devices import Processes
from albert_rc.stores.store import load_store, make_store
from albert_rc.training.config import TrainConfig
from albert_rc.training.objectives import teacher
from albert_rc.training.objectives.answer_loss import taught_loss
from albert_rc.training.objectives.reading import Reading
from albert_rc.training.objectives.teacher import Teacher

ALONE = Processes(torch.device("cpu"))
NEVER = float("-inf")


def test_a_teachers_probabilities_count_beside_the_answers():
    torch.manual_seed(0)
    logits_QK = torch.randn(4, 3)
    logits_QK[1, 2] = NEVER
    logits_QK.requires_grad_()
    answer_Q = torch.tensor([0, 1, -1, 2])
    chance_QK = torch.tensor([[0.5, 0.3, 0.2], [0.9, 0.1, NEVER], [0.2, 0.2, 0.6], [torch.nan] * 3])
    log = [row[row.isfinite()].log_softmax(-1) for row in logits_QK]
    soft = [-(chance_QK[i][: len(log[i])] * log[i]).sum() for i in range(3)]
    expected = 0.3 * soft[0] + 0.7 * -log[0][0]
    expected = expected + 0.3 * soft[1] + 0.7 * -log[1][1]
    expected = expected + soft[2]  # nobody knows the answer
    expected = expected + -log[3][2]  # the teacher was not asked
    found = taught_loss(logits_QK, answer_Q, chance_QK, 0.3)
    torch.testing.assert_close(found, expected)
    found.backward()
    assert logits_QK.grad.isfinite().all()
    # Of a teacher that is sure of the answers nothing is left but their cross-entropy.
    sure_QK = torch.nn.functional.one_hot(answer_Q.clamp(min=0), 3).float()
    known_Q = answer_Q.clamp(min=0)
    plain = torch.nn.functional.cross_entropy(logits_QK, known_Q, reduction="sum")
    for weight in (0.0, 0.4, 1.0):
        torch.testing.assert_close(taught_loss(logits_QK, known_Q, sure_QK, weight), plain)


@pytest.fixture(scope="module")
def lesson(sample, tokenizer, tmp_path_factory):
    """Stores of the sample's exam papers, a teacher's folder and its scores of them."""
    folder = tmp_path_factory.mktemp("lesson")
    given = ("--model", sample / "vocabulary", "--out", folder, "--max-length", 256)
    assert run_cli("preprocess", sample / "cloze", *given).returncode == 0
    teacher = load_model(sample / "vocabulary", "cloze", scratch="tiny", seed=7)
    save_model(teacher.model, teacher.tokenizer, folder / "teacher")
    store = load_store(folder / "train.pt")
    scored_QK = score(teacher.model, teacher.tokenizer, store, ALONE)
    lines = score_lines(store, scored_QK)
    (folder / "scores.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_a_score_file_and_the_model_that_made_it_teach_the_same(lesson):
    store = load_store(lesson / "train.pt")
    by_model = Teacher(str(lesson / "teacher")).chances(store, ALONE, "fp32")
    by_file = Teacher(str(lesson / "scores.jsonl")).chances(store, ALONE, "fp32")
    assert by_model.shape == (int(store.num_options.sum()),)
    torch.testing.assert_close(by_file, by_model, atol=2e-6, rtol=1e-4)


@pytest.mark.filterwarnings("ignore:.*cannot choose between them")
@pytest.mark.parametrize("way", ["masks", "excerpt"])
def test_a_teacher_that_reads_twice_teaches_what_it_would_answer(sample, tokenizer, tmp_path, way):
    kind, data = ("cloze", "cloze") if way == "masks" else ("choice", "race")
    teacher = load_model(sample / "vocabulary", kind, scratch="tiny", seed=7)
    teacher.model.read_again = way
    save_model(teacher.model, teacher.tokenizer, tmp_path)
    store = make_store(
        read_split(sample / data / "train"), tokenizer, teacher.model.config.max_length
    )
    chance_O = Teacher(str(tmp_path)).chances(store, ALONE, "fp32")
    given, once = (
        answer(
            sample / data / "train",
            load_model(tmp_path, kind),
            option_score=option_score,
            precision="fp32",
        )
        for option_score in (None, "once")
    )
    expected, single = (
        torch.tensor(
            [
                chance
                for paper in papers
                for one in paper.answers
                for chance in one.probabilities.values()
            ]
        )
        for papers in (given, once)
    )
    torch.testing.assert_close(chance_O, expected, atol=2e-6, rtol=1e-4)
    assert not torch.allclose(single, expected, atol=1e-4)


def test_a_teacher_with_too_few_positions_is_named(lesson, stores, tmp_path):
    store = stores["cloze", "train"]
    longest = int(store.lengths.max())
    small = {"max_positions": longest - 1}
    teacher = load_model(lesson / "teacher", "cloze", scratch="tiny", shape=small)
    save_model(teacher.model, teacher.tokenizer, tmp_path)
    said = f"--teacher {tmp_path}: takes {longest - 1} tokens, .* windows of up to {longest};"
    with pytest.raises(UsageError, match=said):
        Teacher(str(tmp_path)).chances(store, ALONE, "fp32")


def test_lines_of_other_papers_and_other_orders_do_not_matter(lesson, tmp_path):
    store = load_store(lesson / "train.pt")
    lines = (lesson / "scores.jsonl").read_text().splitlines()
    papers = [json.loads(line)["paper"] for line in lines]
    first, last = papers[0], papers[-1]
    moved = [line for line in lines if json.loads(line)["paper"] == last]
    moved += [line for line in lines if json.loads(line)["paper"] == first]
    path = tmp_path / "some.jsonl"
    path.write_text("\n".join([*moved, moved[0].replace(last, "unheard of")]) + "\n")
    some = Teacher(str(path)).chances(store, ALONE, "fp32")
    whole = Teacher(str(lesson / "scores.jsonl")).chances(store, ALONE, "fp32")
    known = some.isfinite()
    assert 0 < known.sum() < len(known)
    assert torch.equal(some[known], whole[known])
    questions = [json.loads(line)["paper"] in (first, last) for line in lines]
    expected = torch.tensor(questions).repeat_interleave(store.num_options)
    assert torch.equal(known, expected)


def test_batches_carry_the_chances_of_their_own_questions(lesson, tokenizer):
    store = load_store(lesson / "train.pt")
    chance_O = Teacher(str(lesson / "scores.jsonl")).chances(store, ALONE, "fp32")
    model = load_model(lesson / "teacher", "cloze").model.eval()
    settings = TrainConfig(batch_size=2)
    taught = Reading(model, tokenizer, store, None, settings, chance_O)
    batch = taught.batch([3, 0, 2], 0)
    with torch.no_grad():
        expected = model(batch).logits_QK.softmax(-1)
    found = batch.by_question(batch.chance_O)
    torch.testing.assert_close(found.masked_fill(found == NEVER, 0), expected, atol=2e-6, rtol=1e-4)
    assert taught.counts(batch)[2] == batch.num_questions


def test_train_learns_from_a_teacher_alone_where_papers_have_no_answers(lesson, tmp_path, cli):
    """The student is given the teacher's mind: it agrees with it far more often than before."""
    store = load_store(lesson / "train.pt")
    (tmp_path / "data").mkdir()
    bare = {**store.tensors, "answer": torch.full_like(store.tensors["answer"], -1)}
    type(store)(bare, store.meta).save(tmp_path / "data" / "train.pt")
    options = [
        "--data", tmp_path / "data", "--model", lesson / "teacher", "--scratch", "tiny",
        "--device", "cpu", "--batch-size", 4, "--learning-rate", 2e-3, "--precision", "fp32",
    ]  # fmt: skip
    done = cli("train", *options, "--max-steps", 2, "--out", tmp_path / "none")
    assert done.returncode == 3
    assert "no answers to learn from" in done.stderr
    out = tmp_path / "run"
    taught = ["--teacher", lesson / "scores.jsonl", "--out", out]
    done = cli("train", *options, *taught, "--max-steps", 60)
    assert done.returncode == 0, done.stderr
    student = load_model(out, "cloze")
    teacher = load_model(lesson / "teacher", "cloze")
    untaught = load_model(lesson / "teacher", "cloze", scratch="tiny")
    chosen = [
        score(x.model, x.tokenizer, store, ALONE).argmax(-1) for x in (teacher, student, untaught)
    ]
    agreed, before = ((chosen[0] == x).float().mean().item() for x in chosen[1:])
    assert agreed > before + 0.2
    assert "accuracy -" in done.stderr
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    train = [line for line in lines if line["kind"] == "train"]
    assert all(line["loss"] == line["taught_loss"] > 1 for line in train)
    assert "accuracy" not in train[0]


def test_a_run_is_resumed_with_the_same_teacher(lesson, tmp_path, cli):
    options = [
        "--data", lesson, "--model", lesson / "teacher", "--device", "cpu", "--batch-size", 4,
        "--save-steps", 2, "--max-steps", 4,
    ]  # fmt: skip
    taught = ["--teacher", lesson / "scores.jsonl", "--teacher-weight", 0.8]
    for name, extra in (("whole", []), ("parts", ["--minutes", 1e-9])):
        done = cli("train", *options, *taught, "--out", tmp_path / name, *extra)
        assert done.returncode == 0, done.stderr
        assert ("paused" in done.stdout) == (name == "parts")
    none = tmp_path / "none.toml"
    none.write_text("")
    for other, said in (
        (["--config", none], "teacher"),
        ([*taught[:2], "--teacher-weight", 0.5], "--teacher-weight"),
    ):
        done = cli("train", *options, *other, "--out", tmp_path / "parts", "--resume")
        assert done.returncode == 2
        assert said in done.stderr
    done = cli("train", *options, *taught, "--out", tmp_path / "parts", "--resume")
    assert done.returncode == 0, done.stderr
    one, other = (load_file(tmp_path / n / "model.safetensors") for n in ("whole", "parts"))
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert json.loads((tmp_path / "whole/train.json").read_text())["teacher_weight"] == 0.8


def test_a_teachers_answers_are_kept_with_the_run(lesson, stores, tmp_path, monkeypatch):
    """A large teacher may take longer than the training: once is enough."""
    store, source = load_store(lesson / "train.pt"), str(lesson / "teacher")
    chance_O = Teacher(source).chances(store, ALONE, "fp32")
    for name, content in Teacher(source).kept(store, chance_O, "fp32").items():
        (tmp_path / name).write_bytes(content)
    asked = []
    monkeypatch.setattr(teacher, "_from_model", lambda *given: asked.append(given) or chance_O)
    again = Teacher(source).chances(store, ALONE, "fp32", tmp_path)
    assert torch.equal(again, chance_O)
    assert not asked
    # Of other papers, in another precision, or damaged, they are asked for again.
    Teacher(source).chances(stores["cloze", "dev"], ALONE, "fp32", tmp_path)
    Teacher(source).chances(store, ALONE, "bf16", tmp_path)
    content = bytearray((tmp_path / teacher.KEPT).read_bytes())
    content[-3] ^= 1
    (tmp_path / teacher.KEPT).write_bytes(content)
    Teacher(source).chances(store, ALONE, "fp32", tmp_path)
    assert len(asked) == 3


def test_a_model_is_the_same_teacher_whatever_its_last_digits(lesson):
    """Processors differ in the last digits of what a model answers; files are compared by value."""
    store = load_store(lesson / "train.pt")
    model, file = Teacher(str(lesson / "teacher")), Teacher(str(lesson / "scores.jsonl"))
    exact = file.chances(store, ALONE, "fp32")
    rounded = exact * (1 + 1e-7)
    assert model.identity(exact) == model.identity(rounded) == weights_id(lesson / "teacher")
    assert file.identity(exact) != file.identity(rounded)


def test_teachers_that_cannot_teach(lesson, sample, tokenizer, tmp_path, cli):
    store = load_store(lesson / "train.pt")
    other = tmp_path / "other.jsonl"
    lines = [json.loads(line) for line in (lesson / "scores.jsonl").read_text().splitlines()]
    other.write_text("".join(json.dumps(line | {"paper": "p"}) + "\n" for line in lines[:1]))
    with pytest.raises(DataError, match="none of its questions"):
        Teacher(str(other)).chances(store, ALONE, "fp32")
    line = lines[0] | {"probabilities": [0.5, 0.25, 0.125, 0.0625, 0.0625], "answer": "A"}
    other.write_text(json.dumps(line) + "\n")
    with pytest.raises(DataError, match=r"line 1: 5 options, but number 1 of paper .* has 4;"):
        Teacher(str(other)).chances(store, ALONE, "fp32")
    with pytest.raises(
        UsageError, match=r"differs from that of the store.*--scores teacher\.jsonl"
    ):
        Teacher("albert-rc-tiny").chances(store, ALONE, "fp32")
    with pytest.raises(UsageError, match="not trained for cloze papers"):
        bare = load_model(sample / "vocabulary", "choice", scratch="tiny")
        save_model(bare.model, tokenizer, tmp_path / "choice")
        Teacher(str(tmp_path / "choice")).chances(store, ALONE, "fp32")
    for given, said in (
        (["--teacher-weight", 0.5], "needs --teacher"),
        (["--teacher", other, "--teacher-weight", 0], "above 0 and at most 1"),
    ):
        done = cli("train", "--data", lesson, "--model", lesson / "teacher", *given)
        assert done.returncode == 2
        assert said in done.stderr
