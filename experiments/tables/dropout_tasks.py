"""Dropout with our masks, with torch's, and none, by task and over seeds.

    python -m experiments.tables.dropout_tasks SOURCES MODEL WORK OUT.json [--seeds 3]
        [--tasks mrpc ...]
        [--ways plain "torch's dropout" "no dropout"] [--learning-rate 1e-4] [--epochs 3]

SOURCES, and what is measured, are as in lsh_tasks.py. MODEL must have dropout. "torch's dropout"
draws its masks with torch's generator instead of ours, and should be as accurate. A training that
was stopped goes on where its state was saved, and rows in OUT.json are not run again: the same
command goes on.
"""

from pathlib import Path

from experiments.tables.tasks import PLAIN, Way, run

WAYS = {
    **PLAIN,
    "torch's dropout": Way(through=Path(__file__).with_name("torch_dropout.py")),
    "no dropout": Way(("--set", "dropout=0")),
}

TASKS = ("mrpc", "sst-2", "nli")

if __name__ == "__main__":
    run(str(__doc__), WAYS, TASKS)
