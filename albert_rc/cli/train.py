"""`albert-rc train`: one fine-tuning run, or several with other seeds, folds or rates."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from albert_rc.cli import options, running, settings
from albert_rc.cli.console import DEFAULT_MODEL, example, print_json, say, table
from albert_rc.errors import DivergedError, UsageError
from albert_rc.fields import LARGEST_BATCH
from albert_rc.io.messages import counted, shortened
from albert_rc.model.config import LONGEST, SMALLER, EncoderConfig
from albert_rc.training.config import TrainConfig

if TYPE_CHECKING:
    from albert_rc.stores.store import Store
    from albert_rc.training.runs.finetune import FineTuning
    from albert_rc.training.runs.several import Part
    from albert_rc.training.tally import TrainResult

LOW, HIGH = 5e-6, 5e-4
"""Learning rates between which `--search` chooses."""


@example("albert-rc train --data data --model albert/albert-xxlarge-v2 --out models/run1")
@settings.takes(
    settings.Fields(TrainConfig, without=("optimizer", "pair_weight", "teacher_precision")),
    settings.Fields(EncoderConfig, only=("dropout", "residual", *SMALLER)),
    options.LSH,
    before="memory",
    shown=(
        "epochs", "batch_size", "learning_rate", "seed", "max_steps", "save_steps", "precision",
    ),
)  # fmt: skip
def train(
    context: typer.Context,
    data: Annotated[Path, typer.Option(help="Folder with train.pt and dev.pt.")] = Path("data"),
    model: options.StartFrom = DEFAULT_MODEL,
    scratch: options.Scratch = None,
    out: options.RunFolder = Path("models"),
    config: settings.Config = None,
    set_: settings.Set = None,
    recipe: Annotated[
        Literal["default", "published"],
        typer.Option(
            help="Defaults for the other options. default: 4 epochs, batch 2, learning rate 1e-5, "
            "warm-up 0.1; published: those of ALBERT's authors for RACE, SQuAD and GLUE (cloze: as "
            "default; there is none for DREAM)."
        ),
    ] = "default",
    memory: options.Memory = None,
    device: options.Device = None,
    resume: options.Resume = False,
    minutes: options.Minutes = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=2,
            max=1000,
            help="Train N times with consecutive seeds, starting at --seed, into OUT/seed-*.",
            rich_help_panel=options.RUNS,
        ),
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(
            min=2,
            max=options.MOST_FOLDS,
            help="K-fold cross-validation: train K times, into OUT/fold-*; each run answers the "
            "papers held out from its training (OUT/scores.jsonl).",
            rich_help_panel=options.RUNS,
        ),
    ] = None,
    search: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=100_000,
            help="Search with N trials for the best learning rate (optuna); poor trials are "
            "stopped early, and the best run is kept in OUT/best. The same command continues an "
            "interrupted search.",
            rich_help_panel=options.RUNS,
        ),
    ] = None,
    attention: options.Attention = None,
    max_length: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=LONGEST,
            help="Maximum window in tokens: stores with longer windows are refused, and a model "
            "with fewer positions is extended (default: the model's own maximum).",
            rich_help_panel=options.ATTENTION,
        ),
    ] = None,
    option_score: Annotated[
        Literal["mean", "first", "salience"] | None,
        typer.Option(
            help="Cloze: how to score an option from the logits of its pieces: mean, first, or "
            "salience (a mean with learned weights) (default: as in the checkpoint, else mean).",
            hidden=True,
        ),
    ] = None,
    teacher: Annotated[
        str | None,
        typer.Option(
            help="Teacher whose probabilities are learned too: a score file of the training papers "
            "(predict --scores FILE.jsonl), or a model with the same vocabulary.",
            hidden=True,
        ),
    ] = None,
    with_dev: Annotated[
        bool,
        typer.Option(
            help="Also train on dev.pt; then the last weights are kept, not the best.", hidden=True
        ),
    ] = False,
    workers: options.Workers = None,
    deterministic: options.Deterministic = False,
    low: Annotated[
        float | None,
        typer.Option(
            help=f"With --search: the lowest learning rate (default: {LOW:g}).", hidden=True
        ),
    ] = None,
    high: Annotated[
        float | None,
        typer.Option(
            help=f"With --search: the highest learning rate (default: {HIGH:g}).", hidden=True
        ),
    ] = None,
    batch_sizes: Annotated[
        str | None,
        typer.Option(
            help="With --search: batch sizes to choose from, such as 16,32 (default: "
            "--batch-size).",
            hidden=True,
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="With --search: print the trials as JSON.", hidden=True)
    ] = False,
    lsh_form: options.LshForm = None,
    lsh_landmarks: options.LshLandmarks = None,
    **given: Any,
) -> None:
    """Fine-tune on DATA/train.pt; the weights that are best on DATA/dev.pt are kept in OUT.

    OUT also holds log.txt, metrics.jsonl, TensorBoard events, train.json (all settings) and
    run.toml, which repeats the run with `--config`. For several GPUs, use
    `torchrun --nproc-per-node 2 -m albert_rc train ...`.
    """
    from albert_rc.io.json import write_each
    from albert_rc.runtime.devices import be_deterministic, choose_precision, processes
    from albert_rc.training.checkpoint import require_state
    from albert_rc.training.objectives.teacher import Teacher
    from albert_rc.training.runs.earlier import require_kept
    from albert_rc.training.runs.finetune import FineTuning, made_of, open_stores
    from albert_rc.training.runs.recipes import choose, dropout_of
    from albert_rc.training.runs.several import Part, over_folds, over_seeds

    if sum(count is not None for count in (seeds, folds, search)) > 1:
        raise UsageError("--seeds, --folds and --search cannot be combined")
    of_search = {"low": low, "high": high, "batch-sizes": batch_sizes, "json": json or None}
    chosen = given["learning_rate"] is not None or with_dev or minutes is not None
    _require_search(search is not None, of_search, chosen, given["batch_size"] is not None)
    options.require_partners(teacher, given, resume)
    sizes, seconds = _sizes(batch_sizes), options.seconds_of(minutes)
    if deterministic:
        be_deterministic()
    with processes(device) as group, running.alone_in(out, group):
        kept = partial(
            require_kept,
            model,
            group=group,
            resume=resume,
            scratch=scratch is not None,
            teacher=teacher,
        )
        if seeds is None and folds is None and search is None:  # before any work
            kept([out])
            require_state(out, group, resume)
        train_store, dev_store = open_stores(data, with_dev, taught=teacher is not None)
        _require_cloze(train_store.kind, option_score, given)
        _require_dev(data, dev_store, with_dev, given, group.is_main)
        if group.is_main:
            _say_odd(data, train_store, dev_store, given, search is not None and resume)
        lsh, levers = options.lsh_of(lsh_form, lsh_landmarks, given), running.levers_of(given)
        taught_by = None if teacher is None else Teacher(teacher).found()
        dropout = given.pop("dropout", None)
        shape = settings.chosen({name: given.pop(name, None) for name in ("residual", *SMALLER)})
        given["precision"] = choose_precision(given.get("precision"), group.device, learning=True)
        tuning = FineTuning(
            model=model,
            how={
                "scratch": scratch,
                "shape": shape,
                "option_score": option_score,
                "attention": attention,
                "lsh": lsh,
                "max_length": max_length,
                "dropout": dropout_of(recipe, train_store, dropout),
            },
            settings=TrainConfig(**choose(recipe, train_store, settings.chosen(given))),
            levers=levers,
            memory=memory,
            data=data,
            group=group,
            workers=running.batch_workers(workers, group),
            teacher=taught_by,
        )
        if search is not None:
            stores = (train_store, dev_store)
            where = (LOW if low is None else low, HIGH if high is None else high, sizes)
            _search(tuning, stores, search, where, out, json)
            write_each(out, settings.run_file(context))
            return
        seed, files = tuning.settings.seed, settings.run_file(context)
        parts = [Part("", seed, train_store, dev_store)]
        if seeds is not None:
            parts = over_seeds(seeds, seed, train_store, dev_store)
        elif folds is not None:
            parts = over_folds(folds, seed, train_store, dev_store)
        if seeds is None and folds is None:
            _run(tuning, parts[0], out, resume, seconds, files)
            return
        kept([out / part.name for part in parts])
        record = {"--seeds": seeds, "--folds": folds} | made_of(tuning, train_store, dev_store)
        _run_several(tuning, parts, out, record, resume, seconds, files)


def _require_search(
    searching: bool, of_search: dict[str, Any], chosen: bool, one_size: bool
) -> None:
    """Refuse options of a search without one, and options that a search does not support.

    Args:
        searching: whether a search was requested.
        of_search: its options by name; None for those not given.
        chosen: whether a learning rate, dev papers to learn from, or a time limit were given.
        one_size: whether a batch size was given.
    """
    found = next((name for name, value in of_search.items() if value is not None), None)
    if not searching and found is not None:
        raise UsageError(f"--{found} needs --search")
    if searching and chosen:
        raise UsageError(
            "--search chooses the learning rate (between --low and --high) by the score on dev.pt, "
            "so --learning-rate and --with-dev cannot be used with it; nor can --minutes: stop "
            "the search with Ctrl-C, and continue it with the same command"
        )
    if one_size and of_search["batch-sizes"] is not None:
        raise UsageError("--batch-size has no effect with --batch-sizes; leave one of them out")


def _say_odd(
    data: Path, train: Store, dev: Store | None, given: dict[str, Any], resumes_search: bool
) -> None:
    """Report what may not be intended: stores that do not fit, and options without an effect."""
    from albert_rc.training.runs.finetune import unlike

    if difference := unlike(train, dev):
        say(f"warning: {data}: {difference}")
    _say_in_both(train, dev)
    options.say_epochs_unused(given)
    if resumes_search:
        say("note: --resume has no effect with --search, which always continues")


def _say_in_both(train: Store, dev: Store | None) -> None:
    """Warn of dev papers that do not measure reading, as their text is also trained on."""
    from albert_rc.stores.overlap import in_both

    if dev is None or not dev.has_answers or not (found := in_both(train, dev)):
        return
    papers = f"{len(found):,} of {counted(len(dev.meta['ids']), 'dev paper')}"
    names = ", ".join(map(shortened, found[:3])) + ", ..." * (len(found) > 3)
    apart = ""
    if train.kind in ("cloze", "choice"):
        apart = ", and `evaluate --train` gives the accuracy without them"
    say(
        f"warning: {papers} ({names}) have much of their text in common with a training "
        "paper, so their answers may be remembered; `albert-rc doctor` on the raw papers names "
        f"both{apart}"
    )


def _require_cloze(kind: str, option_score: str | None, given: dict[str, Any]) -> None:
    """Refuse settings of the cloze head for other papers."""
    rate, weight = given.get("mask_rate"), given.get("mask_weight")
    for name, value in (
        ("option-score", option_score), ("mask-rate", rate or None), ("mask-weight", weight)
    ):  # fmt: skip
        if kind != "cloze" and value is not None:
            raise UsageError(f"--{name} is for cloze papers, not for {kind} papers; leave it out")


def _require_dev(
    data: Path, dev: Store | None, with_dev: bool, given: dict[str, Any], is_main: bool
) -> None:
    """Refuse `--patience` without dev papers, and tell what `--eval-steps` still does."""
    if dev is not None and dev.has_answers:
        return
    why = (
        "--with-dev leaves no dev papers to evaluate on"
        if with_dev
        else f"there is no {data / 'dev.pt'} with answers to evaluate on"
    )
    if given["patience"] is not None:
        raise UsageError(f"--patience: {why}; leave the option out")
    if given["eval_steps"] is not None and is_main:
        say(f"note: {why}, so --eval-steps only sets how often the training loss is recorded")


def _sizes(listed: str | None) -> tuple[int, ...]:
    """The batch sizes of a list."""
    try:
        sizes = () if listed is None else tuple(map(int, listed.split(",")))
    except ValueError:
        raise UsageError(f"--batch-sizes {listed}: give numbers, such as 16,32") from None
    if sizes and max(sizes) > LARGEST_BATCH:
        raise UsageError(f"--batch-sizes {listed}: a batch has at most {LARGEST_BATCH:,} items")
    return sizes


def _search(
    tuning: FineTuning,
    stores: tuple[Store, Store | None],
    trials: int,
    where: tuple[float, float, tuple[int, ...]],
    out: Path,
    json: bool,
) -> None:
    """Trials with learning rates that optuna chooses, as a table."""
    from albert_rc.training.runs.search import BEST, RESULT, Space, search

    train_store, dev_store = stores
    if tuning.group.world > 1:
        raise UsageError("--search runs in one process; start it without torchrun")
    if dev_store is None or not dev_store.has_answers:
        raise UsageError(
            f"--search needs {tuning.data / 'dev.pt'} with answers, to compare the trials"
        )
    low, high, sizes = where
    space = Space(low, high, sizes or (tuning.settings.batch_size,))
    found = search(tuning, (train_store, dev_store), space, trials, out, say)
    if json:
        print_json(found)
        return
    rows = []
    for row in sorted(found["trials"], key=lambda row: -(row["dev"] or 0)):
        score = "stopped early" if row["given_up"] else f"{row['dev']:.2%}"
        rows.append((f"{row['learning_rate']:.3g}", row["batch_size"], score))
    table(f"{out / RESULT}", ("learning rate", "batch", "dev"), rows)
    best = found["best"]
    typer.echo(
        f"{out / BEST}: --learning-rate {best['learning_rate']:.3g} --batch-size "
        f"{best['batch_size']}, dev {best['dev']:.2%}"
    )


def _run(
    tuning: FineTuning,
    part: Part,
    out: Path,
    resume: bool,
    seconds: float | None,
    files: Mapping[str, bytes] | None = None,
    given: Path | None = None,
) -> TrainResult:
    """Run the training once, with messages before and after; a new run gets the files.

    With several runs, `given` is the folder of all of them.
    """
    begun = time.perf_counter()
    prepared = tuning.prepare(part.train, part.dev, part.seed, out if resume else None)
    left = running.time_left(seconds, begun)
    result = running.run(prepared, out, resume, left, files)
    if tuning.group.is_main:
        best = (
            "not evaluated"
            if result.paused
            else "not evaluated (no dev papers with answers, or trained on them)"
        )
        if result.best_score is not None:
            best = f"{result.best_score:.2%} at step {result.best_step}"
        running.conclude(out, result, f", dev {prepared.objective.score_name} {best}", given)
    return result


def _run_several(
    tuning: FineTuning,
    parts: list[Part],
    out: Path,
    record: dict[str, Any],
    resume: bool,
    seconds: float | None,
    files: Mapping[str, bytes],
) -> None:
    """Run several trainings in turn, and print their summary."""
    from albert_rc.training.runs.several import RUNS, SCORES, run_all, spread_line

    begun = time.perf_counter()

    def run(part: Part, folder: Path, resuming: bool) -> TrainResult:
        left = running.time_left(seconds, begun)
        with running.alone_in(folder, tuning.group):
            return _run(tuning, part, folder, resuming, left, given=out)

    precision = tuning.settings.precision
    found = run_all(parts, out, record, tuning.group, resume, run, say, files, precision)
    if found is None:
        return
    diverged = [row["name"] for row in found["runs"] if row.get("diverged")]
    if tuning.group.is_main:
        unit, runs = parts[0].train.score_name, counted(len(parts) - len(diverged), "run")
        for name, figure in (("dev", "dev"), ("held-out papers", "held_out")):
            if figure in found:
                typer.echo(f"{out / RUNS}: {runs}, {spread_line(name, found[figure], unit)}")
    if parts[0].held_out is not None and tuning.group.is_main:
        typer.echo(
            f"{out / SCORES}: all training papers, each answered by the run that held it out"
        )
    if diverged:
        raise DivergedError(
            f"{counted(len(diverged), 'run')} of {len(parts)} diverged ({', '.join(diverged)}); "
            "the others are complete"
        )
