"""One optimiser step on a global batch: gradients, their sum over processes, and the update."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Generic

import torch
from torch import Tensor, nn

from albert_rc.errors import OutOfMemoryError, UsageError
from albert_rc.runtime.devices import Processes, is_out_of_memory
from albert_rc.runtime.heap import hand_back
from albert_rc.training.config import TrainConfig
from albert_rc.training.feed import Feed, micro_batches
from albert_rc.training.objective import BatchT, Objective
from albert_rc.training.optim import set_rate, step_if_finite


class Stepper(Generic[BatchT]):
    """Takes the optimiser's steps.

    Args:
        objective: the training objective.
        settings: the recipe.
        processes: the ranks that share the work.
        optimizer: the model's optimiser.
        scaler: loss scaler, for fp16.
        last: the step after the last one.
        workers: processes that make batches ahead of time; with 0, they are made in the step.
        say: called with a message when micro-batches are split for lack of memory.
    """

    def __init__(
        self,
        objective: Objective[BatchT],
        settings: TrainConfig,
        processes: Processes,
        optimizer: torch.optim.Optimizer,
        scaler: torch.amp.GradScaler,
        *,
        last: int,
        workers: int,
        say: Callable[[str], None],
    ) -> None:
        self.objective = objective
        self.settings = settings
        self.processes = processes
        self.optimizer = optimizer
        self.scaler = scaler
        self.last = last
        self.workers = workers
        self.say = say
        self.micro_batches = settings.accumulation
        self.cut: dict[str, Any] = {}
        """How micro-batches were split for lack of memory, and with how many processes."""
        self._step = 0
        self._feed: Feed[BatchT] | None = None

    def forget_batches(self) -> None:
        """Stop making batches ahead: the order changes, or the run ends."""
        feed, self._feed = self._feed, None
        if feed is not None:
            feed.close(lost=False)

    @contextmanager
    def explaining_lost_workers(self) -> Iterator[None]:
        """Explain to the user that a process that prepares batches was killed.

        Raises:
            UsageError: one was.
        """
        try:
            yield
        except Exception as error:
            feed = self._feed
            why = None if feed is None else feed.why_lost(error)
            if feed is None or why is None:
                raise
            self._feed = None
            feed.close(lost=True)
            raise UsageError(
                f"a process that prepares batches {why}; run the same command with --resume to "
                "continue from the last saved state, with fewer such processes (--set workers=1, "
                "or 0 for none) if it happens again"
            ) from None

    def cut_as(self, cut: dict[str, Any]) -> None:
        """Restore the splitting of a resumed run: other micro-batches would round differently.

        With a different number of processes each has a different share, and splitting starts over.
        """
        if cut and cut["processes"] == self.processes.world:
            self.cut = dict(cut)
            self.micro_batches = max(self.micro_batches, cut["micro_batches"])
            if cut.get("layers_recomputed"):
                self._recompute_layers()

    def take(
        self, items: list[int], epoch: int, step: int, rate: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One optimiser step on a global batch.

        If the gradient is not finite, the weights stay unchanged.
        If memory runs out, all processes halve their micro-batches and repeat the step.

        Args:
            items: indices of the global batch's items.
            epoch: the current epoch.
            step: the step's number, from 0.
            rate: the learning rate.

        Returns:
            The objective's sums and counts over all processes, and the gradient's norm, [1].
        """
        self._step = step
        while True:
            micro = self._micro_batches(items, epoch, step)
            counts = self._counts(micro)
            sums = self._passed(micro, counts.clamp(min=1))
            if sums is not None:
                break
            self._halve(len(items))
        norm = self.update(rate)
        if self.processes.device.type == "cpu":
            hand_back()
        # The norms may differ slightly between processes; their mean is bit-identical on all.
        sums = torch.cat([sums, norm[None] / self.processes.world])
        self.processes.sum(sums)
        return sums[:-1], counts, sums[-1:]

    def _halve(self, items: int) -> None:
        """Halve the micro-batches, for repeating the step.

        Raises:
            OutOfMemoryError: they cannot be split further.
        """
        encoder = self.objective.encoder
        self.objective.model.zero_grad(set_to_none=True)
        self.forget_batches()
        if self.processes.device.type == "cuda":
            torch.cuda.empty_cache()
        share_of_rank = -(-items // self.processes.world)
        if self.micro_batches < share_of_rank:
            self.micro_batches = min(share_of_rank, 2 * self.micro_batches)
            self.say(f"out of memory: {self.micro_batches} micro-batches per step from now on")
        elif encoder.compute.recompute != "layers":
            self._recompute_layers()
            self.say("out of memory: layers are recomputed from now on")
        else:
            raise OutOfMemoryError(
                "out of memory with single passages and recomputed layers; try "
                "--set optimizer_states=8bit, a smaller model, or shorter windows (--max-length of "
                "`preprocess` or `pretrain data`)"
            )
        self.cut |= {"processes": self.processes.world, "micro_batches": self.micro_batches}

    def _recompute_layers(self) -> None:
        encoder = self.objective.encoder
        encoder.compute = replace(encoder.compute, recompute="layers")
        self.cut["layers_recomputed"] = True

    def _passed(self, micro: list[BatchT], counts: Tensor) -> Tensor | None:
        """`passes`, or None if memory runs out in any process."""
        sums = None
        try:
            sums = self.passes(micro, counts)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
        return None if self.processes.any(sums is None) else sums

    def passes(self, micro: list[BatchT], counts: Tensor) -> Tensor:
        """Run forward and backward passes, accumulating gradients.

        Args:
            micro: this process's share of a global batch, in micro-batches.
            counts: the objective's counts for the global batch, at least 1 each.

        Returns:
            The objective's sums over this process's share.
        """
        device = self.processes.device
        sums = torch.zeros(self.objective.num_sums, device=device)
        with self.objective.encoder.unchanged():
            for number, batch in enumerate(micro):
                place = (self.objective.order.seed, self._step, self.processes.rank, number)
                self.objective.encoder.place = place
                loss, parts = self.objective.losses(batch.to(device), counts)
                sums += parts
                self.scaler.scale(loss).backward()
        return sums

    def _micro_batches(self, items: list[int], epoch: int, step: int) -> list[BatchT]:
        rank, world, pieces = self.processes.rank, self.processes.world, self.micro_batches
        if not self.workers:
            return micro_batches(self.objective, items, epoch, rank, world, pieces)
        if self._feed is None:
            self._feed = Feed(
                self.objective,
                first=step,
                last=self.last,
                rank=rank,
                world=world,
                pieces=pieces,
                workers=self.workers,
                pinned=self.processes.device.type == "cuda",
            )
        return next(self._feed)

    def _counts(self, micro: list[BatchT]) -> Tensor:
        """The objective's counts for the global batch."""
        found = torch.zeros(self.objective.num_counts, dtype=torch.float32)
        for batch in micro:
            found += torch.tensor(self.objective.counts(batch), dtype=torch.float32)
        counts = found.to(self.processes.device)
        self.processes.sum(counts)
        return counts

    # Processes communicate between passes, never within one. A process may have fewer micro-batches
    # than another, or none, and may run out of memory during one; hooks that communicate in the
    # forward or backward pass would leave the others waiting.
    def _sum_gradients(self) -> None:
        """Sum the gradients over all processes, in place."""
        if self.processes.world == 1:
            return
        # With shared layers every gradient is complete only at the end of the backward pass, so
        # there is nothing to overlap: one message is enough.
        gradients = []
        for parameter in self.objective.model.parameters():
            if parameter.requires_grad:
                if parameter.grad is None:  # not used in this process's passes
                    parameter.grad = torch.zeros_like(parameter)
                gradients.append(parameter.grad)
        self.processes.sum(*gradients)

    def update(self, rate: float) -> Tensor:
        """Sum gradients over the processes, clip, and update the weights; the gradient's norm."""
        self._sum_gradients()
        parameters = [p for p in self.objective.model.parameters() if p.requires_grad]
        if self.scaler.is_enabled():
            # It begins with the first loss, and a process may have had none yet.
            self.scaler.scale(torch.zeros((), device=self.processes.device))
        self.scaler.unscale_(self.optimizer)
        gradients = [p.grad for p in parameters if p.grad is not None]
        norm = nn.utils.get_total_norm(gradients, foreach=True)
        if self.settings.clip:
            nn.utils.clip_grads_with_norm_(parameters, self.settings.clip, norm, foreach=True)
        set_rate(self.optimizer, rate)
        if self.scaler.is_enabled():
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            step_if_finite(self.optimizer, norm)
        self.optimizer.zero_grad(set_to_none=True)
        return norm
