"""A search for the learning rate: trials that optuna chooses, hopeless ones given up early."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from albert_rc.atomic import write_bytes
from albert_rc.data.shards import Store
from albert_rc.errors import DivergedError, UsageError
from albert_rc.files import to_json
from albert_rc.seeds import mix
from albert_rc.train.finetune import FineTuning
from albert_rc.train.tally import StepReport

JOURNAL = "trials.log"
"""Optuna's record of all trials, in the search's folder."""
RESULT = "search.json"
BEST = "best"
"""The folder of the best trial's run."""


@dataclass(frozen=True)
class Space:
    """What is searched."""

    low: float
    """The smallest learning rate."""
    high: float
    batch_sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        if not 0 < self.low < self.high < 1:
            raise UsageError(f"--low {self.low:g} and --high {self.high:g}: 0 < low < high < 1")
        if not self.batch_sizes or min(self.batch_sizes) < 1:
            raise UsageError("--batch-sizes must be numbers from 1 on, such as 16,32")


def search(
    tuning: FineTuning,
    stores: tuple[Store, Store],
    space: Space,
    trials: int,
    out: Path,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Try recipes until so many trials are there; a search that was stopped goes on.

    Trials are chosen by TPE (Bergstra et al. 2011) over the logarithm of the learning rate, and
    given up where their dev score at an evaluation is below the median of the others there.

    Args:
        tuning: what all trials have in common; its seed is that of the search too.
        stores: train and dev; the best dev score is what counts.
        space: where to look.
        trials: in all, those of earlier calls included.
        out: holds the record, the table and the best run.
        say: told of each trial.

    Returns:
        What `RESULT` says: the best settings, and all trials.

    Raises:
        UsageError: optuna is not installed, or no trial came to an end.
    """
    try:
        import optuna
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend
    except ImportError:
        raise UsageError("`search` needs optuna: pip install 'albert-rc[search]'") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    out.mkdir(parents=True, exist_ok=True)
    done = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED)
    storage = JournalStorage(JournalFileBackend(str(out / JOURNAL)))
    earlier = [study.n_trials for study in optuna.get_all_study_summaries(storage)]
    # A sampler begins anew with each call: with the same seed it would ask for the same again.
    seed = mix(tuning.settings.seed, sum(earlier)) % 2**32
    study = optuna.create_study(
        study_name="albert-rc",
        storage=storage,
        sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=4),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=3),
        direction="maximize",
        load_if_exists=True,
    )
    while len(study.get_trials(deepcopy=False, states=done)) < trials:
        trial = study.ask()
        rate = trial.suggest_float("learning_rate", space.low, space.high, log=True)
        size = trial.suggest_categorical("batch_size", space.batch_sizes)
        say(f"trial {trial.number}: learning rate {rate:.3g}, batch {size}")
        folder = out / f"trial-{trial.number}"
        settings = replace(tuning.settings, learning_rate=rate, batch_size=size)
        try:
            score = _run(replace(tuning, settings=settings), stores, folder, trial)
        except (optuna.TrialPruned, DivergedError) as error:
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
            say(f"trial {trial.number}: given up, {error or 'the others were better by then'}")
            shutil.rmtree(folder, ignore_errors=True)
            continue
        before = _best(study, done)
        study.tell(trial, score)
        if before is None or score > before:
            shutil.rmtree(out / BEST, ignore_errors=True)
            folder.rename(out / BEST)
            say(f"trial {trial.number}: dev {score:.2%}, the best so far")
        else:
            shutil.rmtree(folder, ignore_errors=True)
            say(f"trial {trial.number}: dev {score:.2%}; the best is {before:.2%}")
    return _result(study, done, out)


def _run(tuning: FineTuning, stores: tuple[Store, Store], folder: Path, trial: Any) -> float:
    """One trial; its best dev score.

    Raises:
        optuna.TrialPruned: it is not worth going on.
    """
    import optuna

    prepared = tuning.prepare(*stores, tuning.settings.seed)
    told = 0

    def on_step(report: StepReport) -> None:
        nonlocal told
        every = tuning.settings.eval_steps or max(1, report.total_steps // 4)
        if report.best_score is not None and report.step // every > told:
            told = report.step // every
            trial.report(report.best_score, told)
            if trial.should_prune():
                raise optuna.TrialPruned

    result = prepared.trainer(folder).run(on_step=on_step)
    if result.best_score is None:
        raise UsageError("search needs dev papers with answers, to tell trials apart")
    return result.best_score


def _best(study: Any, done: tuple[Any, ...]) -> float | None:
    values = [t.value for t in study.get_trials(deepcopy=False, states=done) if t.value is not None]
    return max(values, default=None)


def _result(study: Any, done: tuple[Any, ...], out: Path) -> dict[str, Any]:
    rows = [
        {**trial.params, "dev": trial.value, "given_up": trial.value is None}
        for trial in study.get_trials(deepcopy=False, states=done)
    ]
    finished = [row for row in rows if row["dev"] is not None]
    if not finished:
        raise UsageError(f"{out / JOURNAL}: no trial came to its end; raise --trials")
    found = {"best": max(finished, key=lambda row: row["dev"]), "trials": rows}
    write_bytes(out / RESULT, to_json(found))
    return found
