"""Stores and states of others: no code of theirs runs, and no index leads elsewhere."""

import json

import pytest
import torch
from evil import Evil

from albert_rc.errors import DataError
from albert_rc.io.pt import save_tensors
from albert_rc.stores.store import load_store


def test_an_evil_store_is_not_run(tmp_path):
    mark, store = tmp_path / "code was run", tmp_path / "evil.pt"
    torch.save({"format": 1, "meta": "{}", "token": Evil(mark)}, store)
    with pytest.raises(DataError, match="not a readable store") as caught:
        load_store(store)
    assert caught.value.exit_code == 3
    assert not mark.exists()


def foreign_stores(store):
    """Stores whose parts do not fit together: what was changed, and its tensors and metadata."""
    whole = {name: value.clone() for name, value in store.tensors.items()}

    def changed(name, value):
        return {**whole, name: value}, store.meta

    token, edges = whole["token"], whole["token_offset"]
    yield "id too large", *changed("token", torch.full_like(token, 2**15 - 1))
    yield "id below 0", *changed("token", -token)
    yield "edge beyond", *changed("token_offset", edges + 1)
    yield "edges backwards", *changed("token_offset", edges.flip(0))
    yield (
        "edges in between",
        *changed("token_offset", torch.cat([edges[:1], -edges[1:-1], edges[-1:]])),
    )
    yield "of another type", *changed("token", token.float())
    yield "a matrix", *changed("token", token[None])
    yield "too few", *changed("answer", whole["answer"][:-1])
    yield "answer beyond", *changed("answer", whole["answer"] + 100)
    yield "none", *changed("token_offset", edges[:0])
    for name in ("window_passage", "blank_position", "question_passage", "start", "kept", "second"):
        if name in whole:
            yield name, *changed(name, whole[name] + 10_000)
            yield name, *changed(name, whole[name] - 10_000)
    for name, value in (
        ("ids", 5), ("ids", [1]), ("kind", []), ("kind", "evil"), ("vocabulary", None),
        ("max_length", "512"), ("vocab_size", -1),
    ):  # fmt: skip
        yield f"meta {name}", whole, {**store.meta, name: value}


@pytest.mark.parametrize("kind", ["cloze", "race"])
def test_stores_that_do_not_fit_together_are_refused(stores, tmp_path, kind):
    path = tmp_path / "x.pt"
    for what, tensors, meta in foreign_stores(stores[kind, "dev"]):
        if what in ("of another type", "a matrix"):
            save = {**tensors, "format": 1, "meta": json.dumps(meta)}
            torch.save(save, path)
        else:
            save_tensors(path, tensors, meta)
        with pytest.raises(DataError, match=r"x\.pt: .*make it again"):
            load_store(path)
            pytest.fail(what)


def test_files_that_pose_as_stores_are_refused(tmp_path):
    path = tmp_path / "x.pt"
    good = {"format": 1, "meta": "{}"}
    for content in (
        [], 5, {}, {"format": torch.ones(3)}, {"format": 1}, good | {"meta": "{"}, good,
        good | {"meta": "[]"}, good | {"meta": 5}, good | {"token": "x"},
    ):  # fmt: skip
        torch.save(content, path)
        with pytest.raises(DataError, match=r"x\.pt"):
            load_store(path)
