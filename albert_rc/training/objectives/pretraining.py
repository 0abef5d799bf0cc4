"""The pretraining objective: masked words, and the order of two segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import torch
from torch import Tensor

from albert_rc.batch import PretrainBatch
from albert_rc.checkpoints.load import Loaded, load_model
from albert_rc.corpus.batches import PAIRS, PretrainCollator
from albert_rc.corpus.mask_config import MaskConfig
from albert_rc.corpus.shards import Corpus
from albert_rc.errors import UsageError
from albert_rc.io.files import sha256
from albert_rc.model.config import EncoderConfig
from albert_rc.model.encoder import evaluating
from albert_rc.model.int8 import NEEDED, has_int8
from albert_rc.model.pretraining_head import PretrainingModel
from albert_rc.runtime.devices import Processes
from albert_rc.stores.batches import BatchOrder, batches_by_length
from albert_rc.text.tokenizer import Tokenizer
from albert_rc.training.config import TrainConfig
from albert_rc.training.objective import DevScore, Objective

TOKEN_BUDGET = 8192
RECIPES: dict[str, dict[str, Any]] = {
    "paper": {  # Lan et al. 2020, section 4.1, and the original's own LAMB
        "optimizer": "lamb-albert",
        "learning_rate": 0.00176,
        "batch_size": 4096,
        "max_steps": 125_000,
        "warmup": 3125 / 125_000,
    },
    "small": {
        "optimizer": "adamw",
        "learning_rate": 1e-3,
        "batch_size": 32,
        "epochs": 10,
        "warmup": 0.02,
    },
}
"""Settings by name; each may be overridden."""
CLEAR = 3.0
"""Standard errors above 50% from which on the accuracy of pairs counts in the score."""
DEV_SEED = 0  # independent of the run's seed: all runs are evaluated on the same questions


def open_teacher(
    source: str, tokenizer: Tokenizer, precision: str, device: torch.device
) -> PretrainingModel:
    """Open a teacher for masked words.

    Args:
        source: its folder or hub id.
        tokenizer: the student's.
        precision: of its matrix products, `same` as the student's or `int8`.
        device: where it will run.

    Raises:
        UsageError: unknown model, or one with another vocabulary or no masked-LM head, or int8
            where the device has no such products.
        CheckpointError: unusable weights.
    """
    if precision == "int8" and not has_int8(device):
        raise UsageError(f"--teacher-precision int8: {NEEDED}; use same here")
    loaded: Loaded[PretrainingModel] = load_model(source, "pretraining", with_pairs=False)
    if loaded.tokenizer.fingerprint != tokenizer.fingerprint:
        raise UsageError(
            f"--teacher {source} has a different vocabulary; in pretraining, teacher and student "
            "must share one"
        )
    if loaded.report.new:
        raise UsageError(
            f"--teacher {source} was not trained to predict masked words; pretrain it first"
        )
    return loaded.model


def check_teacher(
    source: str, teacher: EncoderConfig, student: EncoderConfig, corpus: Corpus
) -> None:
    """Refuse a teacher whose shape does not allow it to teach a student on a corpus.

    Args:
        source: its folder or hub id.
        teacher: its shape.
        student: the student's shape.
        corpus: the training sequences.

    Raises:
        UsageError: embeddings for another number of pieces (padded vocabularies), or sequences
            longer than the teacher takes.
    """
    if teacher.vocab_size != student.vocab_size:
        raise UsageError(
            f"--teacher {source} has embeddings for {teacher.vocab_size:,} pieces, and the student "
            f"for {student.vocab_size:,}; start the student from a model with as many (--model)"
        )
    longest = corpus.meta["max_length"]
    if longest > teacher.max_length:
        raise UsageError(
            f"{corpus.folder}: has sequences of {longest:,} tokens, but --teacher {source} takes "
            f"{teacher.max_length:,}; make it again with `albert-rc pretrain data` and "
            f"--max-length {teacher.max_length}"
        )


class Pretraining(Objective[PretrainBatch]):
    """Pretraining on a corpus.

    Args:
        model: the encoder and its head.
        tokenizer: the model's.
        corpus: the training sequences.
        dev: sequences of other documents, for evaluation; or None.
        settings: the recipe.
        masking: settings of word masking.
        pair: a key of `PAIRS`.
        teacher: a model with the same vocabulary whose probabilities of masked words, and hidden
            states if of the same width, are learned as well.

    Raises:
        UsageError: unknown pair objective, or the model has no head for it.
        DataError: a corpus does not allow the pair objective.
    """

    unit = "sequences"
    num_sums = 4
    num_counts = 2

    def __init__(
        self,
        model: PretrainingModel,
        tokenizer: Tokenizer,
        corpus: Corpus,
        dev: Corpus | None,
        settings: TrainConfig,
        masking: MaskConfig,
        pair: str,
        teacher: PretrainingModel | None = None,
    ) -> None:
        if pair not in PAIRS:
            raise UsageError(f"--pair {pair}: choose from {', '.join(PAIRS)}")
        self.model: PretrainingModel = model
        self.tokenizer = tokenizer
        self.corpus, self.dev = corpus, dev
        self.masking, self.pair, self.pair_weight = masking, pair, settings.pair_weight
        words = "accuracy of masked words"
        self.score_name = words if pair == "none" else f"mean of {words} and {pair}"
        self.teacher, self.teacher_weight = teacher, settings.teacher_weight
        self.teacher_precision = settings.teacher_precision
        self.collate = PretrainCollator(corpus, tokenizer, masking, pair, settings.seed)
        # Now, so that held-out text on which `pair` is impossible is refused before the first step.
        self.collate_dev = (
            None if dev is None else PretrainCollator(dev, tokenizer, masking, pair, DEV_SEED)
        )
        self.order = BatchOrder(
            lengths=corpus.lengths, batch_size=settings.batch_size, seed=settings.seed
        )

    def begin(self) -> None:
        if self.teacher is not None:
            self.teacher.to(self.model.words.device).eval()
            chosen = self.teacher_precision
            self.teacher.encoder.compute = replace(
                self.teacher.encoder.compute,
                precision=self.encoder.compute.precision if chosen == "same" else chosen,
            )
            self.teacher.encoder.freeze()

    def batch(self, items: Sequence[int], epoch: int) -> PretrainBatch:
        return self.collate(items, epoch)

    def counts(self, batch: PretrainBatch) -> list[int]:
        return [len(batch.masked_token_M), int((batch.pair_B >= 0).sum())]

    def losses(self, batch: PretrainBatch, counts: Tensor) -> tuple[Tensor, Tensor]:
        lesson = None
        if self.teacher is not None and self.model.training:
            lesson = self.teacher.teach(batch, self.teacher_weight)
        output = self.model(batch, lesson)
        pairs = self.pair_weight * output.pair_loss_sum / counts[1]
        loss = output.masked_loss_sum / counts[0] + pairs
        sums = [
            output.plain_loss_sum.detach(),
            output.masked_correct,
            output.pair_loss_sum.detach(),
            output.pair_correct.float(),
        ]
        return loss, torch.stack(sums)

    def report(self, sums: Sequence[float], counts: Sequence[float]) -> dict[str, float]:
        words, pairs = max(1.0, counts[0]), max(1.0, counts[1])
        figures = {"loss": sums[0] / words, "accuracy": sums[1] / words}
        if self.pair != "none":
            figures |= {"pair_loss": sums[2] / pairs, "pair_accuracy": sums[3] / pairs}
        return figures

    def evaluate(self, processes: Processes) -> DevScore | None:
        if self.dev is None or self.collate_dev is None:
            return None
        batches = list(batches_by_length(self.dev.lengths, TOKEN_BUDGET, TOKEN_BUDGET))
        sums = torch.zeros(self.num_sums + self.num_counts, device=processes.device)
        one = torch.ones(self.num_counts, device=processes.device)
        with evaluating(self.model, self.encoder):
            for items in processes.share(batches):
                batch = self.collate_dev(items)
                _, parts = self.losses(batch.to(processes.device), one)
                counts = torch.tensor(self.counts(batch), device=processes.device)
                sums += torch.cat([parts, counts])
        processes.sum(sums)
        totals = sums.tolist()
        figures = self.report(totals[: self.num_sums], totals[self.num_sums :])
        line = f"dev accuracy of masked words {figures['accuracy']:.2%}, loss {figures['loss']:.4f}"
        score = figures["accuracy"]
        if self.pair != "none":
            line += f", {self.pair} {figures['pair_accuracy']:.2%}"
            score = (score + above_chance(figures["pair_accuracy"], totals[-1])) / 2
        return DevScore(
            score=score,
            values={name: round(value, 5) for name, value in figures.items()},
            line=line,
        )

    def identity(self) -> dict[str, Any]:
        found = super().identity() | {
            "corpus": self.corpus.hash,
            "dev corpus": None if self.dev is None else self.dev.hash,
            "masking": asdict(self.masking),
            "--pair": self.pair,
        }
        if self.teacher is not None:
            found["--teacher"] = sha256(self.teacher.words.detach().cpu().numpy().tobytes())[:16]
            # Of all layers; its matrices may be quantised by now.
            vectors = [p for p in self.teacher.parameters() if p.ndim == 1]
            flat = torch.cat([p.detach().float().cpu() for p in vectors])
            found["layers of --teacher"] = sha256(flat.numpy().tobytes())[:16]
        return found


def above_chance(accuracy: float, pairs: float) -> float:
    """The accuracy of pairs where it is clearly above chance, else chance.

    Without this, luck would select the weights of a model that has not learned the order.

    Args:
        accuracy: share of right pairs.
        pairs: their number.
    """
    error = 0.5 / max(1.0, pairs) ** 0.5
    return accuracy if accuracy > 0.5 + CLEAR * error else 0.5
