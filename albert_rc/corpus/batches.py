"""Pretraining batches: masked words, and the order of two segments.

Masks and swaps are drawn when a batch is made and are a pure function of (seed, epoch, item): each
epoch masks other words, and a resumed run gets the same batches as an uninterrupted one.
"""

# T tokens of all sequences concatenated, B sequences, M masked tokens, W words

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from albert_rc.batch import PretrainBatch
from albert_rc.corpus.mask_config import MaskConfig
from albert_rc.corpus.shards import Corpus
from albert_rc.errors import DataError
from albert_rc.runtime.seeds import mix
from albert_rc.stores.masking import begins_word
from albert_rc.text.tokenizer import Tokenizer

PAIRS = {
    "sop": "both segments as they follow each other, or swapped (Lan et al. 2020, section 3.1)",
    "nsp": "the second segment, or one of another document (Devlin et al. 2019, section 3.1)",
    "none": "both segments as one, and no question about them",
}

NEAR, TRIES = 32, 30
"""Segments of similar length on either side that NSP draws from, doubled after every ten tries;
and the number of tries."""


class NGramMasker:
    """Chooses n-grams of whole words and their replacements.

    Lan et al. 2020, section 4.1: lengths up to N with p(n) proportional to 1/n; `rate` of the
    tokens are predicted, of which (Devlin et al. 2019) 80% become [MASK], 10% a random piece and
    10% stay.

    Args:
        tokenizer: determines where words begin.
        config: rate, longest n-gram, and shares of the replacements.
    """

    def __init__(self, tokenizer: Tokenizer, config: MaskConfig) -> None:
        self.config = config
        self.mask_id = tokenizer.mask_id
        self.begins_V = begins_word(tokenizer)
        special = {
            tokenizer.pad_id,
            tokenizer.unk_id,
            tokenizer.cls_id,
            tokenizer.sep_id,
            tokenizer.mask_id,
        }
        self.plain_P = torch.tensor([i for i in range(tokenizer.size) if i not in special])
        length_N = torch.arange(1, config.max_ngram + 1)
        self.chances = (1.0 / length_N) / (1.0 / length_N).sum()
        self.mean_length = float((self.chances * length_N).sum())

    def choose(self, ids_T: Tensor, generator: torch.Generator) -> Tensor:
        """Tokens of one segment to predict, in ascending order, [M].

        The number of n-grams is such that they cover `rate` of the tokens on average, independent
        of the lengths drawn: stopping at an exact count would favour short ones.
        """
        begins_T = self.begins_V[ids_T]
        begins_T[:1] = True
        start_W = begins_T.nonzero()[:, 0]
        words = len(start_W)
        wanted = self.config.rate * words / self.mean_length
        count = int(wanted + torch.rand((), generator=generator))
        if not count:
            return start_W[:0]
        length_X = 1 + torch.multinomial(self.chances, count, True, generator=generator)
        # The n-grams are inserted into different gaps between the unmasked words.
        gaps = words - length_X.sum() + 1
        while gaps < len(length_X):  # a segment of a few words
            length_X = length_X[:-1]
            gaps = words - length_X.sum() + 1
        gap_X = torch.randperm(int(gaps), generator=generator)[: len(length_X)].sort().values
        before_X = length_X.cumsum(0) - length_X
        hidden_W = torch.zeros(words, dtype=torch.bool)
        first_X = gap_X + before_X
        for step in range(self.config.max_ngram):
            hidden_W[first_X[length_X > step] + step] = True
        word_T = begins_T.long().cumsum(0) - 1
        return hidden_W[word_T].nonzero()[:, 0]

    def replace(self, ids_T: Tensor, place_M: Tensor, generator: torch.Generator) -> Tensor:
        """The ids with replacements at the chosen positions, [T]."""
        chance_M = torch.rand(len(place_M), generator=generator)
        random_M = self.plain_P[
            torch.randint(len(self.plain_P), (len(place_M),), generator=generator)
        ]
        there_M = ids_T[place_M]
        shown_M = torch.where(chance_M < self.config.masked, self.mask_id, there_M)
        is_random_M = (chance_M >= self.config.masked) & (
            chance_M < self.config.masked + self.config.random
        )
        replaced_T = ids_T.clone()
        replaced_T[place_M] = torch.where(is_random_M, random_M, shown_M)
        return replaced_T


