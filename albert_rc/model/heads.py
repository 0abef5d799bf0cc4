"""Reading heads: from hidden states to a logit per option.

The cloze head is the masked-LM head, computed only at the blanks and for the pieces of the
options; the choice head is a pooled [CLS] and one linear unit.
"""

# S read tokens, D hidden, E embedding, Q questions, K options of a question, O options of all,
# P pieces of all options, M masked positions, V vocabulary

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from albert_rc.batch import Batch, Tokens
from albert_rc.model.config import EncoderConfig
from albert_rc.model.encoder import Encoder, initialise
from albert_rc.model.feed_forward import activation
from albert_rc.model.rows import rows_at
from albert_rc.model.word_loss import Taught, product_dtype, taught_word_loss

NEAR = 0.5
"""Maximum error of a regression to count as right in the displayed accuracy."""


@dataclass(frozen=True, kw_only=True)
class Output:
    """Result of a forward pass. Losses are sums: the loop divides by the global count."""

    logits_QK: Tensor
    """-inf if a question has fewer than K options."""
    loss_sum: Tensor
    """Cross-entropy in nats (squared error for regression) summed over the questions whose
    answer is known."""
    num_correct: Tensor
    masked_loss_sum: Tensor | None = None
    """Cross-entropy summed over the tokens masked by `masking`."""


def _equal_weights(head: ClozeHead, batch: Batch, vector_PE: Tensor) -> Tensor:
    return torch.ones_like(vector_PE[:, 0])


def _first_piece(head: ClozeHead, batch: Batch, vector_PE: Tensor) -> Tensor:
    assert batch.piece_place_P is not None
    return (batch.piece_place_P == 0).to(vector_PE.dtype)


def _salience(head: ClozeHead, batch: Batch, vector_PE: Tensor) -> Tensor:
    assert head.salience is not None
    return torch.exp((vector_PE * head.salience).sum(-1))


OPTION_SCORES: dict[str, Callable[[ClozeHead, Batch, Tensor], Tensor]] = {
    "mean": _equal_weights,
    "first": _first_piece,
    "salience": _salience,
}
"""Weights of an option's pieces; its logit is the weighted mean of their logits.

`salience` learns one vector u and weights a piece by exp(u . embedding), so that the informative
piece of "gave up" dominates; u starts at zero, where it equals `mean`.
"""


class ClozeHead(nn.Module):
    """The masked-LM head at the blanks: dense, activation, norm, tied embeddings, bias."""

    def __init__(self, config: EncoderConfig, option_score: str = "mean") -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.embedding_size)
        self.norm = nn.LayerNorm(config.embedding_size, eps=config.norm_eps)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.salience: nn.Parameter | None = None
        if option_score == "salience":
            self.salience = nn.Parameter(torch.zeros(config.embedding_size))
        self.weigh = OPTION_SCORES[option_score]
        self.log_prior_V: Tensor | None = None
        # RoBERTa's and MPNet's head has GELU whatever the encoder has, as in transformers.
        of_head = "gelu" if config.family in ("roberta", "mpnet") else config.activation
        self.activation = activation(of_head)

    def transform(self, hidden_XD: Tensor) -> Tensor:
        """Hidden states to the space of the word embeddings, [X, E]."""
        moved: Tensor = self.norm(self.activation(self.dense(hidden_XD)))
        return moved

    def option_logits(self, hidden_SD: Tensor, batch: Batch, word_VE: Tensor) -> Tensor:
        """A logit per option, [O]."""
        assert batch.blank_index_Q is not None
        assert batch.piece_P is not None
        blank_QE = self.transform(rows_at(hidden_SD, batch.blank_index_Q))
        vector_PE = F.embedding(batch.piece_P, word_VE).float()
        # Products of a few hundred rows: fp32 costs nothing and keeps close options apart.
        logit_P = (rows_at(blank_QE.float(), batch.question_of_pieces) * vector_PE).sum(-1)
        bias_P = rows_at(self.bias, batch.piece_P)
        return self.of_options(batch, logit_P + bias_P, vector_PE)

    def of_options(self, batch: Batch, logit_P: Tensor, vector_PE: Tensor) -> Tensor:
        """The options' logits, [O]: the mean of their pieces' logits, weighted by `weigh`.

        Args:
            batch: the batch of the pieces.
            logit_P: logit of each piece at its blank.
            vector_PE: the pieces' embeddings, in fp32.
        """
        assert batch.piece_option_P is not None
        weight_P = self.weigh(self, batch, vector_PE)
        total_O = logit_P.new_zeros(batch.option_slot_O.shape)
        weight_O = total_O.index_add(0, batch.piece_option_P, weight_P)
        total_O = total_O.index_add(0, batch.piece_option_P, weight_P * logit_P)
        return total_O / weight_O

    def set_prior(self, count_V: Tensor) -> None:
        """Set the pieces' counts in the training text, for the auxiliary loss."""
        smoothed_V = count_V.float() + 0.1
        self.log_prior_V = (smoothed_V / smoothed_V.sum()).log().to(self.bias.device)

    def word_loss(
        self,
        hidden_MD: Tensor,
        token_M: Tensor,
        word_VE: Tensor,
        precision: str = "fp32",
        taught: Taught | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Masked-LM cross-entropy over the whole vocabulary at masked tokens, summed, in nats.

        After `set_prior` the logits are adjusted by the pieces' log frequency (Menon et al. 2021,
        section 4): the head then learns how much likelier a word is here than on average. That
        separates the options of a blank, since the right one need not be the most frequent word.

        Args:
            hidden_MD: hidden states at the masked tokens.
            token_M: ids of the masked tokens.
            word_VE: the word embeddings.
            precision: the model's precision.
            taught: a teacher's prediction for the tokens.

        Returns:
            The loss; the loss without the teacher's part; the number of correct predictions.
        """
        offset_V = self.bias if self.log_prior_V is None else self.bias + self.log_prior_V
        vector_ME = self.transform(hidden_MD)
        return taught_word_loss(
            vector_ME, word_VE, offset_V, token_M, taught, product_dtype(precision)
        )


class ChoiceHead(nn.Module):
    """Pooled [CLS] of each `passage, question option` pair, and one logit for it."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.pooler = nn.Linear(config.hidden_size, config.hidden_size)
        self.dropout = nn.Dropout(config.classifier_dropout)
        self.classifier = nn.Linear(config.hidden_size, 1)

    def option_logits(self, hidden_SD: Tensor, batch: Batch, word_VE: Tensor) -> Tensor:
        """A logit per option, [O]; rows of the batch are options."""
        pooled_OD = self.dropout(torch.tanh(self.pooler(hidden_SD)))
        logit_O: Tensor = self.classifier(pooled_OD)[:, 0].float()
        return logit_O


