"""The encoder: factorised embeddings and a stack of layers that may share parameters.

ALBERT (Lan et al. 2020) and BERT (Devlin et al. 2019) are the same post-norm transformer. They
differ in two settings: whether words are embedded in E < H dimensions and projected, and the number
of parameter groups of the layers.
"""

# T tokens of all sequences concatenated, S those of them that a layer computes,
# E embedding size, D hidden size, N heads, H head size, F ffn size

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from albert_rc.errors import UsageError
from albert_rc.model.config import Compute, EncoderConfig
from albert_rc.model.dropout import NOTHING, Dropout
from albert_rc.model.layer import Applied, Layer, Pass, PostNormLayer
from albert_rc.model.layout import READS, Layout, round_rows
from albert_rc.model.linear import DTYPES, Gradients, PreparedLinear
from albert_rc.model.relative import Bias, bias_table
from albert_rc.model.reversible import ReversibleLayer, reversible
from albert_rc.model.sharing import schedule, tie


class Embeddings(nn.Module):
    """Sum of word, position and segment embeddings, normalised: [T] to [T, E], in fp32."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        size = config.embedding_size
        self.word = _embedding(config.vocab_size, size)
        self.position = _embedding(config.max_positions, size)
        self.segment: nn.Embedding | None = None
        if config.family != "mpnet":
            self.segment = _embedding(config.num_segments, size)
        self.norm = nn.LayerNorm(size, eps=config.norm_eps)
        self.dropout = config.dropout
        self.position_offset = config.position_offset

    def forward(
        self,
        token_T: Tensor,
        place_T: Tensor,
        segment_T: Tensor | None,
        key: tuple[int, ...] | None = None,
    ) -> Tensor:
        embedded_TE = self.word(token_T) + self.position(place_T + self.position_offset)
        if self.segment is None:
            pass
        elif segment_T is None or self.segment.num_embeddings == 1:
            embedded_TE = embedded_TE + self.segment.weight[0]
        else:
            embedded_TE = embedded_TE + self.segment(segment_T)
        dropping = Dropout(self.dropout, key) if self.training else NOTHING
        return dropping(self.norm(embedded_TE))


def _embedding(rows: int, size: int) -> nn.Embedding:
    if torch.get_default_device().type != "meta":
        return nn.Embedding(rows, size)
    # Drawing normal numbers on meta makes torch load its compiler: two seconds and 70 MiB.
    return nn.Embedding(rows, size, _weight=torch.empty(rows, size))


EMBEDDED = 2**20
"""Dropout key of the embeddings: a number that no layer has."""

LAYERS: dict[str, type[Layer]] = {"post": PostNormLayer, "reversible": ReversibleLayer}


class Encoder(nn.Module):
    """Token ids to hidden states.

    Attributes:
        compute: precision, attention, and recomputation.
        place: position of the next forward pass in a run (seed, step, rank, micro-batch). Dropout
            masks follow from it, and from the number of passes since it was set. None uses
            torch's generator.
        held: number of layers, from the first, that are not trained; see `hold`.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.compute = Compute()
        self.held = 0
        self.place: tuple[int, ...] | None = None
        self.embeddings = Embeddings(config)
        # ALBERT projects even if E equals D; BERT has no such matrix.
        self.projection: nn.Linear | None = None
        if config.family == "albert":
            self.projection = nn.Linear(config.embedding_size, config.hidden_size)
        self.relative: nn.Embedding | None = None
        if config.relative_buckets:
            self.relative = _embedding(config.relative_buckets, config.num_heads)
        self.layers = nn.ModuleList(
            LAYERS[config.residual](config) for _ in range(config.num_groups * config.inner_layers)
        )
        tie(list(self.layers), config.common)
        # Post-norm layers already end in a norm.
        self.final_norm: nn.LayerNorm | None = None
        if config.residual == "reversible":
            self.final_norm = nn.LayerNorm(config.hidden_size, eps=config.norm_eps)
        self._unchanged = self._frozen = False
        self._kept: tuple[object, list[dict[str, PreparedLinear]]] | None = None

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Context in which the weights do not change, so that they are prepared only once.

        Optimisers bypass version counters, so changes cannot be detected here.
        """
        before, self._unchanged = self._unchanged, True
        try:
            yield
        finally:
            self._unchanged = before
            if not (before or self._frozen):
                self._kept = None

    @property
    def place(self) -> tuple[int, ...] | None:
        """See the class."""
        return self._place

    @place.setter
    def place(self, place: tuple[int, ...] | None) -> None:
        self._place, self._passes = place, 0

    def _key(self, device: torch.device) -> tuple[int, ...] | None:
        """Dropout key of a forward pass; None on a GPU, where torch's kernels are fast."""
        config = self.config
        if not (self.training and max(config.dropout, config.attention_dropout)):
            return None
        if device.type != "cpu":
            return None
        if self.place is None:
            return (int(torch.randint(2**31, ())),)
        self._passes += 1
        return (*self.place, self._passes)

    def hold(self, layers: int) -> None:
        """Leave the embeddings and this many layers, from the first, as they are in training.

        No gradients are computed there, and none of their outputs are kept. 0 trains everything.

        Raises:
            UsageError: the model has fewer layers, layers above share weights with them, or the
                layers are reversible.
        """
        config, order = self.config, schedule(self.config)
        if not layers:
            return
        if layers > len(order):
            raise UsageError(f"--set frozen_layers={layers}: the model has {len(order)} layers")
        if config.residual == "reversible":
            raise UsageError(
                f"--set frozen_layers={layers}: reversible layers are trained together; leave it "
                "out"
            )
        held, above = set(order[:layers]), set(order[layers:])
        if held & above or (above and config.common != "nothing"):
            raise UsageError(
                f"--set frozen_layers={layers}: layers above these share weights with them; "
                f"{_borders(config)}"
            )
        self.held = layers
        parts = [self.embeddings, self.projection, self.relative, *(self.layers[i] for i in held)]
        for part in parts:
            if part is not None:
                part.requires_grad_(False)

    def freeze(self) -> None:
        """Prepare the layers' matrices for prediction, and free the original weights.

        If preparing copies, that halves the layers' memory. Afterwards the encoder can only
        predict, in the current precision of `compute`.
        """
        if not self._frozen:
            self._frozen = True  # first, because a failure half-way also loses weights
            self._kept = (self.compute.precision, False), self._prepared(False, release=True)

    def _matrices(self, learning: bool) -> list[dict[str, PreparedLinear]]:
        key = (self.compute.precision, learning)
        if self._kept is not None and self._kept[0] == key:
            return self._kept[1]
        if self._frozen:
            raise RuntimeError(
                "this encoder was frozen for prediction: it computes in that precision alone, and "
                "without gradients"
            )
        prepared = self._prepared(learning)
        if self._unchanged:
            self._kept = key, prepared
        return prepared

    def _prepared(self, learning: bool, release: bool = False) -> list[dict[str, PreparedLinear]]:
        made: dict[nn.Linear, PreparedLinear] = {}
        prepared: list[dict[str, PreparedLinear]] = []
        held = set(schedule(self.config)[: self.held])
        for index, layer in enumerate(self.layers):
            assert isinstance(layer, Layer)
            prepared.append({})
            learns = learning and index not in held
            for name, linears in layer.maps().items():
                if linears[0] not in made:  # layers may share it
                    made[linears[0]] = PreparedLinear(linears, self.compute.precision, learns)
                    if release:  # one by one: the next needs the memory
                        for linear in linears:
                            empty = linear.weight.new_empty(0)
                            linear.weight = nn.Parameter(empty, requires_grad=False)
                prepared[-1][name] = made[linears[0]]
        return prepared

    def forward(
        self,
        token_T: Tensor,
        place_T: Tensor,
        lengths: tuple[int, ...],
        segment_T: Tensor | None = None,
        read_S: Tensor | None = None,
        reads: tuple[int, ...] = (),
    ) -> Tensor:
        """Encode concatenated sequences.

        Args:
            token_T: token ids.
            place_T: position of each token in its sequence, from 0.
            lengths: number of tokens of each sequence.
            segment_T: 0 or 1 for the first and second part of a pair; None for all 0.
            read_S: the tokens whose hidden states to return, in order; None for all.
            reads: number of them in each sequence.

        Returns:
            Hidden states in the precision of the computation, [S, D] (or [T, D]).

        Raises:
            UsageError: a sequence is longer than the position table.
        """
        if max(lengths) > self.config.max_length:
            raise UsageError(
                f"{max(lengths)} tokens in a sequence, but the model takes "
                f"{self.config.max_length}; preprocess with --max-length {self.config.max_length}"
            )
        compute, learning = self.compute, torch.is_grad_enabled()
        count = len(token_T) if read_S is None else len(read_S)
        if token_T.device.type == "cpu" and compute.attention == "dense":
            # Nothing attends to the padding, and its gradients are zero.
            more = round_rows(len(token_T)) - len(token_T)
            token_T, place_T = F.pad(token_T, (0, more)), F.pad(place_T, (0, more))
            segment_T = None if segment_T is None else F.pad(segment_T, (0, more))
            if read_S is not None:
                read_S = F.pad(read_S, (0, round_rows(len(read_S), READS) - len(read_S)))
        prepared = self._matrices(learning)
        shared = Pass(
            compute=compute,
            layout=Layout(lengths, lengths),
            gradients=Gradients(compute.in_place) if learning else None,
            read_S=read_S,
            read_layout=None if read_S is None else Layout(reads, lengths),
            key=self._key(token_T.device),
        )
        if self.relative is not None:
            table_NLL = bias_table(self.relative.weight, max(lengths))
            shared.bias = Bias(table_NLL)
            if read_S is not None:
                shared.read_bias = Bias(table_NLL, place_T[read_S])
        if compute.attention == "lsh" and compute.lsh.landmarks:
            ids = torch.tensor(compute.lsh.landmarks, device=token_T.device)
            shared.landmark_T = torch.isin(token_T, ids)
        before = None if shared.key is None else (*shared.key, EMBEDDED)
        with torch.set_grad_enabled(learning and not self.held):
            x_TD: Tensor = self.embeddings(token_T, place_T, segment_T, before)
            if self.projection is not None:
                x_TD = self.projection(x_TD)
        stack = self._stack(prepared)
        if self.final_norm is not None:
            dropout = max(self.config.dropout, self.config.attention_dropout)
            dropping = self.training and dropout > 0 and shared.key is None
            return reversible(x_TD, stack, shared, self.final_norm, dropping)[:count]
        x_TD = x_TD.to(DTYPES[compute.precision])
        for layer, at in stack:
            learns = learning and at.step >= self.held
            if compute.recompute == "layers" and learns:
                x_TD = checkpoint(layer, x_TD, shared, at, use_reentrant=False)
            else:
                with torch.set_grad_enabled(learns):
                    x_TD = layer(x_TD, shared, at)
        return x_TD[:count]

    def _stack(self, prepared: list[dict[str, PreparedLinear]]) -> list[tuple[Layer, Applied]]:
        """The layers in the order of their applications."""
        steps, seen = schedule(self.config), set[PreparedLinear]()
        stack = []
        for step, index in enumerate(steps):
            layer, matrices = self.layers[index], prepared[index]
            assert isinstance(layer, Layer)
            first = {name for name, matrix in matrices.items() if matrix not in seen}
            seen.update(matrices.values())
            stack.append((layer, Applied(matrices, first, step, step == len(steps) - 1)))
        return stack


