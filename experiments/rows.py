"""Tables of runs that are filled row by row, and go on where they were stopped."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from albert_rc.io.json import parse_json, write_json

Row = dict[str, Any]


def table_parser(description: str | None, read: str, seeds: int = 1) -> argparse.ArgumentParser:
    """The arguments that tables of one model have in common.

    Args:
        description: the script's docstring.
        read: name of the first argument, a path to what is read.
        seeds: default number of seeds.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(read, type=Path)
    parser.add_argument("model", help="folder, hub id or package name of the model to begin with")
    parser.add_argument("work", type=Path, help="folder for stores and runs, kept between calls")
    parser.add_argument("out", type=Path, help="JSON file of the table; its rows are kept")
    parser.add_argument(
        "--seeds", type=int, default=seeds, help=f"number of seeds, from 0 (default: {seeds})"
    )
    return parser


def fill(out: Path, keys: Iterable[Row], run: Callable[..., Row]) -> list[Row]:
    """Run what is not in a table yet; each row is written as soon as it is there.

    Args:
        out: the table, a JSON file.
        keys: what tells each row from the others, in the order of the work.
        run: called with a key's values by name; returns the rest of the row.

    Returns:
        The whole table.
    """
    table: list[Row] = parse_json(out.read_bytes()) if out.is_file() else []
    for key in keys:
        if any(key.items() <= row.items() for row in table):
            continue
        row = key | run(**key)
        print(row, flush=True)
        table.append(row)
        write_json(out, table)
    return table
