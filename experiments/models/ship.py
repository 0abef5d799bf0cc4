"""The model that ships, from raw text to `albert_rc/pretrained`, in slices that stop and go on.

    python -m experiments.models.ship prepare SOURCES WORK  # vocabulary, corpora, stores (once)
    python -m experiments.models.ship prove SOURCES WORK  # nothing of dev or test is in there
    python -m experiments.models.ship slice WORK --minutes 9  # until it says "done"
    python -m experiments.models.ship pack SOURCES WORK OUT.tar.xz  # what another machine needs
    python -m experiments.models.ship collect WORK FOLDER  # the runs so far, as files under 16 MB
    python -m experiments.models.ship restore WORK FOLDER  # and back, on another machine
    python -m experiments.models.ship publish SOURCES WORK  # bf16 weights into the package

SOURCES holds what `TEXT` and `APART` name. Everything a slice needs is in WORK/inputs, everything
it changes in WORK/runs. On another machine unpack OUT.tar.xz, and `prepare` its sources/ and work/.

The phases: words hidden in short sequences, where a step is cheap; then in long ones, which the
places behind the first 128 need; then the exam papers, with the blanks' own question.
"""

from __future__ import annotations

import shutil
import tarfile
import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path
from string import Template
from typing import Any

from albert_rc.checkpoints.load import load_model, save_model
from albert_rc.errors import DataError
from albert_rc.io.atomic import atomic_path, write_bytes
from albert_rc.io.json import parse_json, write_json
from albert_rc.papers.overlap import OverlapIndex
from albert_rc.text.tokenizer import load_tokenizer
from experiments.shared.apart import kept_apart, papers_apart, require_apart
from experiments.shared.command import command
from experiments.shared.phases import Phase, go_on
from experiments.shared.scripts import parser_of

TEXT = ("novels", "onestop", "ele/train", "ele/train", "dream/train.json")
"""What is read; the exam passages twice, for they are few and what it is all for."""
APART = ("ele/dev", "ele/test", "dream/dev.json")
"""Papers that no training text may overlap with."""
IN_VOCABULARY = {"ele/train": 6, "dream/train.json": 2}
"""How often a text counts in the choice of pieces: exams speak of computers, novels do not."""
VOCABULARY_SIZE = 12288
PART_BYTES = 15 * 2**20
SHAPE = {
    "--scratch": "tiny", "--hidden-size": 384, "--num-layers": 4, "--num-heads": 6,
    "--embedding-size": 128,
}  # fmt: skip
PACKAGE = Path(__file__).parents[2] / "albert_rc" / "pretrained"
CARDS = Path(__file__).parents[1] / "cards"
RESULTS = Path(__file__).parents[1] / "results"
MODELS = (
    (
        "albert-rc-tiny-pretrained",
        "long",
        "It only predicts masked words; fine-tune it before use.",
        2,
    ),
    ("albert-rc-tiny", "papers", "It is fine-tuned on cloze exam papers.", 3),
)
"""Names in the package; their runs, what they are for, and how many phases they had."""
CALIBRATION = (
    "`calibration.json` contains the temperature, fitted on these dev papers; `predict` applies it "
    "unless `--temperature 1` is given."
)


def phases(scale: float) -> list[Phase]:
    """What is done one after the other.

    Args:
        scale: steps in multiples of what two cores do in two hours and a half.
    """
    return [
        Phase(
            "short", "pretrain", "corpus128",
            {**SHAPE, "--pair": "none", "--mask-rate": 0.2, "--learning-rate": 8e-4,
             "--batch-size": 64, "--max-steps": round(7000 * scale), "--warmup": 0.03,
             "--eval-steps": 500, "--save-steps": 500},
        ),
        Phase(
            "long", "pretrain", "corpus512",
            {"--pair": "none", "--mask-rate": 0.2, "--learning-rate": 5e-4, "--batch-size": 16,
             "--max-steps": round(400 * scale), "--warmup": 0.05, "--eval-steps": 200,
             "--save-steps": 200},
        ),
        Phase(
            "papers", "train", "ele",
            {"--epochs": 2, "--learning-rate": 5e-4, "--batch-size": 16, "--mask-rate": 0.2,
             "--warmup": 0.05, "--option-score": "salience", "--eval-steps": 144},
        ),
    ]  # fmt: skip


