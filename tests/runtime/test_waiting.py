"""Waiting threads spin on free cores, and leave them to other processes that compute."""

import threading
import time
from pathlib import Path

import pytest
import torch

from albert_rc.runtime import waiting
from albert_rc.runtime.busy import busy_processes
from albert_rc.runtime.waiting import Look, Waiting, adapted, used_by_others

pytestmark = pytest.mark.skipif(
    waiting.look() is None, reason="this system does not report how busy its cores are"
)


@pytest.fixture
def undecided(monkeypatch):
    for name in waiting.DECIDED_BY:
        monkeypatch.delenv(name, raising=False)
    # The suite may run on one core, where no thread waits for another.
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    return monkeypatch


def watchers():
    return [thread for thread in threading.enumerate() if thread.name.startswith("waiting")]


def test_the_time_of_others_is_what_this_process_has_not_used():
    before, after = Look(10.0, 100.0, 5.0), Look(12.0, 103.0, 6.0)
    assert used_by_others(before, after) == pytest.approx(1.0)
    assert used_by_others(before, Look(12.0, 100.5, 6.0)) == 0.0  # ticks are coarse


def test_a_busy_process_is_seen_and_this_one_is_not():
    def others():
        before = waiting.look()
        end = time.monotonic() + 1
        while time.monotonic() < end:
            pass
        return used_by_others(before, waiting.look())

    found = []
    for number in (0, 2):
        with busy_processes(number):
            found.append(others())
    # Other tests may compute at the same time, so only the difference is certain on free cores.
    assert found[1] > 0.3
    assert found[1] > found[0] or found[0] > 0.8


def test_waiting_shortly_is_one_more_team_of_threads_until_the_end():
    def count():
        return sum(1 for _ in Path("/proc/self/task").iterdir())

    torch.ones(waiting._GRAIN * 2).neg_()
    at_first, one = count(), Waiting()
    one.set(True)
    assert one.shortly
    if torch.get_num_threads() > 1 and waiting._teams():
        assert count() > at_first
        assert len(watchers()) == waiting._teams()
    one.set(False)
    assert not one.shortly
    assert not watchers()


@pytest.mark.parametrize(
    ("cores", "threads", "teams"), [(2, 2, 1), (8, 8, 1), (8, 4, 2), (64, 2, 0), (4, 1, 0)]
)
def test_there_are_more_threads_than_cores(undecided, cores, threads, teams):
    undecided.setattr(waiting, "cores_at_hand", lambda: set(range(cores)))
    undecided.setattr(torch, "get_num_threads", lambda: threads)
    assert waiting._teams() == teams
    if teams:
        assert threads + teams * (threads - 1) > cores


def test_it_follows_what_others_do(undecided):
    undecided.setattr(waiting, "LOOK", 0.01)
    undecided.setattr(waiting, "IDLE_LOOK", 0.01)
    undecided.setattr(waiting, "cores_at_hand", lambda: {0, 1})
    state = {"busy": 0.0, "others": 0.0}

    def look():
        state["busy"] += state["others"] * 0.01
        state["time"] = state.get("time", 0.0) + 0.01
        return Look(state["time"], state["busy"], 0.0)

    undecided.setattr(waiting, "look", look)
    one = Waiting()
    one.start()

    def until(shortly):
        end = time.monotonic() + 20
        while one.shortly is not shortly and time.monotonic() < end:
            time.sleep(0.01)
        return one.shortly

    state["others"] = 1.0
    assert until(True)
    state["others"] = 0.1
    assert not until(False)
    state["others"] = 2.0
    assert until(True)
    one.end()
    assert not one.shortly
    assert not watchers()


@pytest.mark.parametrize("name", waiting.DECIDED_BY)
def test_a_user_decides(undecided, name):
    undecided.setenv(name, "PASSIVE" if "POLICY" in name else "7")
    with adapted():
        assert not watchers()


def test_it_ends_with_the_work(undecided):
    with pytest.raises(KeyError), adapted():
        assert len(watchers()) >= 1
        raise KeyError
    assert not watchers()