class LabelHead(nn.Module):
    """Pooled [CLS] of each row, and a logit for each label; a single output is a regression."""

    def __init__(self, config: EncoderConfig, num_labels: int) -> None:
        super().__init__()
        self.pool = nn.Linear(config.hidden_size, config.hidden_size)
        self.dropout = nn.Dropout(config.classifier_dropout)
        self.label = nn.Linear(config.hidden_size, num_labels)

    def option_logits(self, hidden_SD: Tensor, batch: Batch, word_VE: Tensor) -> Tensor:
        """A logit per row and label, [O]."""
        pooled_QD = self.dropout(torch.tanh(self.pool(hidden_SD)))
        logit_QK: Tensor = self.label(pooled_QD).float()
        return logit_QK.flatten()


class HeadedModel(nn.Module):
    """An encoder; subclasses add the `head` on its hidden states.

    Args:
        config: the encoder's shape.
        task: the head's task, as named in `hf_names`.
        option_score: a key of `OPTION_SCORES`.
        empty: leave the encoder's weights to be loaded.
    """

    def __init__(self, config: EncoderConfig, task: str, option_score: str, empty: bool) -> None:
        super().__init__()
        # Weights about to be loaded need no initialisation, nor twice the memory.
        with torch.device("meta") if empty else nullcontext():
            self.encoder = Encoder(config)
        self.task = task
        self.option_score = option_score
        self.read_again: str | None = None
        """How to read again by default: a key of `config.READ_AGAIN` for this task, or None."""

    @property
    def config(self) -> EncoderConfig:
        """The encoder's shape."""
        return self.encoder.config

    @property
    def words(self) -> Tensor:
        """The word embeddings, which are tied to the head's output, [V, E]."""
        return self.encoder.embeddings.word.weight

    def hidden(self, batch: Tokens) -> Tensor:
        """The hidden states of the tokens that the head reads, [S, D]."""
        states_SD: Tensor = self.encoder(
            batch.token_T, batch.place_T, batch.lengths, batch.segment_T, batch.read_S, batch.reads
        )
        return states_SD.float()


class ReadingModel(HeadedModel):
    """An encoder and the head for one kind of question. `model(batch)` gives an `Output`.

    Args:
        config: the encoder's shape.
        task: `cloze`, `choice` or `label`.
        option_score: a key of `OPTION_SCORES`, for cloze.
        labels: the classes, for `label`; empty for regression.
        empty: leave the encoder's weights to be loaded.
        format_name: format of the papers that the labels belong to, if known.
    """

    def __init__(
        self,
        config: EncoderConfig,
        task: str,
        option_score: str = "mean",
        labels: Sequence[str] = (),
        empty: bool = False,
        format_name: str | None = None,
    ) -> None:
        super().__init__(config, task, option_score, empty)
        self.labels = tuple(labels)
        self.format_name = format_name
        self.head: ClozeHead | ChoiceHead | LabelHead
        if task == "cloze":
            self.head = ClozeHead(config, option_score)
        elif task == "choice":
            self.head = ChoiceHead(config)
        else:
            self.head = LabelHead(config, max(1, len(self.labels)))
        initialise(self, config.init_range)

    def forward(self, batch: Batch) -> Output:
        hidden_SD = self.hidden(batch)
        word_VE = self.words
        logit_O = self.head.option_logits(hidden_SD, batch, word_VE)
        logits_QK = batch.by_question(logit_O)
        known_Q = batch.answer_Q >= 0
        if batch.value_Q is None:
            loss_Q = F.cross_entropy(logits_QK, batch.answer_Q, ignore_index=-1, reduction="none")
            right_Q = logits_QK.argmax(-1) == batch.answer_Q
        else:
            right_Q = (logits_QK[:, 0] - batch.value_Q).abs() < NEAR
            loss_Q = (logits_QK[:, 0] - batch.value_Q)[known_Q].square()
        masked = None
        if isinstance(self.head, ClozeHead) and batch.masked_index_M is not None:
            assert batch.masked_token_M is not None
            hidden_MD = rows_at(hidden_SD, batch.masked_index_M)
            masked, _, _ = self.head.word_loss(
                hidden_MD,
                batch.masked_token_M,
                word_VE,
                precision=self.encoder.compute.precision,
            )
        return Output(
            logits_QK=logits_QK,
            loss_sum=loss_Q.sum(),
            num_correct=(right_Q & known_Q).sum(),
            masked_loss_sum=masked,
        )
