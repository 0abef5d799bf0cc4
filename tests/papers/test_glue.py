"""GLUE's tables: every layout that its files come in, and their way to answers."""

import json

import pytest
import torch
import transformers

from albert_rc.checkpoints.load import load_model, save_model
from albert_rc.errors import DataError, UsageError
from albert_rc.papers.formats import read_collection, read_split
from albert_rc.papers.glue import GLUE
from albert_rc.papers.schema import Passage, Question
from albert_rc.papers.splits import find_splits
from albert_rc.scoring.tasks import measured
from albert_rc.stores.batches import Collator
from albert_rc.stores.encode import encode_labels
from albert_rc.stores.preprocess import prepare_collection
from albert_rc.stores.store import make_store

HEADERS = {
    "sst-2": ("sentence\tlabel", "a fine film\t1"),
    "mrpc": (
        "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String",
        '1\t7\t8\tHe said "no".\tHe refused.\textra',
    ),
    "sts-b": (
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore",
        "0\tm\tf\t2012\t1\tn\tn\tA dog.\tA cat.\t3.800",
    ),
    "qqp": ("id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate", "5\t1\t2\tWho?\tWhich?\t0"),
    "mnli": (
        "index\tpromptID\tsentence1\tsentence2\tlabel1\tgold_label",
        "0\t3\tHe ran.\tHe moved.\tentailment\tentailment",
    ),
    "qnli": ("index\tquestion\tsentence\tlabel", "0\tWho ran?\tHe ran.\tentailment"),
    "rte": ("index\tsentence1\tsentence2\tlabel", "0\tHe ran.\tHe sat.\tnot_entailment"),
    "wnli": ("index\tsentence1\tsentence2\tlabel", "0\tHe ran.\tHe sat.\t1"),
}
BARE = {"cola": "gj04\t0\t*\tHim ran.", "sst-2": "a dull film\t0"}


def write(path, *lines):
    path.write_text("\n".join([*lines, ""]), encoding="utf-8", newline="\r\n")
    return path


def test_a_row_with_the_name_of_a_column_is_no_header(tmp_path):
    papers = read_split(write(tmp_path / "train.tsv", "sentence\t1", "a dull film\t0"))
    assert [passage.text for passage in papers.passages] == ["sentence", "a dull film"]


@pytest.mark.parametrize("task", HEADERS)
def test_tables_with_a_header_are_recognised(task, tmp_path):
    papers = read_split(write(tmp_path / "train.tsv", *HEADERS[task]))
    assert not papers.problems
    assert (papers.format, papers.kind) == (task, "label")
    (passage,) = papers.passages
    (question,) = passage.questions
    if task == "sts-b":
        assert (question.value, question.answer, papers.labels) == (3.8, None, ())
    else:
        assert (
            papers.labels[question.answer]
            == HEADERS[task][1].split("\t")[0 if task == "mrpc" else -1]
        )
    assert bool(question.text) == bool(GLUE[task].second)


@pytest.mark.parametrize("task", BARE)
def test_tables_without_a_header_are_recognised(task, tmp_path):
    papers = read_split(write(tmp_path / "train.tsv", BARE[task]))
    assert papers.format == task
    assert papers.passages[0].questions[0].answer == 0
    assert "ran" in papers.passages[0].text or "film" in papers.passages[0].text


def test_test_tables_have_no_labels(tmp_path):
    papers = read_split(
        write(tmp_path / "test.tsv", "index\tsentence", "0\tHim ran."), format_name="cola"
    )
    assert papers.passages[0].questions[0].answer is None
    papers = read_split(
        write(tmp_path / "snli.tsv", "sentence1\tsentence2\tgold_label", "A.\tB.\t-"),
    )
    assert papers.passages[0].questions[0].answer is None


def test_what_is_wrong_is_named_with_its_line(tmp_path):
    table = write(
        tmp_path / "train.tsv",
        "sentence1\tsentence2\tlabel",
        "A.\tB.\tentailment",
        "A.\tB.",
        "A.\t\tentailment",
        "A.\tB.\tmaybe",
    )
    papers = read_split(table)
    assert len(papers.passages) == 1
    assert [str(problem).partition(": ")[::2] for problem in papers.problems] == [
        (
            "train.tsv:3",
            "2 columns, but the header has 3; write every column, with nothing between its tabs "
            "where it is empty",
        ),
        ("train.tsv:4", "column sentence2 is missing or empty; a row needs it"),
        ("train.tsv:5", "the label 'maybe' is not one of entailment, not_entailment"),
    ]
    scores = write(tmp_path / "s.tsv", "sentence1\tsentence2\tscore", "A.\tB.\thigh")
    assert "must be a number from 0 to 5" in str(read_split(scores).problems[0])


