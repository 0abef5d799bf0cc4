"""Pretraining: Hugging Face's losses, what it learns, stopping and going on; its commands."""

import json
import multiprocessing
from dataclasses import replace

import pytest
import torch
import transformers
from conftest import assert_same_but_rounding, run_until_power_cut, starved

from albert_rc.checkpoints.load import load_model, save_model
from albert_rc.corpus.batches import PretrainCollator
from albert_rc.corpus.cut import Cut, ShardMaker, plan_shards
from albert_rc.corpus.documents import find_sources
from albert_rc.corpus.mask_config import MaskConfig
from albert_rc.corpus.shards import Corpus
from albert_rc.errors import DataError, UsageError
from albert_rc.model.int8 import has_int8
from albert_rc.runtime.devices import Processes
from albert_rc.text.make_vocabulary import make_vocabulary
from albert_rc.text.tokenizer import load_tokenizer
from albert_rc.training.checkpoint import states
from albert_rc.training.config import TrainConfig
from albert_rc.training.loop import Trainer
from albert_rc.training.objectives.pretraining import Pretraining, above_chance, check_teacher

SHAPE = {"hidden_size": 32, "embedding_size": 16, "num_layers": 2, "num_heads": 2}


@pytest.fixture(scope="module")
def corpora(sample, tmp_path_factory):
    """The sample's papers as a corpus, with some of them kept apart."""
    folder = tmp_path_factory.mktemp("corpus")
    sources, _ = find_sources([sample / "cloze", sample / "race"])
    maker = ShardMaker(folder, sample / "vocabulary", Cut(max_length=96, dev=0.2), [])
    for shard in plan_shards(sources, 2**20):
        maker(shard)
    return Corpus(folder / "train"), Corpus(folder / "dev")


@pytest.fixture
def pretrainer(sample, corpora):
    def make(folder, pair="sop", shape=None, **settings):
        loaded = load_model(
            sample / "vocabulary",
            "pretraining",
            scratch="tiny",
            shape=SHAPE | (shape or {}),
            with_pairs=pair != "none",
        )
        defaults = {"learning_rate": 1e-3, "batch_size": 8, "max_steps": 8, "eval_steps": 4}
        config = TrainConfig(**(defaults | settings))
        objective = Pretraining(
            loaded.model, loaded.tokenizer, *corpora, config, MaskConfig(), pair
        )
        return Trainer(objective, config, folder, Processes(torch.device("cpu")))

    return make


def test_a_student_learns_what_its_teacher_thinks_of_hidden_words(
    pretrainer, sample, corpora, tmp_path
):
    """With the answers left out it still comes to the teacher's probabilities and states."""
    teacher = load_model(
        sample / "vocabulary", "pretraining", scratch="tiny", shape=SHAPE, with_pairs=False, seed=9
    ).model
    torch.nn.init.normal_(teacher.head.bias, std=2.0)  # pieces that the teacher prefers
    trainer = pretrainer(
        tmp_path, pair="none", max_steps=80, learning_rate=2e-2, teacher_weight=1.0
    )
    objective = trainer.objective
    objective.teacher = teacher
    batch = objective.batch([0, 1, 2, 3, 4, 5, 6, 7], 0)
    lesson = teacher.teach(batch, 1.0)

    def apart():
        with torch.no_grad():
            hidden = objective.model.hidden(batch)[batch.masked_index_M]
            head = objective.model.head
            logits = head.transform(hidden) @ objective.model.words.T + head.bias
            chances = lesson.words.probabilities(slice(None), torch.float32)
        divergence = torch.nn.functional.kl_div(
            logits.log_softmax(-1), chances, reduction="batchmean"
        )
        return float(divergence), (hidden - lesson.hidden_MD).square().mean().item()

    before = apart()
    trainer.run()
    after = apart()
    assert after[0] < before[0] / 3
    assert after[1] < before[1] / 2
    assert "--teacher" in objective.identity()


def test_a_teacher_of_an_unsuitable_shape_is_refused(sample, corpora):
    train, _ = corpora
    student = load_model(sample / "vocabulary", "pretraining", scratch="tiny", shape=SHAPE)
    shape = student.model.config
    check_teacher("big", shape, shape, train)
    with pytest.raises(UsageError, match="--teacher big has embeddings for"):
        check_teacher("big", replace(shape, vocab_size=shape.vocab_size + 6), shape, train)
    with pytest.raises(
        UsageError, match=r"--teacher big takes 16; make it again .*--max-length 16"
    ):
        check_teacher("big", replace(shape, max_positions=16), shape, train)


