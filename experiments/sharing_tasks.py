"""ALBERT's two ideas applied to the real weights of a BERT, each fine-tuned alike on tasks.

    python experiments/sharing_tasks.py SOURCES BERT WORK OUT.json [--seeds 3] [--tasks mrpc ...]
        [--ways plain all ...] [--learning-rate 1e-4] [--epochs 3] [--steps 280] [--costs]

SOURCES holds ele, dream, glue/sst2, glue/mrpc and glue/nli. The rows are: nothing shared (plain,
the BERT itself, E = H), attention, feed-forward (ffn) or all shared, groups of layers shared, E
128 and 64, and fewer layers. Each has its metrics, and how far its layers move the tokens
(layer_figure.py draws that); with --costs also its parameters, milliseconds a paper, and memory and
papers a second in training.

BERT beside ALBERT: "plain" and "all" take the same time, and "all" and "1 layer" have the same
parameters, but for the projection; "1 layer, 6 times as long" trains for about as long as "all".

Layers that share weights begin with the mean of theirs, and factorised embeddings with their
projection; fine-tuning has to repair both, which pretraining would do better. So this is what the
ideas cost once a model has been pretrained without them, which is not what Lan et al. 2020
measured. The last weights are measured. A training that was stopped goes on where its state was
saved, and rows in OUT.json are not run again: the same command goes on. Other settings need another
WORK and OUT.json.
"""

from collections.abc import Callable
from pathlib import Path

from conversion import as_albert, with_common
from tasks import PLAIN, Way, run

from albert_rc.checkpoints.load import load_model, save_model


def _common(part: str) -> Callable[[str, Path, int], Path]:
    def start(model: str, work: Path, seed: int) -> Path:
        folder = work / f"common {part}"
        if not (folder / "model.safetensors").is_file():
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
    "1 layer": Way(("--set", "num_layers=1")),
    "1 layer, 6 times as long": Way(("--set", "num_layers=1"), times=6),
}
TASKS = ("mrpc", "sst-2", "nli", "ele", "dream")

if __name__ == "__main__":
    run(str(__doc__), WAYS, TASKS, rate=1e-4)
