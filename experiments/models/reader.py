"""The models that read, from a small pretrained BERT to `albert_rc/pretrained`.

    python -m experiments.models.reader prepare SOURCES BERT WORK
    python -m experiments.models.reader prove SOURCES WORK  # no dev or test paper is in the texts
    python -m experiments.models.reader slice WORK --minutes 60  # until it says "done"
    python -m experiments.models.reader smaller WORK FROM TO --embedding-size 128 --groups 3
    python -m experiments.models.reader teacher WORK LARGER  # an MPNet with the small vocabulary
    python -m experiments.models.reader teach WORK --minutes 60  # until it says "done"
    python -m experiments.models.reader questions SOURCES BERT WORK  # then `slice WORK` again, or
    python -m experiments.models.reader teach-questions WORK --minutes 60  # until it says "done"

SOURCES holds what `NEAR`, `FAR` and `APART` name, and glue/nli for `questions`; BERT is the folder
of a BERT with a WordPiece vocabulary, or an ALBERT that this script made, to go on from.

`prepare` leaves in WORK: `start`, an ALBERT that computes what the BERT computes, with the most
frequent pieces of its vocabulary (or that ALBERT as it is); `near` and `mix`, texts to learn hidden
words from; `ele`, stores of the exam papers without those that overlap with dev or test. After it,
`made_papers.py SOURCES WORK` makes WORK/made-store, which `slice` and `teach` need.

`slice` goes on with the runs in WORK/runs: hidden words (hidden), then with factorised embeddings
hidden words of more text (more), papers made of running text (made), and the exam papers' blanks
(papers); after `questions` instead sentences that follow from others (inference), and questions
with options (choice). `teach` lets the larger model learn hidden words and the exam papers
(teacher, teacher-papers), and WORK/start learn from it: what it thinks of hidden words
(taught-words), then of the papers' options, once with each seed (taught-papers-SEED); and apart
from these of the options of made papers (taught-made), then of the real ones (taught-made-papers).
The mean of these weights and of WORK/start's is the result (taught). `teach-questions`, after
`questions` and `teacher`, does the same for questions: the larger model learns inference and DREAM
(teacher-inference, teacher-choice), and the small one inference alone (inference), then DREAM by
the larger one's probabilities (taught-choice). All three stop after --minutes and go on with the
same command. `smaller` makes another ALBERT, untrained but for its embeddings, of
the one in FROM. `publish_reader.py` puts the results into the package.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from albert_rc.answering.temperature import weights_id
from albert_rc.checkpoints.hf_config import read_config
from albert_rc.checkpoints.load import load_model, save_model
from albert_rc.corpus.documents import find_sources, read_documents
from albert_rc.corpus.examine import examine
from albert_rc.corpus.shards import Corpus
from albert_rc.io.json import parse_json
from albert_rc.model.int8 import has_int8
from albert_rc.papers.overlap import OverlapIndex
from albert_rc.runtime.devices import has_matrix_units
from albert_rc.text.tokenizer import load_tokenizer
from experiments.models.conversion import (
    as_albert,
    count_pieces,
    cut_tokenizer,
    fit_embeddings,
    most_used,
    same_pieces,
    with_embedding_size,
    with_vocabulary,
)
from experiments.shared.apart import kept_apart, papers_apart, require_apart
from experiments.shared.command import command
from experiments.shared.phases import Phase, go_on
from experiments.shared.scripts import parser_of

NEAR = ("ele/train", "race-layout/train", "dream/train.json", "onestop", "squad/xquad.en.json")
"""Texts that are near to exam papers."""
FAR = ("novels",)
APART = ("ele/dev", "ele/test", "race-layout/dev", "dream/dev.json")
"""Papers that no text may overlap with."""
WEIGHT = 20
"""How often a piece of NEAR counts, as novels are long and a century old."""
PIECES = 12288
LENGTHS = {"near": 384, "mix": 256}
"""Tokens of a sequence; `mix` holds NEAR several times and FAR once."""
TIMES = 3
"""How often NEAR stands in `mix`."""
SIZE = 128
"""E of the models that ship: with E 384 they would have 16 million parameters in place of 12."""
WORDS: dict[str, object] = {
    "--pair": "none", "--max-ngram": 1, "--optimizer": "adamw", "--batch-size": 32,
}  # fmt: skip
"""What every phase of hidden words has in common; and below, of exam papers."""
BLANKS: dict[str, object] = {"--batch-size": 16, "--warmup": 0.1, "--eval-steps": 140}
HIDDEN = Phase(
    "hidden", "pretrain", "near",
    {**WORDS, "--mask-rate": 0.2, "--learning-rate": 5e-4, "--warmup": 0.05, "--max-steps": 1600,
     "--eval-steps": 200, "--save-steps": 100},
)  # fmt: skip
MORE = Phase(
    "more", "pretrain", "mix",
    {**WORDS, "--mask-rate": 0.2, "--learning-rate": 4e-4, "--warmup": 0.03, "--max-steps": 2400,
     "--eval-steps": 400, "--save-steps": 100},
)  # fmt: skip
MADE = Phase(
    "made", "train", "made-store",
    {"--max-steps": 1000, "--learning-rate": 3e-4, "--batch-size": 16, "--warmup": 0.05,
     "--mask-rate": 0.1, "--eval-steps": 250, "--save-steps": 125},
)  # fmt: skip
PAPERS = Phase(
    "papers", "train", "ele",
    {**BLANKS, "--epochs": 2, "--learning-rate": 1e-4, "--save-steps": 140},
)  # fmt: skip
TEACHER = (
    Phase(
        "teacher", "pretrain", "near",
        {**WORDS, "--mask-rate": 0.3, "--learning-rate": 2e-4, "--warmup": 0.04,
         "--max-steps": 1200, "--eval-steps": 100, "--save-steps": 30, "--dropout": 0.0},
    ),
    Phase(
        "teacher-papers", "train", "ele",
        {**BLANKS, "--epochs": 1, "--learning-rate": 5e-5, "--save-steps": 35},
    ),
)  # fmt: skip
"""A base model reads 50,000 to 75,000 tokens a minute on two cores: each text three times in two
hours."""
# int8 takes a quarter off the time of a base model's forward pass; with AMX it takes twice as long.
_IN_INT8 = has_int8(torch.device("cpu")) and not has_matrix_units(torch.bfloat16)
_TEACHER_IN = {"--set": "teacher_precision=int8"} if _IN_INT8 else {}
TAUGHT_WORDS = Phase(
    "taught-words", "pretrain", "near",
    {**WORDS, **_TEACHER_IN, "--mask-rate": 0.3, "--learning-rate": 4e-4, "--warmup": 0.05,
     "--max-steps": 700, "--eval-steps": 100, "--save-steps": 50, "--teacher-weight": 0.7},
)  # fmt: skip
SEEDS = (42, 1, 2)
_TAUGHT: dict[str, object] = {
    **BLANKS, "--epochs": 1, "--learning-rate": 1.5e-4, "--save-steps": 140,
    "--teacher-weight": 0.7,
}  # fmt: skip
TAUGHT_PAPERS = tuple(
    Phase(f"taught-papers-{seed}", "train", "ele", {**_TAUGHT, "--seed": seed}) for seed in SEEDS
)
"""Each goes on from TAUGHT_WORDS."""
TAUGHT_MADE = (
    Phase(
        "taught-made", "train", "made-store",
        {"--epochs": 1, "--learning-rate": 2.5e-4, "--batch-size": 16, "--warmup": 0.05,
         "--mask-rate": 0.1, "--eval-steps": 136, "--save-steps": 68, "--teacher-weight": 0.7},
    ),
    Phase("taught-made-papers", "train", "ele", _TAUGHT),
)  # fmt: skip
INFERENCE = Phase(
    "inference", "train", "inference",
    {"--epochs": 2, "--learning-rate": 1e-4, "--batch-size": 32, "--warmup": 0.06},
)  # fmt: skip
CHOICE = Phase(
    "choice", "train", "choice",
    {"--epochs": 3, "--learning-rate": 8e-5, "--batch-size": 16, "--warmup": 0.06,
     "--eval-steps": 191, "--save-steps": 60},
)  # fmt: skip
QUESTION_TEACHER = (
    Phase(
        "teacher-inference", "train", "inference",
        {"--max-steps": 200, "--learning-rate": 4e-5, "--batch-size": 32, "--warmup": 0.1,
         "--dropout": 0.0, "--save-steps": 50},
    ),
    Phase(
        "teacher-choice", "train", "choice",
        {"--max-steps": 400, "--learning-rate": 4e-5, "--batch-size": 16, "--warmup": 0.08,
         "--dropout": 0.0, "--eval-steps": 200, "--save-steps": 40},
    ),
)  # fmt: skip
TAUGHT_CHOICE = Phase(
    "taught-choice",
    "train",
    "choice",
    {**CHOICE.options, "--learning-rate": 1e-4, "--teacher-weight": 0.8},
)


def prepare(sources: Path, bert: Path, work: Path) -> None:
    """Make the ALBERT, its vocabulary, and all that it is trained on."""
    near = [readable(sources / place, work / "text") for place in NEAR]
    far = [sources / place for place in FAR]
    if not (work / "start" / "model.safetensors").is_file():
        _start(near, far, bert, work / "start")
    exclude = [part for place in APART for part in ("--exclude", sources / place)]
    repeated = [_again(place, n, work / "text") for n in range(TIMES) for place in near]
    for name, places in (("near", near), ("mix", [*repeated, *far])):
        if not (work / name).is_dir():
            command(
                "pretrain", "data", *places, "--model", work / "start", "--out", work / name,
                "--max-length", LENGTHS[name], "--on-error", "skip", *exclude,
            )  # fmt: skip
    papers = papers_apart(sources / "ele", apart_from(sources), work / "text" / "ele")
    command("preprocess", papers, "--model", work / "start", "--out", work / "ele")


def _again(place: Path, number: int, folder: Path) -> Path:
    """The place itself; or if it holds text, a copy of it with so many more line ends.

    `pretrain data` reads text that stands twice once. Files keep their names, by which documents
    are held out: those of all copies are the same.
    """
    found, _ = find_sources([place])
    if not number or not all(source.is_text for source in found):
        return place
    copy = folder / f"again-{number}" / place.name
    for source in found:
        target = copy / source.path.relative_to(place) if place.is_dir() else copy
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(source.path.read_bytes() + b"\n" * number)
    return copy


def questions(sources: Path, bert: Path, work: Path) -> None:
    """Prepare what a model for questions learns from; `slice` then goes on with that alone.

    It begins with the BERT's own weights, or those of an ALBERT with WORK/start's vocabulary. Then
    sentences that follow from others, and last DREAM.
    """
    loaded, ours = load_model(bert, "choice"), load_tokenizer(work / "start")
    model = loaded.model
    if model.config.family != "albert":
        model = as_albert(model)
    model = with_vocabulary(model, same_pieces(loaded.tokenizer, ours))
    save_model(model, ours, work / "start-choice")
    raw = work / "text" / "inference"
    raw.mkdir(parents=True, exist_ok=True)
    first, second = ((sources / f"glue/nli/{name}.tsv").read_text() for name in ("train", "dev"))
    (raw / "train.tsv").write_text(first + second.partition("\n")[2])
    for folder, name, options in (
        (raw, "inference", ("--max-length", 128)),
        (_questions(sources, work / "text" / "choice"), "choice", ("--format", "race")),
    ):
        command("preprocess", folder, "--model", work / "start", "--out", work / name, *options)


def _start(near: list[Path], far: list[Path], bert: Path, folder: Path) -> None:
    loaded = load_model(bert, "pretraining", with_pairs=False)
    if loaded.model.config.family == "albert":
        save_model(loaded.model, loaded.tokenizer, folder)
        return
    weighted = ((text, w) for places, w in ((near, WEIGHT), (far, 1)) for text in texts(places))
    counts = count_pieces(weighted, loaded.tokenizer)
    kept = most_used(counts, loaded.tokenizer, PIECES)
    covered = sum(counts[index] for index in kept) / counts.total()
    print(f"{len(kept):,} of {loaded.tokenizer.size:,} pieces cover {covered:.3%} of the texts")
    tokenizer = cut_tokenizer(loaded.tokenizer, kept, folder)
    model = with_vocabulary(as_albert(loaded.model), kept)
    # As ALBERT v2: hidden words are learned from too little text to be learned by heart.
    model.encoder.config = replace(model.config, dropout=0.0, attention_dropout=0.0)
    save_model(model, tokenizer, folder)


def texts(places: list[Path]) -> Iterator[str]:
    """The documents of all that can be read there."""
    for source in examine(find_sources(places)[0], "skip").sources:
        yield from read_documents(source)


def readable(place: Path, folder: Path) -> Path:
    """The place itself, or the passages of SQuAD's JSON as a text."""
    if place.suffix != ".json" or "squad" not in place.parts:
        return place
    content = json.loads(place.read_text("utf-8"))
    passages = [part["context"] for article in content["data"] for part in article["paragraphs"]]
    target = folder / f"{place.stem}.txt"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("\n\n".join(passages), "utf-8")
    return target


