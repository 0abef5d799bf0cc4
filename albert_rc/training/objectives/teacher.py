"""Teacher probabilities for distillation, from a score file or computed by the teacher model."""

# Q questions, K options of the question with the most, O options of all questions in sequence

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save as to_safetensors
from torch import Tensor

from albert_rc.answering.again import read, way_of
from albert_rc.answering.temperature import weights_id
from albert_rc.checkpoints.hub import resolve_source
from albert_rc.checkpoints.load import load_model
from albert_rc.errors import DataError, UsageError
from albert_rc.io.files import file_sha256, sha256
from albert_rc.io.json import to_json
from albert_rc.io.messages import quoted
from albert_rc.runtime.devices import Processes
from albert_rc.scoring.score_file import read_scores
from albert_rc.stores.store import Store

SCORES = ".jsonl"
"""Suffix of a score file's name."""
KEPT = "teacher.probabilities"
"""File of a run with what its teacher, a model, answered: in the format of safetensors."""


@dataclass(frozen=True)
class Teacher:
    """A larger model, or an ensemble, that a student learns from (Hinton et al. 2015)."""

    source: str
    """A score file of the training papers from `predict --scores` or `ensemble --scores`, or a
    model with the student's vocabulary, which then answers them as `predict` does."""

    _last: dict[str, tuple[Store, Tensor]] = field(default_factory=dict, compare=False)
    """The last store's probabilities by precision: runs with other seeds have the same store."""

    def found(self) -> Teacher:
        """Return itself; refuse a missing source before any work is done.

        Raises:
            DataError: a score file is missing.
            UsageError: unknown model.
        """
        if self.is_file and not Path(self.source).is_file():
            raise DataError(
                f"--teacher {self.source}: no such file; make it with `albert-rc predict --scores`"
            )
        if not self.is_file:
            resolve_source(self.source, "--teacher")
        return self

    @property
    def is_file(self) -> bool:
        """Whether the source is a score file."""
        return Path(self.source).suffix == SCORES

    def chances(
        self, store: Store, group: Processes, precision: str, run: Path | None = None
    ) -> Tensor:
        """The teacher's probability of each option of a store, [O], fp32.

        NaN for the options of questions missing from a score file.

        Args:
            store: the training papers.
            group: the ranks that share the work, and the device of a model.
            precision: the precision of a model.
            run: the folder of a resumed run, which may have kept what a model answered.

        Raises:
            UsageError: a regression or span store, or a model with another vocabulary.
            DataError: the score file cannot be read, or is for other papers.
            CheckpointError: unusable weights.
        """
        if store.kind == "span" or store.is_numeric:
            raise UsageError(
                f"--teacher {self.source}: only questions with options or labels can have a "
                "teacher; leave it out"
            )
        kept, chance_O = self._last.get(precision, (None, None))
        if kept is not store or chance_O is None:
            if self.is_file:
                chance_O = _from_file(Path(self.source), store)
            else:
                chance_O = self._before(run, store, group, precision)
                if chance_O is None:
                    chance_O = _from_model(self.source, store, group, precision)
            self._last[precision] = store, chance_O
        return chance_O

    def kept(self, store: Store, chance_O: Tensor, precision: str) -> dict[str, bytes]:
        """A file for the run's folder with a model's probabilities, so that they are kept.

        Args:
            store: the training papers.
            chance_O: from `chances`.
            precision: that of the model.
        """
        if self.is_file:
            return {}
        metadata = self._made_from(store, precision) | {"sha256": sha256(_bytes(chance_O))}
        return {KEPT: to_safetensors({"chance": chance_O}, metadata)}

    def _made_from(self, store: Store, precision: str) -> dict[str, str]:
        """What a model's probabilities follow from."""
        papers = sha256(to_json(store.identity))
        config = file_sha256(resolve_source(self.source) / "config.json")
        return {
            "teacher": self.source_id(), "config": config, "papers": papers, "precision": precision
        }  # fmt: skip

    def _before(
        self, run: Path | None, store: Store, group: Processes, precision: str
    ) -> Tensor | None:
        """The probabilities that a run kept; None if it kept none of these papers."""
        found = None
        if group.is_main and run is not None and (run / KEPT).is_file():
            found = _read(run / KEPT, self._made_from(store, precision))
        chance_O: Tensor | None = group.from_main(found)
        return chance_O

    def identity(self, chance_O: Tensor) -> str:
        """What a resumed run must have in common with the run before.

        A score file's probabilities; or a model's weights, since the last digits of what it answers
        differ from one kind of processor to the next.

        Args:
            chance_O: from `chances`.
        """
        if self.is_file:
            return sha256(_bytes(chance_O))[:16]
        return self.source_id()

    def source_id(self) -> str:
        """Identifier of the content behind `source`: of a score file, or of a model's weights."""
        if self.is_file:
            return file_sha256(Path(self.source))[:16]
        return weights_id(resolve_source(self.source)) or self.source


