"""Commands as a user runs them, in processes of their own: fresh ones, or forked from a warm one.

Importing torch takes most of the time of a short command. `run_cli` forks from a process that has
imported the libraries and most of albert_rc, but not its command line; `start_cli` starts Python
as a user's shell does.
"""

import multiprocessing
import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

_SECONDS = 300
_WARM = multiprocessing.get_context("forkserver")
_WARM.set_forkserver_preload(
    ["torch", "numpy", "rich.progress", "rich.table", "typer", "tokenizers", "pydantic",
     # Optimisers import the first; figures of a run, statistics and parts of speech the others.
     "torch._dynamo", "torch.utils.tensorboard", "scipy.stats", "textblob.en.taggers",
     "orjson", "safetensors.torch", "sentencepiece",
     "jinja2", "scipy.optimize",
     # What most commands import, and nothing of the command line itself.
     "albert_rc.answering.run", "albert_rc.training.runs.finetune"]
)  # fmt: skip


def start_cli(*arguments: object, cwd: Path | None = None, env: dict[str, str] | None = None):
    """Run `albert-rc` in a Python of its own; the finished process with its output as text."""
    return subprocess.run(
        [sys.executable, "-m", "albert_rc", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )


def start_python(*arguments: object):
    """Run a Python of its own; the finished process with its output as text."""
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)


def run_cli(*arguments: object, cwd: Path | None = None, env: dict[str, str] | None = None):
    """The same from a warm process, in a third of the time; all such have one hash seed."""
    words = ["albert-rc", *map(str, arguments)]
    with tempfile.TemporaryDirectory() as folder:
        streams = [Path(folder) / name for name in ("out", "err")]
        process = _WARM.Process(
            target=_command, args=(words, cwd or Path.cwd(), {**os.environ, **(env or {})}, streams)
        )
        process.start()
        process.join(_SECONDS)
        if process.exitcode is None:
            process.kill()
            raise subprocess.TimeoutExpired(words, _SECONDS)
        out, err = (path.read_text() for path in streams)
    code = process.exitcode
    process.close()
    return subprocess.CompletedProcess(words, code, out, err)


def _command(words: list[str], cwd: Path, env: dict[str, str], streams: list[Path]) -> None:
    """In the forked process: be `albert-rc`, and end as it does."""
    for number, path in enumerate(streams, 1):
        file = os.open(path, os.O_WRONLY | os.O_CREAT)
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.argv = words
    code: object = 0
    try:
        from albert_rc.cli.app import main

        main()
    except SystemExit as leaving:
        code = leaving.code
        if isinstance(code, str):
            print(code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))
