"""The models that read, from the runs of `reader.py` into the package, with their cards.

    python -m experiments.models.publish_reader SOURCES WORK
        [--taught [--again | --gpu] | --more-options] [--out FOLDER] [--results RESULTS.json]

SOURCES and WORK are those of reader.py: the cloze model is WORK/runs/papers, after the phases
hidden, more and made; the model for questions is WORK/runs/choice. One of which there are no
weights is left out. With --taught the cloze model is WORK/runs/taught of `reader.py teach`, and its
card goes on from that of the model in the package, with which WORK/start began; the model for
questions is WORK/runs/taught-choice of `reader.py teach-questions`; with --again the cloze model
had a teacher already, and its card keeps these steps; with --gpu it went on by `reader_gpu.py
words` and `papers`, and the mean of its seeds is in WORK/runs/taught; the model for questions is
then WORK/runs/taught-choice-mean of `reader_gpu.py questions`. With --more-options only the model
for questions is published: WORK/runs/more-choice, which learned from `more_options.py`, or
WORK/runs/more-choice-mean, its mean with the one in the package, if that is there. Each is written
into FOLDER (albert_rc/pretrained) in bf16, measured on the dev papers of ELE or DREAM, calibrated,
and described in its card. RESULTS.json (experiments/results/reader.json) gets the figures.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from string import Template
from typing import Any

from albert_rc.checkpoints.load import load_model, save_model
from albert_rc.errors import DataError
from albert_rc.io.atomic import write_bytes
from albert_rc.io.json import parse_json, read_json_lines, write_json
from albert_rc.papers.formats import read_split
from albert_rc.text.tokenizer import Tokenizer, load_tokenizer
from experiments.models.reader import (
    QUESTION_TEACHER,
    SEEDS,
    TAUGHT_CHOICE,
    TAUGHT_MADE,
    TAUGHT_PAPERS,
    TAUGHT_WORDS,
    TEACHER,
)
from experiments.shared.command import command
from experiments.shared.scripts import parser_of

HERE = Path(__file__).parents[1]
PACKAGE = HERE.parent / "albert_rc" / "pretrained"
TEACHER_STEP = "A larger model (MPNet base, of all-mpnet-base-v2, Apache-2.0)"
MEAN = "The weights in this folder are the mean"
LICENCE = HERE / "cards" / "LICENSE-APACHE-2.0"
FIRST = (
    "The weights of [all-MiniLM-L6-v2](https://huggingface.co/sentence-transformers/"
    "all-MiniLM-L6-v2) (Apache-2.0; a BERT of 6 layers made of Microsoft's MiniLM, MIT) were "
    "converted to an equivalent ALBERT with 6 groups; of its vocabulary, only the pieces that "
    "occur in exam papers and novels were kept."
)
CHOICE_MEAN = f"{TAUGHT_CHOICE.name}-mean"
RESULTS = HERE / "results" / "reader.json"
MODELS: dict[str, dict[str, Any]] = {
    "albert-rc-small": {
        "run": "papers", "task": "cloze", "gold": "ele/dev",
        "train": "text/ele/train", "papers": "ELE", "asked": "blanks",
        "what": "cloze papers (passages with blanks, and options for each blank)",
        "architecture": "AlbertForMaskedLM", "pipeline": "fill-mask", "tag": "cloze",
        "reads": "every blank is a `[MASK]`, and the score of an option is the mean of its pieces' "
        "logits there. By default, `albert-rc` also reads blanks that have options of several "
        "words a second time, with a `[MASK]` for each piece, and averages both readings.",
        "read_again": "masks",
        "larger": ", for which 89% of the blanks of ELE are reported",
        "made": (
            FIRST,
            "It was trained on masked words again ($hidden_steps steps of 32 sequences of 384 "
            "tokens; $hidden_words of the masked dev words right), with the training passages of "
            "ELE (ASC20-21, MIT), MCTest (Microsoft Research), DREAM (for non-commercial "
            "research), OneStopEnglish and XQuAD (CC BY-SA 4.0).",
            "Its embeddings were factorised to $embedding dimensions (singular value "
            "decomposition, then fitted to the original inputs of the first layer).",
            "It was trained on masked words of the same texts and of English novels in the public "
            "domain ($more_steps steps of 32 sequences of 256 tokens; $more_words right; these dev "
            "words are harder).",
            "It was trained on $papers_made cloze papers made from these texts and novels, "
            "with the options that ELE's training papers give for such words.",
            "It was fine-tuned on the training papers of ELE ($steps steps of 16).",
        ),
        "apart": "Training passages that share over 30% of their word 5-grams with a dev or test "
        "paper of ELE, DREAM or MCTest were left out at every step, and "
        "`experiments/models/reader.py prove` shows that none is left. "
        "`experiments/models/reader.py` and `experiments/models/made_papers.py` reproduce it.",
    },
    "albert-rc-small-choice": {
        "run": "choice", "task": "choice", "gold": "dream/dev.json",
        "train": "text/choice/train", "papers": "DREAM", "asked": "questions",
        "what": "multiple-choice questions about a text",
        "architecture": "AlbertForMultipleChoice", "pipeline": "multiple-choice",
        "tag": "multiple-choice",
        "reads": "a pair consists of the text and the question, with an option instead of its `_` "
        "or after it. By default, `albert-rc` also reads questions about longer texts a second "
        "time, with an excerpt, and averages both readings.",
        "read_again": "excerpt",
        "control": "Trained in the same way without the dialogues, on questions and options only, "
        "it reaches 39.6% (`experiments/answering/no_passage.py`).",
        "larger": "; the best systems answer 92.6% of DREAM's test questions, people 95.5%",
        "made": (
            FIRST,
            "It was trained to decide which sentences follow from others (19,666 pairs of SNLI's "
            "dev and test sets, CC BY-SA 4.0; two epochs).",
            "It was fine-tuned on the training questions of DREAM ($steps steps of 16), which is "
            "for non-commercial research.",
        ),
        "apart": "It was not trained on DREAM's dev and test dialogues. "
        "`experiments/models/reader.py questions` and `slice` reproduce it.",
    },
}  # fmt: skip


def plain_vocabulary(tokenizer: Tokenizer, folder: Path, papers: Path) -> Tokenizer:
    """The same vocabulary as a list of pieces: a third of the size of a tokenizer.json.

    Raises:
        DataError: it splits a paper otherwise.
    """
    if not (tokenizer.folder / "tokenizer.json").is_file():
        return tokenizer  # it is one already
    folder.mkdir(parents=True, exist_ok=True)
    content = parse_json((tokenizer.folder / "tokenizer.json").read_bytes())
    ids = content["model"]["vocab"]
    pieces = sorted(ids, key=ids.__getitem__)
    write_bytes(folder / "vocab.txt", "".join(f"{piece}\n" for piece in pieces).encode())
    config = parse_json((tokenizer.folder / "tokenizer_config.json").read_bytes())
    # An export names a class that needs tokenizer.json.
    write_json(folder / "tokenizer_config.json", config | {"tokenizer_class": "BertTokenizer"})
    plain = load_tokenizer(folder)
    texts = [passage.text for passage in read_split(papers).passages]
    if plain.encode(texts) != tokenizer.encode(texts):
        raise DataError(f"{folder}: splits {papers} otherwise than {tokenizer.folder}")
    return plain


def best(run: Path) -> dict[str, Any]:
    """The dev evaluation whose weights were kept."""
    dev = [line for line in read_json_lines(run / "metrics.jsonl") if line["kind"] == "dev"]
    return max(dev, key=lambda line: float(line["accuracy"]))


def figures(found: dict[str, Any], about: dict[str, Any]) -> str:
    """The evaluation as a sentence and a table by group."""
    said = (
        f"{about['papers']} dev, {found['total']:,} {about['asked']}: **{found['accuracy']:.2%}** "
        f"[{found['low']:.2%}, {found['high']:.2%}] (95%, bootstrap over papers); chance is "
        f"{found['chance']:.1%}"
    )
    if found.get("no_reading"):
        said += (
            f", and the option most often right in training {found['no_reading']['accuracy']:.2%}"
        )
    rows = ["| | right | number |", "|---|---|---|"]
    for name, group in found["groups"].items():
        rows += [
            f"| {name}: {label} | {part['accuracy']:.1%} | {part['total']:,} |"
            for label, part in group.items()
            if part["total"]
        ]
    return f"{said}.\n\n" + "\n".join(rows)


def of_hidden_words(work: Path) -> dict[str, str]:
    """What the cloze model's card says of the phases before the papers."""
    hidden, more = (best(work / "runs" / name) for name in ("hidden", "more"))
    there = sum(1 for _ in read_json_lines(work / "made" / "train.jsonl"))
    return {
        "hidden_steps": f"{hidden['step']:,}",
        "hidden_words": f"{hidden['accuracy']:.1%}",
        "more_steps": f"{more['step']:,}",
        "more_words": f"{more['accuracy']:.1%}",
        "papers_made": f"{min(there, 16 * best(work / 'runs' / 'made')['step']):,}",
    }


