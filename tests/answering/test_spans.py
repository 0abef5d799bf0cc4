"""SQuAD: answers stand where they say, windows hold them, and the best spans are found."""

import json
from itertools import pairwise

import pytest
import torch
import transformers

from albert_rc.answering.quality import span_quality
from albert_rc.answering.spans import (
    BEST,
    LONGEST,
    Found,
    _best,
    _central,
    _merged,
    find_spans,
    golds,
)
from albert_rc.checkpoints.load import load_model, save_model
from albert_rc.model.int8 import has_int8
from albert_rc.papers.formats import read_split
from albert_rc.runtime.devices import Processes
from albert_rc.scoring.tasks import compared, measured
from albert_rc.stores.encode_spans import STRIDE, encode_spans
from albert_rc.stores.span_batches import SpanCollator
from albert_rc.stores.store import load_store, make_store
from albert_rc.training.config import TrainConfig
from albert_rc.training.objectives.spans import Spans

CONTEXT = (
    "Ms. Émile Zola, who wrote “Germinal”, was born\tin Paris — on 2 April 1840. He died there."
)
SHAPE = {"hidden_size": 32, "embedding_size": 16, "num_layers": 2, "num_heads": 2, "ffn_size": 64}


def answer(text, context=CONTEXT):
    return {"text": text, "answer_start": context.index(text)}


def asked(key, *texts, context=CONTEXT, **more):
    golds_ = [answer(text, context) for text in texts]
    return {"id": key, "question": f"What of {key}?", "answers": golds_, **more}


@pytest.fixture
def file(tmp_path):
    long = " ".join(f"In {1000 + i} the king of land {i} built house {i}." for i in range(60))
    articles = [
        {
            "title": "Zola",
            "paragraphs": [
                {
                    "context": CONTEXT,
                    "qas": [
                        asked("where", "Paris"),
                        asked("who", "Émile Zola"),
                        asked("when", "2 April 1840", "1840"),
                        asked("why", is_impossible=True),
                        {"id": "test", "question": "And now?"},
                    ],
                },
                {"context": long, "qas": [asked("late", "house 55", context=long)]},
            ],
        }
    ]
    path = tmp_path / "dev-v2.0.json"
    path.write_text(json.dumps({"version": "v2.0", "data": articles}))
    return path


@pytest.fixture
def store(file, tokenizer):
    return make_store(read_split(file), tokenizer, 64)


def test_papers_are_paragraphs(file):
    papers = read_split(file)
    assert (papers.format, papers.kind, papers.ids) == ("squad", "span", ["Zola#1", "Zola#2"])
    first = papers.passages[0]
    assert [q.answer for q in first.questions] == [1, 1, 1, 0, None]
    assert [first.text[a:b] for a, b in first.questions[2].spans] == ["2 April 1840", "1840"]


def test_answers_that_do_not_stand_there_are_named(tmp_path):
    bad = asked("where", "Paris")
    bad["answers"][0]["answer_start"] += 1
    paragraphs = [{"context": CONTEXT, "qas": [bad, {"question": "No id?"}, 7]}]
    path = tmp_path / "train.json"
    path.write_text(json.dumps({"data": [{"title": "T", "paragraphs": paragraphs}]}))
    said = [str(problem) for problem in read_split(path).problems]
    assert len(said) == 3
    assert "question 1 (where): the answer" in said[0]
    assert '"id" is missing' in said[1]
    path.write_text(json.dumps({"data": "none"}))
    assert "no articles with paragraphs" in str(read_split(path, format_name="squad").problems[0])


def test_a_question_is_impossible_or_has_answers(tmp_path):
    asks = [asked("both", "Paris", is_impossible=True), asked("none", is_impossible=True)]
    paragraphs = [{"context": CONTEXT, "qas": asks}]
    path = tmp_path / "dev.json"
    path.write_text(json.dumps({"data": [{"title": "T", "paragraphs": paragraphs}]}))
    (said,) = read_split(path).problems
    assert 'question 1 (both): "is_impossible" is set, but there are "answers"' in str(said)


