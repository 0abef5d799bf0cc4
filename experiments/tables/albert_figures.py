"""The figures of docs/albert.md, from the code that they are about.

    python -m experiments.tables.albert_figures [--out docs/figures]

Ten seconds on a CPU; only the package and its sample are read.
Beside the pictures `albert.json` holds the numbers that the page quotes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from PIL import Image
from torch import Tensor

from albert_rc.checkpoints.inspect import distances_of, made_of
from albert_rc.checkpoints.load import load_model
from albert_rc.corpus.batches import NGramMasker
from albert_rc.corpus.mask_config import MaskConfig
from albert_rc.io.json import write_json
from albert_rc.model.config import SHARING, LshConfig, sharing_shape, size_config
from albert_rc.papers.formats import read_split
from albert_rc.report.plots import COLOURS, lines
from experiments.shared.scripts import parser_of
from experiments.tables.caught import attention_inputs
from experiments.tables.lsh_capture import shown

MODEL = "albert-rc-tiny"
SAMPLE = Path(__file__).parents[2] / "data/sample/cloze"
ROUNDS = (1, 2, 4)
CHUNK = 16
LENGTH = 320


def parameters() -> tuple[Any, dict[str, Any]]:
    """Parameters of `base` by E and by sharing, and by depth."""
    base = size_config("base")
    sizes, depths = (64, 128, 256, 768), (2, 4, 6, 12, 18, 24)

    def millions(sharing: str, size: int, depth: int = 12) -> float:
        shape = sharing_shape(sharing, depth)
        config = replace(base, embedding_size=size, num_layers=depth, **shape)
        return made_of("", config).total / 1e6

    by_size = {s: (sizes, [millions(s, e) for e in sizes]) for s in ("none", "all")}
    by_depth = {s: (depths, [millions(s, 128, n) for n in depths]) for s in reversed(SHARING)}
    named = {"none": "nothing shared", "all": "all layers shared"}
    figure = lines(
        {
            "millions of parameters": {f"{named[s]}, 12 layers": xy for s, xy in by_size.items()},
            "millions of parameters, E = 128": {
                "nothing shared": by_depth["none"],
                "feed-forward shared": by_depth["ffn"],
                "attention shared": by_depth["attention"],
                "all layers shared": by_depth["all"],
            },
        },
        ("embedding size E", "layers"),
        "ALBERT base, H = 768, 30,000 pieces",
    )
    left, right = figure.axes
    left.set_xticks(sizes)
    right.set_xticks(depths)
    for axis in figure.axes:
        axis.set_ylim(bottom=0)
    table = {s: [round(millions(s, e), 1) for e in (64, 128, 256, 768)] for s in SHARING}
    return figure, {"E": sizes, "millions": table}


def ngrams(draws: int = 200) -> tuple[Any, dict[str, Any]]:
    """Lengths of what `NGramMasker` hides in the sample's training papers, against 1/n."""
    tokenizer = load_model(MODEL, "cloze").tokenizer
    texts = [p.filled() for p in read_split(SAMPLE / "train").passages]
    ids = [torch.tensor(tokenizer.encode([text])[0]) for text in texts]
    masker = NGramMasker(tokenizer, MaskConfig())
    generator = torch.Generator().manual_seed(0)
    runs: Counter[int] = Counter()
    hidden = tokens = 0
    for _ in range(draws):
        for ids_T in ids:
            place_M = masker.choose(ids_T, generator)
            begins_T = masker.begins_V[ids_T]
            begins_T[:1] = True
            word_T = begins_T.long().cumsum(0)
            hidden += len(place_M)
            tokens += len(ids_T)
            # Each n-gram stands in a gap of its own, so a run of hidden words is one of them.
            words = word_T[place_M].unique()
            edges = (words.diff() > 1).nonzero()[:, 0] + 1
            runs.update(len(run) for run in torch.tensor_split(words, edges) if len(run))
    number = sum(runs.values())
    lengths = list(range(1, 4))
    drawn = [runs[n] / number for n in lengths]
    asked = masker.chances.tolist()
    of_words = [n * runs[n] / sum(k * v for k, v in runs.items()) for n in lengths]
    figure = lines(
        {
            "share": {
                "n-grams that were hidden": (lengths, drawn),
                "p(n) proportional to 1/n": (lengths, asked),
                "hidden words that stand in them": (lengths, of_words),
            }
        },
        "words in an n-gram",
        f"{number:,} n-grams hidden in the sample's papers",
    )
    (axis,) = figure.axes
    axis.set_xticks(lengths)
    axis.set_ylim(bottom=0)
    # What was drawn and what was asked for nearly coincide: a broad band under a line.
    axis.lines[1].set(linewidth=7, alpha=0.35, marker="", zorder=1)
    figure.legends[0].remove()  # which shows the band as it was before
    axis.legend(frameon=False, fontsize="small")
    return figure, {
        "ngrams": number,
        "drawn": [round(x, 4) for x in drawn],
        "asked": [round(x, 4) for x in asked],
        "share_of_tokens": round(hidden / tokens, 4),
    }


