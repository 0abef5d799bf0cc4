"""The benchmark of attention: variants that agree, honest fits, and nothing left out in silence."""

import json
from dataclasses import replace

import pytest
import torch

from albert_rc.bench.attention import HASHED, VARIANTS, AttentionJob, _inputs
from albert_rc.bench.lengths import (
    crossings,
    exponent,
    exponents,
    first_below,
    run_attention,
    sweep,
)
from albert_rc.cli.bench import bench
from albert_rc.cli.bench_attention import parse_lengths
from albert_rc.errors import OutOfMemoryError, UsageError
from albert_rc.report import plots

JOB = AttentionJob(variant="dense", length=96, heads=2, head_size=16, device="cpu")
LIMITS = {"budget": 2**40, "limit": 1e9, "told": lambda row: None}


def synthetic(job, seconds=0.0):
    """Dense attention in proportion to L^2, hashing to L with a larger factor."""
    size = 300 * job.length if job.variant in HASHED else job.length**2
    return {"variant": job.variant, "length": job.length, "seconds": size / 1e6, "peak_bytes": size}


def test_variants_are_the_same_attention():
    q_TNH, kv_T2NH, _ = _inputs(JOB, torch.device("cpu"))
    expected = VARIANTS["math"](q_TNH, kv_T2NH, JOB)
    for variant in ("sdpa", "dense"):
        torch.testing.assert_close(VARIANTS[variant](q_TNH, kv_T2NH, JOB), expected)
    one_chunk = replace(JOB, variant="lsh", chunk=96)
    torch.testing.assert_close(VARIANTS["lsh"](q_TNH, kv_T2NH, one_chunk), expected)
    hashed = [VARIANTS[v](q_TNH, kv_T2NH, replace(JOB, variant=v, chunk=8)) for v in HASHED]
    for one, other in ((hashed[0], hashed[1]), (hashed[0], expected), (hashed[1], expected)):
        assert not torch.allclose(one, other, atol=1e-3)


def test_a_measurement_sees_the_scores():
    """Also where a process that was larger itself asks for it."""
    ballast = torch.ones(2**27)
    assert float(ballast[-1]) == 1
    row = run_attention(replace(JOB, variant="math", length=1024, heads=4), 100)
    table = 4 * 1024**2 * 4
    assert row["peak_bytes"] >= row["forward_bytes"]
    assert 2 * table < row["peak_bytes"] < 6 * table
    assert row["seconds"] > row["forward_seconds"] > 0
    assert row["passes"] >= 1


def test_exponents_are_of_the_longer_half():
    lengths = [2**n for n in range(6, 14)]
    assert exponent(lengths, [3e-6 * n**1.7 for n in lengths]) == pytest.approx(1.7)
    # Fixed costs rule the shorter half.
    mixed = [5.0 if n < 1024 else n**2 / 2**20 for n in lengths]
    assert exponent(lengths, mixed) == pytest.approx(2.0)
    assert exponent([64, 128], [1.0, 8.0]) == pytest.approx(3.0)
    assert exponent([64, 128], [0.0, 8.0]) is None
    assert exponent([], []) is None


def test_from_where_on_hashing_pays():
    assert first_below({64: 3, 128: 1, 256: 1}, {64: 2, 128: 2, 256: 2, 512: 2}) == 128
    assert first_below({64: 1, 128: 3, 256: 1}, {64: 2, 128: 2, 256: 2}) == 256
    assert first_below({64: 1, 128: 3}, {64: 2, 128: 2}) is None
    measured, skipped = sweep(JOB, [64, 128, 256, 512, 1024], run=synthetic, **LIMITS)
    assert len(measured) == 25
    assert skipped == []
    assert exponents(measured)["lsh"] == pytest.approx({"peak_bytes": 1.0, "seconds": 1.0})
    assert exponents(measured)["math"] == pytest.approx({"peak_bytes": 2.0, "seconds": 2.0})
    found = crossings(measured)
    assert len(found) == 6
    assert all(row["faster_from"] == row["smaller_from"] == 512 for row in found)


