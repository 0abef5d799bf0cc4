"""Parts of stores, and stores put together, are what encoding those papers gives."""

from dataclasses import replace

import pytest
import torch
from conftest import SAMPLE

from albert_rc.errors import DataError
from albert_rc.io.json import write_json
from albert_rc.papers.formats import read_split
from albert_rc.stores.check import what_is_wrong
from albert_rc.stores.pack import COLUMNS
from albert_rc.stores.store import make_store
from albert_rc.stores.subset import chosen_papers, joined


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """Checked papers of each kind."""
    folder = tmp_path_factory.mktemp("tables")
    rows = [f"a film that is number {i}\t{i % 2}" for i in range(9)]
    (folder / "dev.tsv").write_text("\n".join(["sentence\tlabel", *rows, ""]))
    context = "Ms. Zola lived in Paris, and house 5 of Rue Ney was hers for all of 40 long years."
    asked = [[("a", "Paris")], [("b", "house 5"), ("c", "40")], [("d", "Zola")], [("e", "Rue Ney")]]
    paragraphs = [
        {
            "context": f"{number}. {context}",
            "qas": [
                {
                    "id": key,
                    "question": f"What of {text}?",
                    "answers": [{"text": text, "answer_start": 3 + context.index(text)}],
                }
                for key, text in questions
            ],
        }
        for number, questions in enumerate(asked)
    ]
    spans = folder / "train-v1.1.json"
    write_json(spans, {"version": "1.1", "data": [{"title": "Z", "paragraphs": paragraphs}]})
    places = {
        "cloze": SAMPLE / "cloze" / "train",
        "choice": SAMPLE / "race" / "train",
        "label": folder / "dev.tsv",
        "span": spans,
    }
    return {kind: read_split(place) for kind, place in places.items()}


def only(papers, some):
    parts = {"passages": [papers.passages[i] for i in some]}
    return replace(papers, **parts)


@pytest.mark.parametrize("kind", ["cloze", "choice", "label", "span"])
def test_empty_offsets_and_wrong_levels_are_found(sets, tokenizer, kind):
    store = make_store(sets[kind], tokenizer, 64)
    for name in COLUMNS[kind]:
        emptied = {**store.tensors, name: store.tensors[name][:0]}
        assert what_is_wrong(kind, emptied, store.meta) is not None, name
    few = {**store.meta, "levels": []}
    assert "0 levels for" in what_is_wrong(kind, store.tensors, few)
    odd = {**store.meta, "levels": [1] * len(store.meta["ids"])}
    assert what_is_wrong(kind, store.tensors, odd) == "its levels are not text"


@pytest.mark.parametrize("kind", ["cloze", "choice", "label", "span"])
def test_parts_and_wholes(sets, tokenizer, kind):
    papers = sets[kind]
    total = len(papers.passages)
    whole = make_store(papers, tokenizer, 64)
    some = [i for i in range(total) if i % 3 != 1]
    rest = [i for i in range(total) if i % 3 == 1]
    first, second = chosen_papers(whole, some[::-1], "some"), chosen_papers(whole, rest, "rest")
    for part, places in ((first, some), (second, rest)):
        assert what_is_wrong(kind, part.tensors, part.meta) is None
        expected = make_store(only(papers, places), tokenizer, 64)
        assert part.meta["ids"] == expected.meta["ids"]
        assert part.meta.get("question_keys") == expected.meta.get("question_keys")
        for name, tensor in expected.tensors.items():
            assert torch.equal(part.tensors[name], tensor), name
            assert part.tensors[name].dtype == tensor.dtype
    again = joined([first, second], "both")
    assert what_is_wrong(kind, again.tensors, again.meta) is None
    expected = make_store(only(papers, some + rest), tokenizer, 64)
    for name, tensor in expected.tensors.items():
        assert torch.equal(again.tensors[name], tensor), name
        assert again.tensors[name].dtype == tensor.dtype
    assert first.meta["source_hash"] != second.meta["source_hash"] != whole.meta["source_hash"]


def test_what_does_not_go_together_is_refused(sets, tokenizer):
    whole = make_store(sets["cloze"], tokenizer, 64)
    with pytest.raises(DataError, match="differ in max_length"):
        joined([whole, make_store(sets["cloze"], tokenizer, 32)], "both")
    with pytest.raises(DataError, match="differ in kind"):
        joined([whole, make_store(sets["choice"], tokenizer, 64)], "both")
    with pytest.raises(DataError, match="is in both"):
        joined([whole, whole], "both")
    with pytest.raises(DataError, match=r"is in both a/1\.pt and a/2\.pt; remove one"):
        joined([whole, whole], "both", ["a/1.pt", "a/2.pt"])
    with pytest.raises(DataError, match="nothing: no papers"):
        chosen_papers(whole, [], "nothing")
