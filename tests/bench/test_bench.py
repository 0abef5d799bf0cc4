"""The benchmark's own honesty: everybody on the same items, ratios from the rounds."""

import json
import subprocess
import sys
import time
from dataclasses import replace
from mmap import mmap
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from typer.testing import CliRunner

from albert_rc.bench.compare import _against_first
from albert_rc.bench.job import Job
from albert_rc.bench.jobs import batches, check, workload
from albert_rc.bench.machine import describe, instruction_sets, matrix_rate, memory_in_use
from albert_rc.bench.made_up import drawn_lengths, made_up_store, made_up_vocabulary
from albert_rc.bench.worker import doer, timed
from albert_rc.cli.app import app
from albert_rc.cli.bench_report import show
from albert_rc.errors import UsageError
from albert_rc.runtime.busy import busy_processes
from albert_rc.runtime.devices import choose_precision, has_bf16
from albert_rc.stores.check import what_is_wrong
from albert_rc.training.loop import Trainer
from albert_rc.training.step import Stepper

SMALL = ["--size", "tiny", "--steps", "1", "--rounds", "1", "--length", "32", "--device", "cpu"]
CPU = torch.device("cpu")
SHAPE = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
    "vocab_size": 200, "max_position_embeddings": 64, "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    """Writes the config.json of a small model of a family."""

    def make(family="bert", **changes):
        raw = SHAPE | {"model_type": family} | changes
        if family == "albert":
            raw["embedding_size"] = 16
        if family in ("roberta", "mpnet"):
            raw |= {"max_position_embeddings": 66, "pad_token_id": 1}
        path = tmp_path / family
        path.mkdir(exist_ok=True)
        (path / "config.json").write_text(json.dumps(raw))
        return str(path)

    return make


def all_sides(job):
    return [replace(job, who=who) for who in ("ours", "transformers", "transformers-best")]


def test_everybody_gets_the_same_passages(stores, tmp_path):
    path = tmp_path / "train.pt"
    stores["cloze", "train"].save(path)
    seen = []
    for work in ("train", "predict"):
        for job in all_sides(Job(who="", work=work, data=str(path), steps=4, batch_size=2)):
            made = batches(job, workload(job, tmp_path), 4096)
            seen.append(sorted(item for batch in made for item in batch))
    assert all(items == seen[0] for items in seen)
    assert len(seen[0]) == 8


def test_more_steps_than_an_epoch_go_through_the_store_again(stores, tmp_path):
    path, store = tmp_path / "train.pt", stores["cloze", "train"]
    store.save(path)
    steps = store.num_items + 3
    work = workload(Job(who="ours", work="train", data=str(path), steps=steps), tmp_path)
    assert len(work.batches) == steps
    assert set(work.chosen) == set(range(store.num_items))


def test_made_up_passages_are_a_store_like_any_other():
    store = made_up_store(torch.tensor([40, 23, 64]), 70_000, seed=0)
    assert store.lengths.tolist() == [40, 23, 64]
    assert store.num_questions == 60
    assert store.num_options.eq(4).all()
    assert store.has_answers
    assert what_is_wrong("cloze", store.tensors, store.meta) is None


def test_made_up_lengths_vary_as_real_ones_do():
    passages = drawn_lengths("train", 4000, None, 512, seed=1).float()
    assert 375 < passages.mean() < 390
    assert 65 < passages.std() < 80
    assert passages.max() <= 512
    sequences = drawn_lengths("pretrain", 4000, None, 256, seed=1)
    assert 0.88 < (sequences == 256).float().mean() < 0.92
    assert sequences.min() >= 16
    assert drawn_lengths("pretrain", 3, 100, 256, seed=1).tolist() == [100] * 3


def test_the_shape_is_the_folders_own(folder, tmp_path):
    job = Job(who="ours", work="train", model=folder(), steps=1)
    config = check(job)
    assert (config.hidden_size, config.num_layers, config.vocab_size) == (32, 2, 200)
    assert (config.dropout, config.attention_dropout) == (0.1, 0.1)
    assert check(replace(job, dropout=0.0)).attention_dropout == 0
    work = workload(job, tmp_path)
    assert work.source.tensors["token"].max() < 200
    assert work.length_N.max() <= 64


@pytest.mark.parametrize(
    ("family", "named"),
    [
        ("bert", "BertForMaskedLM"),
        ("albert", "AlbertForMaskedLM"),
        ("roberta", "RobertaForMaskedLM"),
        ("mpnet", "MPNetForMaskedLM"),
    ],
)
@pytest.mark.parametrize("work", ["train", "predict", "pretrain"])
def test_everybody_does_the_work_of_a_folders_shape(family, named, work, folder, tmp_path):
    job = Job(
        who="", work=work, model=folder(family), batch_size=3, steps=2, precision="fp32", length=40
    )
    for place, side in enumerate(all_sides(job)):
        own = tmp_path / str(place)
        own.mkdir()
        items = workload(side, own)
        done_by = doer(side, items, CPU, own)
        if side.who != "ours":
            assert type(done_by.model).__name__ == named
            assert done_by.model.config.hidden_dropout_prob == 0.1
            assert done_by.model.training == (work != "predict")
            eager = side.who == "transformers-best" and work != "predict"
            eager |= family == "mpnet"
            assert done_by.model.config._attn_implementation == ("eager" if eager else "sdpa")
        steps = batches(side, items, 4096)
        assert done_by.flops(steps[0], 0) > 1e5
        seconds, memory = timed(done_by, steps, CPU)
        assert seconds > 0
        assert [look["share"] for look in memory] == [0.1, 0.25, 0.5, 1.0]
        assert memory[-1]["step"] == len(steps)
        assert all(look["bytes"] > 2**24 for look in memory)


def test_pretraining_asks_everybody_for_as_many_words(folder, tmp_path):
    job = Job(who="", work="pretrain", model=folder(), batch_size=16, steps=20)
    ours, _, best = all_sides(job)
    work = workload(ours, tmp_path)
    us = doer(ours, work, CPU, tmp_path)
    them = doer(best, work, CPU, tmp_path)
    mask = made_up_vocabulary(200).mask_id
    asked, hidden = [0, 0], [0, 0]
    for number, items in enumerate(work.batches):
        batch = us.objective.batch(items, number)
        token_BL, mask_BL, label_BL = them._batch(items)
        assert mask_BL.sum(1).tolist() == list(batch.lengths)
        asked[0] += len(batch.masked_token_M)
        asked[1] += int((label_BL >= 0).sum())
        hidden[0] += int((batch.token_T == mask).sum())
        hidden[1] += int((token_BL == mask).sum())
    for count in (asked, hidden):
        assert count[0] == pytest.approx(count[1], rel=0.1)
    assert 0.13 < asked[0] / int(work.length_N[work.chosen].sum()) < 0.16


def test_our_steps_are_those_of_the_trainer(folder, tmp_path, monkeypatch):
    taken = []
    take = Stepper.take

    def noted(self, *arguments, **named):
        taken.append(named["step"])
        return take(self, *arguments, **named)

    monkeypatch.setattr(Stepper, "take", noted)
    for work in ("train", "pretrain"):
        job = Job(who="ours", work=work, model=folder(), steps=3)
        items = workload(job, tmp_path)
        done_by = doer(job, items, CPU, tmp_path)
        assert isinstance(done_by.trainer, Trainer)
        before = {name: p.detach().clone() for name, p in done_by.trainer.model.named_parameters()}
        timed(done_by, items.batches, CPU)
        moved = [not p.equal(before[name]) for name, p in done_by.trainer.model.named_parameters()]
        assert sum(moved) > 0.9 * len(moved)
        assert done_by.cut == {}
    assert taken == [0, 1, 2] * 2


def test_operations_are_those_that_a_peer_does(folder, tmp_path):
    job = Job(who="", work="predict", model=folder("albert"), batch_size=3, steps=1)
    for side in all_sides(job)[1:]:
        items = workload(side, tmp_path)
        done_by = doer(side, items, CPU, tmp_path)
        done_by.model.set_attn_implementation("eager")
        batch = items.batches[0]
        with FlopCounterMode(display=False) as counter:
            done_by.step(batch, 0)
        assert done_by.flops(batch, 0) == pytest.approx(counter.get_total_flops(), rel=0.01)


def seconds_of(pid):
    """What a process has computed so far, in ticks."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11])


