"""The ablations' tables in Markdown, beside those of the paper (Lan et al. 2020).

    python -m experiments.tables.ablation_tables OUT.json [OUT2.json ...]

OUT.json is what `ablations.py` wrote. The paper's downstream figure is its average over SQuAD 1.1
and 2.0, MNLI, SST-2 and RACE; ours is the accuracy on dev's cloze blanks. Only directions can be
compared: the paper's models saw 125,000 steps of 4,096 sequences of 512 tokens.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from albert_rc.io.json import parse_json
from experiments.shared.scripts import parser_of

PAPER: dict[str, tuple[str, dict[str, str]]] = {
    "pairs": (
        "Table 5: hidden words, NSP, SOP, downstream",
        {
            "none": "54.9, 52.4, 53.3, 79.0",
            "nsp": "54.5, 90.5, 52.0, 79.2",
            "sop": "54.0, 78.9, 86.5, 80.1",
        },
    ),
    "embeddings": (
        "Table 3, H 768: downstream",
        {
            "E 64, all": "79.0", "E 128, all": "80.1", "E 256, all": "79.6 (E 768: 79.8)",
            "E 64, none": "81.3", "E 128, none": "81.7", "E 256, none": "81.8 (E 768: 82.3)",
        },
    ),
    "sharing": (
        "Table 4, E 128: downstream",
        {"all": "80.1", "attention": "81.7", "ffn": "80.2", "none": "81.6"},
    ),
    "depth": (
        "Table 11, large: downstream",
        {
            "1 layers": "52.9", "2 layers": "(3) 71.2", "4 layers": "(6) 77.2",
            "8 layers": "(12) 81.5",
        },
    ),
    "width": (
        "Table 12, 3 layers: downstream",
        {"H 128": "(1024) 71.2", "H 256": "(2048) 74.6", "H 384": "(4096) 76.3; (6144) 74.0"},
    ),
    "dropout": ("Table 8, xxlarge: downstream", {"none": "90.7", "0.1": "90.4"}),
    "data": (
        "Table 7, base: downstream, without and with more data",
        {"a tenth of the corpus": "80.1", "all of it": "80.8"},
    ),
    "same time": (
        "Table 6: xxlarge 32 h, BERT-large 34 h: downstream",
        {"shared, H 384": "88.7", "unshared, H 256, E = H": "87.2"},
    ),
}  # fmt: skip
BLANKS = 7798  # of ELE's dev papers


def share(value: float | None) -> str:
    """Percent, or a dash."""
    return "-" if value is None else f"{value:.1%}"


def lines(rows: list[dict[str, Any]]) -> list[str]:
    """A table in Markdown for each that has rows."""
    said = []
    for name in dict.fromkeys(row["table"] for row in rows):
        title, paper = PAPER.get(name, PAPER["pairs"] if name.startswith("pairs") else ("", {}))
        said += [
            "", f"### {name}", "",
            f"| | parameters | steps | hidden words | NSP | SOP | blanks | paper, {title} |",
            "|---|---|---|---|---|---|---|---|",
        ]  # fmt: skip
        for row in (row for row in rows if row["table"] == name):
            words = row.get("words_sop", row.get("words_none"))
            label = row["name"] + (f", seed {row['seed']}" if row["seed"] else "")
            cells = [
                label, f"{row['parameters'] / 1e6:.2f} M", f"{row['steps']}",
                share(words), share(row.get("nsp")), share(row.get("sop")),
                share(row["cloze_dev"]), paper.get(row["name"], "-"),
            ]  # fmt: skip
            said.append(f"| {' | '.join(cells)} |")
    error = math.sqrt(0.33 * 0.67 / BLANKS)
    said += ["", f"One standard error of a share of {BLANKS:,} blanks: {error:.1%}."]
    return said


def main() -> None:
    """Print the tables of all files."""
    parser = parser_of(__doc__)
    parser.add_argument("files", type=Path, nargs="+")
    arguments = parser.parse_args()
    rows = [row for path in arguments.files for row in parse_json(path.read_bytes())]
    print("\n".join(lines(rows)))


if __name__ == "__main__":
    main()
