"""What goes wrong on real machines, done for real: full disks, damaged files, changed stores."""

import errno
import os
import random
import resource
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
import torch
from conftest import SAMPLE, SHAPE, run_until_power_cut
from safetensors import SafetensorError

from albert_rc.answering.score import score, write_predictions
from albert_rc.checkpoints.load import load_model, save_model
from albert_rc.errors import CheckpointError, DataError, UsageError
from albert_rc.io.atomic import only_run, write_together
from albert_rc.io.pt import check_archive
from albert_rc.papers.formats import read_split
from albert_rc.runtime.devices import Processes, is_out_of_memory
from albert_rc.stores.store import load_store, make_store
from albert_rc.training.checkpoint import states
from albert_rc.training.config import TrainConfig
from albert_rc.training.loop import Trainer
from albert_rc.training.objectives.reading import Reading

VOCABULARY = SAMPLE / "vocabulary"


@contextmanager
def files_no_larger_than(size):
    """A disk with so little room: the system refuses to write on."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def hidden(folder):
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


def test_a_full_disk_costs_a_run_nothing_that_was_saved(trainer, tmp_path):
    whole = trainer(tmp_path / "whole", save_steps=2)
    whole.run()
    broken = tmp_path / "broken"
    run_until_power_cut(trainer(broken, save_steps=2), 7)
    newest = states(broken)[0]
    content = newest.read_bytes()
    with (
        files_no_larger_than(len(content) // 2),
        pytest.raises(OSError, match="too large") as error,
    ):
        trainer(broken, save_steps=2).run(resume=True)
    assert error.value.filename == str(broken / "resume-00000008.pt")
    assert newest.read_bytes() == content
    assert hidden(broken) == []
    again = trainer(broken, save_steps=2)
    again.run(resume=True)
    for a, b in zip(whole.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("target", ["stores", "weights", "answers"])
def test_a_full_disk_leaves_the_old_file(stores, tokenizer, tmp_path, target):
    loaded = load_model(VOCABULARY, "cloze", scratch="tiny")
    store = stores["cloze", "dev"]
    scored = score(loaded.model, tokenizer, store, Processes(torch.device("cpu")))
    write, name = {
        "stores": (lambda: write_together({tmp_path / "dev.pt": store.save}), "dev.pt"),
        "weights": (lambda: save_model(loaded.model, tokenizer, tmp_path), "model.safetensors"),
        "answers": (
            lambda: write_predictions(store, scored, tmp_path / "a.json", tmp_path / "s.jsonl"),
            "s.jsonl",
        ),
    }[target]
    write()
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    size = len(before[name])
    with files_no_larger_than(size - 1), pytest.raises(OSError, match="too large") as error:
        write()
    assert error.value.filename == str(tmp_path / name)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def _limited(command):
    """A command under the shell's limits, which a measurement of coverage would not bear."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    return subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, check=False, env=env
    )


def test_the_command_says_how_to_go_on_when_the_disk_is_full(tmp_path):
    command = (
        f"ulimit -f 1; exec {sys.executable} -m albert_rc preprocess {SAMPLE / 'cloze'} "
        f"--model {VOCABULARY} --out {tmp_path / 'data'}"
    )
    done = _limited(command)
    assert done.returncode == 2
    assert "File too large; free some disk space and run the same command again" in done.stderr
    assert "Traceback" not in done.stderr
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


