"""A run to a folder for the hub: written under another name, compared with ours, then renamed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from albert_rc.answering.score import score
from albert_rc.answering.temperature import RECORDS, kept_record
from albert_rc.checkpoints.hf_config import read_config
from albert_rc.checkpoints.hf_names import FAMILIES
from albert_rc.checkpoints.hub import resolve_source
from albert_rc.checkpoints.load import Loaded, load_model, save_model
from albert_rc.errors import CheckpointError, UsageError
from albert_rc.export.card import Card, render
from albert_rc.export.compare import Agreement, require_alike
from albert_rc.export.figures import measure
from albert_rc.export.graph import onnx_bytes, require_onnx
from albert_rc.export.others import (
    SplitAlike,
    onnx_runner,
    running_text,
    split_alike,
    transformers_runner,
)
from albert_rc.export.records import Row, read_records
from albert_rc.export.samples import sample_papers, sample_stores
from albert_rc.export.vocabulary import write_vocabulary
from albert_rc.io.atomic import atomic_folder, write_bytes
from albert_rc.io.files import file_sha256
from albert_rc.io.json import read_json, write_json
from albert_rc.model.config import Compute
from albert_rc.model.heads import ClozeHead, ReadingModel
from albert_rc.papers.schema import Kind, PaperSet, Passage, Question
from albert_rc.runtime.devices import Processes
from albert_rc.stores.store import Store, make_store
from albert_rc.text.tokenizer import load_tokenizer

PRECISIONS = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
"""In which weights may be written, and what Hugging Face calls them."""
ONNX = "onnx/model.onnx"
COMPARED = 32
"""Of the papers given, those that others answer too; they take their time."""
MOST_SPLIT_OTHERWISE = 0.01
"""Share of the papers given: two pieces of equal score may be chosen otherwise, now and then."""
EXAMPLE = Passage(
    "example",
    "It was raining hard, so she took an _ with her.",
    (Question(("umbrella", "apple", "engine", "island")),),
    "cloze",
    ((36, 37),),
)


@dataclass(frozen=True, kw_only=True)
class Exported:
    """What was written, and how far others agree with ours on it."""

    out: Path
    task: str
    architecture: str
    precision: str
    sizes: dict[str, int]
    """Bytes of each file, by its place in the folder."""
    split: SplitAlike
    transformers: Agreement
    onnx: Agreement | None
    measured: list[Row]

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "out": str(self.out),
            "task": self.task,
            "architecture": self.architecture,
            "precision": self.precision,
            "bytes": self.sizes,
            "split": self.split.as_json(),
            "transformers": self.transformers.as_json(),
            "onnx": None if self.onnx is None else self.onnx.as_json(),
            "measured": dict(self.measured),
        }


def export(
    source: str | Path,
    out: Path,
    *,
    onnx: bool = False,
    precision: str | None = None,
    licence: str | None = None,
    title: str | None = None,
    papers: PaperSet | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Exported:
    """Write a model as a folder that transformers opens by itself, with its card.

    The folder has its name only after transformers, and onnxruntime, gave our answers on it.

    Args:
        source: a run's folder, a checkpoint's, a model of the package, or a hub id.
        out: where the folder goes; nothing may be there.
        onnx: also as ONNX.
        precision: a key of `PRECISIONS`; as the weights lie on the disk by default.
        licence: of the weights, as the hub calls it; not stated by default.
        title: of the card; the folder's name by default.
        papers: compare on the first of these too, and measure on all whose answers are known.
        say: told what goes on.

    Raises:
        UsageError: something at `out`, or a model that others cannot compute.
        CheckpointError: unusable weights, or answers that are not ours.
    """
    if precision not in (None, *PRECISIONS):
        raise UsageError(f"--precision {precision}: choose from {', '.join(PRECISIONS)}")
    if onnx:
        require_onnx()
    folder = resolve_source(source)
    _, raw = read_config(folder)
    task, architecture = _task(folder, raw)
    with atomic_folder(out) as temporary:
        loaded = _load(folder, task)
        notes = _require_expressible(folder, loaded, raw)
        kind = _kind(task)
        samples = sample_papers(kind, getattr(loaded.model, "labels", ()))
        _require_fitting(papers, kind, samples.labels)
        longest = loaded.model.config.max_length
        write_vocabulary(loaded.tokenizer, temporary, longest)
        split = _require_split(temporary, loaded, samples, papers)
        stored = _stored_precision(folder)
        chosen = precision or stored
        _write_model(loaded, temporary, chosen)

        # From here on it is the folder that counts, not what it was made from.
        ours = _load(temporary, task)
        stores = sample_stores(samples, ours.tokenizer, longest)
        if papers is not None:
            some = replace(papers, passages=papers.passages[:COMPARED])
            stores.append(make_store(some, ours.tokenizer, longest))
        if chosen == stored:
            _take_temperatures(folder, temporary)
        else:
            notes.append(_cost_of_rounding(loaded, ours, stores, chosen))
        del loaded
        alike, in_onnx = _compare(temporary, ours, stores, onnx, say)
        measured, measured_on = measure(ours, papers)
        checks = [f"`tokenizer.json` against albert-rc: {split}.", f"transformers: {alike}."]
        if in_onnx is not None:
            checks.append(f"ONNX (onnxruntime): {in_onnx}.")
        records = read_records(folder)
        card = Card(
            title=title or out.resolve().name,
            folder=out.resolve().name,
            licence=licence,
            task=task,
            architecture=architecture,
            config=ours.model.config,
            parameters=sum(parameter.numel() for parameter in ours.model.parameters()),
            precision=chosen,
            megabytes=(temporary / "model.safetensors").stat().st_size / 1e6,
            records=records,
            measured=measured,
            measured_on=measured_on,
            checks=checks,
            option_score=ours.model.option_score,
            null_threshold=getattr(ours.model, "null_threshold", None),
            notes=notes,
            example=_example(ours) if kind == "cloze" else {},
            onnx_megabytes=(temporary / ONNX).stat().st_size / 1e6 if onnx else None,
        )
        write_bytes(temporary / "README.md", render(card))
        sizes = _sizes(temporary)
    return Exported(
        out=out,
        task=task,
        architecture=architecture,
        precision=chosen,
        sizes=sizes,
        split=split,
        transformers=alike,
        onnx=in_onnx,
        measured=measured,
    )


def _kind(task: str) -> Kind:
    """The kind of papers that a model is tried on."""
    kinds: dict[str, Kind] = {"choice": "choice", "label": "label", "span": "span"}
    return kinds.get(task, "cloze")


def _require_fitting(papers: PaperSet | None, kind: Kind, labels: tuple[str, ...]) -> None:
    """Refuse papers that the model has no answers for.

    Raises:
        UsageError: says what they are, and what it answers.
    """
    if papers is None:
        return
    if papers.kind != kind:
        raise UsageError(f"--papers: they are {papers.kind}, but the model answers {kind}")
    if kind == "label" and papers.labels != labels:
        known = ", ".join(labels) or "numbers"
        raise UsageError(
            f"--papers: their labels are {', '.join(papers.labels) or 'numbers'}, but the model "
            f"knows {known}"
        )


def _compare(
    folder: Path, ours: Loaded[Any], stores: list[Store], onnx: bool, say: Callable[[str], None]
) -> tuple[Agreement, Agreement | None]:
    """Have others answer; write the ONNX file if it is wanted, and answers as it should.

    Raises:
        CheckpointError: their answers are not ours.
    """
    model, tokenizer = ours.model, ours.tokenizer
    say("comparing transformers' answers with ours")
    theirs = transformers_runner(folder, model.task)
    alike = require_alike(model, tokenizer, stores, theirs, "transformers")
    if not onnx:
        return alike, None
    say("comparing ONNX's answers with ours")
    content = onnx_bytes(folder, model)
    in_onnx = require_alike(model, tokenizer, stores, onnx_runner(content), "ONNX")
    (folder / ONNX).parent.mkdir()
    write_bytes(folder / ONNX, content)
    return alike, in_onnx


def _sizes(folder: Path) -> dict[str, int]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.stat().st_size for path in files}


def _task(folder: Path, raw: dict[str, Any]) -> tuple[str, str]:
    """What a folder's model does, and the class that opens it."""
    names = raw.get("architectures")
    name = names[0] if isinstance(names, list) and names else None
    for task, architecture in FAMILIES[raw["model_type"]].architectures.items():
        if architecture == name:
            return task, architecture
    raise UsageError(
        f"{folder}/config.json: it names {name or 'no class'}, which answers nothing; "
        "fine-tune it with `albert-rc train`, and export that run"
    )


