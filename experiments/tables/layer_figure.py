"""How far each layer moves the tokens, by what the layers share, after the same fine-tuning.

    python -m experiments.tables.layer_figure TABLE.json FIGURE.png [--task mrpc]

TABLE.json is what sharing_tasks.py wrote: every row has the distances of its model, L2 and in
degrees, measured on the sample's papers. The lines, for the BERT that shares nothing and for the
ALBERTs made of it, are means over seeds. The figure, as PNG and SVG, is that of Lan et al. 2020,
section 3.1; its numbers are printed.
"""

from __future__ import annotations

from pathlib import Path
from statistics import mean
from typing import Any

from albert_rc.io.json import parse_json
from albert_rc.report.plots import lines, save
from experiments.shared.scripts import parser_of

SHARED = ("plain", "attention", "ffn", "all")


def averaged(rows: list[dict[str, Any]], at: int) -> list[float]:
    """A measure of each layer, the mean over rows."""
    by_layer = zip(*(row["layers"] for row in rows), strict=True)
    return [mean(layer[at] for layer in layers) for layers in by_layer]


def main() -> None:
    """Draw it."""
    parser = parser_of(__doc__)
    parser.add_argument("table", type=Path, help="JSON file that sharing_tasks.py wrote")
    parser.add_argument("figure", type=Path)
    parser.add_argument("--task", default="mrpc", help="of the table (default: mrpc)")
    arguments = parser.parse_args()
    table = parse_json(arguments.table.read_bytes())
    panels: dict[str, dict[str, tuple[list[int], list[float]]]] = {}
    for at, label in enumerate(("L2 distance", "degrees")):
        for way in SHARED:
            rows = [r for r in table if (r.get("task"), r.get("way")) == (arguments.task, way)]
            if rows:
                found = averaged(rows, at)
                places = list(range(1, len(found) + 1))
                name = "nothing shared" if way == "plain" else f"shared: {way}"
                panels.setdefault(label, {})[name] = (places, found)
                print(label, name, *(f"{value:.1f}" for value in found))
    if not panels:
        parser.error(f"{arguments.table} has no row of {arguments.task} in {', '.join(SHARED)}")
    figure = lines(panels, "layer", f"Input against output, after {arguments.task}")
    for axis in figure.axes:
        axis.set_ylim(bottom=0)
    print(*save(figure, arguments.figure))


if __name__ == "__main__":
    main()