def _questions(sources: Path, folder: Path) -> Path:
    """DREAM's dialogues, each a paper in RACE's form."""
    shutil.rmtree(folder, ignore_errors=True)
    for split in ("train", "dev"):
        (folder / split).mkdir(parents=True)
        for lines, asked, name in json.loads((sources / f"dream/{split}.json").read_text("utf-8")):
            paper = json.dumps(race_paper(lines, asked))
            (folder / split / f"{name}.json").write_text(paper, "utf-8")
    return folder


def race_paper(lines: list[str], asked: list[dict[str, Any]]) -> dict[str, Any]:
    """A dialogue of DREAM with its questions, as a paper in RACE's form."""
    return {
        "article": "\n".join(lines),
        "questions": [question["question"] for question in asked],
        "options": [question["choice"] for question in asked],
        "answers": ["ABC"[question["choice"].index(question["answer"])] for question in asked],
    }


def apart_from(sources: Path) -> OverlapIndex:
    """The papers that no text may overlap with."""
    return kept_apart(sources / place for place in APART)


def prove(sources: Path, work: Path) -> None:
    """See `require_apart`."""
    tokenizer, corpora = load_tokenizer(work / "start"), {name: work / name for name in LENGTHS}
    require_apart(apart_from(sources), tokenizer, work / "text" / "ele", corpora)


