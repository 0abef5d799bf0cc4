"""Settings on the command line: `--set NAME=VALUE` for hidden options, `--config FILE` for all.

`--resume` without a file takes the options that the run was started with from its own file.

Any option may be written as a setting. A command lists the options that most runs need; the others
are hidden options, which `--set help` explains.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from albert_rc.errors import DataError, UsageError
from albert_rc.fields import About, flag_of, settings_of
from albert_rc.io.messages import shortened

RUN = "run.toml"
"""File in a run's folder with the options that repeat it."""
_NOT_REPEATED = ("out", "resume", "minutes", "config", "set_", "json")

Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="TOML file with options and settings of this command, one NAME = VALUE per line; "
        "options on the command line take precedence.",
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Further setting of the command; repeatable. `--set help` lists them all.",
    ),
]


class Fields(NamedTuple):
    """Fields of a dataclass that a command has as options."""

    config: type
    only: Collection[str] = ()
    """Names of the fields; empty for all that have a `Setting`."""
    without: Collection[str] = ()
    prefix: str = ""
    """Prefix of the parameters' names; options are named by the `Setting`."""
    defaults: bool | str = True
    """Whether help texts include the default; or what decides it, such as a recipe."""


def takes(
    *parts: Fields, before: str, shown: Collection[str] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the fields of dataclasses as options, replacing its `**` parameter.

    Options that are not given are None, so that a recipe can decide.

    Args:
        parts: the fields.
        shown: names of those that `--help` lists; the others are hidden.
        before: the parameter to insert them before.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        named = [p.replace(kind=p.KEYWORD_ONLY) for p in own]
        place = next(at for at, p in enumerate(named) if p.name == before)
        for config, only, without, prefix, defaults in parts:
            for name, about in settings_of(config).items():
                if (not only or name in only) and name not in without:
                    full = prefix + name
                    kind = _option(about, full in shown, defaults)
                    only_named = inspect.Parameter.KEYWORD_ONLY
                    named.insert(
                        place, inspect.Parameter(full, only_named, default=None, annotation=kind)
                    )
                    place += 1
        command.__signature__ = signature.replace(parameters=named)  # type: ignore[attr-defined]
        return command

    return decorate


def _with_default(text: str, default: Any) -> str:
    """A help text with the default at its end, unless there is none or the text tells it."""
    if default is None or "default" in text:
        return text
    return f"{text.removesuffix('.')} (default: {default})."


def _option(about: About, shown: bool, defaults: bool | str) -> Any:
    """A field as a Typer option."""
    setting = about.setting
    text = setting.help
    if defaults and about.kind is not bool:
        text = _with_default(text, about.default if defaults is True else defaults)
    bounds: dict[str, Any] = {}
    if about.kind is int:
        bounds = {"min": int(setting.low), "max": int(setting.high)}
    kind: Any = Literal[setting.choices] if setting.choices else about.kind
    return Annotated[
        kind | None,
        typer.Option(
            about.flag, help=text, hidden=not shown, rich_help_panel=setting.panel, **bounds
        ),
    ]


def chosen(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in given.items() if value is not None}


def run_file(context: typer.Context) -> dict[str, bytes]:
    """The file for a run's folder that holds its options, so that `--config` repeats it."""
    lines = []
    for name, value in context.params.items():
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE" and name not in _NOT_REPEATED:
            plain = value if isinstance(value, (bool, int, float)) else str(value)
            lines.append(f"{name.strip('_')} = {json.dumps(plain, ensure_ascii=False)}\n")
    said = f"# albert-rc {context.info_name} --config {RUN} --out ... repeats this run\n"
    return {RUN: "".join((said, *lines)).encode()}


def given_flags(context: typer.Context, *names: str) -> list[str]:
    """The options among these parameters that were given, also by `--set` or in a file.

    Args:
        context: of the command; `ctx.params` names its parameters.
        names: parameters; all of the command's if there are none.
    """
    flags = {each.name: each.opts[0] for each in context.command.params if each.name}
    sources = {name: context.get_parameter_source(name) for name in names or flags}
    return [
        flags[name]
        for name, source in sources.items()
        if source is not None and source.name == "COMMANDLINE"
    ]


def need(context: typer.Context, needed: str, *names: str) -> None:
    """Refuse parameters that would be ignored because an option that they need is missing.

    Args:
        context: of the command; `ctx.params` names its parameters.
        needed: the option that is missing, such as "--gold".
        names: parameters without an effect.

    Raises:
        UsageError: one of them was given.
    """
    for flag in given_flags(context, *names):
        raise UsageError(f"{flag} needs {needed}")


def _require_utf_8(word: str) -> None:
    """Refuse a name that JSON and TOML files, such as those of runs, cannot hold."""
    try:
        word.encode()
    except UnicodeEncodeError:
        shown = word.encode("utf-8", "backslashreplace").decode()
        raise UsageError(f"{shown}: is not UTF-8; rename the file or folder") from None


def _plain_type(option: Any, ctx: Any) -> str | None:
    """What `--help` shows as an option's type: none for flags, and the type of a single value."""
    if getattr(option, "is_flag", False):
        return None
    shown: str | None = type(option).display_type_rich(option, ctx=ctx)
    if shown is None:
        return None
    shown = re.sub(r"^<list\[(\w+)\]>$", lambda found: f"<{found[1].lower()}>", shown)
    return shown.replace(" range>", ">")


class _PlainTypes:
    """A command whose help shows types in plain words."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The command's parameters and `--help`."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for each in params:
            # Typer 0.29 shows `<bool>` and `<list[Path]>`; earlier versions never ask for it.
            if hasattr(each, "display_type_rich"):
                each.display_type_rich = partial(_plain_type, each)
        return params


class PlainCommand(_PlainTypes, TyperCommand):
    """A command without `--config` and `--set`."""


class PlainGroup(_PlainTypes, TyperGroup):
    """A group of commands without `--config` and `--set`."""


class _WithSettings(_PlainTypes):
    """A command that supports `--config` and `--set`."""

    params: list[Any]
    name: str | None

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert a file's options before the other options, and settings among them."""
        for word in args:
            _require_utf_8(word)
        rest, now, files, from_file = list(args), [], [], False
        origin: dict[str, str] = {}  # flags that files give
        below = getattr(self, "commands", {})
        valued = {
            flag for each in self.params if not getattr(each, "is_flag", True) for flag in each.opts
        }
        while rest:
            word = rest.pop(0)
            flag, sign, value = word.partition("=")
            if word == "--" or word in below:  # the rest is for another command
                now += [word, *rest]
                break
            if flag in ("--config", "--set"):
                if not sign and not rest:
                    raise UsageError(f"{flag} needs a value")
                value = value if sign else rest.pop(0)
                if flag == "--config":
                    written = self._of_file(Path(value), ctx)
                    files += written
                    origin |= dict.fromkeys(map(_flag, written), value)
                    from_file = True
                    continue
                written = self._of_setting(value, ctx)
                if off := self._turned_off(value):
                    files = [each for each in files if each != off]
                    now = [each for each in now if each != off]
                now += written
                continue
            now.append(word)
            if flag in valued and not sign:
                now += rest[:1]
                rest = rest[1:]
        if not from_file:
            files = self._of_run(now, ctx)
        try:
            return super().parse_args(ctx, [*files, *now])  # type: ignore[misc, no-any-return]
        except typer.BadParameter as error:
            flag = next(iter(getattr(error.param, "opts", ())), "")
            if flag not in origin or flag in map(_flag, now):
                raise
            raise UsageError(f"{origin[flag]}: {error.format_message()}") from None

    def _of_run(self, now: list[str], ctx: Any) -> list[str]:
        """The options that the run to be resumed was started with, if it is one."""
        defaults = {flag: each.default for each in self.params for flag in each.opts}
        if "--resume" not in defaults or "--resume" not in now:
            return []
        out = defaults["--out"]
        for word, after in zip(now, [*now[1:], ""], strict=True):
            flag, sign, value = word.partition("=")
            if flag == "--out":
                out = value if sign else after
        path = Path(out) / RUN
        return self._of_file(path, ctx) if path.is_file() else []

    def _turned_off(self, given: str) -> str | None:
        """The flag that a setting turns off, if it has no `--no-` form that would."""
        name, _, value = given.partition("=")
        flag = flag_of(name)
        for option in self.params:
            if flag in option.opts and option.is_flag and not option.secondary_opts:
                return flag if value == "false" else None
        return None

    def _of_setting(self, given: str, ctx: Any) -> list[str]:
        if given == "help":
            if not any(self._hidden()):
                typer.echo("no settings besides the options that --help lists")
            for option in self._hidden():
                # Typer 0.29 renamed it.
                kind = getattr(option, "display_type", None) or option.make_metavar
                about = option.help or ""
                if not option.is_flag:
                    about = _with_default(about, option.default)
                typer.echo(f"{_name_of(option)}={kind(ctx)}\n    {about}")
            raise typer.Exit
        name, sign, value = given.partition("=")
        if not sign:
            raise UsageError(f"--set {shortened(given)}: give NAME=VALUE")
        if name in ("config", "set"):
            raise UsageError(f"--set {shortened(given)}: use the option --{name} instead")
        return self._written(name, value, f"--set {shortened(given)}", ctx)

    def _of_file(self, path: Path, ctx: Any) -> list[str]:
        found: list[str] = []
        for name, value in _read_file(path):
            if name in ("config", "set"):
                raise UsageError(
                    f"{path}: {name} is not allowed in a file; give --{name} on the command line"
                )
            text = str(value).lower() if isinstance(value, bool) else str(value)
            found += self._written(name, text, f"{path}: {name}", ctx)
        return found

    def _written(self, name: str, value: str, where: str, ctx: Any) -> list[str]:
        """A setting as an option."""
        flag = flag_of(name).replace(".", "-")
        for option in _options(self):
            if flag in option.opts:
                if not option.is_flag:
                    return [f"{flag}={value}"]
                if value in ("true", "false"):
                    other = [*option.secondary_opts, None][0]
                    written = flag if value == "true" else other
                    return [] if written is None else [written]
                raise UsageError(f"{where}: must be true or false")
        raise UsageError(f"{where}: no such setting; {self._instead(flag, ctx)}")

    def _instead(self, flag: str, ctx: Any) -> str:
        """What a setting that the command lacks may have meant."""
        has = [path for path, flags in _commands(ctx.find_root().command) if flag in flags]
        if has:
            return f"it is a setting of {', '.join(has)}, not of {ctx.info_name}"
        names = {option.opts[0]: _name_of(option) for option in _options(self)}
        if close := get_close_matches(flag, names, n=2, cutoff=0.75):
            return f"did you mean {' or '.join(names[each] for each in close)}?"
        return "`--set help` lists them"

    def _hidden(self) -> Iterator[Any]:
        return (each for each in self.params if getattr(each, "hidden", False))


def _flag(word: str) -> str:
    """The flag of `--flag=value`."""
    return word.partition("=")[0]


def _name_of(option: Any) -> str:
    """An option's name for `--set`; its parameter may have another."""
    flag: str = option.opts[0]
    return flag.removeprefix("--").replace("-", "_")


def _options(command: Any) -> list[Any]:
    return [each for each in command.params if each.param_type_name == "option"]


def _commands(group: Any, above: str = "") -> Iterator[tuple[str, set[str]]]:
    """Every command below a group, and its flags."""
    for name, command in group.commands.items():
        path = f"{above} {name}".strip()
        yield path, {flag for option in _options(command) for flag in option.opts}
        if hasattr(command, "commands"):
            yield from _commands(command, path)


class WithSettings(_WithSettings, TyperCommand):
    """A command that supports `--config` and `--set`."""


class GroupWithSettings(_WithSettings, TyperGroup):
    """A command with subcommands that supports `--config` and `--set`."""


def _read_file(path: Path) -> Iterator[tuple[str, Any]]:
    """Names and values of a TOML file; those of a table `[lsh]` have its name as a prefix.

    Raises:
        DataError: it cannot be read, or holds anything but names and values.
    """
    import tomllib

    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DataError(f"{path}: not TOML ({error})") from None
    for name, value in content.items():
        rows = value if isinstance(value, dict) else {"": value}
        for key, single in rows.items():
            full = f"{name}.{key}".strip(".").replace("-", "_")
            if not isinstance(single, (bool, int, float, str)):
                raise DataError(f"{path}: {full} must be a number, text, true or false")
            yield full, single