@pytest.mark.skipif(not Path("/proc/self/stat").is_file(), reason="tells by Linux's /proc")
def test_busy_processes_compute_and_go():
    with busy_processes(2) as pids:
        deadline = time.monotonic() + 20
        while min(seconds_of(pid) for pid in pids) < 5 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert min(seconds_of(pid) for pid in pids) >= 5
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


@pytest.mark.skipif(not Path("/proc/self/stat").is_file(), reason="tells by Linux's /proc")
def test_busy_processes_end_when_their_parent_is_killed():
    code = (
        "import os, signal; from albert_rc.runtime.busy import busy_processes\n"
        "with busy_processes(1) as pids:\n"
        "    print(pids[0], flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=False, timeout=60
    )
    left = Path(f"/proc/{int(done.stdout)}/cmdline")
    deadline = time.monotonic() + 20
    while left.exists() and left.read_bytes() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left.exists() or not left.read_bytes()  # gone, or waiting to be reaped


@pytest.mark.slow
def test_training_beside_transformers(cli, tmp_path):
    out = tmp_path / "result.json"
    done = cli("bench", "train", *SMALL, "--against", "transformers", "--json", "--out", out)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert json.loads(out.read_bytes()) == result
    ours, plain, best = result["results"]
    assert [row["who"] for row in (ours, plain, best)] == [
        "ours", "transformers", "transformers-best",
    ]  # fmt: skip
    for peer in (plain, best):
        assert peer["ratio"] == pytest.approx(ours["rounds"][0] / peer["rounds"][0])
        assert peer["memory_ratio"] == pytest.approx(ours["peak_bytes"] / peer["peak_bytes"])
    assert plain["precision"] == "fp32"
    assert best["precision"] == choose_precision(None, torch.device("cpu"))
    assert ours["plan"]["total"] > 2**20
    assert ours["machine"]["torch"] == torch.__version__
    assert 0 < ours["matrix_share"] < 1


