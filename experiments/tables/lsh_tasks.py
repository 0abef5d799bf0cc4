"""Dense attention (plain), Reformer's hashing and ours, fine-tuned alike on five tasks.

    python -m experiments.tables.lsh_tasks SOURCES MODEL WORK OUT.json [--seeds 3]
        [--tasks mrpc ...]
        [--ways plain ours faithful ...] [--learning-rate 1e-4] [--epochs 6] [--rounds 8] [--costs]

SOURCES holds glue/mrpc, glue/sst2, glue/nli and squad/xquad.en.json. Every row fine-tunes MODEL
with the same settings and seed; only the attention differs. Two more rows say whether Reformer's
form (faithful) recovers with three times as many epochs, or with four times as many rounds; and a
last one, in which hashing hides no pair, what is lost by its shared queries and keys alone. The
last weights are measured, so nothing is chosen by the questions that are measured; but for SQuAD
2.0, whose threshold is tuned on them, and whose best weights on them are kept, in every row alike.
Rows name their precision, and a table holds one: processors without bf16 need another OUT.json.

A training that was stopped goes on where its state was saved, and rows in OUT.json are not run
again: the same command goes on. dropout_tasks.py and sharing_tasks.py may share WORK and OUT.json,
if their settings are the same. Other settings need another WORK and OUT.json.
"""

from experiments.tables.tasks import PLAIN, Way, run

FAITHFUL = ("--attention", "lsh", "--set", "lsh.form=faithful")
WAYS = {
    **PLAIN,
    "ours": Way(("--attention", "lsh", "--set", "lsh.form=ours"), hashed=True),
    "faithful": Way(FAITHFUL, hashed=True),
    "faithful, 3 times as long": Way(FAITHFUL, hashed=True, times=3),
    "faithful, 4 times the rounds": Way(FAITHFUL, hashed=True, rounds=4),
    "faithful, nothing hidden": Way(FAITHFUL, hashed=True, all_pairs=True),
}
TASKS = ("mrpc", "sst-2", "nli", "squad 1.1", "squad 2.0")

if __name__ == "__main__":
    run(str(__doc__), WAYS, TASKS)
