"""A run's course: read from its metrics, shown in blocks, drawn."""

import json
import signal
import sys

import pytest

from albert_rc.cli.console import leave_cleanly
from albert_rc.cli.running import conclude
from albert_rc.report import curves as drawing
from albert_rc.report.curves import draw_curves, read_curves, spark_lines, sparkline
from albert_rc.training.tally import TrainResult

RECORDS = [
    {"kind": "train", "step": 10, "loss": 2.0, "accuracy": 0.25, "passages_per_second": 3.0},
    {"kind": "guard", "step": 15, "symptom": "spike", "began": 12},
    {"kind": "dev", "step": 20, "loss": 1.5, "accuracy": 0.5, "best": True, "questions": 9},
    {"kind": "train", "step": 20, "loss": 1.0, "accuracy": 0.5},
    {"kind": "train", "step": 30, "loss": 0.5, "accuracy": 0.75},
    {"kind": "train", "step": 10, "attempt": 1, "loss": 1.9, "accuracy": 0.3},
]


@pytest.fixture
def run(tmp_path):
    text = "".join(f"{json.dumps(record)}\n" for record in RECORDS)
    (tmp_path / "metrics.jsonl").write_text(text)
    return tmp_path


def test_figures_are_read_by_whose_they_are(run):
    curves = read_curves(run)
    assert set(curves) == {"loss", "accuracy"}
    assert curves["loss"] == {
        "training": ([10, 20, 30], [2.0, 1.0, 0.5]),
        "dev": ([20], [1.5]),
        "training, attempt 2": ([10], [1.9]),
    }
    assert read_curves(run / "nothing") == {}


def test_the_mean_over_a_last_step_or_two_is_joined_with_the_point_before(run):
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "train", "step": 34, "loss": 4.0}\n')
        file.write('{"kind": "dev", "step": 34, "loss": 1.4}\n')
    loss = read_curves(run)["loss"]
    assert loss["training"] == ([10, 20, 34], [2.0, 1.0, (10 * 0.5 + 4 * 4.0) / 14])
    assert loss["dev"] == ([20, 34], [1.5, 1.4])
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "train", "step": 39, "loss": 1.0}\n')
    assert read_curves(run)["loss"]["training"][0] == [10, 20, 30, 34, 39]


def test_a_line_that_a_crash_has_torn_is_left_out(run):
    whole = read_curves(run)
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "train", "step": 40, "lo')
    assert read_curves(run) == whole


def test_blocks_go_from_the_lowest_to_the_highest():
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7]) == "▁▂▃▄▅▆▇█"
    assert sparkline([5, 5, 5]) == "▁▁▁"
    many = sparkline(range(1000), width=10)
    assert len(many) == 10
    assert (many[0], many[-1]) == ("▁", "█")


def test_ctrl_c_while_curves_are_drawn_does_not_fail_a_complete_run(run, monkeypatch, capsys):
    monkeypatch.setattr(
        drawing, "draw_curves", lambda folder, curves: signal.raise_signal(signal.SIGINT)
    )
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        leave_cleanly("stopped")
        result = TrainResult(
            steps=30, total_steps=30, best_score=0.5, best_step=20, stopped_early=False,
            paused=False, seconds=1.0,
        )  # fmt: skip
        conclude(run, result, "")
        assert result.stop_asked  # several runs end here
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert "stopped while the curves were drawn; all else is saved" in capsys.readouterr().err


def test_what_is_too_short_is_no_curve(run):
    assert spark_lines(read_curves(run)) == ["training loss █▃▁ 2 to 0.5"]
    curves = {"loss": {"dev": ([1.0, 2.0], [3.0, 4.0])}}
    assert spark_lines(curves) == []
    assert draw_curves(run, curves) == []


def test_curves_are_drawn_and_need_no_matplotlib_to_do_without(run, monkeypatch):
    pytest.importorskip("matplotlib")
    paths = draw_curves(run, read_curves(run))
    assert [path.name for path in paths] == ["curves.png", "curves.svg"]
    assert all(path.stat().st_size > 5000 for path in paths)
    for path in paths:
        path.unlink()
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert draw_curves(run, read_curves(run)) == []
