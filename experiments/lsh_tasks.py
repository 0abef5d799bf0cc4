"""Dense attention (plain), Reformer's hashing and ours, fine-tuned alike on five tasks.

    python experiments/lsh_tasks.py SOURCES MODEL WORK OUT.json [--seeds 3] [--tasks mrpc ...]
        [--ways faithful ...] [--learning-rate 1e-4] [--epochs 6] [--rounds 8]

SOURCES holds glue/mrpc, glue/sst2, glue/nli and squad/xquad.en.json. Every row fine-tunes MODEL
with the same settings and seed; only the attention differs. The last weights are measured, so
nothing is chosen by the questions that are measured (but for SQuAD 2.0's threshold, which is tuned
on them for every row alike). Rows that stand in OUT.json are not run again; dropout_tasks.py and
sharing_tasks.py may share the file. Other settings want another WORK and OUT.json.
"""

from tasks import PLAIN, Way, run

WAYS = {
    **PLAIN,
    "faithful": Way(("--attention", "lsh", "--lsh-form", "faithful"), hashed=True),
    "ours": Way(("--attention", "lsh", "--lsh-form", "ours"), hashed=True),
}

if __name__ == "__main__":
    run(str(__doc__), WAYS)