def caught_attention(length: int) -> list[tuple[Tensor, Tensor]]:
    """Queries and keys of every layer, [N, L, H], for so many tokens of the dev papers' text."""
    loaded = load_model(MODEL, "cloze")
    tokenizer, encoder = loaded.tokenizer, loaded.model.eval().encoder
    text = " ".join(p.filled() for p in read_split(SAMPLE / "dev").passages)
    ids = tokenizer.encode([text])[0][: length - 2]
    token_T = torch.tensor([tokenizer.cls_id, *ids, tokenizer.sep_id])
    with torch.inference_mode(), attention_inputs() as caught:
        encoder(token_T, torch.arange(length), (length,))
    return caught


def attention_weights(q_NLH: Tensor, k_NLH: Tensor) -> Tensor:
    """Dense attention, [N, L, L]."""
    logit_NLL: Tensor = q_NLH @ k_NLH.mT * q_NLH.shape[-1] ** -0.5
    return logit_NLL.softmax(-1)


def hashing() -> tuple[Any, dict[str, Any]]:
    """Which pairs of tokens the rounds of `--attention lsh` show, and how much weight they hold."""
    caught = caught_attention(LENGTH)
    layer = 1
    figure = Figure(figsize=(12.8, 3.7), layout="constrained")
    axes = figure.subplots(1, 1 + len(ROUNDS))
    q_NLH, k_NLH = caught[layer]
    weights = attention_weights(q_NLH, k_NLH)
    head = int((weights * weights.log()).sum(-1).mean(-1).argmin())  # the one that looks furthest
    axes[0].imshow(weights[head].sqrt(), cmap="Greys", vmin=0, vmax=0.4, interpolation="nearest")
    axes[0].set_title("dense: all pairs (darker: more weight)", fontsize="small")
    found = {}
    hues = ListedColormap(["white", COLOURS[4], COLOURS[0]])
    for axis, rounds in zip(axes[1:], ROUNDS, strict=True):
        lsh = LshConfig(chunk=CHUNK, rounds=rounds)
        mass = pairs = 0.0
        for number, (query, key) in enumerate(caught):
            weight = attention_weights(query, key)
            seen = shown(query, key, lsh, number)
            mass += float((weight * seen).sum(-1).mean()) / len(caught)
            pairs += float(seen.double().mean()) / len(caught)
        near = shown(q_NLH, k_NLH, replace(lsh, rounds=1), layer)[head]
        seen = shown(q_NLH, k_NLH, lsh, layer)[head]
        axis.imshow(seen.int() * 2 - (seen & near).int(), cmap=hues, vmin=0, vmax=2)
        axis.set_title(f"{rounds} round{'s' * (rounds > 1)}: {pairs:.0%} of the pairs hold "
                       f"{mass:.0%}", fontsize="small")  # fmt: skip
        found[str(rounds)] = {"pairs": round(pairs, 4), "weight": round(mass, 4)}
    for axis in axes:
        axis.set_xlabel("key")
    axes[0].set_ylabel("query")
    figure.suptitle(
        f"A layer of {MODEL} on {LENGTH} tokens, chunks of {CHUNK}: orange, the round of "
        "neighbours; blue, found by hashing",
        fontsize="medium",
    )
    return figure, {"tokens": LENGTH, "chunk": CHUNK, "rounds": found}


def layers() -> tuple[Any, dict[str, Any]]:
    """How far the shared layer moves the tokens at each of its applications."""
    texts = [p.filled() for p in read_split(SAMPLE / "dev").passages]
    found = {n: distances_of(n, texts) for n in ("albert-rc-tiny-pretrained", MODEL)}
    panels = {
        label: {n: ([r.layer for r in rows], [getattr(r, field) for r in rows])
                for n, rows in found.items()}
        for label, field in (("L2 distance", "distance"), ("degrees", "degrees"))
    }  # fmt: skip
    figure = lines(panels, "application of the layer", "Input against output, on the dev papers")
    for axis in figure.axes:
        axis.set_ylim(bottom=0)
    return figure, {n: [round(r.degrees, 1) for r in rows] for n, rows in found.items()}


FIGURES = {"parameters": parameters, "ngrams": ngrams, "hashing": hashing, "layers": layers}


def main() -> None:
    """Draw them all."""
    parser = parser_of(__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/figures"))
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    numbers = {}
    for name, draw in FIGURES.items():
        figure, numbers[name] = draw()
        drawn = BytesIO()
        figure.savefig(drawn, dpi=110)
        # A few dozen colours make a quarter of the file.
        Image.open(drawn).convert("RGB").quantize(48).save(out / f"{name}.png", optimize=True)
        print(name, numbers[name])
    write_json(out / "albert.json", numbers)


if __name__ == "__main__":
    main()
