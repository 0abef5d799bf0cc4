"""Hugging Face's ALBERT or BERT on the same passages: as users write it, and at its best."""

# B sequences, L tokens of the longest, V vocabulary, D hidden

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForMaskedLM

from albert_rc.bench.jobs import Job
from albert_rc.config import size_config
from albert_rc.costs import forward_flops
from albert_rc.data.shards import Store
from albert_rc.families import hub_config

IGNORED = -100  # of a label


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Weights are made in it, as `from_pretrained(dtype=...)` reads them: no fp32 copy counts."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


class Transformers:
    """Does jobs with transformers.

    Plain: fp32, padded batches as they come, logits and loss from the model over all positions,
    AdamW, gradients clipped. At its best: bf16 (autocast in training, weights in prediction),
    SDPA, GELU's tanh form in one kernel, passages of like length together, logits at the blanks
    only, fused AdamW.

    Args:
        job: what to do.
        store: the passages.
        device: where.
    """

    def __init__(self, job: Job, store: Store, device: torch.device) -> None:
        torch.manual_seed(job.seed)
        config = size_config(job.size, vocab_size=store.meta["vocab_size"])
        self.training, self.best = job.work == "train", job.who == "transformers-best"
        raw = hub_config(config, "cloze")
        if self.best and raw["hidden_act"] == "gelu_new":
            raw["hidden_act"] = "gelu_pytorch_tanh"  # the same function, not step by step
        self.autocast = self.best and self.training
        narrow = self.best and not self.training
        with torch.device(device), _default_dtype(torch.bfloat16 if narrow else torch.float32):
            self.model = AutoModelForMaskedLM.from_config(AutoConfig.for_model(**raw))
        self.head = self.model.predictions if config.family == "albert" else self.model.cls
        self.config, self.store, self.device = config, store, device
        self.model.train(self.training)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=1e-5, fused=True if self.best else None
        )

    def flops(self, items: list[int]) -> float:
        """Operations of the encoder's products for a batch, padding included."""
        lengths = self.store.lengths[items]
        padded = [int(lengths.max())] * len(items)
        return (3 if self.training else 1) * forward_flops(self.config, padded)

    def _batch(self, items: list[int]) -> tuple[Tensor, Tensor, Tensor]:
        """Ids, attention mask and labels (the answers' first pieces at the blanks), [B, L]."""
        tensors, lengths = self.store.tensors, self.store.lengths[items].tolist()
        shape = (len(items), max(lengths))
        token_BL = torch.zeros(shape, dtype=torch.int64)
        mask_BL = torch.zeros(shape, dtype=torch.int64)
        label_BL = torch.full(shape, IGNORED)
        for row, (item, length) in enumerate(zip(items, lengths, strict=True)):
            start, end = tensors["token_offset"][item : item + 2].tolist()
            first, last = tensors["blank_offset"][item : item + 2].tolist()
            token_BL[row, :length] = tensors["token"][start:end]
            mask_BL[row, :length] = 1
            option_Q = tensors["option_offset"][first:last] + tensors["answer"][first:last].clip(0)
            label_Q = tensors["piece"][tensors["piece_offset"][option_Q].long()]
            label_BL[row, tensors["blank_position"][first:last].long()] = label_Q.long()
        return token_BL.to(self.device), mask_BL.to(self.device), label_BL.to(self.device)

    def step(self, items: list[int]) -> None:
        """One batch."""
        token_BL, mask_BL, label_BL = self._batch(items)
        if not self.training:
            with torch.inference_mode():
                self._logits(token_BL, mask_BL, label_BL).float().log_softmax(-1).cpu()
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
        """Logits at the blanks, [Q, V]."""
        at_blank_BL = label_BL != IGNORED
        if not self.best:
            everywhere_BLV: Tensor = self.model(token_BL, attention_mask=mask_BL).logits
            return everywhere_BLV[at_blank_BL]
        hidden_BLD = self.model.base_model(token_BL, attention_mask=mask_BL).last_hidden_state
        logits_QV: Tensor = self.head(hidden_BLD[at_blank_BL])
        return logits_QV
