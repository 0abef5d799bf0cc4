"""How much of a pretrained model's dense attention hashing sees, by rounds: the curve.

    python -m experiments.tables.lsh_capture STORE MODEL OUT.json [--chunk 32] [--passages 8]

STORE is a cloze store, MODEL a checkpoint. Every layer and head of the model reads the passages
with dense attention; what is measured is the share of its weights that falls on pairs which the
rounds show, on average over queries. `blind` is the share that as many keys drawn at random hold.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from albert_rc.checkpoints.load import load_model
from albert_rc.io.json import write_json
from albert_rc.model.config import LshConfig
from albert_rc.model.hashing import make_plan
from albert_rc.report.plots import lines, save
from albert_rc.stores.batches import Collator
from albert_rc.stores.store import load_store
from experiments.shared.scripts import parser_of
from experiments.tables.caught import attention_inputs

FORMS: dict[str, dict[str, Any]] = {
    "projections, one round local": {},
    "projections": {"local": False},
    "rotations, one round local": {"hash": "rotations"},
    "rotations": {"hash": "rotations", "local": False},
}
ROUNDS = (1, 2, 4, 8)


def shown(q_NLH: Tensor, k_NLH: Tensor, settings: LshConfig, layer: int) -> Tensor:
    """Which pairs some round shows, [N, L, L]."""
    count, length = q_NLH.shape[:2]
    whole = -(-length // settings.chunk) * settings.chunk
    fill = (0, 0, 0, whole - length)
    q_NLH, k_NLH = (torch.nn.functional.pad(x, fill) for x in (q_NLH, k_NLH))
    valid = (torch.arange(whole) < length).expand(count, whole)
    plan = make_plan(q_NLH, k_NLH, valid, settings, layer, heads=count)
    seen = torch.zeros(count, whole, whole, dtype=torch.bool)
    for sorting in plan.rounds:
        of_keys = sorting.key_place_XL[:, None, :] // plan.chunk
        of_queries = sorting.query_place_XL[:, :, None] // plan.chunk
        seen |= (of_keys - of_queries + plan.before) % plan.chunks < plan.width
    return seen[:, :length, :length]


def draw(table: list[dict[str, Any]], out: Path) -> None:
    """The curves, as PNG and SVG beside the figures."""
    curves: dict[str, tuple[list[float], list[float]]] = {}
    for row in table:
        x, y = curves.setdefault(row["form"], ([], []))
        x.append(row["rounds"])
        y.append(100 * row["captured"])
    blind = [100 * row["blind"] for row in table if row["form"] == "rotations"]
    curves["as many keys drawn blindly"] = list(map(float, ROUNDS)), blind
    panels = {"% of dense attention's weight": curves}
    save(lines(panels, "rounds", "What hashing sees of dense attention"), out.with_suffix(""))


def main() -> None:
    """Measure every form."""
    parser = parser_of(__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--chunk", type=int, default=32)
    parser.add_argument("--passages", type=int, default=8)
    arguments = parser.parse_args()
    model = load_model(arguments.model, "cloze").model.eval()
    store = load_store(arguments.store)
    longest = store.lengths.argsort(descending=True, stable=True)
    some = longest[:: max(1, len(longest) // arguments.passages)][: arguments.passages].tolist()
    with torch.inference_mode(), attention_inputs() as caught:
        batch = Collator(store, None)(some)
        model.encoder(batch.token_T, batch.place_T, batch.lengths)
        table = []
        for name, settings in FORMS.items():
            for rounds in ROUNDS:
                lsh = LshConfig(chunk=arguments.chunk, rounds=rounds, **settings)
                mass = blind = 0.0
                for number, (q_NLH, k_NLH) in enumerate(caught):
                    weights = (q_NLH @ k_NLH.mT * q_NLH.shape[-1] ** -0.5).softmax(-1)
                    seen = shown(q_NLH, k_NLH, lsh, number // len(some))
                    mass += float((weights * seen).sum(-1).mean()) / len(caught)
                    blind += float(seen.double().mean()) / len(caught)
                table.append({"form": name, "rounds": rounds, "captured": mass, "blind": blind})
                print(f"{name:<30} {rounds} rounds: {mass:.1%} (blind {blind:.1%})", flush=True)
    tokens = sum(batch.lengths) / len(batch.lengths)
    write_json(arguments.out, {"chunk": arguments.chunk, "mean_tokens": tokens, "rows": table})
    draw(table, arguments.out)


if __name__ == "__main__":
    main()