def prepare(sources: Path, work: Path) -> None:
    """Make the vocabulary, a corpus for each length, and the stores of the papers."""
    inputs = work / "inputs"
    by_place = {place: _readable(sources / place, work / "text") for place in TEXT}
    if not (inputs / "vocabulary" / "spiece.model").is_file():
        text = [p for place, p in by_place.items() for _ in range(IN_VOCABULARY.get(place, 1))]
        command(
            "pretrain",
            "vocabulary",
            *text,
            "--size",
            VOCABULARY_SIZE,
            "--out",
            inputs / "vocabulary",
        )
    exclude = [part for place in APART for part in ("--exclude", sources / place)]
    for length in (128, 512):
        command(
            "pretrain", "data", *(by_place[place] for place in TEXT), "--model",
            inputs / "vocabulary", "--out", inputs / f"corpus{length}", "--max-length", length,
            "--dev", 0.01, *exclude,
        )  # fmt: skip
    papers = papers_apart(sources / "ele", _apart(sources), work / "text" / "ele")
    command("preprocess", papers, "--model", inputs / "vocabulary", "--out", inputs / "ele")


def _apart(sources: Path) -> OverlapIndex:
    return kept_apart(sources / place for place in APART)


def prove(sources: Path, work: Path) -> None:
    """See `require_apart`."""
    tokenizer = load_tokenizer(work / "inputs" / "vocabulary")
    corpora = {f"corpus{length}": work / "inputs" / f"corpus{length}" for length in (128, 512)}
    require_apart(_apart(sources), tokenizer, work / "text" / "ele", corpora)


def _readable(place: Path, folder: Path) -> Path:
    """The place itself, or a copy in UTF-8 where one of its texts is in Windows' code."""
    if not place.exists():
        raise DataError(f"{place}: no such file or folder")
    texts = sorted(place.rglob("*.txt")) if place.is_dir() else []
    odd = [path for path in texts if not _is_utf8(path)]
    if not odd:
        return place
    copy = folder / place.name
    shutil.copytree(place, copy, dirs_exist_ok=True)
    for path in odd:
        print(f"{path} is read as Windows-1252")
        target = copy / path.relative_to(place)
        target.chmod(0o644)
        target.write_text(path.read_text("cp1252"), "utf-8")
    return copy


