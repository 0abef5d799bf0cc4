"""Settings that libraries read: ours where the user has none, and none of ours for peers."""

import os

import pytest

from albert_rc.runtime import environment


@pytest.fixture
def unset(monkeypatch):
    for name in environment.SETTINGS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(environment, "_ours", set())
    yield monkeypatch
    for name in environment.SETTINGS:
        os.environ.pop(name, None)


def test_what_a_user_has_set_stays(unset):
    name, other = list(environment.SETTINGS)[:2]
    unset.setenv(name, "7")
    environment.prepare()
    assert os.environ[name] == "7"
    assert os.environ[other] == environment.SETTINGS[other]


def test_a_peer_has_the_environment_of_its_users(unset):
    name = next(iter(environment.SETTINGS))
    unset.setenv(name, "7")
    environment.prepare()
    found = environment.as_found()
    assert found[name] == "7"
    assert not set(environment.SETTINGS) & set(found) - {name}
    assert set(found) == set(os.environ) - set(environment.SETTINGS) | {name}