def test_windows_hold_the_passage_and_the_answer(file, tokenizer, store):
    encoded = encode_spans(read_split(file).passages, tokenizer, 64)
    long, windows = encoded.passage_tokens[1], encoded.windows[-1]
    assert len(windows) > 4
    seen = {i for start, length in windows for i in range(start, start + length)}
    assert seen == set(range(len(long)))
    steps = {b[0] - a[0] for a, b in pairwise(windows)}
    assert len(steps) == 1
    assert max(steps) <= STRIDE
    tensors = store.tensors
    for question, gold in enumerate(golds(store)):
        first, last = int(tensors["first"][question]), int(tensors["last"][question])
        if not gold:
            assert (first, last) == (-1, -1)
            continue
        passage = int(tensors["question_passage"][question])
        offset = int(tensors["token_offset"][passage])
        text = read_split(file).passages[passage].text
        cut = text[int(tensors["begin"][offset + first]) : int(tensors["end"][offset + last])]
        assert gold[0] in cut
        assert len(cut) <= len(gold[0]) + 2


def test_a_batch_is_question_and_passage(store, tokenizer):
    collate = SpanCollator(store, tokenizer)
    items = list(range(store.num_items))
    batch = collate(items)
    rows = batch.token_T.split(list(batch.lengths))
    read = batch.token_T[batch.read_S].split(list(batch.reads))
    for window in items:
        row, tokens = rows[window].tolist(), read[window].tolist()
        assert len(row) <= 64
        assert (row[0], row[-1]) == (tokenizer.cls_id, tokenizer.sep_id)
        middle = row.index(tokenizer.sep_id)
        assert tokens == [row[0], *row[middle + 1 : -1]]
        question = int(collate.question_W[window])
        first, last = int(batch.first_B[window]), int(batch.last_B[window])
        known = int(store.tensors["answer"][question])
        if known < 0:
            assert (first, last) == (-1, -1)
        elif first:
            said = tokenizer.to_text(tokens[first : last + 1])
            gold = golds(store)[question][0]
            assert tokenizer.to_text(tokenizer.encode([gold])[0]).split()[-1] in said
    # Some window of each question with an answer holds it.
    with_answer = {int(q) for q, f in zip(collate.question_W, batch.first_B, strict=True) if f > 0}
    assert with_answer == {0, 1, 2, 5}


def test_every_token_belongs_to_one_window(store):
    central = _central(store)
    starts = store.tensors["window_start"]
    for question in range(store.num_questions):
        own = (store.question_of_window == question).nonzero()[:, 0].tolist()
        places = [int(starts[w]) + place - 1 for w in own for place in range(*central[w].tolist())]
        passage = int(store.tensors["question_passage"][question])
        assert places == list(range(int(store.tensors["token_offset"].diff()[passage])))


def test_the_best_spans_of_a_window():
    draw = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 50, 2, generator=draw)
    logits[1, 40:] = -torch.inf
    null, spans = _best(logits, torch.tensor([[1, 50], [5, 20]]))
    for row, (low, high, size) in enumerate([(1, 50, 50), (5, 20, 40)]):
        every = sorted(
            (
                (float(logits[row, a, 0] + logits[row, b, 1]), a, b)
                for a in range(low, high)
                for b in range(a, min(size, a + LONGEST))
            ),
            reverse=True,
        )
        assert [span[1:] for span in spans[row][:5]] == [span[1:] for span in every[:5]]
        assert len(spans[row]) <= BEST
        assert null[row] == pytest.approx(float(logits[row, 0].sum()))


