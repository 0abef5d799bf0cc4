"""Tables of runs that are filled row by row, and go on where they were stopped."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import torch

from albert_rc.errors import Interrupted
from albert_rc.io.json import parse_json, write_json
from experiments.shared.command import run_within
from experiments.shared.scripts import parser_of

Row = dict[str, Any]


def table_parser(description: str | None, read: str, seeds: int = 1) -> argparse.ArgumentParser:
    """The arguments that tables of one model have in common.

    Args:
        description: the script's docstring.
        read: name of the first argument, a path to what is read.
        seeds: default number of seeds.
    """
    parser = parser_of(description)
    parser.add_argument(read, type=Path)
    parser.add_argument("model", help="folder, hub id or package name of the model to begin with")
    parser.add_argument("work", type=Path, help="folder for stores and runs, kept between calls")
    parser.add_argument("out", type=Path, help="JSON file of the table; its rows are kept")
    parser.add_argument(
        "--seeds", type=int, default=seeds, help=f"number of seeds, from 0 (default: {seeds})"
    )
    parser.add_argument(
        "--side-by-side", type=int, default=1, metavar="N",
        help="make N rows at the same time, for a GPU that one row does not fill; their times are "
        "not measured then (default: 1)",
    )  # fmt: skip
    return parser


_run: Callable[..., Row] | None = None
"""What the processes of `fill` do; they are forked, since not every such function can be sent."""


def require_same(out: Path, table: Iterable[Row], settings: Row) -> None:
    """Stop if a row of a table was made with other settings; one may lack some.

    Raises:
        SystemExit: names the difference.
    """
    for row in table:
        for name, value in settings.items():
            if row.get(name, value) != value:
                raise SystemExit(
                    f"{out}: has rows with {name} {row[name]}, not {value}; other settings need "
                    "another WORK and OUT.json"
                )


def fill(
    out: Path,
    keys: Iterable[Row],
    run: Callable[..., Row],
    side_by_side: int = 1,
    settings: Row | None = None,
) -> list[Row]:
    """Run what is not in a table yet; each row is written as soon as it is there.

    Args:
        out: the table, a JSON file.
        keys: what tells each row from the others, in the order of the work.
        run: called with a key's values by name; returns the rest of the row.
        side_by_side: number of rows made at the same time, each in a process that it keeps. A row
            that fails then does not stop the others, but the script ends with an error. Where the
            script is stopped, all of them save their states and stop.
        settings: what all rows have in common; added to each.

    Returns:
        The whole table.

    Raises:
        SystemExit: the table has rows with other settings.
    """
    global _run
    table: list[Row] = parse_json(out.read_bytes()) if out.is_file() else []
    common = settings or {}
    require_same(out, table, common)
    missing = [key for key in keys if not any(key.items() <= row.items() for row in table)]

    def add(key: Row, rest: Row) -> None:
        print(key | rest, flush=True)
        table.append(key | common | rest)
        write_json(out, table)

    if side_by_side == 1:
        for key in missing:
            add(key, run(**key))
        return table
    _run, failed = run, []
    pool = ProcessPoolExecutor(
        side_by_side, multiprocessing.get_context("fork"), _begin, (side_by_side,)
    )
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        started = {pool.submit(_run_one, key): key for key in missing}
        for future in as_completed(started):
            key = started[future]
            try:
                add(key, future.result())
            except BrokenProcessPool:
                raise SystemExit("stopped; the same command goes on") from None
            except Exception:
                failed.append(key)
                print(key, traceback.format_exc(), flush=True)
    except BaseException:
        # Or they would go on without the script, and begin other rows.
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        signal.signal(signal.SIGTERM, before)
    if failed:
        raise SystemExit(f"{len(failed)} rows failed; see above")
    return table


def _begin(processes: int) -> None:
    run_within()
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // processes))


def _run_one(key: Row) -> Row:
    assert _run is not None
    try:
        return _run(**key)
    except Interrupted:  # its state is saved; this process must not begin another row
        os._exit(Interrupted.exit_code)
    except SystemExit as error:  # of a command; it must not stop the other rows
        raise RuntimeError(str(error)) from error