def _until(work: Path, minutes: float) -> Callable[..., bool]:
    """`go_on` from a start with some phases, while this time lasts."""
    ends = time.monotonic() + 60 * minutes

    def goes(start: Path, *phases: Phase) -> bool:
        return go_on(phases, start, work, work / "runs", (ends - time.monotonic()) / 60)

    return goes


def slice_(work: Path, minutes: float) -> None:
    """Go on where the last slice ended."""
    runs, goes = work / "runs", _until(work, minutes)
    if (work / "start-choice").is_dir() and not (runs / "choice.done").is_file():
        if goes(work / "start-choice", INFERENCE, CHOICE):
            print("done")
        return
    if not goes(work / "start", HIDDEN):
        return
    small = runs / "small"
    if not (small / "model.safetensors").is_file():
        config, _ = read_config(runs / "hidden")
        wide = config.embedding_size > SIZE
        smaller(work, runs / "hidden", small, SIZE if wide else None, None)
    if goes(small, MORE, MADE, PAPERS):
        print("done")


def teach(work: Path, minutes: float) -> None:
    """Train the teacher, then the students by it; go on where the last slice ended."""
    runs, goes = work / "runs", _until(work, minutes)

    def by(teacher: Path, phase: Phase) -> Phase:
        return replace(phase, options=phase.options | {"--teacher": teacher})

    if not goes(work / "teacher", *TEACHER):
        return
    if not goes(work / "start", by(runs / TEACHER[0].name, TAUGHT_WORDS)):
        return
    ele, made = (_scores(work, store) for store in ("ele", "made-store"))
    for papers in TAUGHT_PAPERS:
        if not goes(runs / TAUGHT_WORDS.name, by(ele, papers)):
            return
    if not goes(work / "start", by(made, TAUGHT_MADE[0]), by(ele, TAUGHT_MADE[1])):
        return
    if not (runs / "taught").is_dir():
        students = [runs / phase.name for phase in (*TAUGHT_PAPERS, TAUGHT_MADE[1])]
        command("export", *students, work / "start", "--out", runs / "taught")
    print("done")


