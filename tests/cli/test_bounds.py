"""Numbers on the command line: each has bounds, and what lies beyond them is refused at once."""

import inspect
import typing

import pytest
from typer.testing import CliRunner

from albert_rc.cli.app import app
from albert_rc.errors import UsageError
from albert_rc.io.sizes import parse_size


def numbers(group=app, before=()):
    """Every option that is a whole number: its command, flag, and what typer knows of it."""
    for each in group.registered_groups:
        name = (*before, each.name)
        yield from numbers(each.typer_instance, name)
        if callback := each.typer_instance.info.callback:
            yield from of_command(callback, name)
    for command in group.registered_commands:
        name = command.name or command.callback.__name__
        yield from of_command(command.callback, (*before, name))


def of_command(callback, name):
    for option, parameter in inspect.signature(callback, eval_str=True).parameters.items():
        base, *more = typing.get_args(parameter.annotation) or (None,)
        if base is int or int in typing.get_args(base):
            yield pytest.param(name, option, more[0], id=f"{name[-1]} {option}")


@pytest.mark.parametrize(("command", "option", "info"), list(numbers()))
def test_every_whole_number_has_bounds(command, option, info):
    assert info.min is not None
    assert info.max is not None
    flag = f"--{option.replace('_', '-')}"
    for number in (info.min - 1, info.max + 1, 10**20):
        done = CliRunner().invoke(app, [*command, flag, str(number)])
        assert done.exit_code == 2
        assert flag in done.output
        assert isinstance(done.exception, SystemExit), "not refused by typer"


@pytest.mark.parametrize("size", ["9" * 400 + "GB", "99999999999999GiB", "0.0001KB"])
def test_sizes_have_bounds(size):
    with pytest.raises(UsageError, match=r"--memory .*: must be from 1 byte to 1,048,576 GiB"):
        parse_size("--memory", size)
    assert parse_size("--memory", "1048576GiB") == 2**50


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["train", "--search", "3", "--batch-sizes", "1,99999999999999999999"], "at most 65,536"),
        (
            ["pretrain", "data", "text.txt", "--part", f"1/{'9' * 5000}"],
            "give a part I/N, from 1/N to N/N",
        ),
    ],
)
def test_numbers_in_texts_have_bounds(cli, tmp_path, arguments, said):
    (tmp_path / "text.txt").write_text("A line.")
    done = cli(*arguments, "--model", "albert-rc-tiny", cwd=tmp_path)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert "Traceback" not in done.stderr
