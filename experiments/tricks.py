"""What options beyond the plain recipe are worth on real weights, by task and over seeds.

    python experiments/tricks.py SOURCES MODEL WORK OUT.json [--seeds 3] [--tasks mrpc ...]
        [--ways plain "R-Drop 1" ...] [--learning-rate 1e-4] [--epochs 3]

SOURCES, and what is measured, are as in lsh_tasks.py. MODEL should have dropout, which R-Drop
needs. "torch's dropout" draws its masks with torch's generator instead of ours: it shall be no
better and no worse. Rows that stand in OUT.json are not run again.
"""

from pathlib import Path

from tasks import PLAIN, Way, run

WAYS = {
    **PLAIN,
    "torch's dropout": Way(through=Path(__file__).with_name("torch_dropout.py")),
    "no dropout": Way(("--dropout", 0)),
    "label smoothing 0.1": Way(("--set", "label_smoothing=0.1")),
    "EMA 0.99": Way(("--set", "ema=0.99")),
    "R-Drop 1": Way(("--set", "r_drop=1")),
    "FGM 1": Way(("--set", "fgm=1")),
}

if __name__ == "__main__":
    run(str(__doc__), WAYS)