class PretrainCollator:
    """Collates a corpus's sequences into a `PretrainBatch`.

    Args:
        corpus: the sequences.
        tokenizer: the corpus's.
        masking: settings of masking.
        pair: a key of `PAIRS`.
        seed: the run's seed.
    """

    def __init__(
        self, corpus: Corpus, tokenizer: Tokenizer, masking: MaskConfig, pair: str, seed: int
    ) -> None:
        self.corpus = corpus
        self.masker = NGramMasker(tokenizer, masking)
        self.pair = pair
        self.seed = seed
        self.cls = torch.tensor([tokenizer.cls_id])
        self.sep = torch.tensor([tokenizer.sep_id])
        if pair == "nsp":
            if corpus.num_documents < 2:
                raise DataError(
                    f"{corpus.folder}: --pair nsp takes segments from other documents, and this "
                    "corpus has only one; give more text (or `pretrain data` another --dev), or "
                    "use --pair sop"
                )
            # Segments in order of their length, and each segment's place among them.
            self.by_length_N = (corpus.lengths - corpus.middles).argsort(stable=True)
            self.place_N = self.by_length_N.argsort()

    def __call__(self, items: Sequence[int], epoch: int = 0) -> PretrainBatch:
        """The batch of these items; `epoch` determines masks and swaps."""
        tokens, places, segments, indices, targets = [], [], [], [], []
        lengths, labels, offset = [], [], 0
        for item in items:
            generator = torch.Generator().manual_seed(mix(self.seed, epoch, item))
            parts, label = self._parts(item, generator)
            chosen = [self.masker.choose(part, generator) for part in parts]
            shown = [
                self.masker.replace(part, place, generator)
                for part, place in zip(parts, chosen, strict=True)
            ]
            row, starts, segment = self._laid_out(shown)
            for part, place, start in zip(parts, chosen, starts, strict=True):
                indices.append(offset + start + place)
                targets.append(part[place])
            tokens.append(row)
            places.append(torch.arange(len(row)))
            segments.append(segment)
            lengths.append(len(row))
            labels.append(label)
            offset += len(row)
        masked_M = torch.cat(indices)
        first_B = torch.tensor(lengths).cumsum(0) - torch.tensor(lengths)
        # Read [CLS] of each sequence, and its masked tokens. The first token is never masked.
        read_S, place_X = torch.cat([first_B, masked_M]).sort()
        where_X = place_X.argsort()
        row_S = torch.bucketize(read_S, first_B, right=True) - 1
        return PretrainBatch(
            token_T=torch.cat(tokens),
            place_T=torch.cat(places),
            lengths=tuple(lengths),
            read_S=read_S,
            reads=tuple(row_S.bincount(minlength=len(lengths)).tolist()),
            segment_T=None if self.pair == "none" else torch.cat(segments),
            masked_index_M=where_X[len(lengths) :],
            masked_token_M=torch.cat(targets),
            cls_index_B=where_X[: len(lengths)],
            pair_B=torch.tensor(labels),
        )

    def _parts(self, item: int, generator: torch.Generator) -> tuple[list[Tensor], int]:
        """The segments in input order, and the label: 0 for the original order."""
        first, second = self.corpus.pair(item)
        if self.pair == "none":
            return [torch.cat([first, second])], -1
        if torch.rand((), generator=generator) < 0.5:
            return [first, second], 0
        if self.pair == "sop":
            return [second, first], 1
        other = self._other_second(item, len(first), generator)
        return ([first, second], 0) if other is None else ([first, other], 1)

    def _other_second(self, item: int, before: int, generator: torch.Generator) -> Tensor | None:
        """The second segment of another document, about as long as an item's own.

        A whole one, since its length, or an end within a sentence, would reveal the label. None if
        all that were tried are of the same document, or too long after the first segment.
        """
        place, last = int(self.place_N[item]), len(self.corpus) - 1
        for number in range(TRIES):
            reach = NEAR * 2 ** (number // 10)
            low, high = max(0, place - reach), min(last, place + reach)
            found = int(torch.randint(low, high + 1, (), generator=generator))
            other = int(self.by_length_N[found])
            if not self.corpus.same_document(item, other):
                _, second = self.corpus.pair(other)
                if before + len(second) <= self.corpus.meta["max_length"] - 3:
                    return second
        return None

    def _laid_out(self, parts: list[Tensor]) -> tuple[Tensor, list[int], Tensor]:
        """[CLS] a [SEP] b [SEP], the start of each part, and the segment of each token."""
        row, starts, length = [self.cls], [], 1
        for part in parts:
            starts.append(length)
            row += [part, self.sep]
            length += len(part) + 1
        segment = torch.zeros(length, dtype=torch.int64)
        segment[starts[-1] :] = len(parts) - 1
        return torch.cat(row), starts, segment
