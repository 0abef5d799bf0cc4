"""Multiple choice without the passage: what questions and options alone give away.

    python experiments/no_passage.py DATA OUT

Writes stores like those in DATA (train.pt, dev.pt of a choice format) with every passage cut to
nothing, to be trained on by the same command as the whole ones.
"""

import sys
from pathlib import Path

from albert_rc.io.atomic import write_together
from albert_rc.stores.store import load_store

if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:3])
    stores = {name: load_store(source / name) for name in ("train.pt", "dev.pt")}
    for store in stores.values():
        store.tensors["kept"] = store.tensors["kept"] * 0
    write_together({target / name: store.save for name, store in stores.items()})
