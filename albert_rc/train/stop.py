"""Stopping in good order: Ctrl-C and SIGTERM wait for the step in hand."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequest:
    """Notes Ctrl-C or SIGTERM; the loop stops after the step in hand."""

    def __init__(self) -> None:
        self.asked = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle the signals inside the block; a second Ctrl-C stops at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def note(number: int, frame: FrameType | None) -> None:
            if self.asked:
                raise KeyboardInterrupt
            self.asked = True

        before = {s: signal.signal(s, note) for s in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
