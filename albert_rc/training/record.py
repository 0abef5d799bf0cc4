"""The log files of a run: log.txt, metrics.jsonl and TensorBoard's events."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

from albert_rc.io.atomic import write_bytes
from albert_rc.io.json import parse_json, to_json


class RunLog:
    """Writes a run's log and metrics; each line is flushed, so a crash loses none.

    Args:
        folder: the run's folder.
        resumed_at: step at which a resumed run continues the existing files; metrics of later
            steps, lost in a crash, are dropped. None starts new files.
        attempt: number of the attempt that continues; metrics of earlier attempts stay.
    """

    def __init__(self, folder: Path, resumed_at: int | None, attempt: int = 0) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        path, fresh = folder / "metrics.jsonl", resumed_at is None
        kept = b""
        if resumed_at is not None and path.is_file():
            lines = path.read_bytes().splitlines(keepends=True)
            kept = b"".join(x for x in lines if _place_of(x) <= (attempt, resumed_at))
        write_bytes(path, kept)
        self._log = (folder / "log.txt").open("w" if fresh else "a", encoding="utf-8", buffering=1)
        self._metrics = path.open("ab", buffering=0)
        self._events = _events(folder, resumed_at)
        self._attempt = {"attempt": attempt} if attempt else {}

    def say(self, line: str) -> None:
        """Write a line to log.txt, after a timestamp."""
        print(time.strftime("%Y-%m-%d %H:%M:%S"), line, file=self._log)

    def metrics(self, kind: str, step: int, values: dict[str, Any]) -> None:
        """Write a record to metrics.jsonl, and its numbers as TensorBoard scalars."""
        line = {"kind": kind, "step": step, **self._attempt, **values}
        self._metrics.write(to_json(line, indent=False))
        if self._events is not None:
            for name, value in values.items():
                if isinstance(value, (int, float)):
                    self._events.add_scalar(f"{kind}/{name}", value, step)

    def close(self) -> None:
        """Flush and close the files."""
        self._log.close()
        self._metrics.close()
        if self._events is not None:
            self._events.close()


def _place_of(line: bytes) -> tuple[float, float]:
    """The attempt and the step of a line of metrics.jsonl."""
    try:
        values = parse_json(line)
        return float(values.get("attempt", 0)), float(values["step"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return math.inf, math.inf  # truncated by a crash


def _events(folder: Path, resumed_at: int | None) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:  # some GPU images ship torch without it; the other two files suffice
        return None
    if resumed_at is None:  # earlier results have been moved away already
        for old in folder.glob("events.out.tfevents.*"):
            old.unlink()
    # From the next step on: the evaluation of this one was written before its state.
    after = None if resumed_at is None else resumed_at + 1
    return SummaryWriter(str(folder), flush_secs=10, purge_step=after)