@pytest.mark.slow
def test_pretraining_beside_a_busy_process(cli, folder):
    done = cli(
        "bench", "pretrain", "--model", folder(), "--steps", 4, "--rounds", 1, "--busy", 1,
        "--device", "cpu", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "ours" in done.stderr
    assert "with 1 busy process:" in done.stderr
    result = json.loads(done.stdout)
    rates = result["machine"]["matrix_flops_per_second"]
    assert ("bf16" in rates) == has_bf16(torch.device("cpu"))
    assert "fp32" in rates
    assert min(rates.values()) > 1e8
    (row,) = result["results"]
    assert row["shape"]["hidden_size"] == 32
    assert row["model"] == "bert"
    assert row["batch_size"] == 32
    assert row["sequences_per_second"] > 0
    assert row["tokens_per_second"] > row["sequences_per_second"]
    beside = row["beside"]
    assert beside["busy"] == 1
    assert beside["of_quiet"] == pytest.approx(beside["rounds"][0] / row["rounds"][0])
    assert beside["matrix_share"] == pytest.approx(
        beside["flops_per_second"] / row["matrix_flops_per_second"]
    )
    assert [look["step"] for look in row["memory"]] == [1, 1, 2, 4]
    assert row["peak_bytes"] >= max(look["bytes"] for look in row["memory"])


@pytest.mark.slow
def test_a_planned_training_says_its_plan(cli):
    done = cli("bench", "train", *SMALL, "--memory", "2GiB")
    assert done.returncode == 0, done.stderr
    assert "micro-batches, recompute nothing" in done.stdout
    done = cli("bench", "train", *SMALL, "--memory", "1MiB")
    assert done.returncode != 0
    assert "even for the plan that needs least" in done.stderr


def row(who, precision, speed, **more):
    looks = [{"share": s, "step": int(1000 * s), "bytes": 2**31} for s in (0.1, 0.25, 0.5, 1.0)]
    beside = {"pretrain_per_second": 1.0, "busy": 2, "of_quiet": 0.4, "matrix_share": 0.1}
    return {
        "who": who, "precision": precision, "work": "pretrain", "size": "base", "model": None,
        "batch_size": 32, "busy": 0, "sequences_per_second": speed, "cut": {}, "plan": None,
        "tokens_per_second": 256 * speed, "flops_per_second": 123e9, "matrix_share": 0.123,
        "peak_bytes": 11 * 2**30, "memory": looks,
        "beside": beside | {"sequences_per_second": speed / 2, "tokens_per_second": 1234567.0},
    } | more  # fmt: skip


def test_what_is_printed_fits_80_columns(capsys):
    plan = {"total": 2**31, "micro_batches": 2, "recompute": "activations", "states": "fp32"}
    rows = [row("ours", "bf16", 1234.5, plan=plan, cut={"micro_batches": 4, "processes": 1})]
    for who, precision in (("transformers", "fp32"), ("transformers-best", "bf16")):
        rows.append(row(who, precision, 123.4, ratio=10.0, memory_ratio=0.5))
        rows[-1]["beside"]["ratio"] = 12.5
    sets = ["avx2", "avx512f", "avx512_bf16", "avx512_fp16", "avx512_vnni", "amx_bf16", "amx_int8"]
    machine = describe(CPU) | {
        "instruction_sets": sets,
        "matrix_flops_per_second": {"fp32": 2e11, "bf16": 2e12},
    }
    show({"machine": machine, "results": rows})
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    for said in ("fp32 200, bf16 2,000", "with 2 busy processes", "12.50 with", " 1,000 "):
        assert said in shown
    assert "out of memory: 4 micro-batches" in shown


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("both", "both"),
        ("train --against fairseq", "fairseq"),
        ("train --steps 0", "--steps"),
        ("train --batch-size 0", "--batch-size"),
        ("train --busy 0", "--busy"),
        ("train --length 9000", "--length"),
        ("train --recompute all", "--recompute all"),
        ("train --memory much", "--memory much"),
        ("train --precision int8", "--precision int8"),
        ("train --size huge", "no such size"),
        ("train --size base --model albert-rc-tiny", "--size and --model"),
        ("train --model nowhere", "--model nowhere"),
        ("train --dropout 1.5", "--dropout 1.5 must be at least 0 and below 1"),
        ("predict --dropout 0.1", "bench train and bench pretrain"),
        ("pretrain --data train.pt", "bench train and bench predict"),
        ("resume --data train.pt", "put options for train after --"),
        ("train -- --data data", "only bench resume takes options after --"),
    ],
)
def test_bad_usage_is_refused(wrong, said):
    done = CliRunner().invoke(app, ["bench", "--device", "cpu", *wrong.split()])
    if isinstance(done.exception, UsageError):
        assert said in str(done.exception)
    else:
        assert done.exit_code == 2
        assert said in done.output


