"""Graceful stopping: Ctrl-C and SIGTERM take effect after the current step."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from albert_rc.errors import Interrupted


class StopRequest:
    """Records Ctrl-C or SIGTERM; the loop stops after the current step."""

    def __init__(self) -> None:
        self.asked = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle the signals inside the block; a second one ends the process at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def note(number: int, frame: FrameType | None) -> None:
            if self.asked:
                # Exit without cleanup: a file being written still has a temporary name.
                if sys.stderr.isatty():
                    os.write(sys.stderr.fileno(), b"\x1b[?25h\n")  # the bar hid the cursor
                os._exit(Interrupted.exit_code)
            self.asked = True

        before = {s: signal.signal(s, note) for s in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
