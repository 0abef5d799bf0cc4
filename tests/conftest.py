"""The sample's papers and vocabulary, tiny models, a browser, and ways to run and to fail."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from commands import run_cli

from albert_rc.runtime.environment import prepare

# As every command does it, before torch is imported.
prepare()
# Two test processes on two cores: one thread each, or they get in each other's way.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"

ROOT = Path(__file__).parents[1]
SHAPE = {"hidden_size": 32, "embedding_size": 16, "num_layers": 2, "num_heads": 2, "ffn_size": 64}
SAMPLE = ROOT / "data" / "sample"
SHARED = ROOT.parent / "shared" / "data"


@pytest.fixture(scope="session")
def sample() -> Path:
    return SAMPLE


@pytest.fixture(scope="session")
def real_data() -> Path:
    if not SHARED.is_dir():
        pytest.skip("the real papers do not lie beside this checkout")
    return SHARED


@pytest.fixture(scope="session")
def tokenizer():
    from albert_rc.text.tokenizer import load_tokenizer

    return load_tokenizer(SAMPLE / "vocabulary")


@pytest.fixture(scope="session")
def stores(tokenizer):
    """Stores of the sample by (format, split)."""
    from albert_rc.papers.formats import read_collection
    from albert_rc.stores.store import make_store

    return {
        (name, split.name): make_store(split, tokenizer, 512)
        for name in ("cloze", "race", "dream")
        for split in read_collection(SAMPLE / name)
    }


def torchrun(count: int, *arguments: object, check: bool = True):
    """Run a script or `-m albert_rc` as so many processes; with `check` it must end well."""
    # Standalone: it looks for a free port itself.
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone",
        "--nproc-per-node", str(count), *map(str, arguments),
    ]  # fmt: skip
    # Where one of them aborts, it says where.
    places = [
        str(ROOT / "tests"),
        str(ROOT / "tests" / "helpers"),
        os.environ.get("PYTHONPATH", ""),
    ]
    env = os.environ | {
        "PYTHONFAULTHANDLER": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, places)),
    }
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=240, check=False, env=env
    )
    assert not check or done.returncode == 0, done.stderr[-5000:]
    return done


ROUNDING = 0.02
"""The share of a learning rate that rounding may move weights by, in some steps of Adam."""


def assert_same_but_rounding(one, other, learning_rate=1e-3):
    """Two trained models' weights, by name, are the same up to rounding of their gradients.

    Adam divides by the gradient's own size: where a gradient is next to nothing, its rounding
    becomes a part of a whole step. So single numbers prove nothing, but what decides is how far a
    tensor lies from the other in the root mean square. A micro-batch that is left out, or a sum
    that is divided wrongly, moves it by a tenth of a step and more.
    """
    assert one.keys() == other.keys()
    for name, value in one.items():
        # A bias that all options share has no gradient but rounding.
        if not name.endswith("classifier.bias"):
            apart = (value.double() - other[name].double()).square().mean().sqrt().item()
            assert apart <= ROUNDING * learning_rate, f"{name}: {apart:.2e} apart"


def too_large():
    """An allocation that no machine grants: the real error of the real allocator."""
    import torch

    torch.empty(1 << 60, dtype=torch.uint8)


def starved(run, fails):
    """Make the steps of a run fail as long as `fails(run)` says."""
    step = run.stepper.passes

    def gradients(micro, counts):
        found = step(micro, counts)  # what was computed by then must not count twice
        if fails(run):
            too_large()
        return found

    run.stepper.passes = gradients


def run_until_power_cut(run, step, resume=False):
    """Run a trainer until it has done so many steps; nothing is saved then that was not before."""
    take_step = run._step

    def interrupted(items, epoch):
        if run.progress.step == step:
            raise RuntimeError("power cut")
        return take_step(items, epoch)

    run._step = interrupted
    with pytest.raises(RuntimeError, match="power cut"):
        run.run(resume)


@pytest.fixture
def trainer(sample, tokenizer, stores):
    """Makes trainers of encoders too small to take time."""
    import torch

    from albert_rc.checkpoints.load import load_model
    from albert_rc.runtime.devices import Processes
    from albert_rc.training.config import TrainConfig
    from albert_rc.training.loop import Trainer
    from albert_rc.training.objectives.reading import Reading

    def make(folder, shape=None, name="cloze", dev=True, train=None, **settings):
        train = stores[name, "train"] if train is None else train
        loaded = load_model(
            sample / "vocabulary",
            train.kind,
            scratch="tiny",
            shape=SHAPE | (shape or {}),
            option_score=settings.pop("option_score", None),
            **settings.pop("how", {}),
        )
        defaults = {"learning_rate": 1e-3, "batch_size": 6, "max_steps": 12, "eval_steps": 5}
        device = settings.pop("device", torch.device("cpu"))
        config = TrainConfig(**(defaults | settings))
        held_out = stores[name, "dev"] if dev else None
        objective = Reading(loaded.model, tokenizer, train, held_out, config)
        return Trainer(objective, config, folder, Processes(device))

    return make


@pytest.fixture(scope="module")
def browser():
    from browsing import browsing

    with browsing() as found:
        yield found


@pytest.fixture
def cli():
    return run_cli


@pytest.fixture
def answered(works, sample):
    """Preprocesses papers, trains a tiny model on them, and answers dev.pt, all in a folder."""

    def run(raw: Path, folder: Path, *more: object) -> None:
        vocabulary = ("--model", sample / "vocabulary")
        works("preprocess", raw, *vocabulary, "--out", folder / "data", *more)
        works("train", "--data", folder / "data", *vocabulary, "--scratch", "tiny",
              "--out", folder / "run", "--epochs", 2, "--batch-size", 4)  # fmt: skip
        works("predict", "--data", folder / "data" / "dev.pt", "--model", folder / "run",
              "--out", folder / "answer.json", "--scores", folder / "scores.jsonl")  # fmt: skip

    return run


@pytest.fixture
def works():
    """Runs a command that must end well."""

    def run(*arguments: object, **named: object):
        done = run_cli(*arguments, **named)
        assert done.returncode == 0, done.stderr
        return done

    return run
