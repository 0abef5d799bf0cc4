"""Settings without an option of their own: `--set NAME=VALUE`; and `--config FILE` for all of them.

Each stands here once: its name, type, bounds and help. What was an option of its own before is
still understood, with a note that says how it is written now.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from albert_rc.errors import DataError, UsageError
from albert_rc.io.messages import shortened

MOST = 10_000_000
_EXTRAS = "settings of --config"
_YES, _NO = ("true", "yes", "1"), ("false", "no", "0")


@dataclass(frozen=True)
class Setting:
    """One setting."""

    kind: type
    """int, float, bool or str."""
    help: str
    choices: tuple[str, ...] = ()
    low: float = float("-inf")
    high: float = float("inf")

    def read(self, name: str, text: str) -> Any:
        """A value as it was written.

        Raises:
            UsageError: names the setting, what was given, and what may be.
        """
        wrong = UsageError(f"--set {name}={shortened(text)}: must be {self.allowed()}")
        if self.kind is bool:
            if text.lower() not in (*_YES, *_NO):
                raise wrong
            return text.lower() in _YES
        if self.kind is str:
            if text not in self.choices:
                raise wrong
            return text
        try:
            value = self.kind(text)
        except (ValueError, OverflowError):
            raise wrong from None
        if not self.low <= value <= self.high:
            raise wrong
        return value

    def allowed(self) -> str:
        """What a value may be, in words."""
        if self.kind is bool:
            return "true or false"
        if self.choices:
            return " or ".join(self.choices)
        what = "a whole number" if self.kind is int else "a number"
        if self.high < float("inf"):
            return f"{what} from {self.low:g} to {self.high:,.0f}"
        return f"{what} of at least {self.low:g}" if self.low > float("-inf") else what


Table = Mapping[str, Setting]
_LAYERS = 10_000
_WIDTH = 2**17

FEED_FORWARD: Table = {
    "ffn_chunk": Setting(
        int, "Tokens per feed-forward product; fewer need less memory, with the same result "
        "(default: all).", low=1, high=2**25,
    ),
}  # fmt: skip
LSH: Table = {
    "lsh.form": Setting(
        str, "Hashed attention: ours, which takes pretrained weights as they are, or faithful, "
        "Reformer's (default: the checkpoint's, else ours).", ("ours", "faithful"),
    ),
    "lsh.chunk": Setting(int, "Hashed attention: tokens of a chunk (64).", low=1, high=2**20),
    "lsh.rounds": Setting(int, "Hashed attention: rounds of hashing (4).", low=1, high=1000),
    "lsh.probes": Setting(
        int, "Hashed attention: buckets that a query looks into in each round (1).", low=1,
        high=1000,
    ),
    "lsh.hash": Setting(
        str, "Hashed attention, our form: projections or rotations (projections).",
        ("rotations", "projections"),
    ),
    "lsh.landmarks": Setting(
        bool, "Hashed attention, our form: whether [CLS], [SEP] and [MASK] see all (true)."
    ),
}  # fmt: skip
LEARNING: Table = {
    "accumulation": Setting(
        int, "Micro-batches per step (default: chosen to fit memory).", low=1, high=2**16
    ),
    "recompute": Setting(
        str, "What is computed again in the backward pass to save memory (default: chosen to fit "
        "memory; activations where that saves much).", ("nothing", "activations", "layers"),
    ),
    "optimizer_states": Setting(
        str, "The optimiser's moments in fp32 or in 8 bits (default: chosen to fit memory).",
        ("fp32", "8bit"),
    ),
    **FEED_FORWARD,
    "workers": Setting(
        int, "Processes that prepare batches ahead of time (default: none on a CPU).", low=0,
        high=256,
    ),
    "weight_decay": Setting(float, "Weight decay of matrices; vectors have none (0.01).", low=0),
    "clip": Setting(float, "Largest gradient norm; 0 for none (1).", low=0),
    "keep": Setting(int, "Number of states to keep, the newest ones (2).", low=1, high=1000),
    "max_restarts": Setting(int, "Most restarts with --on-collapse restart (2).", low=1, high=100),
    "teacher_weight": Setting(
        float, "Share of the loss that the teacher's probabilities have (0.5).", low=0, high=1
    ),
    "deterministic": Setting(
        bool, "Make a GPU add in the same order in every run, slower. On a CPU runs are the same "
        "anyway, with the same number of threads (false).",
    ),
    "residual": Setting(
        str, "With --scratch: post, as in BERT; or reversible, which keeps nothing of its layers, "
        "however many, and which only albert-rc can load (default: the checkpoint's, else post).",
        ("post", "reversible"),
    ),
}  # fmt: skip
TRAIN: Table = {
    **LEARNING,
    "mask_weight": Setting(float, "Weight of the loss of --mask-rate's words (1).", low=0),
    "label_smoothing": Setting(
        float, "Share of the target spread over all options (0).", low=0, high=1
    ),
    "r_drop": Setting(
        float, "R-Drop: weight of the disagreement of two passes with different dropout; twice "
        "the work and memory (0).", low=0,
    ),
    "fgm": Setting(
        float, "Adversarial training: how far word embeddings are moved for a second pass; twice "
        "the work (0).", low=0,
    ),
    "ema": Setting(
        float, "Measure and keep an average of the weights; its decay, such as 0.999 (0).", low=0,
        high=1,
    ),
    "with_dev": Setting(bool, "Also learn from dev.pt; the last weights stay (false)."),
    **LSH,
}  # fmt: skip
PRETRAIN: Table = {
    **LEARNING,
    "num_groups": Setting(
        int, "Groups of layers; each group shares its weights.", low=1, high=_LAYERS
    ),
    "embedding_size": Setting(
        int, "Embedding size; in BERT it is the hidden size.", low=1, high=_WIDTH
    ),
    "num_heads": Setting(int, "Attention heads.", low=1, high=_WIDTH),
    "ffn_size": Setting(int, "Size of the feed-forward's inside.", low=1, high=2**20),
}  # fmt: skip
PREDICT: Table = {**FEED_FORWARD, **LSH}
TABLES: Mapping[str, Table] = {"train": TRAIN, "pretrain": PRETRAIN, "predict": PREDICT}


def parse(given: Sequence[str] | None, known: Table) -> dict[str, Any]:
    """Settings by name, as typed values; the last one counts where a name stands twice.

    Raises:
        UsageError: no such setting, or a value that it cannot have.
    """
    found = {}
    for each in given or ():
        name, sign, text = each.partition("=")
        if not sign or name not in known:
            raise UsageError(
                f"--set {shortened(each)}: give NAME=VALUE, with one of {', '.join(known)}"
            )
        found[name] = known[name].read(name, text)
    return found


def lsh_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What of `LshConfig` the settings give."""
    found = {n.removeprefix("lsh."): v for n, v in settings.items() if n.startswith("lsh.")}
    if (form := found.pop("form", None)) is not None:
        found["shared"] = form == "faithful"
    if found.pop("landmarks", True) is False:
        found["landmarks"] = ()
    return found


