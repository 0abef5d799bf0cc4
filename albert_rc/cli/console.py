"""Console output: results on stdout, progress on stderr, from the main process only."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from rich.cells import cell_len
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from albert_rc.errors import Interrupted
from albert_rc.io.messages import counted, visible
from albert_rc.training.stop import SAME_WISH

if TYPE_CHECKING:
    from albert_rc.training.tally import StepReport

Command = TypeVar("Command", bound=Callable[..., None])
RETRY = 0.02
"""Seconds between attempts to stop while a module is imported."""
DEFAULT_MODEL = "albert/albert-xxlarge-v2"
LONGEST_FIGURE = 20
"""Maximum width of a figure in columns, with brackets and units."""
out = Console(soft_wrap=True, highlight=False, emoji=False)
err = Console(stderr=True, soft_wrap=True, highlight=False, emoji=False)


def example(text: str) -> Callable[[Command], Command]:
    """End a command's help with an example."""

    def decorate(command: Command) -> Command:
        command.__doc__ = f"{command.__doc__}\n\nExample: `{text}`"
        return command

    return decorate


def say(line: str) -> None:
    """Print a line on stderr literally: no markup in brackets, and no escape sequences."""
    err.print(visible(line), markup=False)


def leave_cleanly(said: str) -> None:
    """Make Ctrl-C and SIGTERM unwind the stack, so that no half-written file remains.

    Signals in quick succession count as one, for example where a launcher forwards a signal that
    the terminal has also sent; a second one during unwinding would end in a traceback. A later one
    exits at once. During an import the exception waits for its end: the libraries' own start-up
    code drops exceptions or goes on with modules that are half imported.

    Args:
        said: message about the state of the work.
    """
    asked: float | None = None
    waiting = False  # the next signal is the timer's, not the user's

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal asked, waiting
        if asked is None or waiting:
            asked, waiting = asked or time.monotonic(), False
            if not _importing(frame):
                raise Interrupted(said)
            timer = threading.Timer(RETRY, ask_again, [number])
            timer.daemon = True
            timer.start()
        elif time.monotonic() - asked > SAME_WISH:
            os._exit(Interrupted.exit_code)

    def ask_again(number: int) -> None:
        nonlocal waiting
        if signal.getsignal(number) in (signal.SIG_DFL, signal.SIG_IGN):
            return  # the command has ended
        waiting = True
        main = threading.main_thread().ident
        assert main is not None
        signal.pthread_kill(main, number)  # also where it waits in a system call

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)


def _importing(frame: FrameType | None) -> bool:
    """Whether a module is being imported at a frame."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def print_json(value: Any) -> None:
    """Print a result as JSON on stdout."""
    from albert_rc.io.json import to_json

    sys.stdout.write(to_json(value).decode())


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table on stdout, with numbers right-aligned.

    On a narrow terminal cells are wrapped between words. Figures are never broken, even if the
    table becomes wider than the terminal: half a figure would be misread as a whole one.
    """
    shown = Table(title=Text(visible(title)), title_justify="left", title_style="bold")
    texts = [[visible(str(cell)) for cell in row] for row in rows]
    needed = [_widest([name, *(r[at] for r in texts)]) for at, name in enumerate(header)]
    for number, (name, width) in enumerate(zip(header, needed, strict=True)):
        justify: Literal["left", "right"] = "right" if number else "left"
        shown.add_column(name, justify=justify, overflow="fold", min_width=width)
    for row in texts:
        shown.add_row(*map(Text, row))
    least = sum(needed) + 3 * len(needed) + 1  # spaces and lines between columns
    if least > out.width:
        shown.width = least
    out.print(shown)


def _widest(texts: Iterable[str]) -> int:
    """Width of the longest figure or word of texts; longer names may be broken."""
    sizes = (cell_len(word) for text in texts for word in text.split())
    return max((size for size in sizes if size <= LONGEST_FIGURE), default=0)


@contextmanager
def bar(description: str, total: int, main: bool) -> Iterator[Any]:
    """A progress bar on a terminal; yields a function that takes the number of items done."""
    if not (main and err.is_terminal):
        yield lambda done: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, transient=True) as progress:
        task = progress.add_task(description, total=total)
        yield lambda done: progress.advance(task, done)


class TrainBar:
    """The progress of a run: a live bar on a terminal, else plain lines at intervals."""

    def __init__(self, main: bool) -> None:
        self._live = main and err.is_terminal
        self._main = main
        self._lines_at = 0
        # The bar only on wide terminals: the numbers alone fill 80 columns.
        drawn = [BarColumn(bar_width=err.width - 92)] if err.width > 100 else []
        self._progress = Progress(
            TextColumn("epoch {task.fields[epoch]:.2f}"),
            *drawn,
            MofNCompleteColumn(),
            TextColumn(
                "loss {task.fields[loss]:.3f} accuracy {task.fields[accuracy]} "
                "{task.fields[speed]:.1f} {task.fields[unit]}/s{task.fields[best]}"
            ),
            TimeRemainingColumn(compact=True),
            console=err,
        )
        self._task: Any = None

    def __enter__(self) -> TrainBar:
        if self._live:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._progress.stop()

    def step(self, report: StepReport) -> None:
        """Show a step."""
        best = "" if report.best_score is None else f" best dev {report.best_score:.1%}"
        loss = report.figures["loss"]
        accuracy = f"{report.figures['accuracy']:.1%}" if "accuracy" in report.figures else "-"
        if self._live:
            shown: dict[str, Any] = {
                "epoch": report.epoch,
                "loss": loss,
                "accuracy": accuracy,
                "speed": report.items_per_second,
                "unit": report.unit,
                "best": best,
            }
            if self._task is None:
                self._task = self._progress.add_task("", total=report.total_steps, **shown)
            self._progress.update(self._task, completed=report.step, **shown)
        elif self._main and report.step >= self._lines_at:
            self._lines_at = report.step + max(50, report.total_steps // 50)
            left = report.total_steps - report.step
            say(
                f"step {report.step}/{report.total_steps}  epoch {report.epoch:.2f}  "
                f"loss {loss:.3f}  accuracy {accuracy}  {report.items_per_second:.1f} "
                f"{report.unit}/s{best}  ({counted(left, 'step')} left)"
            )
