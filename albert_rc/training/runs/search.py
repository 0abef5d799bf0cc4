"""Learning-rate search with optuna, with early pruning of poor trials."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from albert_rc.errors import DivergedError, Interrupted, OutOfMemoryError, UsageError
from albert_rc.io.json import write_json
from albert_rc.runtime.seeds import mix
from albert_rc.stores.store import Store
from albert_rc.training.identity import difference
from albert_rc.training.runs.earlier import require_kept
from albert_rc.training.runs.finetune import FineTuning, made_of
from albert_rc.training.stop import StopRequest
from albert_rc.training.tally import StepReport, TrainResult

JOURNAL = "trials.log"
"""Optuna's record of all trials, in the search's folder."""
RESULT = "search.json"
BEST = "best"
"""Name of the best trial's folder."""
_STUDY = "albert-rc"
_SPREAD = (3 / 8, 5 / 8, 1 / 8, 7 / 8)
"""Learning rates of the first trials, as shares of the space on a logarithmic scale."""


@dataclass(frozen=True)
class Space:
    """The search space."""

    low: float
    """The smallest learning rate."""
    high: float
    batch_sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        if not 0 < self.low < self.high < 1:
            raise UsageError(
                f"--low {self.low:g} and --high {self.high:g} must satisfy 0 < low < high < 1"
            )
        if not self.batch_sizes or min(self.batch_sizes) < 1:
            raise UsageError("--batch-sizes must be whole numbers of at least 1, such as 16,32")


def search(
    tuning: FineTuning,
    stores: tuple[Store, Store],
    space: Space,
    trials: int,
    out: Path,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Run trials until there are `trials` of them; an interrupted search is continued.

    The first four trials are spread over the space, because four random ones may all be close to
    each other, and those after them are compared with them. The others are chosen by TPE (Bergstra
    et al. 2011) over the logarithm of the learning rate. A trial is pruned where its best dev score
    after an evaluation is below the median of the others' there.

    Args:
        tuning: the common part of all trials; its seed is also the search's.
        stores: train and dev; the best dev score is maximised.
        space: the search space.
        trials: total number, including those of earlier calls.
        out: folder of the journal, the results and the best run.
        say: called with a message for each trial.

    Returns:
        The content of `RESULT`: the best settings, and all trials.

    Raises:
        Interrupted: stop requested; the current trial is discarded, the others stay.
        UsageError: optuna is not installed, the search was started with other settings, or no
            trial was completed.
        OutOfMemoryError: the smallest batch does not fit.
    """
    study = _open(tuning, stores, space, out)
    import optuna

    failed, pruned = optuna.trial.TrialState.FAIL, optuna.trial.TrialState.PRUNED
    stop = StopRequest()
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
            result = _run(replace(tuning, settings=settings), stores, folder, trial, stop)
        except (optuna.TrialPruned, DivergedError, OutOfMemoryError) as error:
            if isinstance(error, OutOfMemoryError) and size == min(space.batch_sizes):
                study.tell(trial, state=failed)  # no other trial would fit either
                _tidy(study, out)
                raise
            study.tell(trial, state=pruned)
            _tidy(study, out)
            say(f"{name}: stopped early, {str(error) or 'worse than the other trials so far'}")
        except (Interrupted, KeyboardInterrupt):
            study.tell(trial, state=failed)
            study.enqueue_trial(trial.params)
            _tidy(study, out)
            raise Interrupted(f"stopped in {name}; the same command continues the search") from None
        else:
            study.tell(trial, result.best_score)
            _tidy(study, out)
            if before is None or result.best_score > before.value:
                say(f"{name}: dev {result.best_score:.2%}, best so far")
            else:
                say(f"{name}: dev {result.best_score:.2%}; best so far {before.value:.2%}")
        if stop.asked and count + 1 < trials:
            raise Interrupted(
                f"stopped after {name}, {count + 1} of {trials}; the same command continues the "
                "search"
            )
    return _result(study, out)


def _open(tuning: FineTuning, stores: tuple[Store, Store], space: Space, out: Path) -> Any:
    """The study in the search's folder, new or continued, without the remains of killed trials.

    Raises:
        UsageError: optuna is not installed, the study was started with other settings, or a
            trial's folder holds a model.
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
    teacher = None if tuning.teacher is None else tuning.teacher.source
    require_kept(tuning.model, folders, tuning.group, replaced=True, teacher=teacher)
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
    failed, running = optuna.trial.TrialState.FAIL, optuna.trial.TrialState.RUNNING
    before = [trial.params for trial in study.get_trials(deepcopy=False, states=(failed,))]
    for trial in study.get_trials(deepcopy=False, states=(running,)):
        study.tell(trial.number, state=failed)  # its process is gone
        # Once more, but not for ever: the trial itself may have been what killed it.
        if trial.params and trial.params not in before:
            study.enqueue_trial(trial.params)
    _tidy(study, out)
    if not _done(study):
        # Nothing to continue; the failed start may have had other options.
        optuna.delete_study(study_name=_STUDY, storage=storage)
        study = begin()
        study.set_user_attr("made_of", record)
        for number, share in enumerate(_SPREAD):
            size = space.batch_sizes[number % len(space.batch_sizes)]
            rate = space.low * (space.high / space.low) ** share
            study.enqueue_trial({"learning_rate": rate, "batch_size": size})
    # The sampler restarts with each call: with the same seed it would repeat its suggestions.
    seed = mix(tuning.settings.seed, len(study.get_trials(deepcopy=False))) % 2**32
    study.sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=len(_SPREAD))
    return study


