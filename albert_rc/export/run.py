"""The steps of `albert-rc export`: write a temporary folder, verify it, rename it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from albert_rc.answering.score import reading_of, score
from albert_rc.answering.temperature import RECORDS, kept_record, other_reading, record_path
from albert_rc.checkpoints.hf_config import read_config
from albert_rc.checkpoints.hf_names import FAMILIES, saved_class, saved_task
from albert_rc.checkpoints.hub import resolve_source
from albert_rc.checkpoints.load import Loaded, load_model, save_model
from albert_rc.checkpoints.weights import open_weights
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
"""Precisions of written weights, with Hugging Face's names."""
ONNX = "onnx/model.onnx"
COMPARED = 32
"""Number of the given papers that other implementations answer too, since they are slow."""
MOST_SPLIT_OTHERWISE = 0.01
"""Maximum share of differently split texts: ties between pieces may be resolved differently."""
EXAMPLE = Passage(
    "example",
    "It was raining hard, so she took an _ with her.",
    (Question(("umbrella", "apple", "engine", "island")),),
    "cloze",
    ((36, 37),),
)


@dataclass(frozen=True, kw_only=True)
class Exported:
    """Result of an export, with the agreement of other implementations."""

    out: Path
    task: str
    architecture: str
    precision: str
    sizes: dict[str, int]
    """Bytes of each file, by its path in the folder."""
    split: SplitAlike
    transformers: Agreement
    onnx: Agreement | None
    measured: list[Row]

    def as_json(self) -> dict[str, Any]:
        """The value for `--json`."""
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
    mean_of: str | None = None,
    run: Path | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Exported:
    """Write a model as a folder that transformers opens without our code, with its card.

    The folder is renamed to `out` only after transformers, and onnxruntime, agree with our model.

    Args:
        source: folder of a run or checkpoint, a model of the package, or a hub id.
        out: path of the new folder.
        onnx: also export as ONNX.
        precision: a key of `PRECISIONS`; that of the weights on disk by default.
        licence: the hub's identifier of the weights' licence; not stated by default.
        title: title of the card; the folder's name by default.
        papers: verify on the first of these too, and evaluate on all with known answers.
        mean_of: the checkpoints that the weights are the mean of, in words, if they are one.
        run: folder whose records are the card's; `source` by default.
        say: called with progress messages.

    Raises:
        UsageError: `out` exists, or others cannot compute the model.
        CheckpointError: unusable weights, or others' answers differ from ours.
    """
    if precision not in (None, *PRECISIONS):
        raise UsageError(f"--precision {precision}: choose from {', '.join(PRECISIONS)}")
    if onnx:
        require_onnx()
    folder = resolve_source(source, "")
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
        stored = _stored_precision(folder, raw["model_type"])
        chosen = precision or stored
        _write_model(loaded, temporary, chosen)

        # From here on the written folder is used, not the source.
        ours = _load(temporary, task)
        stores = sample_stores(samples, ours.tokenizer, longest)
        if papers is not None:
            some = replace(papers, passages=papers.passages[:COMPARED])
            stores.append(make_store(some, ours.tokenizer, longest))
        how = reading_of(ours.model, longest) if isinstance(ours.model, ReadingModel) else None
        calibrated = _take_temperatures(folder, temporary, how)
        if chosen != stored and chosen == "fp32":
            notes.append("Its weights are stored as fp32, with the same values.")
        elif chosen != stored:
            notes.append(_cost_of_rounding(loaded, ours, stores, chosen))
        del loaded
        alike, in_onnx = _compare(temporary, ours, stores, onnx, say)
        measured, measured_on = measure(ours, papers)
        checks = [f"`tokenizer.json` against albert-rc: {split}.", f"transformers: {alike}."]
        if in_onnx is not None:
            checks.append(f"ONNX (onnxruntime): {in_onnx}.")
        records = read_records(run or folder, unchanged=chosen == stored)
        if not calibrated:
            records = replace(records, temperature=None)
        null_threshold = getattr(ours.model, "null_threshold", None)
        if mean_of is not None:
            # These are not the weights that were measured.
            records = replace(records, figures=[], temperature=None, own_card=None)
            notes.append(f"Its weights are the mean of {mean_of}.")
            if null_threshold is not None:
                notes.append(
                    "Its threshold for no answer was tuned for one of them, not for their mean."
                )
                say(f"warning: {notes[-1]} `predict --null-threshold` takes another")
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
            read_again=ours.model.read_again,
            null_threshold=null_threshold,
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
    """The kind of papers for verifying a model."""
    kinds: dict[str, Kind] = {"choice": "choice", "label": "label", "span": "span"}
    return kinds.get(task, "cloze")


def _require_fitting(papers: PaperSet | None, kind: Kind, labels: tuple[str, ...]) -> None:
    """Refuse papers that the model cannot answer.

    Raises:
        UsageError: names the papers' kind and the model's.
    """
    if papers is None:
        return
    if papers.kind != kind:
        raise UsageError(
            f"--papers: these are {papers.kind} papers, but the model answers {kind} papers; give "
            "such papers"
        )
    if kind == "label" and papers.labels != labels:
        known = ", ".join(labels) or "numbers"
        raise UsageError(
            f"--papers: their labels are {', '.join(papers.labels) or 'numbers'}, but the model "
            f"knows {known}"
        )


