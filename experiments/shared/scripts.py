"""What the scripts have in common."""

from __future__ import annotations

import argparse


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """A parser of a script's arguments, whose --help shows its docstring as written.

    Args:
        description: the script's docstring.
    """
    return argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