def _bytes(chance_O: Tensor) -> bytes:
    return chance_O.contiguous().numpy().tobytes()


def _read(path: Path, made_from: dict[str, str]) -> Tensor | None:
    """Probabilities from a file of `Teacher.kept`; None if they are others, or damaged."""
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            chance_O: Tensor = file.get_tensor("chance")
    except Exception:  # safetensors raises its own types; the teacher answers again
        return None
    expected = made_from | {"sha256": sha256(_bytes(chance_O))}
    return chance_O if metadata == expected else None


def _from_model(source: str, store: Store, group: Processes, precision: str) -> Tensor:
    labels = store.labels if store.kind == "label" else None
    loaded = load_model(source, store.kind, labels=labels, precision=precision)
    if loaded.tokenizer.fingerprint != store.meta["vocabulary"]:
        raise UsageError(
            f"--teacher {source}: its vocabulary differs from that of the store. Answer the raw "
            "training papers with it, using `albert-rc predict --data PAPERS --model "
            f"{source} --scores teacher.jsonl`, and give --teacher teacher.jsonl"
        )
    longest, needed = loaded.model.config.max_length, int(store.lengths.max())
    if needed > longest:
        raise UsageError(
            f"--teacher {source}: takes {longest:,} tokens, but the training papers have windows "
            f"of up to {needed:,}; preprocess them with --max-length {longest}, or give another "
            "teacher"
        )
    if loaded.report.untrained:
        raise UsageError(
            f"--teacher {source} was not trained for {store.kind} papers; fine-tune it first"
        )
    model = loaded.model.to(group.device)
    model.encoder.compute = replace(model.encoder.compute, precision=precision)
    scored_QK, _ = read(model, loaded.tokenizer, store, group, way_of(model, None))
    there_QK = torch.arange(scored_QK.shape[1]) < store.num_options[:, None]
    return scored_QK.exp()[there_QK]


def _from_file(path: Path, store: Store) -> Tensor:
    file = read_scores(path)
    if (file.kind == "labels") != (store.kind == "label"):
        raise DataError(
            f"{path}: has scores of {file.kind}, but the training papers are {store.kind} papers; "
            "give scores of these papers"
        )
    for place, name in file.labels.items():
        if place >= len(store.labels) or store.labels[place] != name:
            raise DataError(
                f"{path}: its labels differ from those of the training papers; give scores of "
                "these papers"
            )
    if len(set(store.meta["ids"])) < len(store.meta["ids"]):
        raise DataError(
            f"{path}: ids of table rows are only row numbers, so with --with-dev a row of train "
            "and one of dev share an id; leave --with-dev out, or give a model as --teacher"
        )
    rows = {key: row for row, key in enumerate(file.keys)}
    counts = store.num_options.tolist()
    found: list[Tensor] = []
    numbers = store.number_in_passage.tolist()
    known = 0
    for question, passage in enumerate(store.passage_of_question.tolist()):
        row = rows.get((store.meta["ids"][passage], numbers[question]))
        if row is None:
            found.append(torch.full((counts[question],), torch.nan))
            continue
        given = int(file.num_options_Q[row])
        if given != counts[question]:
            key = quoted(store.meta["ids"][passage])
            raise DataError(
                f"{file.where(row)}: {given} options, but number {numbers[question]} of paper "
                f"{key} in the training papers has {counts[question]}; give scores of the same "
                "papers"
            )
        known += 1
        found.append(torch.from_numpy(file.chances_QK[row, :given]).float())
    if not known:
        raise DataError(
            f"{path}: none of its questions is in the training papers; make it from these papers "
            "with `albert-rc predict --data PAPERS --scores`"
        )
    return torch.cat(found)
