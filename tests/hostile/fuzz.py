"""Damages papers for as long as it is told, and looks for what the tests did not think of.

Each round makes a split of the sample's papers and of made-up ones, spoils most of them, by the
byte or by the field, and takes them through `doctor`, `preprocess` and, for a share of them,
`predict` with a tiny random model and `evaluate`; now and then it is the model's folder or the
store that is damaged. Or it damages Word and PDF files, by the element, the number or the byte,
for `import`. All in this process, with a limit on the time of each. A round follows from
its number and the seed alone:

    python tests/hostile/fuzz.py --minutes 60 --out benchmarks/results/fuzz.json
    python tests/hostile/fuzz.py --seed 0 --round 1234      # once more, with its traceback
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import gc
import io
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from itertools import count
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"

from damage import lay_out, mangle
from hostile_papers import put_junk, write
from printed_damage import damaged

from albert_rc.checkpoints.load import load_model, save_model
from albert_rc.cli.app import app
from albert_rc.errors import AlbertRcError
from albert_rc.papers.formats import READERS, check_chunk
from albert_rc.papers.raw import Lines, TableRows, WholeFile
from albert_rc.printed import bounds
from albert_rc.text.tokenizer import load_tokenizer

SAMPLE = Path(__file__).parents[2] / "data" / "sample"
VOCABULARY = SAMPLE / "vocabulary"
SHAPE = {"hidden_size": 32, "embedding_size": 16, "num_layers": 2, "num_heads": 2, "ffn_size": 64}
LIMIT = 60  # seconds of this process's time that a command may take
PREDICTED = 3  # of so many rounds, one is predicted, and in one a model or a store is damaged
PRINTED = ("docx", "pdf")
FORMATS = ("cloze", "cloze", "race", "race", "dream", "squad", "rte", *PRINTED)
FILES = 6  # Word or PDF files of a round
IMPORT_SECONDS = 5.0  # that a small one may take, in place of a minute


class Hang(BaseException):
    """A command took longer than it may."""


def expire(number: int, frame: FrameType | None) -> None:
    raise Hang


def command(*arguments: object) -> tuple[str, str]:
    """Run a command in this process: `done`, `refused`, and what it said at last."""
    said = io.StringIO()
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    faulthandler.dump_traceback_later(20 * LIMIT, exit=True)  # where no signal gets through
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            app([str(a) for a in arguments], standalone_mode=False)
        return "done", said.getvalue()
    except AlbertRcError as error:
        return {2: "usage", 3: "refused", 4: "bad model"}[error.exit_code], str(error)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        gc.enable()  # `preprocess` leaves that to the end of its process


class Fuzz:
    """What was tried so far."""

    def __init__(self, seed: int, place: Path) -> None:
        self.seed = seed
        self.place = place
        self.counts: Counter[str] = Counter()
        self.formats: Counter[str] = Counter()
        self.failures: list[dict[str, Any]] = []
        self.slowest: dict[str, Any] = {"seconds": 0.0}
        self.tokenizer = load_tokenizer(VOCABULARY, num_threads=1)
        self.models: dict[str, Path] = {}
        made: Any
        for kind in ("cloze", "choice", "label", "span"):
            how: dict[str, Any] = {"scratch": "tiny", "shape": SHAPE}
            labels = READERS["rte"].labels if kind == "label" else None
            made = (
                load_model(VOCABULARY, "span", **how)
                if kind == "span"
                else load_model(VOCABULARY, kind, labels=labels, **how)
            )
            self.models[kind] = place / kind
            save_model(made.model, made.tokenizer, self.models[kind])

    def one(self, number: int) -> None:
        """A round: whatever it raises is noted with its number."""
        rng = Random(f"{self.seed}.{number}")
        form = rng.choice(FORMATS)
        with tempfile.TemporaryDirectory(dir=self.place) as name:
            folder = Path(name)
            try:
                self.through(folder, form, rng, number)
            except (Exception, Hang) as error:
                kind = "hangs" if isinstance(error, Hang) else "tracebacks"
                self.counts[kind] += 1
                last = traceback.extract_tb(error.__traceback__)[-1]
                what = f"{type(error).__name__}: {error}"[:300]
                where = f"{Path(last.filename).name}:{last.lineno}"
                self.failures.append({"round": number, "error": what, "where": where})
        self.counts["rounds"] += 1
        self.formats[form] += 1

    def through(self, folder: Path, form: str, rng: Random, number: int) -> None:
        """What a round does."""
        if form in PRINTED:
            for at in range(FILES):
                self._printed(folder / f"p{at}.{form}", rng)
        else:
            self._json(folder, form, rng, number)

    def _printed(self, file: Path, rng: Random) -> None:
        """A file as a school might send it, and as one never should."""
        file.write_bytes(damaged(file.suffix[1:], rng))
        out = file.with_suffix("")
        ask = ("import", file, "--out", out, "--on-error", rng.choice(("stop", "skip")))
        how, said = command(*ask, *(["--json"] if rng.random() < 0.5 else []))
        assert how in ("done", "refused"), said
        self.counts["printed"] += 1
        self.counts["printed_refused"] += how == "refused"
        self.counts["printed_out_of_time"] += "reading it takes more than" in said
        for papers in out.iterdir() if how == "done" else ():
            how, said = command("doctor", papers)  # what was written is what can be read
            assert how == "done", said

    def _json(self, folder: Path, form: str, rng: Random, number: int) -> None:
        papers, out = folder / "test", folder / "out"
        papers.mkdir()
        files = lay_out(papers, form, rng)
        self._alone(files, form, number)
        ask = (papers, "--model", VOCABULARY, "--format", form)
        command("doctor", *ask, *(["--json"] if rng.random() < 0.5 else []))
        length = rng.choice((16, 64, 512))
        how, said = command(
            "preprocess", *ask, "--out", out, "--on-error", "skip", "--workers", 1,
            "--max-length", length,
        )  # fmt: skip
        if how == "refused":
            self.counts["splits_refused"] += 1
            assert said.startswith("no usable paper"), said
            return
        assert how == "done", said
        kind = READERS[form].kind
        if rng.random() * PREDICTED < 1:
            self._predict(out / "test.pt", out / "answer.json", kind)
            if rng.random() < 0.5:
                content = (out / "answer.json").read_bytes()
                (out / "answer.json").write_bytes(mangle(content, content, rng))
            how, said = command("evaluate", out / "answer.json", papers, "--format", form)
            assert how in ("done", "refused"), said
        if rng.random() * PREDICTED < 1:
            self._damaged(out / "test.pt", folder, kind, rng)

    def _alone(self, files: list[tuple[str, bytes]], form: str, number: int) -> None:
        """Each file by itself, with a watch on how long it takes."""
        reader = READERS[form]
        for name, content in files:
            start = time.process_time()
            signal.setitimer(signal.ITIMER_PROF, LIMIT)
            lines = name.endswith((".jsonl", ".tsv"))
            kind = TableRows if form == "rte" else Lines if lines else WholeFile
            for record, passage in check_chunk([kind(f"test/{name}", content)], form):
                self.counts["papers"] += 1
                self.counts["good" if passage is not None else "refused"] += 1
                assert (passage is None) == any(p.severity == "error" for p in record.problems)
                assert all(str(p).isprintable() for p in record.problems)
                if passage is not None:
                    self.counts["questions"] += len(passage.questions)
                    assert passage.kind == reader.kind
            signal.setitimer(signal.ITIMER_PROF, 0)
            taken = time.process_time() - start
            if taken > self.slowest["seconds"]:
                self.slowest = {
                    "seconds": round(taken, 3), "bytes": len(content), "round": number,
                    "file": name,
                }  # fmt: skip

    def _predict(self, store: Path, answers: Path, kind: str) -> None:
        from albert_rc.stores.store import load_store

        found = load_store(store)
        ask = ("--data", store, "--model", self.models[kind], "--out", answers)
        how, said = command("predict", *ask, "--device", "cpu", "--precision", "fp32")
        assert how == "done", said
        given = json.loads(answers.read_bytes())
        if kind == "cloze":
            assert [*given] == found.meta["ids"]
            assert sum(map(len, given.values())) == found.num_questions
        else:
            assert len(given) == found.num_questions
        self.counts["answered"] += found.num_questions
        self.counts["splits_predicted"] += 1

    def _damaged(self, store: Path, folder: Path, kind: str, rng: Random) -> None:
        """A model's folder or a store with a few bytes or fields of its own changed."""
        model = shutil.copytree(self.models[kind], folder / "model")
        names = ("config.json", "config.json", "model.safetensors", "spiece.model")
        victim = rng.choice((*(model / name for name in names), store))
        content = victim.read_bytes()
        if victim.suffix == ".json" and rng.random() < 0.7:
            spoilt = write(put_junk(json.loads(content), rng), rng)
        else:
            size = rng.choice((300, 3000, len(content)))
            spoilt = mangle(content[:size], content, rng) + content[size:]
        victim.write_bytes(spoilt)
        ask = ("--data", store, "--model", model, "--out", folder / "answer.json")
        how, said = command("predict", *ask, "--device", "cpu", "--precision", "fp32")
        assert how != "usage" or "--model" in said, said
        self.counts[f"damaged_{'stores' if victim == store else 'models'}"] += 1
        self.counts["damaged_refused"] += how != "done"

    def summary(self, seconds: float) -> dict[str, Any]:
        """For the committed result."""
        counts = {name: self.counts[name] for name in (
            "rounds", "papers", "good", "refused", "questions", "splits_refused",
            "splits_predicted", "answered", "damaged_models", "damaged_stores", "damaged_refused",
            "printed", "printed_refused", "printed_out_of_time", "tracebacks", "hangs",
        )}  # fmt: skip
        return {
            "seed": self.seed,
            "minutes": round(seconds / 60, 1),
            **counts,
            "formats": dict(sorted(self.formats.items())),
            "slowest_file": self.slowest,
            "failures": self.failures[:50],
        }


def main() -> int:
    """Fuzz, write what was tried, and exit with 1 if anything was found."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, help="so many, however long they take")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first round")
    parser.add_argument("--round", type=int, help="only this one, and show where it fails")
    parser.add_argument("--out", type=Path, help="where the summary goes, as JSON")
    given = parser.parse_args()
    signal.signal(signal.SIGPROF, expire)
    bounds.LEAST_SECONDS = IMPORT_SECONDS
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        fuzz = Fuzz(given.seed, Path(name))
        if given.round is not None:
            rng = Random(f"{given.seed}.{given.round}")
            fuzz.through(Path(name), rng.choice(FORMATS), rng, given.round)
            return 0
        for number in count(given.first):
            done, spent = number - given.first, time.monotonic() - start
            if spent >= 60 * given.minutes if given.rounds is None else done >= given.rounds:
                break
            fuzz.one(number)
    summary = fuzz.summary(time.monotonic() - start)
    text = json.dumps(summary, indent=2) + "\n"
    if given.out:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(text)
    sys.stdout.write(text)
    return 1 if fuzz.failures else 0


if __name__ == "__main__":
    sys.exit(main())
