"""The fine-tuning loop.

Losses come as sums and are divided by the count of the whole global batch, so micro-batches and
processes change nothing but rounding.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from albert_rc.batch import Batch
from albert_rc.config import Compute, TrainConfig
from albert_rc.data.batches import BatchOrder, Collator, share
from albert_rc.data.masking import WordHider
from albert_rc.data.shards import Store
from albert_rc.devices import Processes, is_out_of_memory
from albert_rc.errors import Interrupted, OutOfMemoryError, UsageError
from albert_rc.loading import save_model
from albert_rc.model.heads import ClozeHead, ReadingModel
from albert_rc.predict import score
from albert_rc.seeds import mix
from albert_rc.tokenizer import Tokenizer
from albert_rc.train.checkpoint import STATE, Progress, load_state, save_state
from albert_rc.train.optim import linear_rate, make_optimizer, set_rate
from albert_rc.train.parallel import make_parallel
from albert_rc.train.record import Record
from albert_rc.train.stop import StopRequest
from albert_rc.train.tally import StepReport, Tally, TrainResult

WINDOW = 50  # steps over which the shown loss and accuracy run


class Trainer:
    """Trains one model on one store.

    Args:
        model: moved to the processes' device.
        tokenizer: its vocabulary.
        train_store: what is learned from.
        dev_store: what decides which weights are best; without one the last are kept.
        settings: the recipe.
        folder: where weights, state and records go.
        processes: who works along.
    """

    def __init__(
        self,
        model: ReadingModel,
        tokenizer: Tokenizer,
        train_store: Store,
        dev_store: Store | None,
        settings: TrainConfig,
        folder: Path,
        processes: Processes,
    ) -> None:
        self.model = model.to(processes.device)
        self.model.encoder.compute = Compute(
            precision=settings.precision,
            recompute=settings.recompute,
            join=settings.join,
            in_place=True,
        )
        self.tokenizer = tokenizer
        self.train_store = train_store
        self.dev_store = dev_store
        self.settings = settings
        self.folder = folder
        self.processes = processes
        hider = None
        if settings.mask_rate and train_store.kind == "cloze":
            hider = WordHider(tokenizer, settings.mask_rate, settings.seed)
            if isinstance(model.head, ClozeHead):
                words = train_store.tensors["token"].long()
                model.head.set_prior(torch.bincount(words, minlength=model.config.vocab_size))
        self.collate = Collator(train_store, tokenizer, hider)
        self.order = BatchOrder(
            lengths=train_store.lengths, batch_size=settings.batch_size, seed=settings.seed
        )
        self.parallel = make_parallel(settings.parallel, self.model, processes)
        self.steps_per_epoch = self.order.batches_per_epoch
        self.total_steps = settings.max_steps or settings.epochs * self.steps_per_epoch
        self.optimizer = make_optimizer(
            model, settings.learning_rate, settings.weight_decay, settings.optimizer_states
        )
        self.micro_batches = settings.accumulation
        self.scaler = torch.amp.GradScaler(
            processes.device.type, enabled=settings.precision == "fp16"
        )
        self.progress = Progress()
        self.record: Record | None = None
        self._told: Callable[[str], None] | None = None

    def _data(self) -> dict[str, Any]:
        keys = ("split", "source_hash", "vocabulary", "max_length")
        stores = {"train store": self.train_store, "dev store": self.dev_store}
        described: dict[str, Any] = {
            name: None if store is None else {key: store.meta[key] for key in keys}
            for name, store in stores.items()
        }
        described["--option-score"] = self.model.option_score
        described["model shape"] = asdict(self.model.config)
        return described

    def run(
        self,
        resume: bool = False,
        on_step: Callable[[StepReport], None] | None = None,
        on_event: Callable[[str], None] | None = None,
    ) -> TrainResult:
        """Train to the end, or until stopped.

        Args:
            resume: go on from the state in the folder.
            on_step: told after each step, on the main process.
            on_event: given sentences about evaluations and saves.

        Raises:
            Interrupted: asked to stop; the state is saved.
            UsageError: nothing to resume, or it was begun otherwise.
        """
        started = time.perf_counter()
        self._told = on_event
        self._begin(resume)
        stop = StopRequest()
        tally = Tally()
        stopped_early = False
        self.model.train()
        try:
            with stop.listening():
                for epoch, items in self._batches():
                    sums = self._step(items, epoch)
                    self.progress.step += 1
                    tally.add(sums, len(items))
                    tally = self._after_step(tally, on_step)
                    evaluating = self._due(self.settings.eval_steps)
                    saving = self._due(self.settings.save_steps)
                    if evaluating or saving:
                        self._check_weights()
                    if evaluating:
                        self._note(tally)
                        stopped_early = self._evaluate()
                        tally = Tally()
                    stopping = self.processes.any(stop.asked)
                    if saving or stopping or stopped_early:
                        self._save_state()
                    if stopping:
                        raise self._interrupted()
                    if stopped_early:
                        break
            if self.dev_store is None or not self.dev_store.has_answers:
                self._save_weights()
        finally:
            if self.record is not None:
                self.record.close()
        return TrainResult(
            steps=self.progress.step,
            best_accuracy=self.progress.best_accuracy,
            best_step=self.progress.best_step,
            stopped_early=stopped_early,
            seconds=time.perf_counter() - started,
        )

    def _begin(self, resume: bool) -> None:
        """Put every process into the state that the run starts, or goes on, from."""
        # Ranks must not drop the same units of different passages.
        torch.manual_seed(mix(self.settings.seed, self.processes.rank))
        if resume:
            self.progress = load_state(
                self.folder,
                self.parallel,
                self.optimizer,
                self.scaler,
                self.settings,
                self._data(),
            )
        if self.processes.is_main:
            self.record = Record(self.folder, self.progress.step if resume else None)
            if not resume and (self.folder / STATE).is_file():
                (self.folder / STATE).unlink()
                self._say("starting over: the state of an earlier run is gone")
            self._say(f"step {self.progress.step} of {self.total_steps}")

    def _batches(self) -> Iterator[tuple[int, list[int]]]:
        """The global batches still to come, each with its epoch."""
        while self.progress.step < self.total_steps:
            epoch, first = divmod(self.progress.step, self.steps_per_epoch)
            left = self.total_steps - self.progress.step
            for items in self.order.epoch(epoch)[first : first + left]:
                yield epoch, items

    def _due(self, every: int | None) -> bool:
        """Whether something that happens every N steps, or else each epoch, happens now."""
        step = self.progress.step
        return step % (every or self.steps_per_epoch) == 0 or step >= self.total_steps

    def _interrupted(self) -> Interrupted:
        step = self.progress.step
        self._say(f"stopped at step {step}; the state is saved")
        return Interrupted(
            f"stopped at step {step} of {self.total_steps}; "
            "the same command with --resume goes on from there"
        )

    def _step(self, items: list[int], epoch: int) -> Tensor:
        """One optimiser step on a global batch; its sums over all processes.

        Where memory runs out, all processes halve their micro-batches and take the step again.
        """
        self.parallel.gather()
        while True:
            failed = False
            try:
                sums, counts = self._gradients(items, epoch)
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error):
                    raise
                failed = True
            if not self.processes.any(failed):
                break
            self._halve(len(items))
        self._update()
        self.processes.sum(sums)
        sums[1], sums[4] = counts[0], counts[1]
        return sums

    def _halve(self, items: int) -> None:
        """Make room for the step to be taken again.

        Raises:
            OutOfMemoryError: nothing is left to cut.
        """
        self.model.zero_grad(set_to_none=True)
        if self.processes.device.type == "cuda":
            torch.cuda.empty_cache()
        share_of_rank = -(-items // self.processes.world)
        if self.micro_batches < share_of_rank:
            self.micro_batches = min(share_of_rank, 2 * self.micro_batches)
            self._say(f"out of memory: {self.micro_batches} micro-batches a step from now on")
        elif self.model.encoder.compute.recompute != "layers":
            compute = self.model.encoder.compute
            self.model.encoder.compute = replace(compute, recompute="layers", join=1)
            self._say("out of memory: layers are recomputed from now on")
        else:
            raise OutOfMemoryError(
                "out of memory with single passages and recomputed layers; try "
                "--optimizer-states 8bit (with --parallel ddp), a smaller model, or shorter "
                "windows (preprocess --max-length)"
            )

    def _gradients(self, items: list[int], epoch: int) -> tuple[Tensor, Tensor]:
        """Gradients of this process's share of a global batch; its sums, and the global counts."""
        processes, settings = self.processes, self.settings
        shares = share(items, processes.rank, processes.world, self.micro_batches)
        micro = [self.collate(part, epoch) for part in shares]
        counts = self._counts(micro)
        sums = torch.zeros(5, device=processes.device)
        with self.model.encoder.unchanged():
            for batch in micro:
                output = self.model(batch.to(processes.device))
                loss = output.loss_sum / counts[0]
                sums[0] += output.loss_sum.detach()
                sums[2] += output.num_correct
                if output.masked_loss_sum is not None:
                    loss = loss + settings.mask_weight * output.masked_loss_sum / counts[1]
                    sums[3] += output.masked_loss_sum.detach()
                self.scaler.scale(loss).backward()
        return sums, counts

    def _counts(self, micro: list[Batch]) -> Tensor:
        """Answered questions and hidden words of the global batch, at least 1 each."""
        answered = sum(int((batch.answer_Q >= 0).sum()) for batch in micro)
        hidden = sum(0 if b.masked_index_M is None else len(b.masked_index_M) for b in micro)
        counts = torch.tensor([answered, hidden], dtype=torch.float32, device=self.processes.device)
        self.processes.sum(counts)
        return counts.clamp(min=1)

    def _update(self) -> None:
        """Sum gradients over the processes, clip, and move the weights."""
        self.parallel.reduce()
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        self.scaler.unscale_(self.optimizer)
        if self.settings.clip:
            nn.utils.clip_grad_norm_(parameters, self.settings.clip, foreach=True)
        set_rate(self.optimizer, self._rate())
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)

    def _rate(self) -> float:
        settings = self.settings
        return linear_rate(
            self.progress.step, self.total_steps, settings.learning_rate, settings.warmup
        )

    def _after_step(self, tally: Tally, on_step: Callable[[StepReport], None] | None) -> Tally:
        step = self.progress.step
        full = len(tally.parts) >= WINDOW
        if on_step is not None and self.processes.is_main and (full or step % 10 == 0 or step < 10):
            on_step(self._report(tally))
        return self._note(tally) if full else tally

    def _note(self, tally: Tally) -> Tally:
        """Write the steps so far into the metrics, and begin a new tally."""
        if self.record is not None and tally.parts:
            report, totals = self._report(tally), tally.totals()
            values = {
                "epoch": round(report.epoch, 4),
                "loss": round(report.loss, 5),
                "accuracy": round(report.accuracy, 5),
                "learning_rate": self._rate(),
                "passages_per_second": round(report.passages_per_second, 3),
            }
            if self.collate.hider is not None:
                values["masked_loss"] = round(totals[3] / totals[4], 5)
            self.record.metrics("train", self.progress.step, values)
        return Tally()

    def _check_weights(self) -> None:
        """Refuse to keep weights that are no numbers any more; the last good state stays."""
        if self.processes.any(not all(bool(p.isfinite().all()) for p in self.parallel.own())):
            raise UsageError(
                f"the weights are no numbers any more at step {self.progress.step}: the run has "
                f"diverged; lower --learning-rate {self.settings.learning_rate} or raise --warmup"
            )

    def _report(self, tally: Tally) -> StepReport:
        loss, answered, correct, _, _ = tally.totals()
        return StepReport(
            step=self.progress.step,
            total_steps=self.total_steps,
            epoch=self.progress.step / self.steps_per_epoch,
            loss=loss / max(1.0, answered),
            accuracy=correct / max(1.0, answered),
            passages_per_second=tally.items / max(1e-9, time.perf_counter() - tally.started),
            best_accuracy=self.progress.best_accuracy,
        )

    def _evaluate(self) -> bool:
        """Score the dev store, keep the weights if they are the best; whether to stop early."""
        if self.dev_store is None or not self.dev_store.has_answers:
            return False
        with self.parallel.gathered():
            scored_QK = score(self.model, self.tokenizer, self.dev_store, self.processes)
        accuracy = self.dev_store.accuracy(scored_QK.argmax(-1))
        assert accuracy is not None
        answer_Q = self.dev_store.tensors["answer"].long()
        known_Q = answer_Q >= 0
        loss = float(-scored_QK[known_Q].gather(1, answer_Q[known_Q, None]).mean())
        progress, step = self.progress, self.progress.step
        best = progress.best_accuracy is None or accuracy > progress.best_accuracy
        if best:
            progress.best_accuracy, progress.best_step = accuracy, step
            progress.evaluations_without_gain = 0
            self._save_weights()
        else:
            progress.evaluations_without_gain += 1
        if self.record is not None:
            values = {
                "epoch": round(step / self.steps_per_epoch, 4),
                "loss": round(loss, 5),
                "accuracy": round(accuracy, 5),
                "questions": int(known_Q.sum()),
                "best": best,
            }
            self.record.metrics("dev", step, values)
        mark = "the best so far, saved" if best else f"best {progress.best_accuracy:.2%}"
        self._say(f"step {step}: dev accuracy {accuracy:.2%}, loss {loss:.4f} ({mark})")
        patience = self.settings.patience
        if patience is not None and progress.evaluations_without_gain >= patience:
            self._say(f"no gain in {patience} evaluations: stopped early")
            return True
        return False

    def _save_weights(self) -> None:
        with self.parallel.gathered():
            if self.processes.is_main:
                save_model(self.model, self.tokenizer, self.folder)
        self.processes.wait()

    def _save_state(self) -> None:
        save_state(
            self.folder,
            self.parallel,
            self.optimizer,
            self.scaler,
            self.progress,
            self.settings,
            self._data(),
        )

    def _say(self, line: str) -> None:
        if self.record is not None:
            self.record.say(line)
        if self._told is not None and self.processes.is_main:
            self._told(line)
