"""The fine-tuning objective: questions with options, and an auxiliary masked-LM loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from albert_rc.answering.quality import quality
from albert_rc.answering.score import score
from albert_rc.batch import Batch
from albert_rc.model.heads import ClozeHead, ReadingModel
from albert_rc.papers.schema import letter
from albert_rc.runtime.devices import Processes
from albert_rc.stores.batches import BatchOrder, Collator, ragged
from albert_rc.stores.masking import WordHider
from albert_rc.stores.store import Store
from albert_rc.text.tokenizer import Tokenizer
from albert_rc.training.config import TrainConfig
from albert_rc.training.health.vitals import Vitals
from albert_rc.training.objective import DevScore, Objective, stores_identity
from albert_rc.training.objectives.answer_loss import taught_loss

UNITS = {"cloze": "windows", "choice": "questions", "label": "rows"}
"""Names of the items of a batch, by kind of papers."""
LETTERS = 8
"""Number of letters that answers are counted by; the last one includes all further letters."""


def answer_sums(batch: Batch, logits_QK: Tensor) -> Tensor:
    """Statistics of answers and guesses, summed over the questions whose answer is known.

    Args:
        batch: on the model's device.
        logits_QK: its logits.

    Returns:
        ln(#options), 1/#options, how often each letter was chosen, how often each was right;
        zeros for regression.
    """
    sums = logits_QK.new_zeros(2 + 2 * LETTERS)
    if batch.value_Q is not None:
        return sums
    known_Q = (batch.answer_Q >= 0).float()
    options_Q = known_Q.new_zeros(batch.num_questions)
    owner_O = batch.option_slot_O // batch.num_options
    options_Q.index_add_(0, owner_O, known_Q.new_ones(1).expand(len(owner_O)))
    sums[0] = (known_Q * options_Q.log()).sum()
    sums[1] = (known_Q / options_Q).sum()
    last = LETTERS - 1
    sums.index_add_(0, 2 + logits_QK.detach().argmax(-1).clamp(max=last), known_Q)
    sums.index_add_(0, 2 + LETTERS + batch.answer_Q.clamp(0, last), known_Q)
    return sums


class Reading(Objective[Batch]):
    """Training to answer the questions of a store.

    Args:
        model: the encoder and its head.
        tokenizer: the model's.
        train_store: the training questions.
        dev_store: selects the best weights; without one the last are kept.
        settings: the recipe.
        chance_O: a teacher's probabilities of all options of `train_store`, see `Teacher`.
        teacher_id: the teacher's identity, which a resumed run must have in common.

    Raises:
        UsageError: the recipe does not suit these questions or this model.
    """

    num_sums = 3 + 2 + 2 * LETTERS
    num_counts = 3

    def __init__(
        self,
        model: ReadingModel,
        tokenizer: Tokenizer,
        train_store: Store,
        dev_store: Store | None,
        settings: TrainConfig,
        chance_O: Tensor | None = None,
        teacher_id: str = "",
    ) -> None:
        self.model: ReadingModel = model
        self.tokenizer = tokenizer
        self.train_store = train_store
        self.dev_store = dev_store
        self.score_name, self.unit = train_store.score_name, UNITS[train_store.kind]
        self.mask_weight = settings.mask_weight
        self.chance_O, self.teacher_weight = chance_O, settings.teacher_weight
        self.teacher_id = teacher_id
        names = [*train_store.labels] or [letter(place) for place in range(LETTERS)]
        if int(train_store.num_options.max()) > LETTERS:  # see `answer_sums`
            names[LETTERS - 1 :] = [f"{names[LETTERS - 1]} or later"]
        self.answer_names = names
        if chance_O is not None:
            self.num_sums = type(self).num_sums + 1  # the loss with the teacher's probabilities
        self.hider = None
        if settings.mask_rate and train_store.kind == "cloze":
            self.hider = WordHider(tokenizer, settings.mask_rate, settings.seed)
        self.collate = Collator(train_store, tokenizer, self.hider)
        self.order = BatchOrder(
            lengths=train_store.lengths, batch_size=settings.batch_size, seed=settings.seed
        )

    def begin(self) -> None:
        if self.hider is not None and isinstance(self.model.head, ClozeHead):
            words = self.train_store.tensors["token"].long()
            count_V = torch.bincount(words, minlength=self.model.config.vocab_size)
            self.model.head.set_prior(count_V)

    def batch(self, items: Sequence[int], epoch: int) -> Batch:
        batch = self.collate(items, epoch)
        if self.chance_O is None:
            return batch
        counts = self.train_store.num_options
        first_Q = (counts.cumsum(0) - counts)[batch.question_Q]
        option_O, _, _ = ragged(first_Q, counts[batch.question_Q])
        return replace(batch, chance_O=self.chance_O[option_O])

    def counts(self, batch: Batch) -> list[int]:
        hidden = 0 if batch.masked_index_M is None else len(batch.masked_index_M)
        learned_Q = known_Q = batch.answer_Q >= 0
        if batch.chance_O is not None:
            learned_Q = known_Q | batch.by_question(batch.chance_O)[:, 0].isfinite()
        return [int(known_Q.sum()), hidden, int(learned_Q.sum())]

    def losses(self, batch: Batch, counts: Tensor) -> tuple[Tensor, Tensor]:
        output = self.model(batch)
        hidden = output.masked_loss_sum
        answers = output.loss_sum
        if batch.chance_O is not None:
            chance_QK = batch.by_question(batch.chance_O)
            answers = taught_loss(output.logits_QK, batch.answer_Q, chance_QK, self.teacher_weight)
        loss = answers / counts[2]
        if hidden is not None:
            loss = loss + self.mask_weight * hidden / counts[1]
        masked = loss.new_zeros(()) if hidden is None else hidden.detach()
        plain = torch.stack([output.loss_sum.detach(), output.num_correct.float(), masked])
        sums = [plain, answer_sums(batch, output.logits_QK)]
        if batch.chance_O is not None:
            sums.append(answers.detach()[None])
        return loss, torch.cat(sums)

    def report(self, sums: Sequence[float], counts: Sequence[float]) -> dict[str, float]:
        """Metrics of some steps; `loss` is the plain cross-entropy of the known answers.

        `taught_loss` is the loss with the teacher's probabilities, and also `loss` if no answer is
        known: then there is no `accuracy`.
        """
        known, hidden, learned = (max(1.0, count) for count in counts)
        figures = {"loss": sums[0] / known, "accuracy": sums[1] / known}
        if self.chance_O is not None:
            taught = sums[-1] / learned
            figures = (figures if counts[0] else {"loss": taught}) | {"taught_loss": taught}
        if self.hider is not None:
            figures["masked_loss"] = sums[2] / hidden
        return figures

    def vitals(self, sums: Sequence[float], counts: Sequence[float]) -> Vitals:
        lost, right, _, chance, guessed, *letters = sums
        loss = self.report(sums, counts)["loss"]
        if self.train_store.is_numeric:
            return Vitals(loss)
        return Vitals(
            loss=loss,
            questions=counts[0],
            lost=lost,
            chance=chance,
            right=right,
            guessed=guessed,
            chosen=tuple(letters[:LETTERS]),
            gold=tuple(letters[LETTERS : 2 * LETTERS]),
        )

    def evaluate(self, processes: Processes) -> DevScore | None:
        if self.dev_store is None or not self.dev_store.has_answers:
            return None
        scored_QK = score(self.model, self.tokenizer, self.dev_store, processes)
        found = quality(self.dev_store, scored_QK)
        said = ", ".join(f"{name} {value:.2%}" for name, value in found.metrics.items())
        metrics = {name: round(value, 5) for name, value in found.metrics.items()}
        return DevScore(
            score=found.score,
            values={"loss": round(found.loss, 5), **metrics, "questions": found.questions},
            line=f"dev {said}, loss {found.loss:.4f}",
        )

    def identity(self) -> dict[str, Any]:
        stores = stores_identity(self.train_store, self.dev_store)
        found = super().identity() | stores | {"--option-score": self.model.option_score}
        if self.chance_O is not None:
            found["--teacher"] = self.teacher_id
        return found