def test_a_model_that_marks_the_answer_gives_its_text(store, tokenizer, sample, monkeypatch):
    """Logits that are high at the right tokens, through all windows and back to the text."""
    model = load_model(sample / "vocabulary", "span", scratch="tiny", shape=SHAPE).model
    collate = SpanCollator(store, tokenizer)
    forward = model.forward

    def marking(batch):
        output = forward(batch)
        logits = torch.zeros_like(output.logits_BL2).masked_fill(
            output.logits_BL2 == -torch.inf, -torch.inf
        )
        exact = collate(batch.window_B.tolist())
        for row, (first, last) in enumerate(zip(exact.first_B, exact.last_B, strict=True)):
            if first > 0:
                logits[row, first, 0] += 9
                logits[row, last, 1] += 9
        return type(output)(
            logits_BL2=logits, loss_sum=output.loss_sum, num_correct=output.num_correct
        )

    monkeypatch.setattr(model, "forward", marking)
    found = find_spans(model, tokenizer, store, Processes(torch.device("cpu")), token_budget=200)
    texts = {question.key: question.answer(None) for question in found}
    assert texts["where"] == "Paris"
    assert texts["who"] == "Émile Zola"
    assert texts["when"] == "2 April 1840"
    assert texts["late"].startswith("house 55")
    assert found[0].answer(-20.0) == ""


def test_a_threshold_may_leave_every_question_without_an_answer(store):
    """Differences of scores may all be below 0, the threshold of the official search."""
    keys = ("where", "who", "when", "why", "test", "late")
    found = [Found(key, -1.0 - n, [(0.0, 0, 5)], ["wrong"]) for n, key in enumerate(keys)]
    best = span_quality(store, found, tuned=True)
    assert (best.f1, best.questions) == (0.2, 5)
    assert best.null_threshold < -6
    assert span_quality(store, found, tuned=True, threshold=best.null_threshold).f1 == 0.2
    assert span_quality(store, found, tuned=True, threshold=0.0).f1 == 0


def test_papers_without_answers_count_for_a_model_that_always_answers(store):
    keys = ("where", "who", "when", "why", "test", "late")
    found = [Found(key, 0.0, [(0.0, 0, 5)], ["Paris"]) for key in keys]
    quality = span_quality(store, found, tuned=False)
    assert (quality.exact, quality.questions, quality.null_threshold) == (0.2, 5, None)


def test_answers_neither_begin_nor_end_with_white_space(store):
    """SentencePiece has pieces that are nothing but the beginning of a word."""
    tensors = store.tensors
    (text,) = CONTEXT.splitlines()
    space = text.index(" Zola")
    tensors["end"][0], tensors["begin"][1], tensors["end"][1] = space, space, space + 1
    parts = [(0, 0.0, [(3.0, 2, 2), (2.0, 1, 2), (1.0, 1, 1)])]
    first = _merged(store, torch.zeros(1, dtype=torch.long), parts)[0]
    assert first.texts == [text[int(tensors["begin"][0]) : space]]
    assert [span[0] for span in first.spans] == [2.0]


def test_hugging_face_computes_the_same(store, tokenizer, sample, tmp_path):
    loaded = load_model(sample / "vocabulary", "span", scratch="tiny", shape=SHAPE)
    loaded.model.null_threshold = 1.5
    save_model(loaded.model, loaded.tokenizer, tmp_path)
    theirs = transformers.AutoModelForQuestionAnswering.from_pretrained(tmp_path).eval()
    batch = SpanCollator(store, tokenizer)([6])
    with torch.inference_mode():
        ours = loaded.model.eval()(batch).logits_BL2[0]
        expected = theirs(batch.token_T[None], token_type_ids=batch.segment_T[None])
    both = torch.stack([expected.start_logits[0], expected.end_logits[0]], -1)
    torch.testing.assert_close(ours, both[batch.read_S], atol=1e-5, rtol=1e-5)
    assert load_model(tmp_path, "span").model.null_threshold == 1.5


def test_where_all_questions_have_answers_no_threshold_is_kept(file, sample, tokenizer):
    """One of the initial weights, from SQuAD 2.0, would leave some of them without an answer."""
    data = json.loads(file.read_bytes())
    kept = []
    for _ in ("2.0", "1.1"):
        file.write_text(json.dumps(data))
        model = load_model(sample / "vocabulary", "span", scratch="tiny", shape=SHAPE).model
        model.null_threshold = 1.5
        Spans(model, tokenizer, make_store(read_split(file), tokenizer, 64), None, TrainConfig())
        kept.append(model.null_threshold)
        for paragraph in data["data"][0]["paragraphs"]:
            paragraph["qas"] = [qa for qa in paragraph["qas"] if qa.get("answers")]
    assert kept == [1.5, None]


