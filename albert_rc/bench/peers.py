"""Benchmark of Hugging Face's models on the same items: plain, and optimised."""

# B sequences, T tokens of all of them concatenated, L tokens of the longest, Q read positions,
# V vocabulary, D hidden

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from transformers import (
    AutoConfig,
    AutoModelForMaskedLM,
    DataCollatorForLanguageModeling,
    PreTrainedTokenizerFast,
)

from albert_rc.bench.job import Job
from albert_rc.bench.jobs import Workload
from albert_rc.bench.made_up import OPTIONS, made_up_backend
from albert_rc.bench.ours import MASKING
from albert_rc.checkpoints.hf_names import hub_config
from albert_rc.corpus.shards import Corpus
from albert_rc.model.cost import forward_flops, word_flops
from albert_rc.stores.batches import Collator
from albert_rc.stores.store import Store
from albert_rc.training.memory.planner import MemoryPlan

Inputs = Callable[[list[int]], tuple[Tensor, Tensor, Tensor]]
"""Ids, attention mask and labels of a batch, [B, L]."""
IGNORED = -100  # as a label
HEADS = {"albert": "predictions", "bert": "cls", "roberta": "lm_head", "mpnet": "lm_head"}


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Context in which weights are created in this type, as by `from_pretrained(dtype=...)`."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _blanks(work: Workload) -> Inputs:
    """Makes batches of a store's passages; the labels are the answers' first pieces."""
    assert isinstance(work.source, Store)
    collate, tensors = Collator(work.source, None), work.source.tensors

    def inputs(items: list[int]) -> tuple[Tensor, Tensor, Tensor]:
        batch = collate(items)
        option_Q = tensors["option_offset"][batch.question_Q] + batch.answer_Q.clamp(min=0)
        label_T = torch.full_like(batch.token_T, IGNORED)
        asked_Q = batch.read_S[batch.blank_index_Q]
        label_T[asked_Q] = tensors["piece"][tensors["piece_offset"][option_Q].long()].long()

        def padded(flat_T: Tensor, padding: int) -> Tensor:
            return pad_sequence(flat_T.split(batch.lengths), True, padding)

        mask_BL = padded(torch.ones_like(batch.token_T), 0)
        return padded(batch.token_T, work.config.pad_id), mask_BL, padded(label_T, IGNORED)

    return inputs


def _hidden_words(work: Workload) -> Inputs:
    """Makes batches of a corpus's sequences, masked as in transformers."""
    corpus = work.source
    assert isinstance(corpus, Corpus)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=made_up_backend(work.config.vocab_size),
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )
    hide = DataCollatorForLanguageModeling(fast, mlm_probability=MASKING.rate)

    def inputs(items: list[int]) -> tuple[Tensor, Tensor, Tensor]:
        rows = []
        for item in items:
            ids = torch.cat(corpus.pair(item)).tolist()
            row = {"input_ids": [fast.cls_token_id, *ids, fast.sep_token_id]}
            rows.append(row | {"special_tokens_mask": [1, *(0 for _ in ids), 1]})
        found = hide(rows)
        return found["input_ids"], found["attention_mask"], found["labels"]

    return inputs


class Transformers:
    """Runs jobs with transformers' masked-LM class of the shape's family.

    Plain: fp32, padded batches in given order, logits and loss from the model over all positions,
    AdamW, gradients clipped. Optimised: bf16 where the processor has it (autocast in training,
    weights in prediction), SDPA (or eager attention, where that is faster), GELU's tanh form in one
    kernel, items of similar length together, logits at the blanks or masked tokens only, fused
    AdamW.
    """

    def __init__(self, job: Job, work: Workload, device: torch.device) -> None:
        torch.manual_seed(job.seed)
        self.plan: MemoryPlan | None = None
        self.cut: dict[str, Any] = {}
        self.config, self.device = work.config, device
        self.learns, self.best = job.learns, job.who == "transformers-best"
        self.inputs = _hidden_words(work) if isinstance(work.source, Corpus) else _blanks(work)
        raw = hub_config(self.config, "cloze")
        if self.best and raw["hidden_act"] == "gelu_new":
            raw["hidden_act"] = "gelu_pytorch_tanh"  # the same function in one kernel
        in_bf16 = job.precision == "bf16"
        self.autocast, narrow = in_bf16 and self.learns, in_bf16 and not self.learns
        # On CPUs torch's fused attention has no dropout. With its fallback, steps of 4 papers and
        # 6 layers of 384 took 10 to 35% longer than with eager attention.
        dropped = self.learns and self.config.attention_dropout > 0 and device.type == "cpu"
        eager = (self.best and dropped) or self.config.family == "mpnet"  # it has no other
        attention = "eager" if eager else "sdpa"
        with torch.device(device), _default_dtype(torch.bfloat16 if narrow else torch.float32):
            self.model = AutoModelForMaskedLM.from_config(
                AutoConfig.for_model(**raw), attn_implementation=attention
            )
        self.head = getattr(self.model, HEADS[self.config.family])
        self.model.train(self.learns)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=1e-5, fused=True if self.best else None
        )

    def flops(self, items: list[int], number: int) -> float:
        """Operations of a batch's products, padding included: of the encoder, and of logits."""
        token_BL, _, label_BL = self._batch(items)
        forward = forward_flops(self.config, [token_BL.shape[1]] * len(items))
        asked = int((label_BL != IGNORED).sum()) if self.best else token_BL.numel()
        return (3 if self.learns else 1) * (forward + word_flops(self.config, asked))

    def _batch(self, items: list[int]) -> tuple[Tensor, Tensor, Tensor]:
        """Ids, attention mask and labels (the right pieces at read positions), [B, L]."""
        token_BL, mask_BL, label_BL = (
            inputs_BL.to(self.device) for inputs_BL in self.inputs(items)
        )
        return token_BL, mask_BL, label_BL

    def step(self, items: list[int], number: int) -> None:
        """One batch."""
        token_BL, mask_BL, label_BL = self._batch(items)
        if not self.learns:
            with torch.inference_mode():
                logits_QV = self._logits(token_BL, mask_BL, label_BL)
                # Of the vocabulary, a user needs no more than the options' pieces.
                logits_QV.float().log_softmax(-1)[:, :OPTIONS].cpu()
            return
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.autocast):
            if self.best:
                logits_QV = self._logits(token_BL, mask_BL, label_BL)
                loss = F.cross_entropy(logits_QV, label_BL[label_BL != IGNORED])
            else:
                loss = self.model(token_BL, attention_mask=mask_BL, labels=label_BL).loss
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def _logits(self, token_BL: Tensor, mask_BL: Tensor, label_BL: Tensor) -> Tensor:
        """Logits at the read positions, [Q, V]."""
        asked_BL = label_BL != IGNORED
        if not self.best:
            everywhere_BLV: Tensor = self.model(token_BL, attention_mask=mask_BL).logits
            return everywhere_BLV[asked_BL]
        hidden_BLD = self.model.base_model(token_BL, attention_mask=mask_BL).last_hidden_state
        logits_QV: Tensor = self.head(hidden_BLD[asked_BL])
        return logits_QV
