"""Graceful stopping: Ctrl-C, SIGTERM and a closed terminal take effect after the current step."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from albert_rc.errors import Interrupted

SAME_WISH = 1.0
"""Seconds within which signals count as one: a launcher forwards what the terminal also sends."""


class StopRequest:
    """Records Ctrl-C, SIGTERM or SIGHUP; the loop stops after the current step."""

    def __init__(self) -> None:
        self.asked = False
        self._first: float | None = None

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle the signals inside the block; a later second one ends the process at once.

        SIGHUP stays ignored where it is, as under `nohup`.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def note(number: int, frame: FrameType | None) -> None:
            now = time.monotonic()
            self._first = self._first or now
            if now - self._first > SAME_WISH:
                # Exit without cleanup: a file being written still has a temporary name.
                if sys.stderr.isatty():
                    os.write(sys.stderr.fileno(), b"\x1b[?25h\n")  # the bar hid the cursor
                os._exit(Interrupted.exit_code)
            self.asked = True

        caught = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            caught.append(signal.SIGHUP)
        before = {number: signal.signal(number, note) for number in caught}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
