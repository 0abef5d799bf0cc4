"""Renamed commands: the old name still works, and prints the new one."""

from __future__ import annotations

import os
import sys
from typing import Any

from albert_rc.cli.settings import PlainGroup

RENAMED: dict[str, list[str]] = {
    "search": ["train", "--search", "12", "--epochs", "2", "--out", "models/search"],
    "pretrain-data": ["pretrain", "data"],
    "vocabulary": ["pretrain", "vocabulary"],
    "calibrate": ["evaluate", "--calibrate"],
    "average": ["export"],
    "verify-resume": ["bench", "resume"],
}
"""The command of each old name, with options for the old defaults."""
_OPTIONS = {"--trials": "--search"}


class Commands(PlainGroup):
    """The commands of the package, by current and old names."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Replace an old name by the new one."""
        if args and args[0] in RENAMED:
            old, *rest = args
            now = RENAMED[old]
            if os.environ.get("RANK", "0") == "0":
                words = [word for word in now[:2] if not word[-1].isdigit()]
                said = " ".join(word + " N" if word == "--search" else word for word in words)
                print(f"note: {old} is now called {said}", file=sys.stderr)
            rest = [_renamed(word) for word in rest]
            args = [*now, *rest]
        return super().resolve_command(ctx, args)


def _renamed(word: str) -> str:
    """The current name of an old command's option."""
    flag, sign, value = word.partition("=")
    return _OPTIONS.get(flag, flag) + sign + value
