"""A search for the learning rate: trials that optuna chooses, hopeless ones given up early."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from albert_rc.errors import DivergedError, Interrupted, UsageError
from albert_rc.io.atomic import write_bytes
from albert_rc.io.files import to_json
from albert_rc.runtime.seeds import mix
from albert_rc.stores.store import Store
from albert_rc.training.identity import difference
from albert_rc.training.runs.earlier import require_kept
from albert_rc.training.runs.finetune import FineTuning, made_of
from albert_rc.training.tally import StepReport, TrainResult

JOURNAL = "trials.log"
"""Optuna's record of all trials, in the search's folder."""
RESULT = "search.json"
BEST = "best"
"""The folder of the best trial's run."""
_STUDY = "albert-rc"


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
    """Try recipes until that many trials are there; a search that was stopped goes on.

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
        Interrupted: asked to stop; the trial in hand is forgotten, the others stay.
        UsageError: optuna is not installed, the search was begun otherwise, or no trial came to
            an end.
    """
    study = _open(tuning, stores, space, out)
    import optuna

    failed, pruned = optuna.trial.TrialState.FAIL, optuna.trial.TrialState.PRUNED
    while (count := len(_done(study))) < trials:
        trial = study.ask()
        rate = trial.suggest_float("learning_rate", space.low, space.high, log=True)
        size = trial.suggest_categorical("batch_size", space.batch_sizes)
        name = f"trial {trial.number}"
        say(f"{name}: learning rate {rate:.3g}, batch {size}")
        settings = replace(tuning.settings, learning_rate=rate, batch_size=size)
        before = _best(study)
        try:
            folder = _folder(out, trial.number)
            result = _run(replace(tuning, settings=settings), stores, folder, trial)
        except (optuna.TrialPruned, DivergedError) as error:
            study.tell(trial, state=pruned)
            _tidy(study, out)
            say(f"{name}: given up, {str(error) or 'the others were better by then'}")
            continue
        except (Interrupted, KeyboardInterrupt):
            study.tell(trial, state=failed)
            _tidy(study, out)
            raise Interrupted(f"stopped in {name}; the same command goes on") from None
        study.tell(trial, result.best_score)
        _tidy(study, out)
        if before is None or result.best_score > before.value:
            say(f"{name}: dev {result.best_score:.2%}, the best so far")
        else:
            say(f"{name}: dev {result.best_score:.2%}; the best is {before.value:.2%}")
        if result.stop_asked and count + 1 < trials:
            raise Interrupted(
                f"stopped after {name}, {count + 1} of {trials}; the same command goes on"
            )
    return _result(study, out)


def _open(tuning: FineTuning, stores: tuple[Store, Store], space: Space, out: Path) -> Any:
    """The study in the search's folder, begun or gone on with, and nothing of trials that died.

    Raises:
        UsageError: optuna is not installed, the study was begun otherwise, or a model lies where
            trials run.
    """
    try:
        import optuna
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend
    except ImportError:
        raise UsageError("`train --search` needs optuna: pip install 'albert-rc[search]'") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    out.mkdir(parents=True, exist_ok=True)
    trials = [path for path in out.iterdir() if re.fullmatch(r"trial-\d+", path.name)]
    folders = [out / BEST, *trials]
    require_kept(tuning.model, folders, tuning.group, replaced=True)
    storage = JournalStorage(JournalFileBackend(str(out / JOURNAL)))
    begin = partial(
        optuna.create_study,
        study_name=_STUDY,
        storage=storage,
        pruner=optuna.pruners.MedianPruner(n_startup_trials=3),
        direction="maximize",
        load_if_exists=True,
    )
    study, record = begin(), _record(tuning, stores, space)
    if _done(study):
        _require_same(study, record, out)
    for trial in study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.RUNNING,)):
        study.tell(trial.number, state=optuna.trial.TrialState.FAIL)  # its process is no more
    _tidy(study, out)
    if not _done(study):
        # Nothing to go on with; what was begun may have been asked for with other options.
        optuna.delete_study(study_name=_STUDY, storage=storage)
        study = begin()
        study.set_user_attr("made_of", record)
    # A sampler begins anew with each call: with the same seed it would ask for the same again.
    seed = mix(tuning.settings.seed, len(study.get_trials(deepcopy=False))) % 2**32
    study.sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=4)
    return study


def _record(tuning: FineTuning, stores: tuple[Store, Store], space: Space) -> dict[str, Any]:
    """What all trials have in common, and where they are looked for."""
    record = made_of(tuning, *stores)
    for searched in ("--learning-rate", "--batch-size"):
        del record[searched]
    return record | {
        "--eval-steps": tuning.settings.eval_steps,
        "--low": space.low,
        "--high": space.high,
        "--batch-sizes": ",".join(map(str, space.batch_sizes)),
    }


def _require_same(study: Any, record: dict[str, Any], out: Path) -> None:
    """Refuse to go on otherwise than the search was begun."""
    before = study.user_attrs.get("made_of")
    if before is None:
        raise UsageError(
            f"{out / JOURNAL} does not say what its trials were made of (an older version wrote "
            "it); give another --out"
        )
    if what := difference(before, record):
        raise UsageError(
            f"the trials in {out} were begun {what}; give the options that they were begun with, "
            "or another --out"
        )


def _folder(out: Path, number: int) -> Path:
    """Where a trial runs."""
    return out / f"trial-{number}"


def _tidy(study: Any, out: Path) -> None:
    """Have the best trial's run in `BEST`, and keep none of the others."""
    best = _best(study)
    if best is not None and _folder(out, best.number).is_dir():
        shutil.rmtree(out / BEST, ignore_errors=True)
        _folder(out, best.number).rename(out / BEST)
    for trial in study.get_trials(deepcopy=False):
        shutil.rmtree(_folder(out, trial.number), ignore_errors=True)


def _run(tuning: FineTuning, stores: tuple[Store, Store], folder: Path, trial: Any) -> TrainResult:
    """One trial; it has a dev score.

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
    return result


def _done(study: Any) -> list[Any]:
    """The trials that came to their end, or were given up."""
    from optuna.trial import TrialState

    states = (TrialState.COMPLETE, TrialState.PRUNED)
    return list(study.get_trials(deepcopy=False, states=states))


def _best(study: Any) -> Any:
    """The best trial that came to its end, the first of equals; None if there is none."""
    from optuna.trial import TrialState

    finished = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    return max(finished, key=lambda trial: trial.value, default=None)


def _result(study: Any, out: Path) -> dict[str, Any]:
    best, rows = _best(study), {}
    if best is None:
        raise UsageError(f"{out / JOURNAL}: no trial came to its end; raise --trials")
    for trial in _done(study):
        # Of one that was given up, optuna keeps the last score that it was told as its value.
        given_up = trial.state.name == "PRUNED"
        dev = None if given_up else trial.value
        rows[trial.number] = {**trial.params, "dev": dev, "given_up": given_up}
    found = {"best": rows[best.number], "trials": list(rows.values())}
    write_bytes(out / RESULT, to_json(found))
    return found
