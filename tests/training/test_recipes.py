"""Recipes: published settings by task, and what the user gives goes first."""

from dataclasses import replace

import pytest

from albert_rc.errors import UsageError
from albert_rc.papers.formats import READERS
from albert_rc.papers.glue import GLUE
from albert_rc.training.config import TrainConfig
from albert_rc.training.runs.recipes import DEFAULT, PUBLISHED, choose, dropout_of, task_name

NOTHING = dict.fromkeys(("epochs", "batch_size", "learning_rate", "warmup", "max_steps"))


def test_every_task_has_published_settings_but_dream(stores):
    names = {name for name in READERS if name not in ("squad", "dream")}
    assert names | {"squad 1.1", "squad 2.0"} == set(PUBLISHED)
    assert set(GLUE) < set(PUBLISHED)
    for settings in PUBLISHED.values():
        TrainConfig(**settings)
    assert task_name(stores["race", "train"]) == "race"
    with pytest.raises(UsageError, match="no recipe was published for dream, only for cloze, race"):
        choose("published", stores["dream", "train"], NOTHING)


def test_what_is_given_goes_first(stores):
    store = stores["race", "train"]
    assert choose("default", store, NOTHING) == DEFAULT
    # Of the ASC20-21 entry, as README and docs/howto.md say.
    default = TrainConfig(**DEFAULT)
    assert (default.batch_size, default.learning_rate, default.epochs) == (2, 1e-5, 4)
    assert choose("published", store, NOTHING) == PUBLISHED["race"]
    assert dropout_of("published", store, None) is None  # version 2 diverges with version 1's
    rows = replace(store, meta=store.meta | {"source_format": "rte"})
    assert dropout_of("published", rows, None) == 0.1
    assert dropout_of("published", rows, 0.0) == 0.0
    assert dropout_of("default", store, None) is None
    mine = choose("published", store, NOTHING | {"epochs": 3, "batch_size": 4})
    assert mine == {"learning_rate": 1e-5, "batch_size": 4, "warmup": 1 / 12, "epochs": 3}
    assert choose("published", store, NOTHING | {"max_steps": 7})["max_steps"] == 7
    with pytest.raises(UsageError, match="--recipe best: choose from default, published"):
        choose("best", store, NOTHING)