def steps_of_package(name: str = "albert-rc-small") -> list[str]:
    """The steps that made a model in the package, from its card."""
    card = (PACKAGE / name / "README.md").read_text("utf-8")
    return [
        step.replace(MEAN, "The result was the mean")
        for step in re.findall(r"^\d+\. (.*)$", card, re.MULTILINE)
    ]


def taught(work: Path, again: bool) -> dict[str, Any]:
    """What differs in the card of a model that went on from the one in the package, with a teacher.

    Steps of an earlier teacher are left out unless the student began after them (`again`).
    """
    made = steps_of_package()
    if not again:
        made = list(takewhile(lambda step: not step.startswith(TEACHER_STEP), made))
    before = len(made)
    first = (
        "The same larger model was trained again, on" if again else f"{TEACHER_STEP} was trained on"
    )
    words, *papers, made_papers, others = (
        best(work / "runs" / phase.name) for phase in (TAUGHT_WORDS, *TAUGHT_PAPERS, *TAUGHT_MADE)
    )
    found = ", ".join(f"{run['accuracy']:.1%}" for run in papers)
    made += [
        f"{first} masked words of the texts that are near exam papers and on the training papers "
        "of ELE, and was its teacher from here on: it learned the teacher's probabilities next to "
        "the right answers.",
        f"It was trained on masked words of the texts near exam papers ({words['step']:,} steps of "
        f"32 sequences; {words['accuracy']:.1%} right with 30% masked).",
        f"It was fine-tuned on the training papers of ELE ({papers[0]['step']:,} steps of 16) with "
        f"each of {len(papers)} seeds ({found} of the dev blanks right).",
        f"Separately, the model of step {before} was trained on cloze papers made from running "
        f"text ({made_papers['step']:,} steps of 16), then on the training papers of ELE "
        f"({others['accuracy']:.1%}).",
        f"{MEAN} of those of step {before} and of these {len(papers) + 1} models.",
    ]
    return {"run": "taught", "records": TAUGHT_PAPERS[0].name, "made": made}