def _record(tuning: FineTuning, stores: tuple[Store, Store], space: Space) -> dict[str, Any]:
    """The common part of all trials, and the search space."""
    record = made_of(tuning, *stores)
    for searched in ("--learning-rate", "--batch-size"):
        del record[searched]
    return record | {
        "--low": space.low,
        "--high": space.high,
        "--batch-sizes": ",".join(map(str, space.batch_sizes)),
    }


def _require_same(study: Any, record: dict[str, Any], out: Path) -> None:
    """Refuse to continue a search with other settings."""
    before = study.user_attrs.get("made_of")
    if before is None:
        raise UsageError(
            f"{out / JOURNAL} was written by an older version and lacks the settings of its "
            "trials; give another --out"
        )
    if what := difference(before, record):
        raise UsageError(
            f"the trials in {out} were started {what}; use their original options, or another --out"
        )


def _folder(out: Path, number: int) -> Path:
    """A trial's folder."""
    return out / f"trial-{number}"


def _tidy(study: Any, out: Path) -> None:
    """Move the best trial's run to `BEST`, and remove the others."""
    best = _best(study)
    if best is not None and _folder(out, best.number).is_dir():
        shutil.rmtree(out / BEST, ignore_errors=True)
        _folder(out, best.number).rename(out / BEST)
    for trial in study.get_trials(deepcopy=False):
        shutil.rmtree(_folder(out, trial.number), ignore_errors=True)


def _run(
    tuning: FineTuning, stores: tuple[Store, Store], folder: Path, trial: Any, stop: StopRequest
) -> TrainResult:
    """Run one trial; the result has a dev score.

    Raises:
        optuna.TrialPruned: the trial is not worth continuing.
    """
    import optuna

    prepared = tuning.prepare(*stores, tuning.settings.seed)
    told = 0

    def on_step(report: StepReport) -> None:
        nonlocal told
        # A step is reported before its own evaluation.
        every = tuning.settings.eval_steps or round(report.step / report.epoch)
        done = (report.step - 1) // every
        if report.best_score is not None and done > told:
            told = done
            trial.report(report.best_score, told)
            if trial.should_prune():
                raise optuna.TrialPruned

    result = prepared.trainer(folder).run(on_step=on_step, stop=stop)
    if result.best_score is None:
        raise UsageError("the search needs dev papers with answers, to compare trials")
    return result


def _done(study: Any) -> list[Any]:
    """The trials that were completed or pruned."""
    from optuna.trial import TrialState

    states = (TrialState.COMPLETE, TrialState.PRUNED)
    return list(study.get_trials(deepcopy=False, states=states))


def _best(study: Any) -> Any:
    """The best completed trial, the first of equals; None if there is none."""
    from optuna.trial import TrialState

    finished = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    return max(finished, key=lambda trial: trial.value, default=None)


def _result(study: Any, out: Path) -> dict[str, Any]:
    best, rows = _best(study), {}
    if best is None:
        raise UsageError(
            f"{out / JOURNAL}: every trial was stopped early; give --search a larger number"
        )
    for trial in _done(study):
        # For a pruned trial, optuna keeps the last reported score as its value.
        given_up = trial.state.name == "PRUNED"
        dev = None if given_up else trial.value
        rows[trial.number] = {**trial.params, "dev": dev, "given_up": given_up}
    found = {"best": rows[best.number], "trials": list(rows.values())}
    write_json(out / RESULT, found)
    return found