def _compare(
    folder: Path, ours: Loaded[Any], stores: list[Store], onnx: bool, say: Callable[[str], None]
) -> tuple[Agreement, Agreement | None]:
    """Compare with other implementations; write the ONNX file if requested and verified.

    Raises:
        CheckpointError: their answers differ from ours.
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
    """The task of a folder's model, and the class that opens it."""
    task = saved_task(raw)
    if task is None:
        raise UsageError(
            f"{folder}/config.json: the model ({saved_class(raw) or 'no class is named'}) has no "
            "head for a task; fine-tune it with `albert-rc train`, and export that run"
        )
    return task, FAMILIES[raw["model_type"]].architectures[task]


def _load(folder: Path, task: str) -> Loaded[Any]:
    loaded = load_model(folder, task)
    # Others compute dense attention, in fp32 for exactness.
    loaded.model.encoder.compute = Compute()
    loaded.model.eval()
    return loaded


def _require_expressible(folder: Path, loaded: Loaded[Any], raw: dict[str, Any]) -> list[str]:
    """Refuse models that others cannot compute; returns notes on differences.

    Raises:
        UsageError: names the unsupported feature.
    """
    config, ours = loaded.model.config, raw.get("albert_rc", {})
    if config.residual != "post":
        raise UsageError(f"{folder}: Hugging Face's classes do not support reversible layers")
    if loaded.report.new:
        raise UsageError(
            f"{folder}: lacks {', '.join(loaded.report.new)}; fine-tune it first, and export that"
        )
    if ours.get("attention", "dense") == "dense":
        return []
    if (ours.get("lsh") or {}).get("shared"):
        raise UsageError(
            f"{folder}: it was trained with queries that serve as keys (--lsh-form faithful), "
            "which Hugging Face's classes do not support; export a run with dense attention or "
            "--lsh-form ours"
        )
    return ["It was trained with hashed attention; this folder uses full attention."]


def _require_split(
    folder: Path, loaded: Loaded[Any], samples: PaperSet, papers: PaperSet | None
) -> SplitAlike:
    """Compare the exported tokenizer with ours.

    Raises:
        CheckpointError: it splits text differently.
    """
    split = split_alike(folder, loaded.tokenizer, samples.passages)
    checked = [(split, 0.0)]
    if papers is not None:
        more = split_alike(folder, loaded.tokenizer, papers.passages)
        checked.append((more, MOST_SPLIT_OTHERWISE * more.texts))
        split = SplitAlike(split.texts + more.texts, split.others + more.others)
    for found, allowed in checked:
        if found.others > allowed:
            raise CheckpointError(
                f"{loaded.tokenizer.folder}: by its tokenizer.json, {found}; nothing was written"
            )
    return split


def _stored_precision(folder: Path, family: str) -> str:
    """Precision of the weights on disk; fp32 if they are mixed.

    Older files have whole numbers beside the weights, such as the position ids.
    """
    path = folder / "model.safetensors"
    if path.is_file():
        with safe_open(path, "pt") as file:
            found = {file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118
        names = {"BF16": "bf16", "F16": "fp16"}
        kinds = [names.get(kind, "fp32") for kind in found if "F" in kind]
    else:
        weights = open_weights(folder, FAMILIES[family])
        dtypes = {weights.read(key, None).dtype for key in weights.keys.values()}
        known = {getattr(torch, theirs): name for name, theirs in PRECISIONS.items()}
        kinds = [known.get(dtype, "fp32") for dtype in dtypes if dtype.is_floating_point]
    return kinds[0] if len(kinds) == 1 else "fp32"


def _write_model(loaded: Loaded[Any], folder: Path, precision: str) -> None:
    """Write weights and config.json, for the vocabulary in the folder."""
    save_model(loaded.model, load_tokenizer(folder), folder, precision)
    config = read_json(folder / "config.json")
    config["dtype"] = PRECISIONS[precision]
    head = loaded.model.head
    if isinstance(head, ClozeHead) and head.salience is not None:
        # Others' classes ignore the weight; this makes it available to them.
        rounded = head.salience.detach().to(getattr(torch, PRECISIONS[precision]))
        config["albert_rc"]["salience"] = rounded.float().tolist()
    write_json(folder / "config.json", config)


def _cost_of_rounding(
    before: Loaded[Any], after: Loaded[Any], stores: list[Store], precision: str
) -> str:
    """Number of answers changed by lower precision of the weights, as a sentence."""
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
        "on the papers of the comparison."
    )


def _take_temperatures(source: Path, folder: Path, how: dict[str, Any] | None) -> bool:
    """Copy a run's temperatures: the weights are the same but for rounding, as in `reading_of`.

    Args:
        source: the run's folder.
        folder: the exported one.
        how: inference settings of the exported model; records for others, such as hashed attention,
            do not hold for it.

    Returns:
        Whether one for the usual way of reading options was copied.
    """
    taken = set()
    for path in sorted(source.glob(RECORDS)):
        try:
            record = kept_record(path)
        except CheckpointError:
            continue
        if record is not None and (how is None or other_reading(record, how) is None):
            record["weights_sha256"] = file_sha256(folder / "model.safetensors")
            write_json(folder / path.name, record)
            taken.add(path.name)
    return record_path(folder).name in taken


def _example(loaded: Loaded[Any]) -> dict[str, Any]:
    """The card's example, with our answer."""
    (question,) = EXAMPLE.questions
    tokenizer = loaded.tokenizer
    asked = {
        "text": " ".join(running_text(EXAMPLE, tokenizer).split()),
        "options": list(question.options),
        "mask": tokenizer.pieces([tokenizer.mask_id])[0],
    }
    model = loaded.model
    if not isinstance(model, ReadingModel):  # scores the pieces at the sample's blanks
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