@pytest.mark.parametrize(
    ("asked", "used"),
    [
        ("same", "bf16"),
        pytest.param(
            "int8", "int8",
            marks=pytest.mark.skipif(
                not has_int8(torch.device("cpu")), reason="no int8 products on this processor"
            ),
        ),
    ],
)  # fmt: skip
def test_a_teacher_reads_in_the_precision_asked_for(asked, used, sample, corpora, tmp_path):
    opened = [
        load_model(
            sample / "vocabulary", "pretraining", scratch="tiny", shape=SHAPE, with_pairs=False
        )
        for _ in range(2)
    ]
    config = TrainConfig(precision="bf16", max_steps=1, batch_size=4, teacher_precision=asked)
    objective = Pretraining(
        opened[0].model, opened[0].tokenizer, *corpora, config, MaskConfig(), "none",
        opened[1].model,
    )  # fmt: skip
    batch = objective.batch([0, 1, 2, 3], 0)
    exact = opened[1].model.eval().teach(batch, 1.0).hidden_MD
    Trainer(objective, config, tmp_path, Processes(torch.device("cpu"))).run()
    teacher = opened[1].model
    assert teacher.encoder.compute.precision == used
    found = teacher.teach(batch, 1.0).hidden_MD
    error = (found.float() - exact).square().mean() / exact.square().mean()
    assert 0 < error < 0.05  # two unrelated states differ by 2


@pytest.mark.parametrize("family", ["albert", "bert"])
def test_losses_are_hugging_faces(family, sample, corpora, tmp_path):
    tokenizer = load_tokenizer(sample / "vocabulary")
    prefix = family.capitalize()
    config = getattr(transformers, f"{prefix}Config")(
        vocab_size=tokenizer.size, hidden_size=48, num_attention_heads=4, intermediate_size=96,
        num_hidden_layers=2, embedding_size=16, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0, initializer_range=0.2,
    )  # fmt: skip
    theirs = getattr(transformers, f"{prefix}ForPreTraining")(config).eval()
    theirs.save_pretrained(tmp_path)
    (tmp_path / "spiece.model").write_bytes((sample / "vocabulary/spiece.model").read_bytes())
    loaded = load_model(tmp_path, "pretraining")
    assert not loaded.report.new
    assert not loaded.report.unused
    batch = PretrainCollator(corpora[0], tokenizer, MaskConfig(), "sop", 0)([0, 1, 2, 3])
    found = loaded.model(batch)
    label_T = torch.full_like(batch.token_T, -100)
    label_T[batch.read_S[batch.masked_index_M]] = batch.masked_token_M

    def rows(flat):
        return torch.nn.utils.rnn.pad_sequence(flat.split(batch.lengths), True)

    mask_BL = rows(torch.ones_like(batch.token_T))
    expected = theirs(
        input_ids=rows(batch.token_T),
        attention_mask=mask_BL,
        token_type_ids=rows(batch.segment_T),
        labels=rows(label_T).masked_fill(mask_BL == 0, -100),
        **{f"{'sentence_order' if family == 'albert' else 'next_sentence'}_label": batch.pair_B},
    )
    ours = found.masked_loss_sum / len(batch.masked_token_M) + found.pair_loss_sum / 4
    torch.testing.assert_close(ours, expected.loss, atol=1e-5, rtol=1e-5)
    save_model(loaded.model, loaded.tokenizer, tmp_path / "again")
    again = getattr(transformers, f"{prefix}ForPreTraining").from_pretrained(tmp_path / "again")
    for name, value in theirs.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name


def test_the_loss_of_pairs_has_its_weight(pretrainer, tmp_path):
    objective = pretrainer(tmp_path).objective
    batch = objective.batch([0, 1, 2, 3], 0)
    counts = torch.tensor(objective.counts(batch))
    output = objective.model(batch)
    words, pairs = output.masked_loss_sum / counts[0], output.pair_loss_sum / counts[1]
    for weight in (1.0, 30.0):
        weighted = pretrainer(tmp_path, pair_weight=weight).objective
        loss, _ = weighted.losses(batch, counts)
        torch.testing.assert_close(loss, words + weight * pairs)


