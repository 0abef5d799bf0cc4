"""`albert-rc predict`: a model's answers to a store or to raw papers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from albert_rc.answering.request import Request
from albert_rc.cli import options, settings
from albert_rc.cli.console import bar, example, say
from albert_rc.cli.outputs import answer_files, check_outputs
from albert_rc.errors import UsageError
from albert_rc.fields import flag_of


@example("albert-rc predict --data data/test.pt --model models/run1 --out predictions/answer.json")
@settings.takes(
    settings.Fields(Request),
    options.LSH,
    before="device",
    shown=(
        "data", "model", "out", "scores", "abstain", "recall", "format_", "max_length",
        "precision", "attention", "option_score",
    ),
)  # fmt: skip
def predict(
    papers: Annotated[
        Path | None,
        typer.Argument(help="Papers to answer, a .pt store or raw papers, in place of --data."),
    ] = None,
    device: options.Device = None,
    config: settings.Config = None,
    set_: settings.Set = None,
    lsh_form: options.LshForm = None,
    lsh_landmarks: options.LshLandmarks = None,
    engine: options.EngineName = "local",
    address: options.Address = None,
    **given: Any,
) -> None:
    """Answer every question of the papers, in order; nothing is written unless all are answered."""
    from albert_rc.answering.parts import Parts
    from albert_rc.answering.run import run
    from albert_rc.answering.tasks import Show
    from albert_rc.runtime.devices import processes
    from albert_rc.runtime.engines import TaskEngine

    lsh = options.lsh_of(lsh_form, lsh_landmarks, given)
    files = {"data": Path("data/test.pt"), "out": Path("predictions/answer.json")}
    if papers is not None:
        if given.get("data") is not None:
            raise UsageError(f"give the papers once: {papers}, or --data {given['data']}")
        files["data"] = papers
    request = Request(**files | settings.chosen(given), lsh=lsh)
    for name in ("gate", "tolerance"):
        if given.get(name) is not None and request.precision != "int8":
            raise UsageError(f"{flag_of(name)} needs --precision int8")
    parts = Parts(request)
    outputs = answer_files(request.out, request.scores, request.abstain)
    if not parts.is_one and not parts.joins:
        outputs = {}  # a folder, in which a manifest says what made it
    check_outputs(outputs, (request.data, request.recall, request.gate))
    where = TaskEngine(name=engine, address=address, gpus=device != "cpu")
    with processes(device) as group:
        for line in run(request, group, Show(say, bar), where):
            typer.echo(line)
