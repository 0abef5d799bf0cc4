"""The training loop of fine-tuning and pretraining.

Losses are sums, divided by the count of the whole global batch, so the number of micro-batches and
processes affects only rounding.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic

import torch
from torch import Tensor

from albert_rc.errors import DivergedError, Interrupted, NotFiniteError
from albert_rc.io.json import write_each
from albert_rc.runtime.devices import Processes
from albert_rc.runtime.heap import forget_peak
from albert_rc.runtime.seeds import mix
from albert_rc.training.checkpoint import Checkpoints, Progress
from albert_rc.training.config import TrainConfig
from albert_rc.training.health.guard import LOOK, Guard, Symptom, not_numbers
from albert_rc.training.health.restart import WayBack, order_seed, respond
from albert_rc.training.objective import BatchT, Objective
from albert_rc.training.optim import linear_rate, make_optimizer, settled_step
from albert_rc.training.record import RunLog
from albert_rc.training.runs.earlier import forget_earlier, set_aside
from albert_rc.training.step import Stepper
from albert_rc.training.stop import StopRequest
from albert_rc.training.tally import StepReport, Tally, TrainResult

WEIGHTS = "model.safetensors"
WINDOW = 50  # steps in the running mean of the displayed loss and accuracy


class Trainer(Generic[BatchT]):
    """Trains a model for an objective.

    Args:
        objective: the training objective; its model is moved to the processes' device.
        settings: the recipe.
        folder: output folder for weights, states and records.
        processes: the ranks that share the work.
        workers: processes that make batches ahead of time; with 0, the loop makes them.
        about: contents to write into the folder at the start, by file name; see `write_each`.
    """

    def __init__(
        self,
        objective: Objective[BatchT],
        settings: TrainConfig,
        folder: Path,
        processes: Processes,
        workers: int = 0,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        self.objective = objective
        self.encoder = objective.encoder
        self.model = objective.model.to(processes.device)
        self.encoder.compute = replace(
            self.encoder.compute,
            precision=settings.precision,
            recompute=settings.recompute,
            in_place=True,
            ffn_chunk=settings.ffn_chunk,
        )
        objective.begin()
        self.settings = settings
        self.folder = folder
        self.about = about or {}
        self.processes = processes
        processes.copy_from_main([p.data for p in self.model.parameters()])
        self.steps_per_epoch = objective.order.batches_per_epoch
        self.total_steps = settings.max_steps or settings.epochs * self.steps_per_epoch
        self.optimizer = make_optimizer(
            self.model,
            settings.learning_rate,
            settings.weight_decay,
            settings.optimizer_states,
            settings.optimizer,
        )
        self.scaler = torch.amp.GradScaler(
            processes.device.type, enabled=settings.precision == "fp16"
        )
        self.stepper = Stepper(
            objective,
            settings,
            processes,
            self.optimizer,
            self.scaler,
            last=self.total_steps,
            workers=workers,
            say=self._say,
        )
        self.checkpoints = Checkpoints(
            folder,
            self.model,
            processes,
            self.optimizer,
            self.scaler,
            settings,
            objective.identity,
        )
        self.progress = Progress()
        self.guard = Guard(
            lambda row: objective.vitals(row[: objective.num_sums], row[objective.num_sums :]),
            lambda share: settled_step(self.total_steps, settings.warmup, share),
            self.scaler.is_enabled(),
            processes.device,
            objective.answer_names,
        )
        self.way_back = WayBack(self.checkpoints)
        self.record: RunLog | None = None
        self._told: Callable[[str], None] | None = None
        self._shown: Callable[[StepReport], None] | None = None
        self._stop = StopRequest()

    def run(
        self,
        resume: bool = False,
        seconds: float | None = None,
        on_step: Callable[[StepReport], None] | None = None,
        on_event: Callable[[str], None] | None = None,
        stop: StopRequest | None = None,
    ) -> TrainResult:
        """Train to the end, or until stopped.

        Args:
            resume: resume from the state in the folder.
            seconds: time limit, after which the state is saved and the run stops.
            on_step: called after each step, on the main process.
            on_event: called with messages about evaluations and saves.
            stop: notes Ctrl-C and SIGTERM also where the run ends with an error; its own by
                default.

        Raises:
            Interrupted: stop requested; the state is saved.
            UsageError: nothing to resume, the run was started with other settings, or a process
                that prepares batches was killed.
        """
        started = time.perf_counter()
        self._told, self._shown = on_event, on_step
        stop = self._stop = stop or StopRequest()
        tally = self._begin(resume)
        first_step = self.progress.step
        stopped_early, paused = resume and self._had_stopped_early(), False
        self.model.train()
        try:
            with stop.listening(), self.stepper.explaining_lost_workers():
                for epoch, items in () if stopped_early else self._batches():
                    sums = self._step(items, epoch)
                    self.progress.step += 1
                    tally.add(sums, len(items))
                    tally = self._after_step(tally)
                    evaluating = self._due(self.settings.eval_steps)
                    saving = self._due(self.settings.save_steps)
                    if self._went_back(evaluating or saving):
                        tally = Tally()
                        continue
                    if evaluating:
                        self._note(tally)
                        stopped_early = self._evaluate()
                        tally = Tally()
                        # Else a run resumed after a crash would have weights newer than its state.
                        saving = saving or self.progress.best_step == self.progress.step
                    stopping = self.processes.any(stop.asked)
                    left = self.progress.step < self.total_steps
                    if seconds is not None and left and not stopped_early:
                        paused = self.processes.any(time.perf_counter() - started >= seconds)
                    if saving or stopping or stopped_early or paused:
                        saved_from = time.perf_counter()
                        self._save_state(tally)
                        tally.started += time.perf_counter() - saved_from
                    # After the last step there is nothing to stop: the run ends normally.
                    if stopping and not stopped_early and left:
                        raise self._interrupted()
                    if stopped_early or paused:
                        break
            if not paused:
                if self.progress.best_score is None or self._lost_weights():
                    self._save_weights()
                self.way_back.forget_start()
                if self.processes.is_main:
                    forget_earlier(self.folder)
        finally:
            self.stepper.forget_batches()
            if self.record is not None:
                self.record.close()
        return TrainResult(
            stop_asked=self.processes.any(stop.asked),
            steps=self.progress.step,
            total_steps=self.total_steps,
            best_score=self.progress.best_score,
            best_step=self.progress.best_step,
            stopped_early=stopped_early,
            paused=paused,
            seconds=time.perf_counter() - started,
            first_step=first_step,
            restarts=self.progress.attempt,
        )

    def _begin(self, resume: bool) -> Tally:
        """Initialise every process for a new or a resumed run."""
        tally = Tally()
        # Each rank needs its own dropout masks.
        torch.manual_seed(mix(self.settings.seed, self.processes.rank))
        if resume:
            self.progress, parts = self.checkpoints.load(self._say)
            # Versions differ in the sums that they count.
            width = self.objective.num_sums + self.objective.num_counts
            tally.parts = [part for part in parts if len(part) == width]
            waiting = self.progress.guard.get("waiting", ())
            self.progress.guard["waiting"] = [row for row in waiting if len(row) == width + 2]
            if not self.progress.attempt:  # states of older versions lack it
                self.progress.attempt_best = self.progress.best_score
            self.guard.restore(self.progress.guard)
            self.stepper.cut_as(self.progress.cut)
        aside = None
        if self.processes.is_main and not resume:
            aside = set_aside(self.folder)
        if self.processes.is_main:
            # On resuming too: some settings, such as patience, may have been changed.
            write_each(self.folder, self.about)
        if not resume:
            self.way_back.keep_start()
        self._set_order()
        if self.processes.is_main:
            resumed_at = self.progress.step if resume else None
            self.record = RunLog(self.folder, resumed_at, self.progress.attempt)
            if aside is not None:
                self._say(
                    f"new run; the earlier one is kept in {aside} until this one has finished"
                )
            self._say(f"step {self.progress.step} of {self.total_steps}")
        return tally

    def _batches(self) -> Iterator[tuple[int, list[int]]]:
        """The remaining global batches, each with its epoch."""
        while self.progress.step < self.total_steps:
            epoch, first = divmod(self.progress.step, self.steps_per_epoch)
            left = self.total_steps - self.progress.step
            attempt = self.progress.attempt
            for items in self.objective.order.epoch(epoch)[first : first + left]:
                yield epoch, items
                if self.progress.attempt != attempt:
                    break  # restarted, with a different data order

    def _due(self, every: int | None) -> bool:
        """Whether an action that is due every N steps, or else each epoch, is due now."""
        step = self.progress.step
        return step % (every or self.steps_per_epoch) == 0 or step >= self.total_steps

    def _interrupted(self) -> Interrupted:
        step = self.progress.step
        self._say(f"stopped at step {step}; the state is saved")
        return Interrupted(
            f"stopped at step {step} of {self.total_steps}; "
            "run the same command with --resume to continue"
        )

    def _step(self, items: list[int], epoch: int) -> Tensor:
        """One optimiser step on a global batch; its sums and counts over all processes."""
        step = self.progress.step
        sums, counts, norm = self.stepper.take(items, epoch, step, self._rate(step))
        self.guard.add(step + 1, torch.cat([sums, counts, norm]))
        return torch.cat([sums, counts])

    def _rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        settings = self.settings
        peak = settings.learning_rate / 2**self.progress.attempt
        return linear_rate(step, self.total_steps, peak, settings.warmup)

    def _after_step(self, tally: Tally) -> Tally:
        step = self.progress.step
        full = len(tally.parts) >= WINDOW
        if self.processes.is_main and (full or step % 10 == 0 or step < 10):
            self._tell(self._shown, self._report(tally))
        return self._note(tally) if full else tally

    def _note(self, tally: Tally) -> Tally:
        """Write the steps so far to the metrics, and start a new tally."""
        if self.record is not None and tally.parts:
            report = self._report(tally)
            values = {
                "epoch": round(report.epoch, 4),
                **{name: round(value, 5) for name, value in report.figures.items()},
                "learning_rate": self._rate(self.progress.step - 1),
                f"{self.objective.unit}_per_second": round(report.items_per_second, 3),
            }
            self.record.metrics("train", self.progress.step, values)
        return Tally()

    def _went_back(self, keeping: bool) -> bool:
        """Check for collapse and respond; whether the run was restarted.

        Args:
            keeping: the weights are about to be evaluated or saved, so they must be finite.

        Raises:
            DivergedError: the run has collapsed, and must not be restarted.
        """
        step = self.progress.step
        found = self.guard.look() if keeping or step % LOOK == 0 else []
        if keeping and self.processes.any(
            not all(bool(p.isfinite().all()) for p in self.model.parameters())
        ):
            found.append(not_numbers(step))
        return any(self._act(symptom) for symptom in found)

    def _act(self, symptom: Symptom) -> bool:
        """Report a symptom and apply `--on-collapse`; whether the run was restarted."""
        action, sentence = respond(symptom, self.settings, self.progress.attempt)
        if self.record is not None:
            figures = {name: round(value, 5) for name, value in symptom.figures.items()}
            found = {"symptom": symptom.name, "began": symptom.began, "action": action}
            self.record.metrics("guard", symptom.step, found | figures)
        if action == "stop":
            if self.record is not None:
                self.record.say(sentence)
            raise DivergedError(sentence)
        self._say(sentence)
        if action == "restart":
            self._go_back(symptom.began)
        return action == "restart"

    def _go_back(self, began: int) -> None:
        """Restart from the last good state or the start, with half the rate and another order."""
        before = self.progress
        self.progress = self.way_back.go(before.attempt, began)
        self.progress.attempt = before.attempt + 1
        # The best score belongs to the weights in the folder, from whichever attempt.
        self.progress.best_score, self.progress.best_step = before.best_score, before.best_step
        self.progress.attempt_best, self.progress.evaluations_without_gain = None, 0
        self.guard.forget()
        self.stepper.forget_batches()
        self._set_order()
        torch.manual_seed(mix(self.objective.order.seed, self.processes.rank))
        self._save_state(Tally())
        step, attempt = self.progress.step, self.progress.attempt
        if self.record is not None:
            self.record.close()
            self.record = RunLog(self.folder, step, attempt)
        where = f"the state of step {step}" if step else "the start"
        rate = self.settings.learning_rate / 2**attempt
        self._say(f"restarting from {where} with learning rate {rate:g} and a different data order")

    def _set_order(self) -> None:
        """Set the data order of this attempt."""
        seed = order_seed(self.settings.seed, self.progress.attempt)
        self.objective.order = replace(self.objective.order, seed=seed)

    def _report(self, tally: Tally) -> StepReport:
        totals, split = tally.totals(), self.objective.num_sums
        return StepReport(
            step=self.progress.step,
            total_steps=self.total_steps,
            epoch=self.progress.step / self.steps_per_epoch,
            figures=self.objective.report(totals[:split], totals[split:]),
            unit=self.objective.unit,
            items_per_second=tally.items / max(1e-9, time.perf_counter() - tally.started),
            best_score=self.progress.best_score,
        )

    def _evaluate(self) -> bool:
        """Evaluate, and save the weights if they are the best; whether to stop early."""
        try:
            evaluation = self.objective.evaluate(self.processes)
        except NotFiniteError:  # on every rank
            self._act(not_numbers(self.progress.step, "scores of dev papers"))
            return False  # restarted
        forget_peak()  # an evaluation's is not a step's
        if evaluation is None:
            return False
        progress, step = self.progress, self.progress.step
        best = progress.best_score is None or evaluation.score > progress.best_score
        if best:
            progress.best_score, progress.best_step = evaluation.score, step
            self._save_weights()
        # After a restart, patience counts against the scores since then.
        if progress.attempt_best is None or evaluation.score > progress.attempt_best:
            progress.attempt_best, progress.evaluations_without_gain = evaluation.score, 0
        else:
            progress.evaluations_without_gain += 1
        if self.record is not None:
            values = {"epoch": round(step / self.steps_per_epoch, 4), **evaluation.values}
            self.record.metrics("dev", step, values | {"best": best})
        name = self.objective.score_name
        mark = "best so far, saved" if best else f"best {name} {progress.best_score:.2%}"
        self._say(f"step {step}: {evaluation.line} ({mark})")
        if self._out_of_patience():
            self._say(f"no improvement in {self.settings.patience} evaluations: stopped early")
            return True
        return False

    def _out_of_patience(self) -> bool:
        patience = self.settings.patience
        return patience is not None and self.progress.evaluations_without_gain >= patience

    def _had_stopped_early(self) -> bool:
        """Whether the resumed run had stopped early; if so, report how to continue it."""
        if not self._out_of_patience():
            return False
        waited = self.progress.evaluations_without_gain
        self._say(
            f"the run stopped early at step {self.progress.step}, after {waited} evaluations "
            f"without improvement; to continue training, raise --patience above {waited}"
        )
        return True

    def _save_weights(self) -> None:
        if self.processes.is_main:
            self.objective.save(self.folder)
        self.processes.wait()

    def _lost_weights(self) -> bool:
        """Return whether the best weights are missing from the folder, and say so if they are."""
        there = (self.folder / WEIGHTS).is_file() if self.processes.is_main else None
        if self.processes.from_main(there):
            return False
        step, best = self.progress.step, self.progress.best_step
        lost = "" if best == step else f"; those of step {best}, the best on dev, are lost"
        self._say(f"{WEIGHTS} is missing: the weights of step {step} are saved{lost}")
        return True

    def _save_state(self, tally: Tally) -> None:
        self.progress.guard = self.guard.state()
        self.progress.cut = self.stepper.cut
        self.checkpoints.save(self.progress, tally.parts)

    def _say(self, line: str) -> None:
        if self.record is not None:
            self.record.say(line)
        if self.processes.is_main:
            self._tell(self._told, line)

    def _tell(self, told: Callable[[Any], None] | None, what: Any) -> None:
        """Pass something on to the user; if nobody can read it any more, the run is to stop."""
        try:
            if told is not None:
                told(what)
        except (OSError, SystemExit):  # rich exits where its output has been closed
            self._told = self._shown = None
            self._stop.asked = True