def teach_questions(work: Path, minutes: float) -> None:
    """Train a teacher of questions, then the student by it; go on where the last slice ended."""
    goes = _until(work, minutes)
    if not goes(work / "teacher", *QUESTION_TEACHER):
        return
    scores = _scores(work, "choice", QUESTION_TEACHER[-1].name)
    taught = replace(TAUGHT_CHOICE, options=TAUGHT_CHOICE.options | {"--teacher": scores})
    if goes(work / "start-choice", INFERENCE, taught):
        print("done")


def _scores(work: Path, store: str, teacher: str = TEACHER[-1].name) -> Path:
    """The teacher's probabilities for the options of a store's training papers."""
    scores = work / f"{store}-scores.jsonl"
    if not scores.is_file() or not _made_by(scores, work / "runs" / teacher):
        write_scores(work / store / "train.pt", work / "runs" / teacher, scores)
    return scores


def _made_by(scores: Path, model: Path) -> bool:
    """Whether scores are of a model's weights, which may have been trained again since."""
    with scores.open("rb") as file:
        return bool(parse_json(file.readline()).get("weights") == weights_id(model))


def write_scores(store: Path, teacher: object, scores: Path) -> None:
    """Write a model's own probabilities, without a temperature, for the options of a store."""
    command(
        "predict", "--data", store, "--model", teacher, "--temperature", 1,
        "--out", scores.with_suffix(".json"), "--scores", scores,
    )  # fmt: skip


