"""What counts of neighbouring pieces add to a model's scores of the options of blanks.

    python -m experiments.answering.neighbour_counts ELE/dev MODEL OUT.json CORPUS [CORPUS ...]

A CORPUS is made by `pretrain data` with MODEL's vocabulary, such as WORK/near and WORK/mix of
`experiments.models.reader prepare`; no dev paper may be in it. How often an option's pieces occur
in it, alone and next to the pieces left and right of the blank (pairs and triples), is weighed
together with the model's log-probabilities. The weights are fitted on nine tenths of the papers,
and the others answered with them, ten times.
"""

# C candidates: options of all blanks; F features, Q blanks, K options of one

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from albert_rc.answering.again import second_reading, way_of
from albert_rc.answering.score import score
from albert_rc.checkpoints.load import load_model
from albert_rc.corpus.shards import Corpus
from albert_rc.io.json import write_json
from albert_rc.papers.formats import read_good
from albert_rc.scoring.accuracy import gain
from albert_rc.scoring.confidence import folds_of
from albert_rc.stores.store import Store, make_store
from experiments.answering.excerpts import ALONE, BUDGET, right, share
from experiments.shared.scripts import parser_of

FOLDS = 10
PENALTY = 1e-3
"""Of the squared weights of features scaled to a standard deviation of 1."""
SHAPES = ((0,), (-1, 0), (0, 1), (-2, -1, 0), (0, 1, 2), (-1, 0, 1))
"""Places of the counted pieces: 0 is the option's nearest piece, -1 and 1 are next to the blank."""

Ids = NDArray[np.int64]


def numbers_of(columns: Sequence[Ids], size: int) -> Ids:
    """One number for each row of pieces, [N]; a vocabulary of up to 2 million fits."""
    found = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        found = found * size + column
    return found


class Counts:
    """How often neighbouring pieces occur in a corpus.

    Args:
        folder: of the corpus.
        size: of the vocabulary.
    """

    def __init__(self, folder: Path, size: int) -> None:
        corpus = Corpus(folder / "train")
        gap = np.full(2, -1, np.int64)  # sequences do not follow each other
        pieces = [
            part for i in range(len(corpus)) for part in (torch.cat(corpus.pair(i)).numpy(), gap)
        ]
        token_T, self.size = np.concatenate(pieces), size
        self.tables = {}
        for length in (1, 2, 3):
            columns = [token_T[i : len(token_T) - length + 1 + i] for i in range(length)]
            whole = np.all([column >= 0 for column in columns], axis=0)
            self.tables[length] = np.unique(
                numbers_of([column[whole] for column in columns], size), return_counts=True
            )

    def of(self, columns: Sequence[Ids]) -> NDArray[np.float64]:
        """The logarithm of 1 and the number of occurrences of each row of pieces."""
        keys, counts = self.tables[len(columns)]
        asked = numbers_of(columns, self.size)
        place = np.searchsorted(keys, asked).clip(max=len(keys) - 1)
        return np.log1p(np.where(keys[place] == asked, counts[place], 0))


def features(store: Store, counts: Sequence[Counts]) -> Tensor:
    """Counts of each option with its neighbours, by corpus and by `SHAPES`, [C, F]."""
    tensors = {name: value.long().numpy() for name, value in store.tensors.items()}
    blanks_S = np.diff(tensors["blank_offset"])
    place_Q = tensors["blank_position"] + np.repeat(tensors["token_offset"][:-1], blanks_S)
    options_Q = np.diff(tensors["option_offset"])
    around = {
        step: np.repeat(tensors["token"].take(place_Q + step, mode="clip"), options_Q)
        for step in (-2, -1, 1, 2)
    }
    first_C = tensors["piece"][tensors["piece_offset"][:-1]]
    last_C = tensors["piece"][tensors["piece_offset"][1:] - 1]
    columns = []
    for table in counts:
        for shape in SHAPES:
            own = first_C if min(shape) < 0 else last_C
            columns.append(table.of([own if step == 0 else around[step] for step in shape]))
    return torch.from_numpy(np.stack(columns, 1)).float()


