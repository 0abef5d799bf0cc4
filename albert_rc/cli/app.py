"""The entry point of the command line: commands by name, exit codes of errors.

Nothing heavy is imported here; each command imports torch and the rest when it runs.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from collections.abc import Callable
from typing import Annotated, NoReturn

import typer

from albert_rc import __version__
from albert_rc.cli import (
    bench,
    doctor,
    ensemble,
    evaluate,
    export,
    import_,
    inspect,
    predict,
    preprocess,
    pretrain,
    pretrain_data,
    render,
    report,
    serve,
    train,
    vocabulary,
)
from albert_rc.cli.console import leave_cleanly
from albert_rc.cli.renamed import Commands
from albert_rc.cli.settings import GroupWithSettings, WithSettings
from albert_rc.errors import (
    READER_LEFT,
    AlbertRcError,
    Interrupted,
    OutOfMemoryError,
    UsageError,
)
from albert_rc.io.messages import visible
from albert_rc.runtime.environment import prepare

app = typer.Typer(
    name="albert-rc",
    cls=Commands,
    help="Reading comprehension of exam papers with ALBERT, from raw JSON to answer.json.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
pretraining = typer.Typer(
    cls=GroupWithSettings, invoke_without_command=True, callback=pretrain.pretrain
)
pretraining.command("data", cls=WithSettings)(pretrain_data.pretrain_data)
pretraining.command("vocabulary", cls=WithSettings)(vocabulary.vocabulary)
COMMANDS: dict[str, dict[str, Callable[..., None] | typer.Typer]] = {
    "Papers": {
        "import": import_.import_,
        "render": render.render,
        "doctor": doctor.doctor,
        "preprocess": preprocess.preprocess,
    },
    "Learning": {"train": train.train, "pretrain": pretraining},
    "Answering": {
        "predict": predict.predict,
        "ensemble": ensemble.ensemble,
        "serve": serve.serve,
    },
    "Judging": {"evaluate": evaluate.evaluate, "report": report.report},
    "Models": {"export": export.export, "inspect": inspect.inspect, "bench": bench.bench},
}
"""Commands by heading in `--help`."""

for panel, commands in COMMANDS.items():
    for name, command in commands.items():
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name, rich_help_panel=panel)
        else:
            # Arguments after `bench resume --` are passed on to train.
            more = {"allow_extra_args": name == "bench"}
            app.command(
                name, cls=WithSettings, rich_help_panel=panel, context_settings=more
            )(command)  # fmt: skip


def _print_version(asked: bool) -> None:
    if asked:
        print(f"albert-rc {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line and exit with a code of `albert_rc.errors`."""
    code: object = None
    try:
        _run()
    except SystemExit as leaving:
        code = READER_LEFT if _was_broken(leaving) else leaving.code
    except BrokenPipeError:  # raised while an error was written
        code = READER_LEFT
    for number in (signal.SIGINT, signal.SIGTERM):
        # An exception would be too late now.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    if _reader_left():
        code = READER_LEFT
    if os.environ.get("WORLD_SIZE", "1") != "1":
        leave(code)
    raise SystemExit(code)


def _was_broken(leaving: SystemExit) -> bool:
    """Whether a command ended because its output was closed: typer and rich exit with 1 then."""
    error: BaseException | None = leaving
    # An error of ours may follow from the broken pipe of a dead worker, not of the output.
    while error is not None and not isinstance(error, AlbertRcError | Interrupted):
        if isinstance(error, BrokenPipeError):
            return True
        error = error.__context__
    return False


def _reader_left() -> bool:
    """Flush the output; return whether its reader is gone, as after `head`."""
    left = False
    for stream in filter(None, (sys.__stdout__, sys.__stderr__)):
        try:
            stream.flush()
        except BrokenPipeError:
            left = True
            # Python flushes again on exit, and would report an error.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
    return left


def leave(code: object) -> NoReturn:
    """Exit a process of a distributed group as soon as its work is done.

    gloo's threads keep running while Python shuts down, and may abort a successful process:
    torchrun then reports a complete run as failed.
    """
    if isinstance(code, str):
        print(code, file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


def _run() -> None:
    prepare()
    leave_cleanly("stopped; no incomplete file was left")
    for stream in (sys.stdout, sys.stderr):
        # A paper or a file's name may hold characters that the terminal's encoding lacks.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except (AlbertRcError, Interrupted) as error:
        _fail(str(error), error)
    except OSError as error:  # a full disk, a read-only folder
        if error.errno == errno.ENOMEM:
            _fail(_NO_MEMORY, OutOfMemoryError())
        way_out = _WAYS_OUT.get(error.errno or 0, "")
        _fail(f"{error.filename or 'a file'}: {error.strerror or error}{way_out}", UsageError())
    except MemoryError:
        _fail(_NO_MEMORY, OutOfMemoryError())
    except (ImportError, SystemError) as error:
        # Messages of the system and Python when too little memory is left to load a library.
        if not any(said in str(error) for said in _NO_MEMORY_TO_LOAD):
            raise
        _fail(_NO_MEMORY, OutOfMemoryError())
    except RuntimeError as error:
        from albert_rc.runtime.devices import is_out_of_memory

        if "use_deterministic_algorithms" in str(error):
            _fail(f"--deterministic: {str(error).partition('.')[0]}", UsageError())
        if not is_out_of_memory(error):
            raise
        _fail(_NO_MEMORY, OutOfMemoryError())


_NO_MEMORY_TO_LOAD = (
    "failed to map",
    "llocate memory",
    "without exception set",
    "without setting an exception",
)
_ROOM = (
    "; free some disk space and run the same command again (with --resume, if it has that option)"
)
_RIGHTS = "; check its permissions, or for a result choose another place with --out"
_WAYS_OUT = {
    errno.ENOSPC: _ROOM,
    errno.EDQUOT: _ROOM,
    errno.EFBIG: _ROOM,
    errno.EACCES: _RIGHTS,
    errno.EPERM: _RIGHTS,
    errno.EROFS: _RIGHTS,
}
_NO_MEMORY = (
    "out of memory; lower --token-budget (predict) or --memory (train), take a smaller model, "
    "or close other programs"
)


def _fail(message: str, error: AlbertRcError | Interrupted) -> None:
    rank = os.environ.get("RANK", "0")
    who = "" if rank == "0" else f"rank {rank}: "
    print(f"{who}error: {visible(message)}", file=sys.stderr)
    if isinstance(error, Interrupted):
        # Python restores default handlers on exit, which would change the exit code.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(error.exit_code)
