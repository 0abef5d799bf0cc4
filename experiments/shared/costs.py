"""What it costs to answer papers with a model: milliseconds and parameters."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from statistics import median

import torch

from albert_rc.answering.score import score
from albert_rc.answering.spans import find_spans
from albert_rc.checkpoints.load import load_model
from albert_rc.runtime.devices import Processes, choose_precision
from albert_rc.stores.store import load_store


def costs(folder: Path | str, papers: Path, timed: bool = True) -> tuple[float, int]:
    """Milliseconds to answer a paper of a store, and the model's parameters.

    The median of three runs over the store (fewer if they take minutes) in one process on the CPU,
    without its start, with the precision of `predict`; 0 if not `timed`.
    """
    alone = Processes(torch.device("cpu"))
    precision = choose_precision(None, alone.device)
    store = load_store(papers)
    loaded = load_model(folder, store.kind, precision=precision)
    parameters = sum(p.numel() for p in loaded.model.parameters())
    encoder = loaded.model.encoder
    encoder.compute = replace(encoder.compute, precision=precision)
    encoder.freeze()
    times: list[float] = []
    while timed and len(times) < 3 and sum(times) < 60:
        started = time.perf_counter()
        answer = find_spans if store.kind == "span" else score
        answer(loaded.model, loaded.tokenizer, store, alone)
        times.append(time.perf_counter() - started)
    if not timed:
        return 0.0, parameters
    return round(1000 * median(times) / len(store.meta["ids"]), 2), parameters