def test_collections_as_they_are_distributed(tmp_path):
    for name in ("train", "dev_matched", "dev_mismatched", "test_matched"):
        write(tmp_path / f"{name}.tsv", *HEADERS["mnli"])
    write(tmp_path / "README.txt", "not a table")
    assert list(find_splits(tmp_path)) == ["train", "dev", "dev_mismatched", "test"]
    raw = tmp_path / "mrpc"
    raw.mkdir()
    for name in ("train", "test"):
        write(raw / f"msr_paraphrase_{name}.txt", *HEADERS["mrpc"])
    assert [split.name for split in read_collection(raw)] == ["train", "test"]
    assert [split.format for split in read_collection(raw)] == ["mrpc", "mrpc"]


UNLABELLED = {
    "wnli": ("index\tsentence1\tsentence2", "0\tHe ran.\tHe sat."),
    "mnli": ("sentence1\tsentence2", "He ran.\tHe sat."),
    "sts-b": ("index\tsentence1\tsentence2", "0\tHe ran.\tHe sat."),
    "cola": ("index\tsentence", "0\tHim ran."),
}


@pytest.mark.parametrize("task", UNLABELLED)
def test_test_tables_are_of_the_task_of_their_collection(task, tmp_path, tokenizer):
    train = HEADERS[task] if task in HEADERS else [BARE[task]]
    write(tmp_path / "train.tsv", *train)
    write(tmp_path / "test.tsv", *UNLABELLED[task])
    splits = read_collection(tmp_path)
    assert [(s.name, s.format) for s in splits] == [("train", task), ("test", task)]
    places = find_splits(tmp_path)
    with prepare_collection(places, tokenizer, 64, scratch=tmp_path, workers=1) as prepared:
        assert [split.labels for split in prepared] == [GLUE[task].labels] * 2
    with pytest.raises(
        UsageError, match=r"test\.tsv: its columns fit .*; give the task with --for"
    ):
        read_split(tmp_path / "test.tsv")


def test_a_test_table_alone_is_of_the_models_task(sample, cli, tmp_path):
    table = write(tmp_path / "test.tsv", *UNLABELLED["wnli"])
    made = load_model(
        sample / "vocabulary", "label", scratch="tiny", labels=("0", "1"), format_name="wnli"
    )
    save_model(made.model, made.tokenizer, tmp_path / "run")
    command = ("predict", "--model", tmp_path / "run", "--out", tmp_path / "a.json", "--data")
    done = cli(*command, table)
    assert done.returncode == 0, done.stderr
    assert set(json.loads((tmp_path / "a.json").read_bytes()).values()) <= {"0", "1"}
    done = cli(*command, write(tmp_path / "dev.tsv", *HEADERS["qqp"]))
    assert done.returncode == 0
    assert "dev.tsv is qqp, but the model was trained on wnli" in " ".join(done.stderr.split())
    done = cli(*command, table, "--null-threshold", 3)
    assert done.returncode == 2
    assert "--null-threshold is for SQuAD" in done.stderr
    others = load_model(sample / "vocabulary", "label", scratch="tiny", labels=("yes", "no"))
    save_model(others.model, others.tokenizer, tmp_path / "run")
    done = cli(*command, table)
    assert done.returncode == 2
    assert "its columns fit sts-b, mnli, rte, wnli" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.tsv", "", "it is empty"),
        ("a.tsv", "index\tsentence1\tsentence2\tlabel\n", "its header is 'index\\tsentence1"),
        ("a.tsv", "text\tlabel\nA film.\t1\n", "its header is 'text\\tlabel'"),
        ("a.csv", "sentence,label\na film,1\n", "no header, but 'sentence,label'"),
        ("a.tsv", "sentence\tlabel\na film\t1\n".encode("utf-16"), "UTF-16; save it as UTF-8"),
    ],
)
def test_a_table_of_no_task_says_how_it_begins(name, content, said, tmp_path):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError, match="--format") as caught:
        read_split(tmp_path / name)
    assert said in str(caught.value)


