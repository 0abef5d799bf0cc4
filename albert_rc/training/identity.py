"""Fingerprint of a run: settings that must match on --resume, and a message for differences."""

from __future__ import annotations

from typing import Any

from albert_rc.training.config import TrainConfig

FIXED = (
    "epochs", "batch_size", "learning_rate", "warmup", "weight_decay", "clip", "max_steps",
    "precision", "mask_rate", "mask_weight", "optimizer", "optimizer_states", "seed",
    "pair_weight", "teacher_weight", "teacher_precision", "frozen_layers",
)  # fmt: skip
"""Settings that affect the result."""
OF_MODEL, OF_TEACHER = "weights of --model", "content of --teacher"
"""What was behind an option; fingerprints of earlier versions lack it."""
STORES = ("train store", "dev store")
GONE = ("label_smoothing", "r_drop", "fgm", "ema")
"""Settings of earlier versions that affected the result; runs that used one cannot be resumed."""


def _comparable(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """A fingerprint without what an older one does not have."""
    found = {
        name: value
        for name, value in now.items()
        if name in before or name not in (OF_MODEL, OF_TEACHER)
    }
    return found | {name: as_far_as_known(before.get(name), found.get(name)) for name in STORES}


def as_far_as_known(before: Any, now: Any) -> Any:
    """A value of a fingerprint, without the keys that an older one of it does not have."""
    if isinstance(before, dict) and isinstance(now, dict):
        return {key: value for key, value in now.items() if key in before}
    return now


def difference(before: dict[str, Any], now: dict[str, Any]) -> str | None:
    """The first difference between two fingerprints, phrased to follow "started"; or None."""
    fields = TrainConfig.__dataclass_fields__
    now = _comparable(before, now)
    for name in {**before, **now}:
        field = name[2:].replace("-", "_")
        usual = fields.get(field)  # default, for runs of versions without it
        was, now_is = before.get(name, usual and usual.default), now.get(name)
        if was == now_is or (not was and field in GONE):
            continue
        if isinstance(was, dict) and isinstance(now_is, dict):
            keys = [key for key in {**was, **now_is} if was.get(key) != now_is.get(key)]
            parts = [f"{key} {was.get(key)}, not {now_is.get(key)}" for key in keys]
            return f"with a different {name}: {'; '.join(parts)}"
        if isinstance(was, dict) or isinstance(now_is, dict):
            return f"without a {name}, not with one" if was is None else f"with a {name}"
        if name in (OF_MODEL, OF_TEACHER):
            return _other(name, was is None, now_is is None)
        if was is None:
            return f"without {name}, not with {now_is}"
        return f"with {name} {was}, not {'without' if now_is is None else now_is}"
    return None


def _other(name: str, none_before: bool, none_now: bool) -> str:
    """A difference of contents, without the hashes, which mean nothing to the user."""
    if not (none_before or none_now):
        return f"with other {name}"
    what = "--teacher" if name == OF_TEACHER else name
    return f"without {what}" if none_before else f"with {what}, not without"
