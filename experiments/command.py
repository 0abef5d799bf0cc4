"""How experiments run albert-rc: in a process of its own, its progress shown."""

import shutil
import subprocess
import sys
from pathlib import Path


def command(*arguments: object, through: Path | None = None) -> str:
    """Run albert-rc; what it printed as a result.

    Args:
        arguments: of its command line.
        through: a script that runs it with changes that no option makes.
    """
    program = ["-m", "albert_rc"] if through is None else [str(through)]
    full = [sys.executable, *program, *map(str, arguments)]
    print("$", " ".join(full[2:]), flush=True)
    done = subprocess.run(full, stdout=subprocess.PIPE, text=True, check=True)
    print(done.stdout, end="", flush=True)
    return done.stdout


def make_stores(papers: Path, model: object, data: Path, *options: object) -> None:
    """Preprocess papers into `data`; `data/train` gets the training store alone.

    A training that is given that folder has no dev papers to choose its weights by.
    """
    command("preprocess", papers, "--model", model, "--out", data, *options)
    (data / "train").mkdir(exist_ok=True)
    shutil.copyfile(data / "train.pt", data / "train" / "train.pt")