def _is_utf8(path: Path) -> bool:
    try:
        path.read_text("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def pack(sources: Path, work: Path, out: Path) -> None:
    """Sources, vocabulary and the state of all runs in one file: text packs better than corpora."""
    with atomic_path(out) as temporary, tarfile.open(temporary, "w:xz") as archive:
        for place in dict.fromkeys((*TEXT, *APART)):
            archive.add(sources / place, f"sources/{place}")
        for place in ("inputs/vocabulary", "runs", "scale.json"):
            if (work / place).exists():
                archive.add(work / place, f"work/{place}")
    print(f"{out}: {out.stat().st_size / 1e6:.1f} MB")


def collect(work: Path, folder: Path) -> None:
    """What the runs need to go on, in files small enough for any courier."""
    with tempfile.TemporaryFile() as whole:
        with tarfile.open(fileobj=whole, mode="w:xz", preset=1) as archive:
            for path in sorted((work / "runs").rglob("*")):
                if path.is_file() and not path.name.startswith("events."):
                    archive.add(path, str(path.relative_to(work)))
        whole.seek(0)
        folder.mkdir(parents=True, exist_ok=True)
        for number in count():
            part = whole.read(PART_BYTES)
            if not part:
                break
            write_bytes(folder / f"runs.{number:03}", part)
    print(f"{folder}: {number} files")


def restore(work: Path, folder: Path) -> None:
    """Put `collect`'s files where the runs were."""
    with tempfile.TemporaryFile() as whole:
        for part in sorted(folder.glob("runs.*")):
            whole.write(part.read_bytes())
        whole.seek(0)
        with tarfile.open(fileobj=whole, mode="r:xz") as archive:
            archive.extractall(work, filter="data")


def slice_(work: Path, minutes: float, scale: float) -> None:
    """Go on where the last slice ended."""
    inputs = work / "inputs"
    if go_on(phases(scale), inputs / "vocabulary", inputs, work / "runs", minutes):
        print("done")


def publish(sources: Path, work: Path) -> None:
    """Write the weights in bf16 into the package, measure them there, and say so in their cards."""
    done = [_history(work / "runs" / phase.name, phase) for phase in phases(1)]
    results: dict[str, Any] = {"phases": done}
    for name, run, what, last in MODELS:
        loaded = load_model(work / "runs" / run, "cloze")
        folder = PACKAGE / name
        save_model(loaded.model, loaded.tokenizer, folder, precision="bf16")
        answers, scores = work / f"{name}.json", work / f"{name}.jsonl"
        command(
            "predict", "--data", work / "inputs/ele/dev.pt", "--model", folder, "--out", answers,
            "--scores", scores, "--temperature", 1,
        )  # fmt: skip
        answers_papers = run == MODELS[-1][1]
        if answers_papers:
            command("evaluate", "--calibrate", scores, sources / "ele/dev", "--model", folder)
        found = parse_json(
            command(
                "evaluate", answers, sources / "ele/dev", "--json",
                "--train", work / "text/ele/train",
            ).encode()
        )  # fmt: skip
        results[name] = found
        config = loaded.model.config
        size = sum(path.stat().st_size for path in folder.iterdir() if path.suffix != ".md")
        card = Template((CARDS / "albert-rc-tiny.md").read_text("utf-8")).substitute(
            name=name,
            what=what,
            parameters=f"{sum(p.numel() for p in loaded.model.parameters()) / 1e6:.1f} million",
            layers=config.num_layers,
            hidden=config.hidden_size,
            embedding=config.embedding_size,
            pieces=f"{config.vocab_size:,}",
            megabytes=f"{size / 1e6:.1f}",
            architecture="AlbertForMaskedLM",
            phases=_table(done[:last]),
            calibration=CALIBRATION if answers_papers else "It has no temperature.",
            figures=_figures(found),
        )
        write_bytes(folder / "README.md", card.encode())
        print(f"{folder}: {size / 1e6:.1f} MB")
    write_json(RESULTS / "ship.json", results)


def _history(run: Path, phase: Phase) -> dict[str, Any]:
    """What a phase did, by its own records."""
    name = "train.json" if phase.command == "train" else "pretrain.json"
    settings = parse_json((run / name).read_bytes())
    lines = [parse_json(line) for line in (run / "metrics.jsonl").read_bytes().splitlines()]
    dev = [line for line in lines if line["kind"] == "dev"]
    best = max(dev, key=lambda line: line["accuracy"])
    return {
        "phase": phase.name,
        "steps": lines[-1]["step"],
        "batch": settings["batch_size"],
        "learning_rate": settings["learning_rate"],
        "epochs": lines[-1]["epoch"],
        "dev": {key: best[key] for key in ("step", "loss", "accuracy")},
    }


def _table(done: list[dict[str, Any]]) -> str:
    said = {
        "short": "masked n-grams (20%), sequences of 128 tokens",
        "long": "the same, sequences of 512 tokens",
        "papers": "the blanks of the ELE training papers, and 20% of their other words",
    }
    rows = [
        f"| {said[row['phase']]} | {row['steps']:,} of {row['batch']} | {row['learning_rate']:g} "
        f"| {row['epochs']:.1f} | {row['dev']['accuracy']:.1%} |"
        for row in done
    ]
    head = "| phase | steps | learning rate | epochs | dev accuracy (words or blanks) |"
    return "\n".join([head, "|---|---|---|---|---|", *rows])


def _figures(found: dict[str, Any]) -> str:
    return (
        f"ELE dev, {found['total']:,} blanks in 400 papers: **{found['accuracy']:.2%}** "
        f"[{found['low']:.2%}, {found['high']:.2%}] (95%, bootstrap over papers); chance is "
        f"{found['chance']:.0%}, and the option most often right in training "
        f"{found['no_reading']['accuracy']:.2%}."
    )


def main() -> None:
    """Do a stage."""
    parser = parser_of(__doc__)
    parser.add_argument(
        "stage", choices=("prepare", "prove", "pack", "slice", "collect", "restore", "publish")
    )
    parser.add_argument("places", type=Path, nargs="+")
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--scale", type=float, default=1.0)
    arguments = parser.parse_args()
    stages: dict[str, Callable[[Path, Path], None]] = {
        "prepare": prepare, "prove": prove, "collect": collect, "restore": restore,
        "publish": publish,
    }  # fmt: skip
    if arguments.stage in stages:
        stages[arguments.stage](*arguments.places)
    elif arguments.stage == "pack":
        pack(*arguments.places)
    else:
        (work,) = arguments.places
        settings = work / "scale.json"
        if not settings.is_file():
            write_json(settings, arguments.scale)
        slice_(work, arguments.minutes, parse_json(settings.read_bytes()))


if __name__ == "__main__":
    main()
