"""The command line's door: commands by name, errors to exit codes.

Nothing heavy is imported here; each command imports torch and the rest when it runs.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated

import typer

from albert_rc import __version__
from albert_rc.cli import (
    bench,
    doctor,
    evaluate,
    inspect,
    predict,
    preprocess,
    pretrain,
    pretrain_data,
    train,
    vocabulary,
)
from albert_rc.errors import AlbertRcError, OutOfMemoryError, UsageError
from albert_rc.wording import visible

app = typer.Typer(
    name="albert-rc",
    help="Reading comprehension of exam papers with ALBERT: raw JSON to tensors to answer.json.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for name, command in (
    ("doctor", doctor.doctor),
    ("preprocess", preprocess.preprocess),
    ("train", train.train),
    ("predict", predict.predict),
    ("evaluate", evaluate.evaluate),
    ("vocabulary", vocabulary.vocabulary),
    ("pretrain-data", pretrain_data.pretrain_data),
    ("pretrain", pretrain.pretrain),
    ("bench", bench.bench),
):
    app.command(name)(command)
app.add_typer(inspect.inspect, name="inspect")


def _print_version(asked: bool) -> None:
    if asked:
        print(f"albert-rc {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line and exit with the code of DESIGN: see `albert_rc.errors`."""
    for stream in (sys.stdout, sys.stderr):
        # A paper's letters, or a file's name, may be none of the terminal's.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except AlbertRcError as error:
        _fail(str(error), error)
    except OSError as error:  # a full disk, a folder that may not be written to
        _fail(f"{error.filename or 'a file'}: {error.strerror or error}", UsageError())
    except MemoryError:
        _fail(_NO_MEMORY, OutOfMemoryError())
    except RuntimeError as error:
        from albert_rc.devices import is_out_of_memory

        if not is_out_of_memory(error):
            raise
        _fail(_NO_MEMORY, OutOfMemoryError())


_NO_MEMORY = (
    "out of memory; give --memory less than there is, so that more is left for others (train), "
    "or lower --token-budget (predict)"
)


def _fail(message: str, error: AlbertRcError) -> None:
    rank = os.environ.get("RANK", "0")
    who = "" if rank == "0" else f"rank {rank}: "
    print(f"{who}error: {visible(message)}", file=sys.stderr)
    sys.exit(error.exit_code)