def _load(folder: Path, task: str) -> Loaded[Any]:
    loaded = load_model(folder, task)
    # Others compute dense attention, in fp32 where exactness is asked for.
    loaded.model.encoder.compute = Compute()
    loaded.model.eval()
    return loaded


def _require_expressible(folder: Path, loaded: Loaded[Any], raw: dict[str, Any]) -> list[str]:
    """Refuse what others could not compute; what they compute otherwise, as notes.

    Raises:
        UsageError: says what it is.
    """
    config, ours = loaded.model.config, raw.get("albert_rc", {})
    if config.residual != "post":
        raise UsageError(f"{folder}: reversible layers; Hugging Face's classes have none")
    if loaded.report.new:
        raise UsageError(
            f"{folder}: lacks {', '.join(loaded.report.new)}; fine-tune it first, and export that"
        )
    if ours.get("attention", "dense") == "dense":
        return []
    if (ours.get("lsh") or {}).get("shared"):
        raise UsageError(
            f"{folder}: it was trained with queries that serve as keys (lsh.form=faithful), "
            "which Hugging Face's classes do not do"
        )
    return ["It was trained with attention by hashing; this folder computes all of attention."]


def _require_split(
    folder: Path, loaded: Loaded[Any], samples: PaperSet, papers: PaperSet | None
) -> SplitAlike:
    """Compare the exported vocabulary with ours.

    Raises:
        CheckpointError: it splits text otherwise.
    """
    split = split_alike(folder, loaded.tokenizer, samples.passages)
    allowed = 0.0
    if papers is not None:
        more = split_alike(folder, loaded.tokenizer, papers.passages)
        allowed = MOST_SPLIT_OTHERWISE * more.texts
        split = SplitAlike(split.texts + more.texts, split.others + more.others)
    if split.others > allowed:
        raise CheckpointError(
            f"{loaded.tokenizer.folder}: as tokenizer.json, {split}; nothing was written"
        )
    return split