def test_a_store_for_another_model_is_refused(stores, folder, tmp_path):
    path = tmp_path / "train.pt"
    stores["cloze", "train"].save(path)
    job = Job(who="ours", work="train", data=str(path), model=folder())
    with pytest.raises(UsageError, match="vocabulary of"):
        check(job)
    with pytest.raises(UsageError, match="the model takes 64"):
        check(replace(job, model=folder(vocab_size=40_000)))
    stores["race", "train"].save(path)
    with pytest.raises(UsageError, match="a store of cloze papers is needed"):
        check(replace(job, model=None))


def test_shapes_that_a_peer_cannot_compute_are_refused(folder):
    model = folder("albert", albert_rc={"residual": "reversible"})
    options = ["bench", "train", "--device", "cpu", "--model", str(model), "--against"]
    done = CliRunner().invoke(app, [*options, "transformers"])
    assert isinstance(done.exception, UsageError)
    assert "reversible" in str(done.exception)


def test_the_matrix_rate_is_a_rate():
    assert 1e8 < matrix_rate("fp32", CPU, repeats=1) < 1e15


def test_instruction_sets_are_those_that_the_system_shows():
    cpuinfo = Path("/proc/cpuinfo")
    if "\nflags" not in (cpuinfo.read_text() if cpuinfo.is_file() else ""):
        pytest.skip("this system does not show them")
    flags = set(cpuinfo.read_text().partition("\nflags")[2].partition("\n")[0].split())
    assert set(instruction_sets()) <= flags
    assert ("avx2" in instruction_sets()) == ("avx2" in flags)


def test_memory_in_use_follows_what_is_held():
    before = memory_in_use(CPU)
    with mmap(-1, 2**26) as held:
        held.write(bytes(2**26))
        assert memory_in_use(CPU) - before > 2**25


def test_a_made_up_vocabulary_is_as_large_as_asked_for():
    assert made_up_vocabulary(300).size == 300


def test_all_figures_of_a_row_are_medians_of_its_rounds():
    """Of two rounds the middle is neither of them."""
    rounds = [
        {"passages_per_second": speed, "tokens_per_second": 100 * speed, "flops_per_second": speed,
         "matrix_share": speed / 20, "peak_bytes": peak}
        for speed, peak in ((10.0, 400), (2.0, 200))
    ]  # fmt: skip
    (row,) = _against_first([rounds], "passages_per_second")
    assert row["rounds"] == [10.0, 2.0]
    figures = ("passages_per_second", "tokens_per_second", "matrix_share", "peak_bytes")
    assert [row[name] for name in figures] == pytest.approx([6.0, 600.0, 0.3, 300])