def test_what_would_be_too_much_is_left_out_and_said():
    said = []
    # A pass of dense attention takes 0.07 s at 256 tokens and 0.26 s at 512.
    limits = {"budget": 2**40, "limit": 0.2, "told": said.append}
    measured, skipped = sweep(JOB, [256, 512, 1024], run=synthetic, **limits)
    left_out = [(row["variant"], row["length"]) for row in skipped]
    assert left_out == [(v, n) for n in (512, 1024) for v in ("math", "sdpa", "dense")] + [
        (v, 1024) for v in HASHED
    ]
    assert "about 0.3 s, and the limit is 0.2" in skipped[0]["reason"]
    assert "at a shorter length" in skipped[3]["reason"]
    assert said == sorted(
        measured + skipped, key=lambda row: (row["length"], list(VARIANTS).index(row["variant"]))
    )
    scores = 4 * JOB.heads * 512**2 * 4
    measured, skipped = sweep(JOB, [256, 512], run=synthetic, **(LIMITS | {"budget": scores - 1}))
    assert [(row["variant"], row["length"]) for row in skipped] == [("math", 512), ("dense", 512)]
    assert "its scores would take" in skipped[0]["reason"]


def test_what_turns_out_too_much_is_left_out_from_there_on():
    def dies(job, seconds):
        if job.variant == "sdpa" and job.length > 64:
            raise OutOfMemoryError("it was killed")
        if job.variant == "lsh":
            raise TimeoutError("it took over 60 s")
        return synthetic(job)

    measured, skipped = sweep(JOB, [64, 128, 256], run=dies, **LIMITS)
    assert [row["length"] for row in measured if row["variant"] == "sdpa"] == [64]
    assert [row["reason"] for row in skipped][:2] == ["it took over 60 s", "it was killed"]
    assert exponents(measured)["lsh"] == {"peak_bytes": None, "seconds": None}


@pytest.mark.slow
def test_the_command(cli, tmp_path):
    out = tmp_path / "attention.json"
    done = cli(
        "bench", "attention", "--lengths", "128", "--heads", 2, "--head-size", 16,
        "--lsh-chunk", 16, "--lsh-rounds", 2, "--device", "cpu", "--precision", "fp32",
        "--out", out,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads(out.read_bytes())
    assert len(result["measured"]) == 5
    assert result["skipped"] == []
    for row in result["measured"]:
        assert row["seconds"] > 0
        assert row["peak_bytes"] >= row["forward_bytes"] >= 0
        assert (row["heads"], row["chunk"], row["rounds"]) == (2, 16, 2)
        assert row["machine"]["torch"] == torch.__version__
    assert all((tmp_path / f"attention.{kind}").stat().st_size > 1000 for kind in ("png", "svg"))
    assert "Memory, forward and backward, MiB" in done.stdout
    assert "lsh, faithful against dense, torch's: faster" in done.stdout
    assert "dense, ours at 128 tokens: " in done.stderr


def test_lengths_are_read():
    assert parse_lengths(None, None) == [256, 512, 1024, 2048, 4096, 8192, 16384]
    assert parse_lengths(None, 1000) == [256, 512]
    assert parse_lengths("128, 64,512", 256) == [64, 128]
    for text, longest in (("64,x", None), ("0", None), ("", None), ("64", 32), (None, 100)):
        with pytest.raises(UsageError, match="--l"):
            parse_lengths(text, longest)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"against": "transformers"}, "--against goes with"),
        ({"heads": 0}, "--heads 0"),
        ({"lsh_rounds": 0}, "--lsh-rounds 0"),
        ({"precision": "int8"}, "--precision int8"),
        ({"time_limit": 0.0}, "--time-limit"),
        ({"lengths": "many"}, "--lengths many"),
        ({"work": "train", "heads": 4}, "--heads goes with bench attention"),
    ],
)
def test_bad_usage_is_refused(wrong, said):
    with pytest.raises(UsageError, match=said):
        bench(**({"work": "attention", "device": "cpu"} | wrong))


def test_a_figure_in_powers_leaves_out_what_is_nothing():
    figure = plots.lines({"MiB": {"lsh": ([128, 256, 512], [0, 3, 6])}}, "tokens", "peak", log=True)
    (line,) = figure.axes[0].get_lines()
    assert list(line.get_xdata()) == [256, 512]
    assert list(line.get_ydata()) == [3, 6]
    assert figure.axes[0].get_ylim()[0] > 1


@pytest.mark.parametrize("panels", [1, 2])
def test_no_name_of_a_line_is_cut_off(panels):
    agg = pytest.importorskip("matplotlib.backends.backend_agg")
    names = [f"a rather long name of a system, number {i}" for i in range(5)]
    drawn = {name: ([1, 2], [1, i]) for i, name in enumerate(names)}
    figure = plots.lines({f"panel {i}": drawn for i in range(panels)}, "steps", "title")
    agg.FigureCanvasAgg(figure).draw()
    box = figure.legends[0].get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.width
    assert box.y0 >= 0