def _from_file(context: typer.Context, path: Path | None) -> Path | None:
    """Take what a file gives as the options' defaults."""
    if path is None:
        return None
    options = {
        flag.removeprefix("--").replace("-", "_"): option.name
        for option in context.command.params
        for flag in option.opts
    }
    defaults: dict[str, Any] = {}
    extras: list[str] = []
    for name, value in _read_file(path).items():
        option = options.get(name)
        if option in ("config", "set_"):
            raise UsageError(f"{path}: {name} cannot stand in a file")
        if option is not None:
            defaults[option] = value
        else:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            extras.append(f"{name}={text}")
    context.default_map = {**(context.default_map or {}), **defaults}
    context.meta[_EXTRAS] = extras
    return path


def _read_file(path: Path) -> dict[str, Any]:
    """Names and values of a TOML file; those of a table `[lsh]` have its name before them.

    Raises:
        DataError: it cannot be read, or holds more than names and values.
    """
    import tomllib

    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise DataError(f"{path}: cannot be read as TOML ({reason})") from None
    found: dict[str, Any] = {}
    for name, value in content.items():
        rows = value if isinstance(value, dict) else {"": value}
        for key, single in rows.items():
            full = f"{name}.{key}".strip(".").replace("-", "_")
            if not isinstance(single, (bool, int, float, str)):
                raise DataError(f"{path}: {full} must be a number, a text, true or false")
            found[full] = single
    return found


def _with_file(context: typer.Context, given: list[str] | None) -> list[str]:
    """What a file gives, and what the command line gives after it; `help` explains all of it."""
    if given == ["help"]:
        for name, setting in TABLES[str(context.info_name)].items():
            typer.echo(f"{name}={setting.allowed()}\n    {setting.help}")
        raise typer.Exit
    return [*context.meta.get(_EXTRAS, ()), *(given or ())]


Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        is_eager=True,
        callback=_from_file,
        help="TOML file with options and settings, such as learning_rate = 1e-5; the command line "
        "overrides it.",
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        callback=_with_file,
        metavar="NAME=VALUE",
        help="A setting that has no option of its own, such as clip=0.5; may be given several "
        "times. `--set help` lists them.",
    ),
]


class WithSettings(TyperCommand):
    """A command that still understands the options that became settings."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Write them as settings, and say so."""
        old = {
            "--" + name.replace("_", "-").replace(".", "-"): (name, setting)
            for name, setting in TABLES[str(self.name)].items()
        }
        rest, now = list(args), []
        while rest:
            word = rest.pop(0)
            flag, sign, value = word.partition("=")
            negated = flag.replace("--no-", "--", 1)
            if flag not in old and negated not in old:
                now.append(word)
                continue
            name, setting = old[flag if flag in old else negated]
            if setting.kind is bool:
                value = "false" if flag not in old else "true"
            elif not sign:
                if not rest:
                    raise UsageError(f"{flag}: needs a value; write --set {name}=VALUE")
                value = rest.pop(0)
            if os.environ.get("RANK", "0") == "0":
                shown = f"{name}={shortened(value)}"
                print(f"note: {flag} is written --set {shown} now", file=sys.stderr)
            now += ["--set", f"{name}={value}"]
        return super().parse_args(ctx, now)
