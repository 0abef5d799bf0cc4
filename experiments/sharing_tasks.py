"""ALBERT's two ideas applied to the real weights of a BERT, each fine-tuned alike on tasks.

    python experiments/sharing_tasks.py SOURCES BERT WORK OUT.json [--seeds 3] [--tasks mrpc ...]
        [--ways plain all ...] [--learning-rate 1e-4] [--epochs 3]

SOURCES, and what is measured, are as in lsh_tasks.py; plain shares nothing. Layers that share
weights begin with the mean of theirs, and factorised embeddings with their projection; fine-tuning
has to mend both, which pretraining would do better. So this says what the ideas cost once a model
has been pretrained without them, which is not what Lan et al. 2020 measured. Rows that stand in
OUT.json are not run again.
"""

from collections.abc import Callable
from pathlib import Path

from conversion import as_albert, with_common
from tasks import PLAIN, Way, run

from albert_rc.checkpoints.load import load_model, save_model


def _common(part: str) -> Callable[[str, Path], Path]:
    def start(model: str, work: Path) -> Path:
        folder = work / f"common {part}"
        if not (folder / "config.json").is_file():
            loaded = load_model(model, "choice")
            save_model(with_common(as_albert(loaded.model), part), loaded.tokenizer, folder)
        return folder

    return start


WAYS = {
    **PLAIN,
    "attention": Way(start=_common("attention")),
    "ffn": Way(start=_common("ffn")),
    "3 groups": Way(("--set", "num_groups=3")),
    "2 groups": Way(("--set", "num_groups=2")),
    "all": Way(("--set", "num_groups=1")),
    "E 128": Way(("--set", "embedding_size=128")),
    "E 64": Way(("--set", "embedding_size=64")),
    "all, E 128": Way(("--set", "num_groups=1", "--set", "embedding_size=128")),
    "3 layers": Way(("--set", "num_layers=3")),
}

if __name__ == "__main__":
    run(str(__doc__), WAYS)