def test_a_table_that_is_read_as_the_wrong_thing_says_what_to_do(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_bytes("sentence\tlabel\na film\t1\n".encode("utf-16"))
    errors = read_split(path, format_name="sst-2").errors
    assert all("has NUL bytes, as in UTF-16; save the file as UTF-8" in str(e) for e in errors)
    path.write_text("Quality,#1 String,#2 String\n1,He left.,He went.\n")
    for error in (errors := read_split(path, format_name="mrpc").errors):
        assert "mrpc needs a header in its first line with #1 String, #2 String, Quality" in str(
            error
        )
    assert len(errors) == 2


def test_a_ragged_table_is_told_by_its_header(tmp_path):
    table = write(tmp_path / "train.tsv", HEADERS["qqp"][0], "5\t1\t2\tWho?", HEADERS["qqp"][1])
    papers = read_split(table)
    assert (papers.format, papers.ids) == ("qqp", ["3"])
    assert "train.tsv:2: 4 columns, but the header has 6" in str(papers.problems[0])


def test_a_sentence_without_a_tab_is_no_row(tmp_path):
    table = write(tmp_path / "train.csv", "a fine film,1", "a dull film\t0")
    papers = read_split(table, format_name="sst-2")
    assert [passage.text for passage in papers.passages] == ["a dull film"]
    assert "1 column, but sst-2 without a header has 2" in str(papers.problems[0])


def test_two_answer_files_are_compared(cli, tmp_path):
    rows = [f"{i}\tHe {i}.\tShe {i}.\t{i % 2}" for i in range(12)]
    gold = write(tmp_path / "dev.tsv", "index\tsentence1\tsentence2\tlabel", *rows)
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    for path, wrong in zip(paths, (2, 10), strict=True):
        answers = {str(i + 2): str(i % 2 if i >= wrong else 1 - i % 2) for i in range(12)}
        path.write_text(json.dumps(answers))
    done = cli("evaluate", paths[0], gold, "--against", paths[1], "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["against"]
    assert found["metrics"]["accuracy"]["value"] == pytest.approx(2 / 12)
    assert (found["only_first_right"], found["only_second_right"]) == (8, 0)
    assert found["agreement"] == pytest.approx(4 / 12, abs=1e-6)
    assert found["gain"]["gain"] == pytest.approx(8 / 12, abs=1e-6)
    # Rows are independent: the permutation test is McNemar's.
    assert found["gain"]["permutation_p"] == pytest.approx(found["mcnemar_p"]) == 2 / 2**8
    done = cli("evaluate", paths[0], gold, "--against", paths[1])
    assert "33.33% of the answers agree" in done.stdout
    assert "b.json in right answers: +66.67 points" in " ".join(done.stdout.split())
    done = cli("evaluate", paths[0], gold, "--against", tmp_path / "nowhere.json")
    assert done.returncode == 3
    assert "nowhere.json: no such file; check the path" in done.stderr
    done = cli("evaluate", paths[0], gold, "--train", gold)
    assert done.returncode == 2
    assert "--train is for cloze and multiple choice" in done.stderr
    scores = write(tmp_path / "s.tsv", "sentence1\tsentence2\tscore", "A.\tB.\t1", "C.\tD.\t2")
    paths[0].write_text('{"2": 1.5, "3": 2.5}')
    done = cli("evaluate", paths[0], scores, "--against", paths[0])
    assert done.returncode == 2
    assert "a score (STS-B) is neither" in " ".join(done.stderr.split())


def test_problems_of_an_answer_file_are_counted_where_they_are_many(tmp_path):
    rows = [f"{i}\tHe {i}.\tShe {i}.\t1" for i in range(50)]
    papers = read_split(write(tmp_path / "dev.tsv", "index\tsentence1\tsentence2\tlabel", *rows))
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(DataError, match=r"50 problem.*(\n.*){20}\n  \.\.\. and 30 more\n"):
        measured(tmp_path / "a.json", papers)


def test_doctor_shows_labels_and_scores(cli, tmp_path):
    write(tmp_path / "rte.tsv", *HEADERS["rte"])
    shown = cli("doctor", tmp_path / "rte.tsv").stdout
    assert "not_entailment 100.0%" in shown
    assert "options" not in shown.replace("options with unknown characters", "")
    rows = [f"A.\tB {i}.\t{score}" for i, score in enumerate((0.5, 1, 4.5))]
    scores = write(tmp_path / "s.tsv", "sentence1\tsentence2\tscore", *rows)
    assert "0.5 to 4.5, mean 2.00" in cli("doctor", scores).stdout
    found = json.loads(cli("doctor", scores, "--json").stdout)["s"]
    assert found["scores"] == {"least": 0.5, "mean": 2.0, "most": 4.5, "known": 3}
    assert found["answers"] == {"a score": 3}


def test_scores_are_from_0_to_5(tmp_path):
    rows = [f"A.\tB.\t{score}" for score in (0, 5, 5.01, 32)]
    papers = read_split(write(tmp_path / "s.tsv", "sentence1\tsentence2\tscore", *rows))
    assert [passage.questions[0].value for passage in papers.passages] == [0, 5]
    assert len(papers.errors) == 2


def test_a_folder_of_tables_is_no_split(tmp_path):
    for name in ("train", "dev", "test"):
        write(tmp_path / f"{name}.tsv", *HEADERS["rte"])
    with pytest.raises(DataError) as caught:
        read_split(tmp_path)
    assert "has 3 tables (dev.tsv, test.tsv, train.tsv)" in str(caught.value)
    assert "\n" not in str(caught.value)


def pair(first, second, answer=0):
    question = Question(("0", "1"), answer, second)
    return Passage("1", first, (question,), "label")


def test_pairs_are_cut_where_they_are_longest(tokenizer):
    long, short = "the dog ran to the house " * 20, "a cat sat"
    encoded = encode_labels([pair(long, short), pair(short, long), pair(long, long)], tokenizer, 40)
    assert [len(row) for row in encoded.tokens] == [40, 40, 40]
    size = len(tokenizer.encode([short])[0])
    assert encoded.seconds[0] == 40 - size - 1
    assert encoded.seconds[1] == size + 2
    assert encoded.seconds[2] in (20, 21)
    assert encoded.cut[0] == len(tokenizer.encode([long])[0]) + size - 37


@pytest.fixture
def store(tmp_path, tokenizer):
    lines = [f"The {word} sat.\tIt {word}s.\t{i % 2}" for i, word in enumerate("abcdefgh")]
    table = write(tmp_path / "train.tsv", "sentence1\tsentence2\tlabel", *lines)
    return make_store(read_split(table, format_name="wnli"), tokenizer, 64)


def test_a_score_of_two_metrics_is_called_their_mean(store):
    assert store.score_name == "accuracy"
    store.meta["metrics"] = ["accuracy", "f1"]
    assert store.score_name == "mean of accuracy and f1"


def test_batches_hold_pairs_with_their_segments(store, tokenizer):
    batch = Collator(store, tokenizer)([2, 5])
    rows = batch.token_T.split(list(batch.lengths))
    for row, segment in zip(rows, batch.segment_T.split(list(batch.lengths)), strict=True):
        second = row.tolist().index(tokenizer.sep_id) + 1
        assert segment.tolist() == [0] * second + [1] * (len(row) - second)
    assert batch.answer_Q.tolist() == [0, 1]
    assert (batch.num_options, batch.read_S.tolist()) == (2, [0, batch.lengths[0]])


@pytest.mark.parametrize("labels", [("0", "1"), ("a", "b", "c"), ()])
def test_hugging_face_computes_the_same(labels, store, tokenizer, sample, tmp_path):
    loaded = load_model(sample / "vocabulary", "label", scratch="tiny", labels=labels)
    save_model(loaded.model, loaded.tokenizer, tmp_path)
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    assert theirs.config.num_labels == max(1, len(labels))
    store.meta["labels"] = list(labels)
    batch = Collator(store, tokenizer)([1])
    with torch.inference_mode():
        ours = loaded.model.eval()(batch).logits_QK
        expected = theirs(batch.token_T[None], token_type_ids=batch.segment_T[None]).logits
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-5)
    again = load_model(tmp_path, "label").model
    assert again.labels == labels


@pytest.mark.parametrize("task", [pytest.param("wnli", marks=pytest.mark.slow), "sts-b"])
def test_from_tables_to_answers(task, cli, works, answered, sample, tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    name, column = ("score", "4.25") if task == "sts-b" else ("label", "1")
    header = f"sentence1\tsentence2\t{name}"
    for split in ("train", "dev"):
        lines = [f"He {i} ran.\tShe {i} sat.\t{column if i % 2 else 0}" for i in range(12)]
        write(raw / f"{split}.tsv", header, *lines)
    answered(raw, tmp_path)
    answers = json.loads((tmp_path / "answer.json").read_bytes())
    assert list(answers) == [str(line) for line in range(2, 14)]
    kinds = float if task == "sts-b" else str
    assert all(isinstance(answer, kinds) for answer in answers.values())
    metrics = [json.loads(x) for x in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    dev = next(line for line in metrics if line["kind"] == "dev")
    assert {"pearson", "spearman"} <= dev.keys() if task == "sts-b" else "accuracy" in dev
    if task == "sts-b":
        return
    done = cli("predict", "--data", raw / "dev.tsv", "--model", tmp_path / "run", "--out",
               tmp_path / "raw.json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "raw.json").read_bytes()) == answers
    assert "longer than" in works("doctor", raw, "--model", sample / "vocabulary").stdout
    other = tmp_path / "other.tsv"
    write(other, "sentence1\tsentence2\tgold_label", "A.\tB.\tneutral")
    done = cli("predict", "--data", other, "--model", tmp_path / "run", "--out", tmp_path / "x")
    assert done.returncode == 3
    assert "fine-tune it on this task" in done.stderr


@pytest.mark.parametrize(
    ("label", "task"), [("neutral", "mnli"), ("contradiction", "mnli"), ("3.25", "sts-b")]
)
def test_labels_of_tables_that_others_wrote(tmp_path, label, task):
    """With a column `label`, as the Hub's tables have it."""
    table = write(tmp_path / "dev.tsv", "sentence1\tsentence2\tlabel", f"He ran.\tHe sat.\t{label}")
    found = read_split(table)
    assert found.format == task
    (passage,) = found.passages
    assert passage.questions[0].answer is not None or passage.questions[0].value is not None


def test_a_table_of_mrpc_is_not_taken_for_another_task(tmp_path):
    table = write(tmp_path / "dev.tsv", "sentence1\tsentence2\tlabel", "He ran.\tHe sat.\t1")
    with pytest.raises(UsageError, match="its columns fit mrpc, wnli; give the task with --format"):
        read_split(table)
    assert read_split(table, format_name="mrpc").format == "mrpc"


def test_what_is_measured_of_a_table(tmp_path):
    """The number of rows, and of those without a right answer."""
    header = "index\tsentence1\tsentence2\tgold_label"
    labels = ("neutral", "entailment", "-", "neutral")
    rows = [f"{n}\tHe {n} ran.\tShe sat.\t{label}" for n, label in enumerate(labels)]
    write(tmp_path / "mnli.tsv", header, *rows)
    papers = read_split(tmp_path / "mnli.tsv")
    answers = tmp_path / "answer.json"
    answers.write_text(json.dumps(dict.fromkeys(papers.ids, "neutral")))
    found = measured(answers, papers)
    assert (len(found.answers), found.without_gold) == (3, 1)
    assert found.metrics[0].value == pytest.approx(2 / 3)
    answers.write_text(json.dumps(dict.fromkeys(papers.ids, "maybe")))
    with pytest.raises(DataError, match=r"answer\.json: the answer to 2, .maybe., is not one of"):
        measured(answers, papers)


@pytest.mark.filterwarnings("ignore:.*constant")
def test_scores_that_are_no_numbers_or_all_the_same(tmp_path):
    rows = [f"{n}\tHe {n} ran.\tShe sat.\t{n}.5" for n in range(4)]
    write(tmp_path / "sts.tsv", "index\tsentence1\tsentence2\tscore", *rows)
    papers = read_split(tmp_path / "sts.tsv")
    answers = tmp_path / "answer.json"
    answers.write_text(json.dumps(dict.fromkeys(papers.ids, 2)))
    assert [str(metric) for metric in measured(answers, papers).metrics] == [
        "not defined: all answers or all right scores are the same, or there is one row"
    ] * 2
    answers.write_text(json.dumps(dict.fromkeys(papers.ids, True)))
    with pytest.raises(DataError, match="the answer true must be a number"):
        measured(answers, papers)
