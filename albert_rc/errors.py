"""Errors that a user can act on, each with the exit code of the command line.

The exit codes are a contract: 0 done, 1 bug, 2 usage, 3 bad data, 4 bad checkpoint,
5 out of memory, 130 interrupted after saving, 141 nobody reads the output any more.
"""

READER_LEFT = 141
"""What a shell says of a tool whose output went to `head`, and which SIGPIPE ended."""


class AlbertRcError(Exception):
    """Base of every error that is shown to the user as one sentence, without a traceback."""

    exit_code = 1


class UsageError(AlbertRcError):
    """An option, or a combination of options, that cannot work."""

    exit_code = 2


class DivergedError(UsageError):
    """A run has collapsed, and is not to go on."""


class DataError(AlbertRcError):
    """Papers, answers or stores that are not what they should be."""

    exit_code = 3


class CheckpointError(AlbertRcError):
    """A model folder that cannot be used: missing, torn, or of another shape."""

    exit_code = 4


class OutOfMemoryError(AlbertRcError):
    """The machine's memory, or the card's, did not suffice."""

    exit_code = 5


class Interrupted(AlbertRcError):  # noqa: N818 - it is not an error
    """The user or the system asked to stop; everything worth keeping is saved."""

    exit_code = 130


def error_of(exit_code: int) -> type[AlbertRcError]:
    """The kind of error that a command which another one started ended with."""
    kinds = (UsageError, DataError, CheckpointError, OutOfMemoryError, Interrupted)
    return next((kind for kind in kinds if kind.exit_code == exit_code), AlbertRcError)
