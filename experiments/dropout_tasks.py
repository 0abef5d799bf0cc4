"""Dropout with our masks, with torch's, and none, by task and over seeds.

    python experiments/dropout_tasks.py SOURCES MODEL WORK OUT.json [--seeds 3] [--tasks mrpc ...]
        [--ways plain "torch's dropout" ...] [--learning-rate 1e-4] [--epochs 3]

SOURCES, and what is measured, are as in lsh_tasks.py. MODEL should have dropout. "torch's dropout"
draws its masks with torch's generator instead of ours: it shall be no better and no worse. Rows
that stand in OUT.json are not run again.
"""

from pathlib import Path

from tasks import PLAIN, Way, run

WAYS = {
    **PLAIN,
    "torch's dropout": Way(through=Path(__file__).with_name("torch_dropout.py")),
    "no dropout": Way(("--dropout", 0)),
}

if __name__ == "__main__":
    run(str(__doc__), WAYS)
