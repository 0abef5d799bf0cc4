"""Atomic writing of files and folders, and locks on a run's folder."""

from __future__ import annotations

import errno
import fcntl
import glob
import os
import re
import resource
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

import orjson

from albert_rc.errors import UsageError

LOCK = ".lock"
_LINKS = 40
"""Maximum length of a chain of symbolic links, as in the system."""
SPARE_FILES = 200
"""Number of files that a process may have open for other things."""


@contextmanager
def atomic_path(target: Path) -> Iterator[Path]:
    """Yield a temporary path next to `target`; rename it onto `target` if the block succeeds.

    The file is synced to disk before it is renamed, so a crash leaves the old file or the new one,
    never a partial one. Temporary files of killed processes are removed. A symbolic link stays:
    the file it points to is replaced.

    Raises:
        UsageError: the target is a device or a pipe, which a file would replace.
        OSError: it cannot be written; names the target.
    """
    target = _regular(target)
    with _blamed_on(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        _clear_away(target)
    with _claimed_path(target) as temporary:
        yield temporary


@contextmanager
def _claimed_path(target: Path) -> Iterator[Path]:
    """`atomic_path` for a target whose folder exists and was cleared of temporary files."""
    with _blamed_on(target):
        handle, temporary = _claimed(target)
    try:
        with _blamed_on(target, temporary):
            yield temporary
            _sync(temporary)
            temporary.replace(target)
            _sync_folder(target.parent)
    finally:
        temporary.unlink(missing_ok=True)
        os.close(handle)


def _regular(target: Path) -> Path:
    """The path after resolving symbolic links, whether or not the file exists."""
    special = target.exists() and not (target.is_file() or target.is_dir())
    if special or _is_of_the_system(target):
        raise UsageError(f"{target}: is a device or a pipe, not a file; name a file")
    return target.resolve() if target.is_symlink() else target


def _is_of_the_system(target: Path) -> bool:
    """Whether a path, or a link on its way, is among the system's devices and open files.

    If a shell redirects the output, `/dev/stdout` points to a regular file, which would be replaced
    with all its content.
    """
    path = Path(os.path.normpath(target.absolute()))
    for _ in range(_LINKS):
        if path.parts[1:2] in (("dev",), ("proc",)) and path.parts[2:3] != ("shm",):
            return True
        if not path.is_symlink():
            return False
        path = Path(os.path.normpath(path.parent / path.readlink()))
    return False


def _claimed(target: Path) -> tuple[int, Path]:
    """A new locked file next to the target; the lock ends with this process."""
    while True:
        # A leading dot hides half-written files from every reader's file listing.
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
        with suppress(OSError):  # without locks no process removes a file in use
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Meanwhile another process may have removed it as abandoned.
        if _is_named(handle, Path(name)):
            return handle, Path(name)
        os.close(handle)


def _clear_away(target: Path) -> None:
    """Remove temporary files of this target whose writers are dead."""
    for old in target.parent.glob(f".{glob.escape(target.name)}.*.tmp"):
        _remove_if_abandoned(old)


def clear_abandoned(folder: Path) -> None:
    """Remove temporary files in a folder whose writers are dead, whatever their targets."""
    for old in folder.glob(".*.tmp"):
        if re.fullmatch(r"\..+\.[a-z0-9_]{8}\.tmp", old.name) and old.is_file():
            _remove_if_abandoned(old)


def _remove_if_abandoned(old: Path) -> None:
    with suppress(OSError), old.open("rb") as file:  # in use, or gone already
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        old.unlink()


def _is_named(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


@contextmanager
def _blamed_on(target: Path, temporary: Path | None = None) -> Iterator[None]:
    """Convert errors in writing into an OSError that names the target."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        ours = error.filename in (None, str(temporary), str(target))
        if not ours and temporary is not None:
            raise
        # Before the temporary file exists, the error concerns a parent folder, or names a path that
        # the user never typed.
        above = error.filename in {str(folder) for folder in target.parents}
        code = errno.ENOTDIR if error.errno == errno.EEXIST else error.errno
        blamed = error.filename if above else str(target)
        raise OSError(code, os.strerror(code), blamed) from None
    except Exception as error:
        number = None if temporary is None else _why(error, temporary)
        if number is None:
            raise
        raise OSError(number, os.strerror(number), str(target)) from None


def _why(error: Exception, temporary: Path) -> int | None:
    """The errno behind an error of torch's or safetensors' writer, or None."""
    said = str(error)
    if found := re.search(r"\(os error (\d+)\)", said):  # safetensors
        return int(found[1])
    if "inline_container" not in said:
        return None
    # torch gives no reason, so try the system call again.
    try:
        with temporary.open("ab") as file:
            file.write(bytes(2**20))
            file.flush()
            os.fsync(file.fileno())
    except OSError as reason:
        return reason.errno
    return None


def _sync(temporary: Path) -> None:
    with temporary.open("rb+") as written:
        os.fsync(written.fileno())
    temporary.chmod(0o666 & ~_umask())


def _sync_folder(folder: Path) -> None:
    """Sync the folder, so that the new name reaches the disk too, where the system allows it.

    The file is already complete, so a folder without read permission, or a file system that
    cannot sync folders, is not an error.
    """
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EPERM):
            raise
    finally:
        os.close(handle)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def require_link_target(folder: Path, flag: str = "--out") -> None:
    """Refuse an output folder that is a link to nothing, such as a disk that is not mounted.

    Raises:
        UsageError: names the option and what the link points to.
    """
    if folder.is_symlink() and not folder.exists():
        raise UsageError(
            f"{flag} {folder}: is a link to {folder.readlink()}, which does not exist; "
            "create that folder, or remove the link"
        )


def require_new(target: Path) -> None:
    """Refuse an existing target of `atomic_folder`, before any work is done.

    Raises:
        UsageError: `target` exists already, or is a link to nothing.
    """
    require_link_target(target)
    if target.exists() and not target.is_dir():
        raise UsageError(f"--out {target}: is a file; name a new folder")
    if target.exists() and any(target.iterdir()):
        raise UsageError(f"--out {target}: is not empty; name a new folder, or empty this one")


@contextmanager
def atomic_folder(target: Path) -> Iterator[Path]:
    """Yield a temporary folder next to `target`; rename it to `target` if the block succeeds.

    Temporary folders of killed processes are removed.

    Raises:
        UsageError: `target` exists already.
        OSError: it cannot be written; names the target.
    """
    require_new(target)
    target = target.resolve()
    with temporary_folder(target) as temporary, _blamed_on(target, temporary):
        yield temporary
        for path in sorted(temporary.rglob("*")):
            _sync_folder(path) if path.is_dir() else _sync(path)
        temporary.chmod(0o777 & ~_umask())
        _sync_folder(temporary)
        temporary.rename(target)
        _sync_folder(target.parent)


@contextmanager
def temporary_folder(target: Path) -> Iterator[Path]:
    """Yield a folder next to `target`, which is removed at the end.

    Temporary folders of killed processes are removed.

    Raises:
        OSError: it cannot be made; names the target.
    """
    target = target.resolve()
    with _blamed_on(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        for old in target.parent.glob(f".{glob.escape(target.name)}.*.tmp"):
            with suppress(OSError):
                _remove_abandoned(old)
        temporary = Path(
            tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
        )
        handle = os.open(temporary, os.O_RDONLY)
    try:
        with suppress(OSError):  # without locks no process removes a folder in use
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        os.close(handle)


def _remove_abandoned(folder: Path) -> None:
    """Remove a temporary folder whose writer is dead."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder)
    finally:
        os.close(handle)


def write_together(writers: Mapping[Path, Callable[[Path], None]]) -> None:
    """Write several files; none is renamed before all of them are on disk.

    Raises:
        UsageError: more files than this process may open, or one of them is a device.
        OSError: one cannot be written; names it.
    """
    _allow_open_files(len(writers))  # each temporary file is locked, and so open, to the end
    named = {_regular(target): write for target, write in writers.items()}
    for folder in {target.parent for target in named}:
        with _blamed_on(folder / "any"):
            folder.mkdir(parents=True, exist_ok=True)
        clear_abandoned(folder)  # once, and not for each file
    with ExitStack() as stack:
        for target, write in named.items():
            temporary = stack.enter_context(_claimed_path(target))
            with _blamed_on(target, temporary):
                write(temporary)
                _sync(temporary)


def _allow_open_files(count: int) -> None:
    """Let this process open `count` files besides others.

    Raises:
        UsageError: the system does not allow it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = count + SPARE_FILES
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and needed > hard:
        raise UsageError(
            f"{count:,} files are to be written together, but the system lets a process open only "
            f"{hard:,}; give fewer at a time, or raise the limit (`ulimit -Hn`)"
        )
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def write_files(contents: Mapping[Path, bytes]) -> None:
    """Write several files' contents; none is renamed before all of them are on disk."""
    write_together({target: holding(content) for target, content in contents.items()})


def holding(content: bytes) -> Callable[[Path], None]:
    """A writer of a file with this content, for `write_together`."""

    def write(temporary: Path) -> None:
        temporary.write_bytes(content)

    return write


def write_bytes(target: Path, content: bytes) -> None:
    """Write `content` to `target` atomically."""
    with atomic_path(target) as temporary:
        temporary.write_bytes(content)


def nameless_file(folder: Path) -> IO[bytes]:
    """An anonymous temporary file in the folder, which vanishes when the process ends.

    Raises:
        OSError: the folder is not writable; names it.
    """
    try:
        return tempfile.TemporaryFile(dir=folder)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(folder)) from None


def require_writable(target: Path) -> None:
    """Check in advance that a file can be written; creates the folders above it.

    Raises:
        UsageError: it is a device or a pipe.
        OSError: it cannot be written; names the obstacle.
    """
    target = _regular(target)
    with _blamed_on(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        nameless_file(target.parent).close()


@contextmanager
def only_run(folder: Path) -> Iterator[None]:
    """Lock a folder for this process; the system releases the lock when the process ends.

    Temporary files of killed processes in it are removed.

    Raises:
        UsageError: another process uses it (names the process), or it is a file or a link to
            nothing.
        OSError: the disk is full, or the folder is not writable.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--out {folder}: is a file; name a folder")
    require_link_target(folder)
    new = not folder.is_dir()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK
    while True:
        file = path.open("a+b", buffering=0)
        try:
            # Not flock: worker processes that outlive this one would keep that lock.
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            said = _holder(file.read())
            file.close()
            raise UsageError(
                f"{folder} is in use by another run ({said}); "
                "wait for it or stop it, or give another --out"
            ) from None
        except OSError:  # a file system without locks
            file.close()
            yield
            return
        if _is_named(file.fileno(), path):
            break
        file.close()  # its owner has just ended and removed it
    holder = {
        "process": os.getpid(),
        "host": socket.gethostname(),
        "since": time.strftime("%Y-%m-%d %H:%M:%S"),
        "command": " ".join(sys.argv[1:])[:200],
    }
    with file:
        try:
            with _blamed_on(path):
                os.ftruncate(file.fileno(), 0)
                os.write(file.fileno(), orjson.dumps(holder))
            clear_abandoned(folder)
            yield
        finally:
            path.unlink(missing_ok=True)
            if new:
                with suppress(OSError):  # it is not empty
                    folder.rmdir()


def _holder(content: bytes) -> str:
    try:
        holder = orjson.loads(content)
        return (
            f"process {holder['process']} on {holder['host']} since {holder['since']}: "
            f"{holder['command']}"
        )
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return "it has just started"