def smaller(
    work: Path, source: Path, target: Path, embedding_size: int | None, groups: int | None
) -> None:
    """Factorise a model's embeddings, or let its layers share weights; nothing is trained but E."""
    shape = {"num_groups": groups} if groups else {}
    loaded = load_model(source, "pretraining", with_pairs=False, shape=shape)
    model = loaded.model
    if embedding_size:
        corpus = Corpus(work / "near" / "train")
        token_T = torch.cat([torch.cat(corpus.pair(i)) for i in range(len(corpus))]).long()
        count_V = torch.bincount(token_T, minlength=loaded.tokenizer.size).float() + 1
        model = with_embedding_size(model, embedding_size, count_V)
        errors = fit_embeddings(model, loaded.model, token_T)
        print("what the first layer reads, relative squared error:", *(f"{e:.4f}" for e in errors))
    save_model(model, loaded.tokenizer, target)
    print(f"{target}: {sum(p.numel() for p in model.parameters()):,} parameters")


def teacher(work: Path, larger: Path) -> None:
    """Give a larger model of the same WordPiece vocabulary the pieces of WORK/start, in order.

    Its hidden words are then the student's, and both read the same stores.
    """
    loaded = load_model(larger, "pretraining", with_pairs=False)
    ours = load_tokenizer(work / "start")
    model = with_vocabulary(loaded.model, same_pieces(loaded.tokenizer, ours))
    save_model(model, ours, work / "teacher")
    print(f"{work / 'teacher'}: {sum(p.numel() for p in model.parameters()):,} parameters")


def main() -> None:
    """Do a stage."""
    parser = parser_of(__doc__)
    stages = parser.add_subparsers(dest="stage", required=True)
    does: dict[str, Callable[..., None]] = {
        "prepare": prepare, "prove": prove, "slice": slice_, "smaller": smaller,
        "teacher": teacher, "teach": teach, "questions": questions,
        "teach-questions": teach_questions,
    }  # fmt: skip
    places = {
        "prepare": ("sources", "bert", "work"), "prove": ("sources", "work"), "slice": ("work",),
        "smaller": ("work", "source", "target"), "teacher": ("work", "larger"),
        "teach": ("work",), "questions": ("sources", "bert", "work"),
        "teach-questions": ("work",),
    }  # fmt: skip
    arguments = {stage: stages.add_parser(stage) for stage in does}
    for stage, names in places.items():
        for name in names:
            arguments[stage].add_argument(name, type=Path)
    for stage in ("slice", "teach", "teach-questions"):
        arguments[stage].add_argument(
            "--minutes", type=float, default=60.0, help="how long (default: 60)"
        )
    arguments["smaller"].add_argument("--embedding-size", type=int, help="E, below the model's")
    arguments["smaller"].add_argument("--groups", type=int, help="groups of layers that share")
    given = vars(parser.parse_args())
    does[given.pop("stage")](**given)


if __name__ == "__main__":
    main()