def taught_on_gpu(work: Path) -> dict[str, Any]:
    """What differs in the card of a model that went on from the one in the package on a GPU."""
    made = steps_of_package()
    before, runs = len(made), work / "runs"
    larger, words, made_papers, others, *papers = (
        best(runs / phase.name)
        for phase in (TEACHER[0], TAUGHT_WORDS, *TAUGHT_MADE, *TAUGHT_PAPERS)
    )
    found = ", ".join(f"{run['accuracy']:.2%}" for run in papers)
    made += [
        f"The larger model was trained on masked words of all the texts on a GPU once more "
        f"({larger['step']:,} steps of 128 sequences; {larger['accuracy']:.1%} right with 30% "
        f"masked), and the model of step {before} learned its probabilities for masked words "
        f"({words['step']:,} steps of 128 sequences; {words['accuracy']:.1%}).",
        f"It was fine-tuned on the training papers of ELE ({papers[0]['step']} steps of 16) with "
        f"each of {len(papers)} seeds ({found} of the dev blanks right), next to the scores "
        "that the larger model had given before.",
        f"Separately, the model of step {before + 1} was trained on cloze papers made from running "
        f"text ({made_papers['step']:,} steps of 16), then on the training papers of ELE "
        f"({others['accuracy']:.2%}), next to the same scores.",
        f"{MEAN} of those of step {before} and of these {len(papers) + 1} models.",
    ]
    where = "on 2 CPU cores; the last training on masked words ran on a GPU"
    return {"run": "taught", "records": TAUGHT_PAPERS[0].name, "made": made, "where": where}


def taught_choice(work: Path) -> dict[str, Any]:
    """What differs in the card of a model for questions that had a teacher."""
    run = best(work / "runs" / TAUGHT_CHOICE.name)
    made = (
        *_before_the_student(work),
        f"The small model was fine-tuned on DREAM's training questions ({run['step']} steps of "
        "16), next to the probabilities that the larger one gives their options.",
    )
    return {"run": TAUGHT_CHOICE.name, "made": made} | _apart("reader.py", "teach-questions")


