"""What a run leaves behind to read: log.txt, metrics.jsonl and TensorBoard's events."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from albert_rc.files import to_json


class Record:
    """Writes a run's log and metrics as it goes; lines are flushed, so a crash loses none.

    Args:
        folder: the run's.
        append: go on with the files that are there (a resumed run).
    """

    def __init__(self, folder: Path, append: bool) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        mode = "a" if append else "w"
        self._log = (folder / "log.txt").open(mode, encoding="utf-8", buffering=1)
        self._metrics = (folder / "metrics.jsonl").open(mode + "b", buffering=0)
        self._events = _events(folder, append)

    def say(self, line: str) -> None:
        """A line of log.txt, with the time before it."""
        print(time.strftime("%Y-%m-%d %H:%M:%S"), line, file=self._log)

    def metrics(self, kind: str, step: int, values: dict[str, Any]) -> None:
        """A record of metrics.jsonl, and the numbers in it as TensorBoard's scalars."""
        self._metrics.write(to_json({"kind": kind, "step": step, **values}, indent=False))
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


def _events(folder: Path, append: bool) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:  # some GPU images carry torch without it; the other two files say it all
        return None
    if not append:
        for old in folder.glob("events.out.tfevents.*"):
            old.unlink()
    return SummaryWriter(str(folder), flush_secs=10)
