"""Errors that a user can act on, each with the exit code of the command line.

The exit codes are a contract: 0 done, 1 bug, 2 usage, 3 bad data, 4 bad checkpoint,
5 out of memory, 130 interrupted after saving, 141 output closed by its reader.
"""

READER_LEFT = 141
"""Exit code in a shell when SIGPIPE ended a tool, for example one piped to `head`."""


class AlbertRcError(Exception):
    """Base of every error that is shown to the user as one sentence, without a traceback."""

    exit_code = 1


class UsageError(AlbertRcError):
    """An option, or a combination of options, that cannot work."""

    exit_code = 2


class DivergedError(UsageError):
    """A training run has diverged and must not continue."""


class DataError(AlbertRcError):
    """Invalid papers, answers or stores."""

    exit_code = 3


class CheckpointError(AlbertRcError):
    """A model folder that cannot be used: missing, truncated, or of another shape."""

    exit_code = 4


class NotFiniteError(CheckpointError):
    """A model's scores are NaN or infinite."""


class OutOfMemoryError(AlbertRcError):
    """The machine or the GPU ran out of memory."""

    exit_code = 5


class Interrupted(BaseException):
    """The user or the system requested a stop; all progress is saved.

    It may be raised at any place, so it is not an `Exception`: an `except Exception` around a
    library would report it as the library's error. Nor is it a `KeyboardInterrupt`, which the
    command-line library handles itself.
    """

    exit_code = 130


def error_of(exit_code: int) -> type[AlbertRcError | Interrupted]:
    """The error class for the exit code of a subcommand's process."""
    kinds: tuple[type[AlbertRcError | Interrupted], ...]
    kinds = (UsageError, DataError, CheckpointError, OutOfMemoryError, Interrupted)
    return next((kind for kind in kinds if kind.exit_code == exit_code), AlbertRcError)
