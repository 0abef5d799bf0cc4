"""What a run leaves behind to read: log.txt, metrics.jsonl and TensorBoard's events."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

from albert_rc.io.atomic import write_bytes
from albert_rc.io.files import parse_json, to_json


class RunLog:
    """Writes a run's log and metrics as it goes; lines are flushed, so a crash loses none.

    Args:
        folder: the run's.
        resumed_at: step from which a resumed run goes on with the files that are there; metrics
            of later steps, lost with the crash, are dropped. None starts anew.
        attempt: which one goes on; what earlier ones left stays, wherever they ended.
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
        """A line of log.txt, with the time before it."""
        print(time.strftime("%Y-%m-%d %H:%M:%S"), line, file=self._log)

    def metrics(self, kind: str, step: int, values: dict[str, Any]) -> None:
        """A record of metrics.jsonl, and the numbers in it as TensorBoard's scalars."""
        line = {"kind": kind, "step": step, **self._attempt, **values}
        self._metrics.write(to_json(line, indent=False))
        if self._events is not None:
            for name, value in values.items():
                if isinstance(value, (int, float)):
                    self._events.add_scalar(f"{kind}/{name}", value, step)

    def close(self) -> None:
        """Write out what is still in memory."""
        self._log.close()
        self._metrics.close()
        if self._events is not None:
            self._events.close()


def _place_of(line: bytes) -> tuple[float, float]:
    """The attempt and the step that a line of metrics.jsonl is of."""
    try:
        values = parse_json(line)
        return float(values.get("attempt", 0)), float(values["step"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return math.inf, math.inf  # torn by the crash


def _events(folder: Path, resumed_at: int | None) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:  # some GPU images carry torch without it; the other two files say it all
        return None
    if resumed_at is None:  # what was worth keeping has been set aside
        for old in folder.glob("events.out.tfevents.*"):
            old.unlink()
    return SummaryWriter(str(folder), flush_secs=10, purge_step=resumed_at)
