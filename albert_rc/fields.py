"""Settings as dataclass fields, annotated with help, bounds and choices.

A frozen dataclass annotates a field as `epochs: Annotated[int, Setting("Passes over the papers.",
low=1)] = 4`. Its `__post_init__` calls `check`; the command line makes options of its fields.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from functools import cache
from math import isinf
from types import NoneType
from typing import Any, get_args, get_type_hints

from albert_rc.errors import UsageError

MOST = 10_000_000
"""Upper bound for steps, epochs, tokens and the like: more than any run reaches."""
LARGEST_BATCH = 2**16
LAST_SEED = 2**63 - 1
"""Largest seed that torch accepts."""


@dataclass(frozen=True)
class Setting:
    """Annotation of a field: its help and its allowed values."""

    help: str
    low: float = float("-inf")
    high: float = float("inf")
    above: bool = False
    """Whether a value must be above `low`, not equal to it."""
    below: bool = False
    """Whether a value must be below `high`, not equal to it."""
    choices: tuple[str, ...] = ()
    panel: str | None = None
    """Heading in `--help`."""
    flag: str = ""
    """Name of the option, if it differs from the field's."""

    def allows(self, value: Any) -> bool:
        """Whether a field may have this value; NaN is never allowed."""
        if self.choices:
            return value in self.choices
        if isinstance(value, (int, float)):
            over = value > self.low if self.above else value >= self.low
            under = value < self.high if self.below else value <= self.high
            return over and under and abs(value) != float("inf")
        return True

    @property
    def allowed(self) -> str:
        """The allowed values, in words."""
        some, most = self.low > float("-inf"), self.high < float("inf")
        if some and most and not (self.above or self.below):
            return f"from {self.low:,} to {self.high:,}"
        parts = []
        if some:
            parts.append(f"{'above' if self.above else 'at least'} {self.low:g}")
        if most:
            parts.append(f"{'below' if self.below else 'at most'} {self.high:,g}")
        return " and ".join(parts) or "a number"


def flag_of(name: str) -> str:
    """The option of a setting whose `Setting` names none."""
    return "--" + name.replace("_", "-")


@dataclass(frozen=True)
class About:
    """A field of a dataclass, as the command line sees it."""

    name: str
    kind: type
    """Type of the field, without None."""
    default: Any
    setting: Setting

    @property
    def flag(self) -> str:
        """The option's name, such as `--batch-size`."""
        return self.setting.flag or flag_of(self.name)

    def refusal(self, value: Any) -> UsageError:
        """The error for a value that the field does not allow."""
        if self.setting.choices:
            choices = ", ".join(self.setting.choices)
            return UsageError(f"{self.flag} {value}: choose from {choices}")
        allowed = self.setting.allowed
        if isinstance(value, float) and isinf(value):
            allowed = f"finite, and {allowed}"
        return UsageError(f"{self.flag} {value} must be {allowed}")


@cache
def settings_of(config: type) -> dict[str, About]:
    """The annotated fields of a dataclass, by name, in order."""
    found = {}
    hints = get_type_hints(config, include_extras=True)
    for each in fields(config):
        for setting in getattr(hints[each.name], "__metadata__", ()):
            if isinstance(setting, Setting):
                kind = hints[each.name].__origin__
                plain = [part for part in get_args(kind) if part is not NoneType] or [kind]
                default = None if each.default is MISSING else each.default
                found[each.name] = About(each.name, plain[0], default, setting)
    return found


def check(config: Any) -> None:
    """Check every annotated field of a dataclass instance; None is allowed where it is the default.

    Raises:
        UsageError: names the option, its value, and the allowed values.
    """
    for name, about in settings_of(config.__class__).items():
        value = getattr(config, name)
        if value is None and about.default is None:
            continue
        if not about.setting.allows(value):
            raise about.refusal(value)