def fitted(x_QKF: Tensor, answer_Q: Tensor) -> Tensor:
    """Weights of the features that make the right options likeliest, [F]."""
    weight_F = torch.zeros(x_QKF.shape[-1], requires_grad=True)
    optimiser = torch.optim.LBFGS([weight_F], max_iter=100)

    def loss() -> Tensor:
        optimiser.zero_grad()
        found: Tensor = nn.functional.cross_entropy(x_QKF @ weight_F, answer_Q)
        found = found + PENALTY * weight_F.square().sum()
        found.backward()
        return found

    optimiser.step(loss)
    return weight_F.detach()


def in_folds(x_QKF: Tensor, answer_Q: Tensor, fold_Q: Ids) -> Tensor:
    """Scores of the options, [Q, K], with weights fitted on the other folds."""
    scored_QK = torch.zeros(x_QKF.shape[:2])
    for fold in range(FOLDS):
        mine_Q = torch.from_numpy(fold_Q == fold)
        scored_QK[mine_Q] = x_QKF[mine_Q] @ fitted(x_QKF[~mine_Q], answer_Q[~mine_Q])
    return scored_QK


def scaled(x_CF: Tensor, width: int) -> Tensor:
    """Features as differences from the mean of a blank's options, in standard deviations."""
    x_QKF = x_CF.unflatten(0, (-1, width))
    x_QKF = x_QKF - x_QKF.mean(1, keepdim=True)
    spread_F = x_QKF.flatten(0, 1).std(0).clamp(min=1e-6)
    found: Tensor = x_QKF / spread_F
    return found


def main() -> None:
    """Count, fit, and write the table."""
    parser = parser_of(__doc__)
    parser.add_argument("papers", type=Path)
    parser.add_argument("model")
    parser.add_argument("out", type=Path)
    parser.add_argument("corpus", type=Path, nargs="+")
    given = parser.parse_args()
    loaded = load_model(given.model, "cloze")
    model, tokenizer = loaded.model, loaded.tokenizer
    store = make_store(read_good(given.papers), tokenizer, model.config.max_length)
    (width,) = set(store.num_options.tolist())
    read_QK = score(model, tokenizer, store, ALONE)
    if (way := way_of(model, None)) is not None:
        read_QK = second_reading(model, tokenizer, store, way).rescore(
            read_QK, ALONE, token_budget=BUDGET
        )
    answer_Q, owners = store.tensors["answer"].long(), store.passage_of_question.tolist()
    fold_Q = folds_of(owners, FOLDS)
    x_CF = features(store, [Counts(folder, tokenizer.size) for folder in given.corpus])
    read_C1 = read_QK.reshape(-1, 1).float()
    usual_Q = right(store, read_QK)
    each = len(SHAPES)
    parts: dict[str, Tensor] = {"model": read_C1, "counts": x_CF}
    for number, folder in enumerate(given.corpus):
        own_CF = x_CF[:, number * each : (number + 1) * each]
        parts[f"model and {folder.name}"] = torch.cat([read_C1, own_CF], 1)
    parts["model and all counts"] = torch.cat([read_C1, x_CF], 1)
    rows: list[dict[str, Any]] = []
    for name, each_CF in parts.items():
        scored_QK = in_folds(scaled(each_CF, width), answer_Q, fold_Q)
        right_Q = right(store, scored_QK)
        loss = float(nn.functional.cross_entropy(scored_QK, answer_Q))
        found = gain(right_Q.tolist(), usual_Q.tolist(), owners)
        rows.append(
            {
                "scores": name,
                "accuracy": share(right_Q),
                "loss": round(loss, 4),
                **found.as_json(),
            }
        )
        print(f"{name}: {share(right_Q):.2%}, loss {loss:.3f}, gain {found}", flush=True)
    write_json(given.out, {"questions": len(owners), "model": given.model, "rows": rows})


if __name__ == "__main__":
    main()
