"""Heartbeats between the processes of a group, to detect dead or hanging ones.

Each process increments a counter, once a second, in the store that torchrun's processes share. One
that stops for a while is dead or hangs. NCCL would wait for it for ever, gloo for half an hour.
"""

from __future__ import annotations

import os
import sys
import threading
import time

from torch.distributed.distributed_c10d import Store

from albert_rc.errors import UsageError

BEAT = 1.0
"""Seconds between two heartbeats."""
TIMEOUT = "ALBERT_RC_RANK_TIMEOUT"
"""Environment variable for the seconds of silence after which a process counts as lost."""
_SOON = 4  # missed beats that suffice once a message has failed
_DONE, _FAILED = "done", "failed "


class Watch:
    """Sends this process's heartbeats, and monitors those of the others.

    Args:
        store: connection to the shared store; used only here, since other users may block it.
        rank: this process's rank.
        world: number of processes.
    """

    def __init__(self, store: Store, rank: int, world: int) -> None:
        self._store = store
        self._rank = rank
        self._others = [other for other in range(world) if other != rank]
        self._patience = _seconds() / BEAT
        self._seen: dict[int, str] = {}
        # Counted in our own beats, so that pausing all processes together raises no alarm.
        self._silent = dict.fromkeys(self._others, 0)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._beat(0)
        self._thread.start()

    def _key(self, rank: int) -> str:
        return f"beat/{rank}"

    def _beat(self, number: int) -> None:
        self._store.set(self._key(self._rank), str(number))

    def _run(self) -> None:
        number = 0
        while not self._ended.wait(BEAT):
            number += 1
            try:
                self._beat(number)
                self._look()
            except RuntimeError:  # the store is gone, with the process that hosts it
                self._silent = {rank: count + 1 for rank, count in self._silent.items()}
            lost = [rank for rank, count in self._silent.items() if count > self._patience]
            if lost:
                # The main thread is blocked in communication and gets no exception.
                seconds = round(self._patience * BEAT)
                print(f"rank {self._rank}: error: {_gone(lost, seconds)}", file=sys.stderr)
                sys.stderr.flush()
                os._exit(UsageError.exit_code)

    def _look(self) -> None:
        for rank in self._others:
            key = self._key(rank)
            said = self._store.get(key).decode() if self._store.check([key]) else ""
            alive = said != self._seen.get(rank) or said.startswith(_DONE)
            self._silent[rank] = 0 if alive else self._silent[rank] + 1
            self._seen[rank] = said

    def verdict(self) -> str | None:
        """After a failed message: the lost process, or None if all are alive."""
        end = time.monotonic() + (_SOON + 3) * BEAT
        while time.monotonic() < end:
            for rank in self._others:
                if (said := self._seen.get(rank, "")).startswith(_FAILED):
                    return f"rank {rank} ended with an error: {said.removeprefix(_FAILED)}"
            lost = [rank for rank, count in self._silent.items() if count >= _SOON]
            if lost:
                return _gone(lost, round(_SOON * BEAT))
            time.sleep(BEAT / 4)
        return None

    def end(self, error: BaseException | None = None) -> None:
        """Stop monitoring, and report this process's end to the others."""
        self._ended.set()
        self._thread.join()
        said = _DONE if error is None else f"{_FAILED}{error or type(error).__name__}"
        try:
            self._store.set(self._key(self._rank), said)
        except RuntimeError:  # no other process is left
            return


def _gone(lost: list[int], seconds: int) -> str:
    who = " and ".join(f"rank {rank}" for rank in lost)
    return (
        f"{who} did not respond for {seconds} s: it was killed, ran out of memory, or hangs; all "
        "saved files are intact, so start again (`train` and `pretrain`: with --resume)"
    )


def _seconds() -> float:
    given = os.environ.get(TIMEOUT, "60")
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise UsageError(f"{TIMEOUT}={given}: must be a number of seconds above 0")
    return seconds