def taught_choice_on_gpu(work: Path) -> dict[str, Any]:
    """The same for the mean of several seeds that had a teacher on a GPU."""
    names = [f"{TAUGHT_CHOICE.name}-{seed}" for seed in SEEDS]
    students = [best(work / "runs" / name) for name in names]
    steps = max(run["step"] for run in students)
    found = ", ".join(f"{run['accuracy']:.2%}" for run in students)
    made = (
        *_before_the_student(work),
        f"The small model was fine-tuned on DREAM's training questions ({steps:,} steps of 16), "
        "next to the probabilities that the larger one gives their options, with each of "
        f"{len(names)} seeds ({found} of the dev questions right).",
        f"{MEAN} of those of these {len(names)} models.",
    )
    about = {"run": CHOICE_MEAN, "records": names[0], "made": made, "where": "on a GPU"}
    return about | _apart("reader_gpu.py", "teacher-questions")


def choice_of_more_options(work: Path) -> dict[str, Any]:
    """What differs in the card of a model that learned from questions with other options."""
    name = "more-choice"
    made = steps_of_package("albert-rc-small-choice")
    before, run = len(made), best(work / "runs" / name)
    made.append(
        "`albert-rc-small`, as it is in the package by now, was trained on the pairs of step 2, "
        "and then on DREAM's training questions and two copies of each with other wrong options, "
        "most of them right answers to similar questions about other dialogues "
        f"({run['step']:,} steps of 16), next to the probabilities that the model of step {before} "
        f"gives these options ({run['accuracy']:.2%} of the dev questions right)."
    )
    mean = f"{name}-mean"
    if (work / "runs" / mean).is_dir():
        made.append(f"{MEAN} of those of steps {before} and {before + 1}.")
    else:
        mean = name
    where = "on 2 CPU cores; part of the encoder's training on masked words ran on a GPU"
    about = {"run": mean, "records": name, "made": made, "where": where}
    return (
        about
        | _apart("reader.py", "teach-questions")
        | {
            "apart": "It was not trained on DREAM's dev and test dialogues. "
            "`experiments/models/reader.py questions` and `experiments/models/more_options.py` "
            "reproduce it.",
        }
    )


def _before_the_student(work: Path) -> tuple[str, ...]:
    """The steps before a model for questions learned from its teacher."""
    teacher = best(work / "runs" / QUESTION_TEACHER[-1].name)
    return (
        "It began with the weights of `albert-rc-small`, whose card describes how they were made.",
        MODELS["albert-rc-small-choice"]["made"][1],
        f"{TEACHER_STEP} was trained on the same pairs of sentences and on the training questions "
        f"of DREAM, which are for non-commercial research ({teacher['step']} steps of 16; it "
        f"answers {teacher['accuracy']:.1%} of the dev questions).",
    )


def _apart(script: str, stage: str) -> dict[str, str]:
    return {
        "apart": "It was not trained on DREAM's dev and test dialogues. "
        f"`experiments/models/{script} questions` and `{stage}` reproduce it.",
        "control": "An earlier version, without a teacher, reached 49.5%, and 39.6% if it was "
        "trained without the dialogues, on questions and options only "
        "(`experiments/answering/no_passage.py`).",
    }