def _borders(config: EncoderConfig) -> str:
    """Which numbers of layers `Encoder.hold` accepts, in words."""
    order = schedule(config)
    counts = [n for n in range(1, len(order)) if order[n] != order[n - 1]]
    if not counts or config.common != "nothing":
        return f"only all {len(order)} can stay as they are, so that just the head is trained"
    return f"choose one of {', '.join(map(str, [*counts, len(order)]))}"


def initialise(module: nn.Module, std: float) -> None:
    """Initialise a module's parameters as BERT does: normal weights, zero biases, norms of one.

    Parameters on the meta device are left to be loaded.
    """
    for part in module.modules():
        if isinstance(part, (nn.Linear, nn.Embedding)) and not part.weight.is_meta:
            nn.init.normal_(part.weight, std=std)
        if isinstance(part, nn.LayerNorm):
            nn.init.ones_(part.weight)
        if isinstance(part, (nn.Linear, nn.LayerNorm)) and part.bias is not None:
            nn.init.zeros_(part.bias)


@contextmanager
def evaluating(model: nn.Module, encoder: Encoder) -> Iterator[None]:
    """Context for inference: no dropout, no gradients, weights prepared once.

    Afterwards, also after an exception, the model's mode is restored.
    """
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode(), encoder.unchanged():
            yield
    finally:
        model.train(was_training)