def test_a_folder_that_may_not_be_written_to(cli, tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(0o500)
    if os.access(closed, os.W_OK):  # nothing is closed to root but the kernel's own folders
        closed = "/sys/kernel"
    command = ["preprocess", SAMPLE / "cloze", "--model", VOCABULARY, "--out", f"{closed}/data"]
    done = cli(*command)
    assert done.returncode == 2
    assert f"error: {closed}" in done.stderr
    assert "check its permissions, or for a result choose another place with --out" in done.stderr


def flipped(content, rng):
    """The content with one bit changed, anywhere."""
    changed = bytearray(content)
    changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def test_a_flipped_bit_in_a_store_is_refused_or_harmless(stores, tmp_path):
    path, rng = tmp_path / "dev.pt", random.Random(0)
    stores["cloze", "dev"].save(path)
    content = path.read_bytes()
    refused = 0
    for _ in range(150):
        path.write_bytes(flipped(content, rng))
        try:
            found = load_store(path)
        except DataError as error:
            refused += 1
            assert "dev.pt" in str(error)  # noqa: PT017
            continue
        # Only padding between the tensors may differ.
        for name, tensor in stores["cloze", "dev"].tensors.items():
            assert torch.equal(found.tensors[name], tensor)
        assert found.meta == stores["cloze", "dev"].meta
    assert refused > 120


def test_a_flipped_bit_in_weights_is_refused_or_harmless(tokenizer, tmp_path):
    made = load_model(VOCABULARY, "cloze", scratch="tiny", shape=SHAPE).model
    save_model(made, tokenizer, tmp_path)
    path, rng = tmp_path / "model.safetensors", random.Random(0)
    content = path.read_bytes()
    refused = 0
    # Half of them in the header, which is small.
    header = 8 + int.from_bytes(content[:8], "little")
    for number in range(100):
        start, end = (0, header) if number % 2 else (header, len(content))
        path.write_bytes(content[:start] + flipped(content[start:end], rng) + content[end:])
        try:
            found = load_model(tmp_path, "cloze").model
        except CheckpointError as error:
            refused += 1
            assert "model.safetensors" in str(error) or "vocabulary" in str(error)  # noqa: PT017
            continue
        for name, value in made.named_parameters():
            assert torch.equal(found.get_parameter(name), value)
    assert refused > 80


def test_torn_weights_are_named(tokenizer, tmp_path):
    made = load_model(VOCABULARY, "cloze", scratch="tiny", shape=SHAPE).model
    save_model(made, tokenizer, tmp_path)
    path = tmp_path / "model.safetensors"
    content = path.read_bytes()
    for length in (0, 7, 300, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(CheckpointError, match=r"model\.safetensors: "):
            load_model(tmp_path, "cloze")


def run_on(folder, out):
    """A trainer on the stores of a folder."""
    loaded = load_model(VOCABULARY, "cloze", scratch="tiny", shape=SHAPE)
    settings = TrainConfig(learning_rate=1e-3, batch_size=6, max_steps=8, save_steps=2)
    both = [load_store(folder / f"{name}.pt") for name in ("train", "dev")]
    objective = Reading(loaded.model, loaded.tokenizer, *both, settings)
    return Trainer(objective, settings, out, Processes(torch.device("cpu")))


def test_a_store_remade_under_a_run_changes_nothing_until_it_is_resumed(
    stores, tokenizer, tmp_path
):
    for name in ("train", "dev"):
        stores["cloze", name].save(tmp_path / f"{name}.pt")
    whole = run_on(tmp_path, tmp_path / "whole")
    whole.run()
    run = run_on(tmp_path, tmp_path / "run")
    step = run._step

    def remade(items, epoch):
        if run.progress.step == 3:
            make_store(read_split(SAMPLE / "cloze" / "dev"), tokenizer, 128).save(
                tmp_path / "train.pt"
            )
        return step(items, epoch)

    run._step = remade
    run.run()
    for a, b in zip(whole.model.parameters(), run.model.parameters(), strict=True):
        assert torch.equal(a, b)
    with pytest.raises(
        UsageError, match="--resume: the run was started with a different train store"
    ):
        run_on(tmp_path, tmp_path / "run").run(resume=True)


def test_a_clock_that_jumps_changes_nothing(trainer, tmp_path, monkeypatch):
    whole = trainer(tmp_path / "whole", save_steps=2)
    whole.run()
    rng, real = random.Random(0), time.time
    monkeypatch.setattr(time, "time", lambda: real() + rng.choice((-1e8, 0.0, 1e8)))
    run_until_power_cut(trainer(tmp_path / "broken", save_steps=2), 5)
    again = trainer(tmp_path / "broken", save_steps=2)
    result = again.run(resume=True, seconds=600)
    assert not result.paused
    assert 0 < result.seconds < 60
    for a, b in zip(whole.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(a, b)


def test_two_commands_in_one_folder(cli, stores, tmp_path):
    stores["cloze", "train"].save(tmp_path / "train.pt")
    command = ["train", "--data", tmp_path, "--model", VOCABULARY, "--scratch", "tiny"]
    with only_run(tmp_path / "run"):
        done = cli(*command, "--out", tmp_path / "run")
    assert done.returncode == 2
    assert f"run is in use by another run (process {os.getpid()} on" in done.stderr
    assert not (tmp_path / "run").exists()


def test_one_of_several_runs_is_at_work(cli, stores, tmp_path):
    for split in ("train", "dev"):
        stores["cloze", split].save(tmp_path / f"{split}.pt")
    command = ["train", "--data", tmp_path, "--model", VOCABULARY, "--scratch", "tiny"]
    with only_run(tmp_path / "run" / "seed-0"):
        done = cli(*command, "--seeds", 2, "--max-steps", 1, "--out", tmp_path / "run")
    assert done.returncode == 2
    assert "seed-0 is in use by another run" in done.stderr


def test_no_room_for_a_lock(tmp_path):
    with (
        files_no_larger_than(0),
        pytest.raises(OSError, match="too large") as error,
        only_run(tmp_path / "run"),
    ):
        pass
    assert error.value.filename == str(tmp_path / "run" / ".lock")
    assert not (tmp_path / "run").exists()


def test_memory_is_told_from_other_errors():
    for said in ("could not create a primitive", "DefaultCPUAllocator: can't allocate memory"):
        assert is_out_of_memory(RuntimeError(said))
    assert is_out_of_memory(SafetensorError("unable to mmap 9 bytes: Cannot allocate memory (12)"))
    assert is_out_of_memory(OSError(errno.ENOMEM, "Cannot allocate memory"))
    assert not is_out_of_memory(OSError(errno.ENOSPC, "No space left on device"))
    for said in ("shapes do not match", "could not create a primitive descriptor for a matmul"):
        assert not is_out_of_memory(RuntimeError(said))


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A model whose weights do not fit into a gigabyte with torch."""
    folder = tmp_path_factory.mktemp("large")
    loaded = load_model(VOCABULARY, "cloze", scratch="xlarge")
    save_model(loaded.model, loaded.tokenizer, folder)
    return folder


@pytest.mark.parametrize("kilobytes", [300_000, 1_000_000])
def test_memory_that_runs_out_has_an_exit_code(stores, large, tmp_path, kilobytes):
    """The first is too little to load torch, the second to read the weights.

    In between lies what torch's own start needs: there its C++ aborts, which nobody can catch.
    """
    stores["cloze", "dev"].save(tmp_path / "dev.pt")
    command = (
        f"ulimit -v {kilobytes}; exec {sys.executable} -m albert_rc predict "
        f"--data {tmp_path / 'dev.pt'} --model {large} --out {tmp_path / 'a.json'}"
    )
    done = _limited(command)
    assert done.returncode == 5, done.stderr
    assert "error: out of memory" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "a.json").exists()


def test_kills_at_random_moments(tmp_path):
    """A few here; `make kills` does hundreds."""
    script = SAMPLE.parents[1] / "tests" / "faults" / "kills.py"
    seed = str(time.time_ns() % 10**6)
    done = subprocess.run(
        [sys.executable, script, "--kills", "2", "--steps", "10", "--seed", seed],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"seed {seed}\n{done.stdout}{done.stderr}"


@pytest.mark.slow
def test_two_hundred_kills(tmp_path):
    script = SAMPLE.parents[1] / "tests" / "faults" / "kills.py"
    subprocess.run([sys.executable, script, "--kills", "210"], check=True)


@pytest.fixture
def little_disk(tmp_path):
    """A file system of its own with 3 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", place]
    if not shutil.which("mount") or subprocess.run(mount, check=False).returncode:
        pytest.skip("mounting a file system is not allowed here")
    yield place
    subprocess.run(["umount", place], check=True)


@pytest.mark.slow
def test_a_disk_that_fills_up_under_a_run(cli, stores, little_disk, tmp_path):
    for name in ("train", "dev"):
        stores["cloze", name].save(tmp_path / f"{name}.pt")
    options = ["train", "--data", tmp_path, "--model", VOCABULARY, "--scratch", "tiny",
               "--save-steps", 2, "--batch-size", 4, "--max-steps", 20]  # fmt: skip
    done = cli(*options, "--out", little_disk / "run")
    assert done.returncode == 2
    assert "No space left on device; free some disk space" in done.stderr
    assert "Traceback" not in done.stderr
    for path in states(little_disk / "run"):
        check_archive(path)
    subprocess.run(["mount", "-o", "remount,size=100m", little_disk], check=True)
    resume = ["--resume"] if states(little_disk / "run") else []
    assert cli(*options, *resume, "--out", little_disk / "run").returncode == 0
