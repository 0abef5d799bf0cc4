"""The losses of 20 steps from a fixed seed, so that no change in numerics goes unnoticed.

After a change that is meant to change them, `python tests/training/test_golden.py` writes them
anew.
"""

import json
from pathlib import Path

import pytest
import torch

from albert_rc.checkpoints.load import load_model
from albert_rc.papers.formats import read_split
from albert_rc.runtime.devices import Processes, be_deterministic
from albert_rc.stores.store import make_store
from albert_rc.training.config import TrainConfig
from albert_rc.training.loop import Trainer
from albert_rc.training.objectives.reading import Reading

GOLDEN = Path(__file__).with_name("golden.json")
SAMPLE = Path(__file__).parents[2] / "data" / "sample"
STEPS = 20


def losses(folder):
    """Loss of the blanks and of the hidden words, per step, of the size `tiny` in fp32."""
    loaded = load_model(SAMPLE / "vocabulary", "cloze", scratch="tiny", option_score="salience")
    settings = TrainConfig(
        learning_rate=1e-3, batch_size=3, max_steps=STEPS, mask_rate=0.2, eval_steps=100, seed=7
    )
    store = make_store(read_split(SAMPLE / "cloze" / "train"), loaded.tokenizer, 128)
    objective = Reading(loaded.model, loaded.tokenizer, store, None, settings)
    run = Trainer(objective, settings, folder, Processes(torch.device("cpu")))
    step, found = run._step, []

    def watched(items, epoch):
        sums = step(items, epoch).tolist()
        blanks, hidden, _ = sums[objective.num_sums :]
        found.append([sums[0] / blanks, sums[2] / hidden])
        return torch.tensor(sums)

    run._step = watched
    run.run()
    return found


def test_the_losses_are_the_golden_ones(tmp_path):
    # Processors differ in the last bits, and steps magnify them; a change of the mathematics, of
    # the order of the data or of a random number is far outside.
    golden = json.loads(GOLDEN.read_text())
    found = losses(tmp_path)
    assert len(golden) == STEPS
    for now, then in zip(found, golden, strict=True):
        assert now == pytest.approx(then, rel=2e-4)


def test_the_same_numbers_each_time(tmp_path):
    be_deterministic()
    try:
        assert losses(tmp_path / "a") == losses(tmp_path / "b")
    finally:
        torch.use_deterministic_algorithms(False)


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        GOLDEN.write_text(json.dumps(losses(Path(place)), indent=1) + "\n")