@pytest.mark.parametrize("pair", ["sop", "none"])
def test_the_weights_kept_are_best_at_words_and_pairs(pretrainer, tmp_path, pair):
    objective = pretrainer(tmp_path, pair=pair).objective
    evaluation = objective.evaluate(Processes(torch.device("cpu")))
    expected = evaluation.values["accuracy"]
    if pair == "sop":
        counted = above_chance(evaluation.values["pair_accuracy"], len(objective.dev))
        expected = (expected + counted) / 2
    assert evaluation.score == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    ("accuracy", "pairs", "counted"),
    [(0.55, 100, 0.5), (0.55, 10_000, 0.55), (0.3, 10_000, 0.5), (1.0, 4, 0.5), (1.0, 16, 1.0)],
)
def test_luck_with_pairs_does_not_select_weights(accuracy, pairs, counted):
    assert above_chance(accuracy, pairs) == counted


def test_micro_batches_change_nothing_but_rounding(pretrainer, tmp_path):
    whole, cut = pretrainer(tmp_path / "a"), pretrainer(tmp_path / "b", accumulation=3)
    whole.run()
    cut.run()
    assert_same_but_rounding(whole.model.state_dict(), cut.model.state_dict())


def test_batches_made_ahead_are_the_same(pretrainer, tmp_path):
    """Also where the run is broken off, and where micro-batches get smaller on the way."""
    alone, fed = pretrainer(tmp_path / "alone"), pretrainer(tmp_path / "fed", save_steps=1)
    fed.stepper.workers = 2
    alone.run()
    run_until_power_cut(fed, 3)
    again = pretrainer(tmp_path / "fed", save_steps=1)
    again.stepper.workers = 2
    again.run(resume=True)
    for one, other in zip(alone.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(one, other)
    assert multiprocessing.active_children() == []
    cut = pretrainer(tmp_path / "cut")
    cut.stepper.workers = 2
    starved(cut, lambda run: run.progress.step == 1 and run.stepper.micro_batches == 1)
    cut.run()
    assert cut.stepper.micro_batches == 2
    assert_same_but_rounding(alone.model.state_dict(), cut.model.state_dict())


def test_a_slice_ends_in_time_and_goes_on_bit_for_bit(pretrainer, tmp_path):
    whole = pretrainer(tmp_path / "whole")
    whole.run()
    for _ in range(20):
        part = pretrainer(tmp_path / "parts")
        result = part.run(resume=bool(states(tmp_path / "parts")), seconds=1e-3)
        if result.steps == result.total_steps:
            break
    assert result.steps == 8
    for one, other in zip(whole.model.parameters(), part.model.parameters(), strict=True):
        assert torch.equal(one, other)
    kinds = [json.loads(x) for x in (tmp_path / "parts/metrics.jsonl").read_text().splitlines()]
    assert [x["step"] for x in kinds if x["kind"] == "dev"] == [4, 8]


def test_held_out_text_without_other_documents_is_refused_at_once(sample, corpora, monkeypatch):
    loaded = load_model(sample / "vocabulary", "pretraining", scratch="tiny", shape=SHAPE)
    train, dev = corpora
    monkeypatch.setattr(type(dev), "num_documents", property(lambda self: 1 + (self is train)))
    config = TrainConfig(learning_rate=1e-3, batch_size=8, max_steps=8)
    with pytest.raises(DataError, match="--pair nsp takes segments from other documents"):
        Pretraining(loaded.model, loaded.tokenizer, train, dev, config, MaskConfig(), "nsp")


def test_other_questions_are_not_resumed(pretrainer, tmp_path):
    pretrainer(tmp_path, max_steps=4, save_steps=2).run()
    with pytest.raises(UsageError, match="started with --pair sop, not nsp"):
        pretrainer(tmp_path, "nsp", max_steps=4, save_steps=2).run(resume=True)


def test_without_pairs_there_is_no_head_for_them(pretrainer, tmp_path):
    run = pretrainer(tmp_path, "none")
    run.run()
    assert not any("pair" in name or "pooler" in name for name, _ in run.model.named_parameters())
    loaded = load_model(tmp_path, "cloze")
    assert not loaded.report.new
    assert not loaded.report.unused
    with pytest.raises(UsageError, match="--pair sep: choose from sop, nsp, none"):
        pretrainer(tmp_path, "sep")


def test_the_commands_lead_from_text_to_answers(cli, sample, tmp_path):
    def run(*arguments):
        done = cli(*arguments, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done

    said = run("pretrain", "vocabulary", sample / "cloze", "--size", 600, "--out", "words")
    assert "600 pieces" in said.stdout
    tokenizer = load_tokenizer(tmp_path / "words")
    special = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
    assert tokenizer.pieces(range(5)) == special
    run(
        "pretrain", "data", sample / "cloze" / "train", "--model", "words", "--out", "corpus",
        "--max-length", 128, "--dev", 0.2, "--exclude", sample / "cloze" / "dev",
    )  # fmt: skip
    common = (
        "pretrain", "--data", "corpus", "--model", "words", "--scratch", "tiny", "--out", "p",
        "--hidden-size", 32, "--embedding-size", 16, "--num-layers", 4, "--num-heads", 2,
        "--sharing", "ffn", "--batch-size", 8, "--max-steps", 6, "--save-steps", 2,
        "--optimizer", "lamb", "--learning-rate", 0.01, "--device", "cpu",
    )  # fmt: skip
    assert "paused" in run(*common, "--minutes", 1e-5).stdout
    assert "6 steps" in run(*common, "--resume").stdout
    settings = json.loads((tmp_path / "p" / "pretrain.json").read_text())
    assert (settings["shape"]["common"], settings["optimizer"]) == ("ffn", "lamb")
    run(
        "pretrain", "--data", "corpus", "--model", "p", "--out", "q", "--dropout", 0.2,
        "--max-steps", 1, "--device", "cpu",
    )  # fmt: skip
    config = json.loads((tmp_path / "q" / "config.json").read_text())
    shares = (config["hidden_dropout_prob"], config["attention_probs_dropout_prob"])
    assert shares == (0.2, 0.2)
    run("preprocess", sample / "cloze", "--model", "p", "--out", "data")
    run("train", "--model", "p", "--data", "data", "--out", "run", "--max-steps", 2)
    run("predict", "--model", "run", "--data", "data/test.pt", "--out", "answer.json")
    assert json.loads((tmp_path / "answer.json").read_text())


def test_what_does_not_fit_together_is_refused(cli, sample, tmp_path):
    folder = tmp_path / "c"
    done = cli(
        "pretrain", "data", sample / "cloze", "--model", sample / "vocabulary", "--out", folder,
        "--max-length", 600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    done = cli(
        "pretrain", "vocabulary", sample / "cloze", "--size", 500, "--out", tmp_path / "words"
    )
    assert done.returncode == 0, done.stderr
    for model, said in (
        (tmp_path / "words", "made with a different vocabulary"),
        (sample / "vocabulary", "sequences of 600 tokens, but the model takes 512"),
    ):
        done = cli(
            "pretrain", "--data", folder, "--model", model, "--scratch", "tiny", "--out",
            tmp_path / "p",
        )  # fmt: skip
        assert done.returncode == 3
        assert said in done.stderr
    done = cli("pretrain", "--recipe", "secret", "--data", folder)
    assert done.returncode == 2
    assert "'secret' is not one of 'paper'" in done.stderr
    done = cli("pretrain", "vocabulary", sample / "cloze", "--size", 10**6, "--out", tmp_path / "v")
    assert done.returncode == 2
    assert "--size 1000000" in done.stderr


def test_teachers_of_hidden_words_must_fit(cli, sample, corpora, tmp_path):
    bare = load_model(sample / "vocabulary", "choice", scratch="tiny")
    save_model(bare.model, bare.tokenizer, tmp_path / "choice")
    options = ["--data", corpora[0].folder.parent, "--model", sample / "vocabulary"]
    options += ["--scratch", "tiny", "--pair", "none", "--max-steps", 1, "--out", tmp_path / "run"]
    for teacher, said in (
        ("albert-rc-tiny", "must share one"),
        (tmp_path / "choice", "not trained to predict masked words"),
    ):
        done = cli("pretrain", *options, "--teacher", teacher)
        assert done.returncode == 2
        assert said in done.stderr
    assert not (tmp_path / "run" / "model.safetensors").exists()
    done = cli("pretrain", *options, "--set", "teacher_precision=int8")
    assert done.returncode == 2
    assert "--teacher-precision needs --teacher" in done.stderr


def test_the_same_vocabulary_whenever_it_is_made(sample, tmp_path):
    texts = (sample / "README.md").read_text().split("\n")
    made = []
    for name in ("one", "two"):
        make_vocabulary(texts, 120, tmp_path / name)
        made.append((tmp_path / name / "spiece.model").read_bytes())
    assert made[0] == made[1]
    assert b"/spiece" not in made[0]


@pytest.mark.parametrize("space", [" ", ""])
def test_text_without_an_end_is_read_whole(tmp_path, space):
    """SentencePiece silently ignores sentences that are longer than its limit."""
    words = [f"{'aeiou'[n % 5]}{'bcdfg'[n % 7 % 5]}ß" for n in range(9000)]
    made = make_vocabulary([space.join([*words, "zebra"])], 32, tmp_path, coverage=1.0)
    assert made.unk_id not in made.encode(["zebra"])[0]


def test_what_no_vocabulary_can_be_made_of_is_said(cli, tmp_path):
    (tmp_path / "tiny.txt").write_text("One fish.")
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "odd.txt").write_bytes(b"Well.\nIt\x81s bad.\n")
    (tmp_path / "open.json").write_text(json.dumps({"article": "A _", "options": [["b", "c"]]}))
    for name, options, code, said in (
        ("none", ["--coverage", 0.5], 2, "--coverage 0.5: give a share from 0.98 to 1"),
        ("none", ["--size", 2], 2, "--size 2: must be at least "),
        ("tiny.txt", ["--coverage", 0.5], 2, "--coverage 0.5: give a share from 0.98 to 1"),
        ("tiny.txt", [], 2, "--size 30000: the text allows 21 pieces at most"),
        (
            "tiny.txt",
            ["--size", 16],
            2,
            "--size 16: the characters of the text alone need 21 pieces",
        ),
        ("empty.txt", [], 3, "empty.txt: there is no text in it"),
        ("open.json", [], 3, "open.json: no paper has an answer to each of its blanks"),
        ("odd.txt", [], 3, f"error: {tmp_path / 'odd.txt'}: byte 0x81 in line 2 is not UTF-8"),
    ):
        done = cli("pretrain", "vocabulary", tmp_path / name, "--out", tmp_path / "v", *options)
        assert (done.returncode, said in done.stderr) == (code, True), done.stderr
    assert not (tmp_path / "v").exists()
    for command in ("vocabulary", "data"):
        for place in (tmp_path / "empty.txt", tmp_path / "empty.txt" / "v"):
            done = cli("pretrain", command, tmp_path / "tiny.txt", "--out", place)
            assert (done.returncode, "empty.txt is a file; name a folder" in done.stderr) == (
                2,
                True,
            )
    done = cli(
        "pretrain", "vocabulary", tmp_path / "tiny.txt", "--size", 21, "--out", tmp_path / "v"
    )
    assert done.returncode == 0, done.stderr


def test_the_help_names_each_of_alberts_ids(cli):
    said = cli("pretrain", "vocabulary", "--help").stdout
    assert "padding 0, unknown 1, [CLS] 2, [SEP] 3, [MASK] 4" in " ".join(said.split())


@pytest.mark.slow
def test_sentence_order_is_learned(sample, tmp_path):
    """Held-out pairs, far above chance: stories whose sentences are numbered by words."""
    names = "one two three four five six seven eight nine ten eleven twelve".split()
    draw = torch.Generator().manual_seed(0)
    folder = tmp_path / "stories"
    folder.mkdir()
    for number in range(400):
        some = torch.rand(len(names), generator=draw) < 0.6
        told = [name for name, is_in in zip(names, some.tolist(), strict=True) if is_in]
        lines = [f"Then {name} came to the house and sat down there." for name in told]
        (folder / f"{number}.txt").write_text(" ".join(lines))
    maker = ShardMaker(tmp_path / "c", sample / "vocabulary", Cut(max_length=128, dev=0.2), [])
    for shard in plan_shards(find_sources([folder])[0], 2**20):
        maker(shard)
    loaded = load_model(
        sample / "vocabulary",
        "pretraining",
        scratch="tiny",
        shape={"hidden_size": 64, "embedding_size": 64, "num_layers": 2, "num_heads": 4},
    )
    settings = TrainConfig(learning_rate=2e-3, batch_size=16, max_steps=300, warmup=0.05)
    objective = Pretraining(
        loaded.model,
        loaded.tokenizer,
        Corpus(tmp_path / "c" / "train"),
        Corpus(tmp_path / "c" / "dev"),
        settings,
        MaskConfig(),
        "sop",
    )
    group = Processes(torch.device("cpu"))
    Trainer(objective, settings, tmp_path / "run", group).run()
    evaluation = objective.evaluate(group)
    assert evaluation is not None
    assert evaluation.values["pair_accuracy"] > 0.7
