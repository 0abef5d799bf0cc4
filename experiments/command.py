"""How experiments run albert-rc: in a process of its own, its progress shown."""

import subprocess
import sys


def command(*arguments: object) -> str:
    """Run albert-rc; what it printed as a result."""
    full = [sys.executable, "-m", "albert_rc", *map(str, arguments)]
    print("$", " ".join(full[2:]), flush=True)
    done = subprocess.run(full, stdout=subprocess.PIPE, text=True, check=True)
    print(done.stdout, end="", flush=True)
    return done.stdout