def measured(
    folder: Path, gold: Path, train: Path, answers: Path, *way: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Answer dev, keep the temperature with the weights; the accuracy, and the calibration."""
    scores = answers.with_suffix(".jsonl")
    command(
        "predict", "--data", gold, "--model", folder, "--out", answers, "--scores", scores,
        "--temperature", 1, *way,
    )  # fmt: skip
    calibrated = command("evaluate", "--calibrate", scores, gold, "--model", folder, "--json")
    found = command("evaluate", answers, gold, "--train", train, "--json")
    return parse_json(found.encode()), parse_json(calibrated.encode())


def read_once(found: dict[str, Any], asked: str) -> str:
    """What reading blanks or questions once comes to, as a sentence."""
    return (
        f"If all {asked} are read once (`predict --option-score once`), {found['accuracy']:.2%} "
        f"[{found['low']:.2%}, {found['high']:.2%}] are right. "
    )


def _require_once(name: str, made: Sequence[str]) -> None:
    """Stop if the model in the package, whose card these steps go on from, had the last of them."""
    means = (MEAN, "The result was the mean")  # two of them may have the same words
    plain = [re.sub(r"step \d+", "step", step) for step in made if not step.startswith(means)]
    if len(set(plain)) < len(plain):
        raise SystemExit(
            f"{name}: published already; restore the model and the card of before (git checkout)"
        )


def publish(
    sources: Path, work: Path, out: Path, file: Path, models: dict[str, dict[str, Any]]
) -> None:
    """Write bf16 weights, measure them there, calibrate, and write the cards.

    Args:
        sources: see the top.
        work: see the top.
        out: folder of the models.
        file: gets the figures.
        models: what is published, as in `MODELS`.
    """
    results = parse_json(file.read_bytes()) if file.is_file() else {}
    for name, about in models.items():
        # Models in the package cannot be calibrated, so each is made in WORK first.
        run, folder = work / "runs" / about["run"], work / "published" / name
        if not (run / "model.safetensors").is_file():
            continue
        _require_once(name, about["made"])
        loaded = load_model(run, about["task"])
        gold = sources / about["gold"]
        loaded.model.read_again = about["read_again"]
        tokenizer = plain_vocabulary(loaded.tokenizer, work / "vocabulary", gold)
        save_model(loaded.model, tokenizer, folder, precision="bf16")
        train, answers = work / about["train"], work / f"{name}.json"
        found, calibrated = measured(folder, gold, train, answers)
        single = work / f"{name} once.json"
        once, _ = measured(folder, gold, train, single, "--option-score", "once")
        control = read_once(once, about["asked"]) + about.get("control", "")
        record = best(work / "runs" / about.get("records", about["run"]))
        results[name] = found | {"calibration": calibrated, "run": record}
        config, size = loaded.model.config, sum(p.stat().st_size for p in folder.iterdir())
        words = {"steps": f"{record['step']:,}", "embedding": config.embedding_size}
        if about is MODELS["albert-rc-small"]:
            words |= of_hidden_words(work)
        card = Template((HERE / "cards" / "albert-rc-small.md").read_text("utf-8")).substitute(
            name=name,
            what=about["what"],
            where=about.get("where", "on 2 CPU cores"),
            pipeline=about["pipeline"],
            tag=about["tag"],
            parameters=f"{sum(p.numel() for p in loaded.model.parameters()) / 1e6:.1f}",
            layers=config.num_layers,
            groups=config.num_groups,
            hidden=config.hidden_size,
            embedding=config.embedding_size,
            pieces=f"{config.vocab_size:,}",
            megabytes=f"{size / 1e6:.1f}",
            architecture=about["architecture"],
            reads=about["reads"],
            figures=figures(found, about)
            + f"\n\nCalibration error on held-out papers: {calibrated['after']['ece']:.3f} with "
            f"the temperature, {calibrated['before']['ece']:.3f} without. " + control,
            larger=about["larger"],
            made="\n".join(
                f"{number}. {Template(step).substitute(words)}"
                for number, step in enumerate(about["made"], 1)
            ),
            apart=about["apart"],
        )
        write_bytes(folder / "README.md", card.encode())
        shutil.copyfile(LICENCE, folder / "LICENSE")
        shutil.copytree(folder, out / name, dirs_exist_ok=True)
        print(f"{out / name}: {size / 1e6:.2f} MB")
    write_json(file, results)


def main() -> None:
    """Publish what there is."""
    parser = parser_of(__doc__)
    parser.add_argument("sources", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--taught", action="store_true", help="the models had a teacher")
    parser.add_argument(
        "--again", action="store_true", help="with --taught: so had the cloze model in the package"
    )
    parser.add_argument(
        "--more-options", action="store_true", help="the model for questions, by `more_options.py`"
    )
    parser.add_argument("--gpu", action="store_true", help="with --taught: by `reader_gpu.py`")
    parser.add_argument("--out", type=Path, default=PACKAGE, help="default: albert_rc/pretrained")
    parser.add_argument(
        "--results", type=Path, default=RESULTS, help="default: experiments/results/reader.json"
    )
    given = parser.parse_args()
    models, runs = MODELS, given.work / "runs"
    if given.more_options:
        choice = choice_of_more_options(given.work)
        models = {"albert-rc-small-choice": MODELS["albert-rc-small-choice"] | choice}
    elif given.taught:
        models = {}
        if (runs / "taught").is_dir():
            cloze = taught_on_gpu(given.work) if given.gpu else taught(given.work, given.again)
            models["albert-rc-small"] = MODELS["albert-rc-small"] | cloze
        if (runs / (CHOICE_MEAN if given.gpu else TAUGHT_CHOICE.name)).is_dir():
            choice = (taught_choice_on_gpu if given.gpu else taught_choice)(given.work)
            models["albert-rc-small-choice"] = MODELS["albert-rc-small-choice"] | choice
    publish(given.sources, given.work, given.out, given.results, models)


if __name__ == "__main__":
    main()