def _stored_precision(folder: Path) -> str:
    """In which precision weights lie on the disk; fp32 where they are mixed, or pickled."""
    path = folder / "model.safetensors"
    if not path.is_file():
        return "fp32"
    with safe_open(path, "pt") as file:
        found = {file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118
    names = {"BF16": "bf16", "F16": "fp16"}
    return names.get(found.pop(), "fp32") if len(found) == 1 else "fp32"


def _write_model(loaded: Loaded[Any], folder: Path, precision: str) -> None:
    """Weights and config.json, for the vocabulary that lies there."""
    save_model(loaded.model, load_tokenizer(folder), folder, precision)
    config = read_json(folder / "config.json")
    config["dtype"] = PRECISIONS[precision]
    head = loaded.model.head
    if isinstance(head, ClozeHead) and head.salience is not None:
        # The classes of others pass over the weight; here they can read it without our help.
        rounded = head.salience.detach().to(getattr(torch, PRECISIONS[precision]))
        config["albert_rc"]["salience"] = rounded.float().tolist()
    write_json(folder / "config.json", config)


def _cost_of_rounding(
    before: Loaded[Any], after: Loaded[Any], stores: list[Store], precision: str
) -> str:
    """How many answers change because weights are kept in fewer bits, as a sentence."""
    if not isinstance(before.model, ReadingModel):
        return f"Its weights were rounded to {precision}."
    alone = Processes(torch.device("cpu"))
    changed = total = 0
    for store in stores:
        both: list[Tensor] = [
            score(each.model, each.tokenizer, store, alone).argmax(-1) for each in (before, after)
        ]
        changed += int((both[0] != both[1]).sum())
        total += len(both[0])
    return (
        f"Its weights were rounded to {precision}, which changed {changed:,} of {total:,} answers "
        "to the papers that it was compared on."
    )


def _take_temperatures(source: Path, folder: Path) -> None:
    """Take a run's temperatures along: the weights are the same numbers."""
    for path in sorted(source.glob(RECORDS)):
        try:
            record = kept_record(path)
        except CheckpointError:
            continue
        if record is not None:
            record["weights_sha256"] = file_sha256(folder / "model.safetensors")
            write_json(folder / path.name, record)


def _example(loaded: Loaded[Any]) -> dict[str, Any]:
    """What the card's example asks, and what we answer."""
    (question,) = EXAMPLE.questions
    tokenizer = loaded.tokenizer
    asked = {
        "text": " ".join(running_text(EXAMPLE, tokenizer).split()),
        "options": list(question.options),
        "mask": tokenizer.pieces([tokenizer.mask_id])[0],
    }
    model = loaded.model
    if not isinstance(model, ReadingModel):  # its pieces are those of the sample's blanks
        model = ReadingModel(model.config, "cloze", empty=True)
        model.encoder, model.head = loaded.model.encoder, loaded.model.head
    papers = PaperSet("example", "cloze", "cloze", [EXAMPLE])
    store = make_store(papers, tokenizer, loaded.model.config.max_length)
    chances = score(model, tokenizer, store, Processes(torch.device("cpu")))[0].exp()
    best = int(chances.argmax())
    return asked | {
        "answer": question.options[best],
        "probability": f"{float(chances[best]):.4f}",
    }