def test_from_articles_to_answers(file, cli, works, answered, sample, tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    for split in ("train", "dev"):
        (raw / f"{split}-v2.0.json").write_bytes(file.read_bytes())
    answered(raw, tmp_path, "--max-length", 64)
    store = load_store(tmp_path / "data/dev.pt")
    assert store.num_questions == 6
    answers = json.loads((tmp_path / "answer.json").read_bytes())
    assert list(answers) == ["where", "who", "when", "why", "test", "late"]
    lines = [json.loads(line) for line in (tmp_path / "scores.jsonl").read_text().splitlines()]
    for line in lines:
        assert line["no_answer"] + sum(b["probability"] for b in line["best"]) == pytest.approx(
            1, abs=1e-3
        )
    assert {line["id"]: line["answer"] for line in lines} == answers
    said = [
        works("evaluate", tmp_path / name, file, "--json").stdout
        for name in ("answer.json", "scores.jsonl")
    ]
    assert said[0] == said[1]
    old = tmp_path / "old.jsonl"
    old.write_text("".join(json.dumps(line | {"answer": None}) + "\n" for line in lines))
    done = cli("evaluate", old, file)
    assert done.returncode == 3
    assert "old.jsonl, line 1" in done.stderr
    assert "give answer.json" in done.stderr
    tuned = json.loads((tmp_path / "run/config.json").read_bytes())["albert_rc"]["null_threshold"]
    assert isinstance(tuned, float)
    done = cli("predict", "--data", file, "--model", tmp_path / "run", "--out",
               tmp_path / "raw.json", "--null-threshold", 1e9, "--max-length", 64)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert all(json.loads((tmp_path / "raw.json").read_bytes()).values())
    how = ("--data", file, "--model", tmp_path / "run", "--max-length", 64, "--out")
    works("predict", *how, tmp_path / "once.json", "--option-score", "once")
    done = cli("predict", *how, tmp_path / "twice.json", "--option-score", "excerpt")
    assert "--option-score excerpt is for questions with options" in done.stderr
    done = works("doctor", file, "--model", sample / "vocabulary", "--max-length", 64)
    assert "longer than 64 tokens" in done.stdout
    assert "answerable 66.7%, no answer 16.7%, none 16.7%" in " ".join(done.stdout.split())
    done = cli("predict", "--data", tmp_path / "data/dev.pt", "--model", tmp_path / "run", "--out",
               tmp_path / "int8.json", "--precision", "int8", "--tolerance", 100)  # fmt: skip
    if has_int8(torch.device("cpu")):
        assert done.returncode == 0, done.stderr
    else:
        assert done.returncode == 2, done.stderr
        assert "need a GPU or a CPU with AVX-512" in done.stderr


def test_intervals_and_gains_are_over_paragraphs(tmp_path):
    """Ten questions of a paragraph that are right or wrong together count once, not ten times."""
    paragraphs = [
        {"context": CONTEXT, "qas": [asked(f"{paper}-{i}", "Paris") for i in range(10)]}
        for paper in range(20)
    ]
    gold = tmp_path / "dev.json"
    gold.write_text(json.dumps({"data": [{"title": "T", "paragraphs": paragraphs}]}))
    papers, found = read_split(gold), []
    for name, right in (("together", lambda p, i: p % 2), ("apart", lambda p, i: i % 2)):
        given = {
            f"{p}-{i}": "Paris" if right(p, i) else "Rome" for p in range(20) for i in range(10)
        }
        (tmp_path / f"{name}.json").write_text(json.dumps(given))
        found.append(measured(tmp_path / f"{name}.json", papers))
    widths = [each.metrics[0].high - each.metrics[0].low for each in found]
    assert widths[0] > 0.3  # 20 papers, each right or wrong: 0.5 +- 0.22
    assert 0 < widths[1] < 0.15  # exactly half of every paragraph: all 200 questions count
    agreed, change = compared(*found)
    assert agreed.agreement == 0.5
    assert (change.value, change.only_first, change.only_second) == (0, 50, 50)
    assert change.permutation_p == 1
